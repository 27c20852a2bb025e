"""The document of any finding, and the finding in a JSON text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from samebits.display.document import Document
from samebits.display.visible_text import make_visible, show_controls
from samebits.errors import FindingError
from samebits.findings import Comparison
from samebits.findings.model_schema import ModelComparison
from samebits.questions.compare.comparison_document import lay_out_comparison
from samebits.questions.guard.guard_document import lay_out_guard
from samebits.questions.guard.guard_schema import GuardReport
from samebits.questions.list.list_document import lay_out_changes, lay_out_list
from samebits.questions.list.list_schema import ChangesFinding, ListFinding
from samebits.questions.network.model_document import lay_out_model
from samebits.questions.pick.pick_document import lay_out_pick
from samebits.questions.pick.pick_schema import Pick
from samebits.questions.profile.profile_document import lay_out_profile
from samebits.questions.profile.profile_schema import Profile
from samebits.questions.reduce.reduction_document import lay_out_reduction
from samebits.questions.reduce.reduction_schema import Reduction
from samebits.questions.runs.diff_report import lay_out_diff
from samebits.questions.runs.diff_schema import RunDiff
from samebits.questions.sweep.sweep_document import lay_out_sweep
from samebits.questions.sweep.sweep_schema import Sweep

_KINDS: dict[str, tuple[type[msgspec.Struct], Callable[[Any], Document]]] = {
    "samebits.comparison/1": (Comparison, lay_out_comparison),
    "samebits.model/1": (ModelComparison, lay_out_model),
    "samebits.profile/1": (Profile, lay_out_profile),
    "samebits.diff/1": (RunDiff, lay_out_diff),
    "samebits.pick/1": (Pick, lay_out_pick),
    "samebits.guard/1": (GuardReport, lay_out_guard),
    "samebits.sweep/1": (Sweep, lay_out_sweep),
    "samebits.reduction/1": (Reduction, lay_out_reduction),
    "samebits.list/1": (ListFinding, lay_out_list),
    "samebits.changes/1": (ChangesFinding, lay_out_changes),
}


class _Named(msgspec.Struct):
    schema: str = ""


def read_finding(text: bytes) -> msgspec.Struct:
    """The finding of a JSON text, of whatever schema; raises FindingError in one line for what is none."""
    try:
        schema = msgspec.json.decode(text, type=_Named).schema
        if schema not in _KINDS:
            known = ", ".join(_KINDS)
            raise FindingError(
                f"schema {schema[:60]!r} is none that report knows ({known}); samebits writes them with --json"
            )
        return msgspec.json.decode(text, type=_KINDS[schema][0])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FindingError(f"no finding as samebits writes it with --json: {str(error)[:200]}") from None


def document_from_finding(found: msgspec.Struct) -> Document:
    """What a finding is laid out as, whatever kind it is; raises FindingError for one that has no layout."""
    schema = getattr(found, "schema", "")
    if schema not in _KINDS:
        raise FindingError(f"a finding of schema {schema!r} has no page")
    try:
        return _KINDS[schema][1](make_visible(found))
    except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError) as error:
        # Whoever wrote it put together what does not belong together: the type of each part is right, and was checked.
        says = f"{type(error).__name__}: {str(error)[:100]}"
        raise FindingError(f"the finding's parts do not fit each other ({show_controls(says)})") from error
