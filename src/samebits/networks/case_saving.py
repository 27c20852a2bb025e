"""The products of units that deviate, written as case files that `explain` and `compare` read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from samebits.errors import ModelError
from samebits.networks.model_judging import JudgedUnit
from samebits.problems.case_file import save_case

_ODD = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 60


def save_cases(folder: str | Path, judged: Sequence[JudgedUnit]) -> list[str]:
    """Writes one case per unit, with what each deviating side returned; the paths written, in the units' sequence.

    The folder is made if it is not there. A network's names make no path: whatever is no letter, digit, dot, dash or
    underscore becomes an underscore. Raises ModelError where nothing can be written.
    """
    if not str(folder):
        raise ModelError("cases need a folder to be written to, and its name is empty")
    folder, written = Path(folder), list[str]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, unit in enumerate(judged):
            for side, shown in unit.cases.items():
                name = f"{number:03d}-{_plain(unit.unit.name)}-{_plain(side)}.npz"
                path = folder / name
                save_case(path, shown.case.problem, shown.case.operands, shown.case.results)
                written.append(str(path))
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte.
        said = getattr(error, "strerror", None) or error
        raise ModelError(f"cases cannot be written to {str(folder)!r}: {said}") from None
    return written


def _plain(name: str) -> str:
    return _ODD.sub("_", name)[:_LONGEST_NAME].strip(".") or "unit"
