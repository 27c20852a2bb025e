"""The document of any finding, and the finding in a JSON text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from samebits.errors import FindingError
from samebits.findings import Comparison, Profile
from samebits.findings.diff_schema import RunDiff
from samebits.findings.guard_schema import GuardReport
from samebits.findings.list_schema import ChangesFinding, ListFinding
from samebits.findings.model_schema import ModelComparison
from samebits.findings.pick_schema import Pick
from samebits.findings.reduction_schema import Reduction
from samebits.findings.sweep_schema import Sweep
from samebits.reports.documents.comparison_document import lay_out_comparison
from samebits.reports.documents.document import Document
from samebits.reports.documents.guard_document import lay_out_guard
from samebits.reports.documents.list_document import lay_out_changes, lay_out_list
from samebits.reports.documents.model_document import lay_out_model
from samebits.reports.documents.other_documents import lay_out_diff, lay_out_pick, lay_out_profile
from samebits.reports.documents.reduction_document import lay_out_reduction
from samebits.reports.documents.sweep_document import lay_out_sweep
from samebits.reports.visible_text import make_visible, show_controls

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
