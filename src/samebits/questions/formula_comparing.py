"""Comparing the sides of one formula: run all, judge each against the truth, name what a deviating one computes.

A formula is an attention or a function of rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from samebits.engines.registry.runner_text import TRUTH
from samebits.engines.registry.runners import enter_runner
from samebits.engines.runner import Kernel, Runner
from samebits.engines.runner.guarded_runner import list_runners
from samebits.errors import ResourceLimitError
from samebits.findings import Comparison, Evidence, Side, is_agreement
from samebits.findings.settings_advice import advise
from samebits.judging.fixes import FixSearch, list_asked
from samebits.judging.fixes.formula_trials import FormulaTrials
from samebits.judging.formula_reference import FormulaReference, make_formula_reference
from samebits.judging.references import list_differences, start_document
from samebits.judging.side_running import Ran, judge_ran, run_on_both
from samebits.judging.sides import Attribution, Recorded
from samebits.judging.verdict_rules import Mechanism, judge_all
from samebits.mechanisms.attention.attention_search import find_attention_mechanism
from samebits.mechanisms.row_functions.row_search import find_row_mechanism
from samebits.numbers.float_environment import default_float_environment
from samebits.problems.any_problem import Formula, check_formula_operands, make_formula_operands
from samebits.problems.attention import Attention
from samebits.progress import Progress, ignore_progress, rename_progress
from samebits.questions.comparing_arguments import Data, check_arguments
from samebits.questions.comparison_sentences import summarize_comparison
from samebits.questions.given_formula import FormulaCase
from samebits.sums.truth.attention import check_scores_fit
from samebits.sums.truth.row_functions import check_rows_fit

# Scores in float64, several times over, of one head after the other: what takes no more than a few minutes.
MOST_PRODUCTS = 2**36


@default_float_environment()
def compare_formula(
    subject: Formula | FormulaCase,
    on: str | Runner | Kernel | Sequence[str | Runner | Kernel] = (),
    *,
    data: Data = "normal",
    seed: int = 0,
    time_limit_s: float = 300.0,
    attributes: bool = True,
    fix: bool = False,
    calls: int | None = None,
    progress: Progress = ignore_progress,
) -> Comparison:
    """Runs one formula on every runner in `on` and judges each result, and those of a case, against the truth.

    As `comparing.compare`: every runner is tried on integers on which nothing rounds, where any difference is a fault,
    and on `data` or the case's own operands. A side that deviates is compared with what other formulas would give
    (`mechanisms.attention`, `mechanisms.row_functions`). With `fix` settings of the engines are tried until the sides
    agree. Raises SamebitsError for a runner's text or a size that cannot be dealt with.
    """
    asked = subject.problem if isinstance(subject, FormulaCase) else subject
    _check_size(asked)
    check_arguments(data, seed, time_limit_s, calls)
    on = list_runners(on)
    recorded = subject.results if isinstance(subject, FormulaCase) else {}
    operands, described = _find_operands(subject, data, seed)
    with contextlib.ExitStack() as opened:
        runners = [enter_runner(runner, opened, time_limit_s) for runner in on]
        exact_operands = make_formula_operands(asked, "exact", seed) if runners else None
        reference = make_formula_reference(asked, operands, progress)
        exact: FormulaReference | None = None
        if exact_operands is not None:
            on_integers = rename_progress(progress, "computing exact integers")
            exact = make_formula_reference(asked, exact_operands, on_integers, rounds=False)
        ran = [Ran(Recorded(name, result)) for name, result in recorded.items()]
        for i, runner in enumerate(runners):
            progress(f"running {runner.text}", i / len(runners))
            often = 1 if runner.text == TRUTH or (calls is None and not attributes) else calls
            # Without integers that are exact both runs are of the same operands.
            first = operands if exact_operands is None else exact_operands
            one = run_on_both(runner, asked, first, operands, calls=often)
            ran.append(one if exact is not None else replace(one, on_exact=None, exact_calls=None))
        sides = [judge_ran(reference, exact, one) for one in ran]
        if attributes:
            pairs = zip(sides, ran, strict=True)
            sides = [_explain(side, one, reference, exact, operands, progress) for side, one in pairs]
    concluded = _conclude(reference, ran, sides, described)
    if not fix:
        return concluded
    random = make_formula_operands(asked, "normal", seed + 1)
    assert random is not None
    on_random = make_formula_reference(asked, random, rename_progress(progress, "computing random operands"))
    both = None if exact_operands is None or exact is None else (exact_operands, exact)
    place = FormulaTrials(asked, both, (operands, reference), (random, on_random), time_limit_s)
    texts = [None] * len(recorded) + [runner if isinstance(runner, str) else None for runner in on]
    fixes, evidence = FixSearch(place, list_asked(ran, sides, texts), progress).run()
    return msgspec.structs.replace(concluded, fixes=fixes, evidence=[*concluded.evidence, *evidence])


def _check_size(asked: Formula) -> None:
    if not isinstance(asked, Attention):
        check_rows_fit(asked)
        return
    if asked.multiply_adds > MOST_PRODUCTS:
        raise ResourceLimitError(f"attention of {asked.multiply_adds:,} products is not judged, at most 2^36")
    check_scores_fit(asked)


def _find_operands(subject: Formula | FormulaCase, data: Data, seed: int) -> tuple[dict[str, np.ndarray], str]:
    if isinstance(subject, FormulaCase):
        return check_formula_operands(subject.problem, subject.operands), "given"
    found = make_formula_operands(subject, data, seed)
    if found is None:
        raise ResourceLimitError("no integers were found on which this problem rounds nothing; take random ones")
    return found, f"{data}, seed {seed}"


def _explain(
    side: Side,
    ran: Ran,
    reference: FormulaReference,
    exact: FormulaReference | None,
    operands: dict[str, np.ndarray],
    progress: Progress,
) -> Side:
    """A side that deviates, or errs more than is likely, with what explains its result, if anything does."""
    result = ran.recorded.result
    over_likely = side.error.max_over_likely if side.error else None
    if result is None or side.repeats is False or (is_agreement(side.verdict) and not (over_likely or 0.0) > 1.0):
        return side
    progress(f"looking for what {side.name[:60]} computes", 0.0)
    mechanism: Mechanism | None
    if isinstance(reference.problem, Attention):
        mechanism = find_attention_mechanism(reference, operands, reference.without_empty(result))
    else:
        mechanism = find_row_mechanism(reference, operands, reference.without_empty(result))
    if mechanism is None:
        return side
    return judge_ran(reference, exact, ran, Attribution(None, None, mechanism, mechanism.evidence))


def _conclude(reference: FormulaReference, ran: list[Ran], sides: list[Side], data: str) -> Comparison:
    asked = reference.problem
    results = [(r.recorded.name, r.recorded.result) for r in ran]
    shown = [(name, None if result is None else reference.without_empty(result)) for name, result in results]
    differences = list_differences(asked, shown)
    verdict = judge_all([s.verdict for s in sides if s.failure is None or s.verdict == "wrong"], differences)
    odd = [s for s in sides if s.failure is None and not is_agreement(s.verdict)]
    causes = {s.cause for s in odd}
    # Of results that are recorded nothing can be tried.
    advised = [s for s in odd if s.cause and s.engine is None]
    says = " ".join(s.says or "" for s in advised)
    fixes = advise(
        [s.cause for s in advised if s.cause], product=True, names=[s.name for s in advised], says=says,
        rows=not isinstance(asked, Attention),
    )  # fmt: skip
    summary = summarize_comparison(verdict, sides)
    if reference.empty.all() and any(s.failure is None for s in sides):
        empty = "No query sees a key" if isinstance(asked, Attention) else "Every row is 0 / 0"
        summary = f"{empty}: there is nothing to judge."
    return msgspec.structs.replace(
        start_document(reference, sides, differences, data),
        verdict=verdict,
        cause=causes.pop() if len(causes) == 1 else None,
        evidence=_describe_empty(reference, ran),
        fixes=fixes,
        summary=summary,
    )


def _describe_empty(reference: FormulaReference, ran: list[Ran]) -> list[Evidence]:
    """What stands in rows that are 0 / 0, as those whose query sees no key: nothing is said of it."""
    if not reference.empty.any():
        return []
    count = int(reference.empty.sum())
    said: list[str] = []
    for one in ran:
        if one.recorded.result is not None:
            values = one.recorded.result[reference.empty].astype(np.float64)
            what = "NaN" if np.isnan(values).all() else "0" if not values.any() else "other numbers"
            said.append(f"{one.recorded.name} returns {what}")
    if isinstance(reference.problem, Attention):
        rows = f"{count:,} queries see no key" if count > 1 else "1 query sees no key"
    else:
        count //= reference.problem.row_length
        rows = f"{count:,} rows are 0 / 0" if count > 1 else "1 row is 0 / 0"
    return [Evidence("structure", f"{rows}, and no output of them is judged: {'; '.join(said) or 'none ran'}")]
