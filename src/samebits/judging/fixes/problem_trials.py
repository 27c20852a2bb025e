"""One problem as a place of trials: every text is run on exact integers, on the operands compared, on random ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Runner, check_result
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.errors import EngineFailure, SamebitsError
from samebits.findings import Fix, is_agreement
from samebits.findings.causes import CauseCode
from samebits.judging.attribution import attribute
from samebits.judging.fixes.setting_changes import Change, apply_all, list_changes
from samebits.judging.fixes.trials import Trial, judge_trial, name_truth, time_in_turns
from samebits.judging.references import Reference
from samebits.judging.side_running import run_on_both
from samebits.problems import Problem
from samebits.problems.lowering import Lowering

Operands = dict[str, np.ndarray]


@dataclass(frozen=True)
class ProblemTrials:
    """A problem and three sets of operands, each with what is right."""

    lowering: Lowering
    exact: tuple[Operands, Reference]
    own: tuple[Operands, Reference]
    random: tuple[Operands, Reference]
    time_limit_s: float = 300.0

    def list_changes(self, text: str, cause: CauseCode | None, in_force: Mapping[str, str]) -> list[Change]:
        return list_changes(text, self.lowering.stated, cause, in_force)

    def try_text(self, text: str, changes: tuple[Change, ...]) -> Trial:
        changed = apply_all(text, changes)
        try:
            runner = open_runner(changed, time_limit_s=self.time_limit_s)
        except SamebitsError:
            return Trial(changed, changes, "undecided", None)
        try:
            return self._try_runner(Trial(changed, changes, "undecided", None), lower_runner(runner, self.lowering))
        finally:
            runner.close()

    def _try_runner(self, trial: Trial, runner: Runner) -> Trial:
        problem = self.lowering.convolution
        ran = run_on_both(runner, problem, self.exact[0], self.own[0])
        if ran.recorded.result is None or ran.on_exact is None:
            return replace(trial, identity=ran.recorded.identity)
        try:
            other = check_result(problem, runner.run(problem, self.random[0]))
        except EngineFailure:
            return replace(trial, identity=ran.recorded.identity)
        return judge_trial(trial, ran, other, (self.own[1], self.random[1]), self.exact[1])

    def time_in_turns(self, texts: tuple[str, str]) -> tuple[float, float] | None:
        """Median seconds as a caller sees them: sending operands to the worker and building the model count."""
        return time_in_turns(self._open_run, texts)

    def _open_run(self, text: str) -> tuple[Callable[[], object], Callable[[], None]]:
        runner = open_runner(text, time_limit_s=self.time_limit_s)
        lowered = lower_runner(runner, self.lowering)
        return lambda: lowered.run(self.lowering.convolution, self.own[0]), runner.close

    def still_loses(self, trial: Trial) -> bool:
        """Whether the engine's recipe, found and replayed, still is one that loses precision."""
        runner = open_runner(trial.text, time_limit_s=self.time_limit_s)
        try:
            operands, reference = self.own
            assert trial.result is not None
            found = attribute(lower_runner(runner, self.lowering), reference, operands, trial.result)
        finally:
            runner.close()
        return bool(found and found.mechanism and not is_agreement(found.mechanism.verdict))

    def name_change_of_code(self) -> Fix:
        return name_truth(_name_call(self.lowering.stated))


def _name_call(problem: Problem) -> str:
    """The samebits call that computes a problem; those named as torch's take no gradient, epilogue, uneven padding."""
    plain = problem.direction == "forward" and problem.then is None
    if isinstance(problem.padding, str):
        plain = plain and not problem.is_transposed and problem.padding == "same_upper" and set(problem.stride) == {1}
    else:
        plain = plain and all(begin == end for begin, end in problem.padding)
    return f"samebits.{problem.kind}" if plain else "samebits.compute_truth(problem, operands)"
