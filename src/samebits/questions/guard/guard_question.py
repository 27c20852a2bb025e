"""What a guard's report declares: it is made in Python (`samebits.torch`), and shown by `samebits report`."""

from __future__ import annotations

from samebits.questions.question import FindingKind, Question


def _load_guard():
    from samebits.questions.guard.guard_document import lay_out_guard
    from samebits.questions.guard.guard_schema import GuardReport

    return GuardReport, lay_out_guard, None


GUARD = Question(findings=(FindingKind("samebits.guard/1", _load_guard),))
