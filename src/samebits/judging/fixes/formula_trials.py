"""One formula as a place of trials: every text is run on exact integers and on two sets of random operands."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import check_result
from samebits.errors import EngineFailure, SamebitsError
from samebits.findings import Fix
from samebits.findings.causes import CauseCode
from samebits.judging.fixes.setting_changes import Change, apply_all, list_changes
from samebits.judging.fixes.trials import Trial, judge_trial, name_truth, time_in_turns
from samebits.judging.formula_reference import FormulaReference, measure_formula
from samebits.judging.side_running import run_on_both
from samebits.problems.any_problem import Formula
from samebits.problems.attention import Attention

Operands = dict[str, np.ndarray]


@dataclass(frozen=True)
class FormulaTrials:
    """A formula and its operands, each with what is right; `exact` None where there are no such integers."""

    asked: Formula
    exact: tuple[Operands, FormulaReference] | None
    own: tuple[Operands, FormulaReference]
    random: tuple[Operands, FormulaReference]
    time_limit_s: float = 300.0

    def list_changes(self, text: str, cause: CauseCode | None, in_force: Mapping[str, str]) -> list[Change]:
        return list_changes(text, self.asked, cause, in_force)

    def try_text(self, text: str, changes: tuple[Change, ...]) -> Trial:
        changed = apply_all(text, changes)
        failed = Trial(changed, changes, "undecided", None)
        try:
            runner = open_runner(changed, time_limit_s=self.time_limit_s)
        except SamebitsError:
            return failed
        try:
            first = self.exact or self.own
            ran = run_on_both(runner, self.asked, first[0], self.own[0])
            failed = replace(failed, identity=ran.recorded.identity)
            if ran.recorded.result is None or ran.on_exact is None:
                return failed
            other = check_result(self.asked, runner.run(self.asked, self.random[0]))
        except EngineFailure:
            return failed
        finally:
            runner.close()
        # Without integers that are exact there is nothing that what was run first is judged by.
        return judge_trial(failed, ran, other, (self.own[1], self.random[1]), self.exact[1] if self.exact else None)

    def time_in_turns(self, texts: tuple[str, str]) -> tuple[float, float] | None:
        return time_in_turns(self._open_run, texts)

    def _open_run(self, text: str) -> tuple[Callable[[], object], Callable[[], None]]:
        runner = open_runner(text, time_limit_s=self.time_limit_s)
        return lambda: runner.run(self.asked, self.own[0]), runner.close

    def still_loses(self, trial: Trial) -> bool:
        """Whether a result inside its bounds errs more than independent roundings of the declared formats do."""
        assert trial.result is not None
        likely = measure_formula(self.own[1], trial.result).over_likely
        return likely is not None and likely > 1

    def name_change_of_code(self) -> Fix | None:
        if not isinstance(self.asked, Attention) or self.asked.softcap is not None or self.asked.window is not None:
            return None
        return name_truth("samebits.attention")
