"""Numbers of findings that have bounds by what they are: the published schemas state them, and reading checks them."""

from __future__ import annotations

from typing import Annotated

import msgspec

# How many of something.
Count = Annotated[int, msgspec.Meta(ge=0)]
# A part of a whole.
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
