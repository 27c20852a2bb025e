"""Findings in notebooks: shown by whatever was registered to show them, else as text."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

_renderers: list[Callable[[msgspec.Struct], str | None]] = []


def show_with(render: Callable[[msgspec.Struct], str | None]) -> None:
    """From now on notebooks show what `render` makes of a finding, an HTML text, or None where it makes nothing."""
    _renderers[:] = [render]


class ShownFinding:
    """What findings are besides: shown as HTML by notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str | None:
        assert isinstance(self, msgspec.Struct)
        return _renderers[0](self) if _renderers else None
