"""Mismatches of logs: what each most likely is, by the kind of log it stands in.

Nothing here can prove anything by bits, for the operands themselves are gone: the answer is inferred, or says what to
record to find out.
"""

from __future__ import annotations

from samebits.errors import ResourceLimitError
from samebits.explanation.logged_settings import explain_settings
from samebits.explanation.logged_sides import RECORD, describe_logged_side, describe_mismatch
from samebits.explanation.logged_statistics import explain_statistics
from samebits.explanation.logged_values import explain_values
from samebits.findings import Comparison, Evidence
from samebits.logs import Mismatch
from samebits.progress import Progress

_EXPLAINERS = {
    "xla": explain_values,
    "assert_close": explain_statistics,
    "polygraphy": explain_statistics,
}


def explain_mismatch(mismatch: Mismatch, progress: Progress) -> Comparison:
    """What one logged mismatch most likely is."""
    if mismatch.tool == "onednn":
        return explain_settings(mismatch)
    try:
        return _EXPLAINERS[mismatch.tool](mismatch, progress)
    except ResourceLimitError as error:
        # The other mismatches of the log may still be explained.
        sides = [describe_logged_side(n, "undecided", [Evidence("statistic", RECORD)]) for n in mismatch.names]
        return describe_mismatch(mismatch, "undecided", f"Cannot tell: {error}.", sides, "not rebuilt")
