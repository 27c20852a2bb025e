"""Compiled code on disk is thrown away when any of our sources changed.

Numba keeps compiled functions beside their source and notices a change of that one file only; but a function is
compiled together with all it calls, from other files too. So a digest of all sources is kept beside the code.
"""

from __future__ import annotations

import contextlib
import hashlib
from pathlib import Path

_PACKAGE = Path(__file__).parent.parent
_COMPILED_PARTS = ("contraction", "truth")


def discard_stale_code() -> None:
    """Deletes our compiled functions unless made from the present sources; harmless where it may not write."""
    folder = Path(__file__).parent / "__pycache__"
    stamp = folder / "sources.sha256"
    digest = _digest_sources()
    with contextlib.suppress(OSError):
        if stamp.exists() and stamp.read_text() == digest:
            return
        for part in _COMPILED_PARTS:
            for path in (_PACKAGE / part / "__pycache__").glob("*.nb[ic]"):
                path.unlink(missing_ok=True)
        folder.mkdir(exist_ok=True)
        stamp.write_text(digest)


def _digest_sources() -> str:
    digest = hashlib.sha256()
    for part in _COMPILED_PARTS:
        for path in sorted((_PACKAGE / part).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()
