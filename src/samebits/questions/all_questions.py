"""Every question that is answered by a finding, in the sequence in which help lists their commands.

`report` stands above: it shows the findings of them all.
"""

from __future__ import annotations

from samebits.questions.case.case_command import CASE
from samebits.questions.compare.compare_command import COMPARE
from samebits.questions.doctor.doctor_command import DOCTOR
from samebits.questions.explain.explain_command import EXPLAIN
from samebits.questions.guard.guard_question import GUARD
from samebits.questions.list.list_command import LIST
from samebits.questions.network.network_command import NETWORK
from samebits.questions.pick.pick_command import PICK
from samebits.questions.profile.profile_command import PROFILE
from samebits.questions.question import FindingKind, Question
from samebits.questions.reduce.reduce_command import REDUCE
from samebits.questions.runs.run_commands import RUNS
from samebits.questions.seal.seal_commands import SEAL
from samebits.questions.sweep.sweep_command import SWEEP

QUESTIONS: tuple[Question, ...] = (
    COMPARE, EXPLAIN, CASE, PROFILE, RUNS, PICK, SEAL, SWEEP, REDUCE, DOCTOR, NETWORK, LIST, GUARD,
)  # fmt: skip
FINDINGS: dict[str, FindingKind] = {kind.schema: kind for one in QUESTIONS for kind in one.findings}
