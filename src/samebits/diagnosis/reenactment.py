"""Mismatches of logs: operands are rebuilt as the tool makes them, suspects re-enacted, logged numbers compared.

Nothing here can prove anything by bits, for the operands themselves are gone: the answer is what statistics suggest, or
what to record to find out.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np

from samebits.diagnosis.advice import advise
from samebits.diagnosis.comparison import Report, check_memory
from samebits.errors import ResourceLimitError
from samebits.findings import Comparison, Evidence, Side, Verdict
from samebits.formats.format import find_format
from samebits.logs import Metrics, Mismatch
from samebits.problems import Problem, format_problem
from samebits.problems.operands import make_normal, make_uniform
from samebits.recipes.text import format_recipe
from samebits.suspects import Study, Suspect, list_operand_suspects, list_order_suspects, list_recipe_suspects
from samebits.suspects.study import Floats, Sample, shrink_problem
from samebits.version import VERSION

UNKNOWN = "(the log names no problem)"
# What XLA's autotuner fills its buffers with.
_XLA_HIGH = {"float16": 0.1}
_ROWS, _POSITIONS = 4, 8
_LONGEST_SUM, _MOST_ELEMENTS = 2_000_000, 50_000_000
_MOST_TIME_S = 30.0
_SIGMAS = 5.0
_NARROW = ("low-precision-accumulator", "winograd", "fft")
_RECORD = (
    "cannot tell; to find out, store operands and both results in a case file (problem, x, w, a, b) and run samebits"
    " explain CASE"
)


def explain_mismatch(mismatch: Mismatch, report: Report | None = None) -> Comparison:
    """What one logged mismatch most likely is."""
    say = report or (lambda what, share: None)
    if mismatch.tool == "onednn":
        return _explain_onednn(mismatch)
    try:
        return _explain_values(mismatch, say) if mismatch.tool == "xla" else _explain_metrics(mismatch, say)
    except ResourceLimitError as error:
        # The other mismatches of the log may still be explained.
        sides = [_side(n, "undecided", None, None, [Evidence("statistic", _RECORD)]) for n in mismatch.names]
        return _build(mismatch, "undecided", None, f"Cannot tell: {error}.", sides, "not rebuilt")


def _build(
    mismatch: Mismatch, verdict: Verdict, cause: str | None, summary: str, sides: list[Side], data: str
) -> Comparison:
    problem = mismatch.problem
    return Comparison(
        problem=format_problem(problem) if problem else UNKNOWN,
        verdict=verdict,
        cause=cause,
        summary=summary,
        data=data,
        outputs=math.prod(problem.out_shape) if problem else 0,
        reduction_length=problem.reduction_length if problem else 0,
        settled={},
        sides=sides,
        differences=[],
        fixes=advise([cause]) if cause else [],
        line=mismatch.line,
        samebits_version=VERSION,
    )


@dataclass(frozen=True)
class _Stage:
    """Rebuilt operands of a problem, a few outputs, and what these should be."""

    study: Study
    sample: Sample
    truth: Floats


def _rebuild(problem: Problem, *, uniform: float | None) -> _Stage:
    """Operands as the tool makes them (uniform from 0 on) or normal ones, and exact sums of a few outputs."""
    problem = shrink_problem(problem)
    check_memory(problem, 2)
    elements = sum(math.prod(s) for s in problem.operand_shapes.values())
    if problem.reduction_length > _LONGEST_SUM or elements > _MOST_ELEMENTS:
        raise ResourceLimitError(
            f"{format_problem(problem)} is too large to re-enact; store the arrays of a smaller case and explain that"
        )
    operands = make_normal(problem) if uniform is None else make_uniform(problem, 0, 0.0, uniform)
    # No result was recorded, and of such long sums not all are needed.
    unknown = np.broadcast_to(np.nan, problem.out_shape)
    study = Study(problem, operands, unknown, unknown, unknown, unknown)
    few = study.choose_sample().thin(_ROWS, _POSITIONS)
    return _Stage(study, few, study.sum_instead(operands, few))


def _explain_values(mismatch: Mismatch, say: Report) -> Comparison:
    """Logged pairs of values of an autotuner."""
    first, second = (np.array([p[i] for p in mismatch.pairs]) for i in (1, 2))
    problem, stage = mismatch.problem, None
    high = _XLA_HIGH.get(problem.dtype, 1.0) if problem else 1.0
    if problem is not None:
        say("rebuilding the operands", 0.0)
        stage = _rebuild(problem, uniform=high)
    # A sum that leaves the result's format is infinite by right.
    overflows = stage is not None and stage.truth.max() > float(find_format(stage.study.problem.out).largest)
    lost = [(n, v) for n, v in zip(mismatch.names, (first, second), strict=True) if _is_impossible(v, overflows)]
    if len(lost) == 1:
        return _explain_impossible(mismatch, *lost[0])
    usable = np.isfinite(first) & np.isfinite(second) & (first != 0) & (second != 0)
    if not usable.any():
        return _explain_no_values(mismatch)
    first, second = first[usable], second[usable]
    if problem is None or stage is None:
        return _explain_ratio_only(mismatch, first, second)
    expected, spread = float(stage.truth.mean()), float(stage.truth.std())
    data = f"rebuilt: uniform in 0 ... {high:g}, as XLA fills its autotuning buffers"
    means = float(first.mean()), float(second.mean())
    right = int(abs(means[1] - expected) < abs(means[0] - expected))
    if not abs(means[right] - expected) <= _SIGMAS * max(spread, 1e-30):
        says = f"Neither side is near {expected:.4g}, what {problem.reduction_length:,} such products add up to."
        return _build(mismatch, "undecided", None, says, _plain_sides(mismatch, means, expected), data)
    return _convict(mismatch, stage, (first, second), right, expected, data, say)


def _is_impossible(values: np.ndarray, overflows: bool) -> bool:
    """Zero or no number, where a sum of positive products stands on the other side."""
    odd = np.isnan(values) if overflows else ~np.isfinite(values)
    return bool((odd | (values == 0)).mean() > 0.5)


def _explain_no_values(mismatch: Mismatch) -> Comparison:
    sides = [_side(n, "undecided", None, None, [Evidence("statistic", _RECORD)]) for n in mismatch.names]
    summary = "No logged pair holds two numbers other than zero: cannot tell which side is right."
    return _build(mismatch, "undecided", None, summary, sides, "not rebuilt")


def _convict(
    mismatch: Mismatch,
    stage: _Stage,
    values: tuple[Floats, Floats],
    right: int,
    expected: float,
    data: str,
    say: Report,
) -> Comparison:
    """Names what the side that is far from the expected value does, by the ratio that each suspect re-enacts."""
    assert mismatch.problem is not None
    wrong = 1 - right
    ratios = values[wrong] / values[right]
    logged, error = float(ratios.mean()), float(ratios.std() / math.sqrt(len(ratios)))
    tried, fitting = _reenact(stage, logged, error, say, thorough=False)
    if not fitting:
        tried, fitting = _reenact(stage, logged, error, say, thorough=True)
    names = mismatch.names
    from_line = mismatch.facts.get("problem from line")
    whose = f" (the problem stands in line {from_line})" if from_line else ""
    expects = Evidence(
        "statistic",
        f"{mismatch.problem.reduction_length:,} products of such operands add up to about {expected:.4g}:"
        f" {names[right]} has {values[right].mean():.4g}, {names[wrong]} {values[wrong].mean():.4g}{whose}",
    )
    good = _side(names[right], "rounding", None, "keeps its sums wide enough", [expects])
    if not fitting:
        says = f"{names[right]} is right; {names[wrong]} has {logged:.3f} of it, and no suspect re-enacts that."
        return _build(
            mismatch, "undecided", None, says, [good, _side(names[wrong], "undecided", None, None, [expects])], data
        )
    # The list runs from likely to far-fetched; of those that fit, the first.
    ratio, _, guilty = fitting[0]
    others = [t for t in fitting[1:] if t[2].cause != guilty.cause]
    says = guilty.says.partition(" (")[0]
    statistic = Evidence(
        "statistic",
        f"statistics suggest it: ratio {logged:.3f} logged, {ratio:.3f} re-enacted"
        f" ({ratio * expected:.4g} for {expected:.4g}); {len(tried) - len(fitting)} other suspects do not fit"
        + (f"; these of other causes do too: {'; '.join(t[2].says for t in others[:2])}" if others else ""),
    )
    matters = Evidence(
        "statistic",
        f"operands of one sign lose {abs(1 - logged):.0%} of every sum; data about zero would hide it"
        + (
            "; in training every weight gradient of such data is scaled down so, as by a smaller learning rate here"
            if mismatch.problem.direction == "grad_weight"
            else ""
        ),
    )
    bad = _side(names[wrong], guilty.verdict, guilty.cause, says, [statistic, matters, expects], suspect=guilty)
    sides = [good, bad] if right == 0 else [bad, good]
    loses = f"{'loses' if logged < 1 else 'gains'} about {abs(1 - logged):.0%} of every sum"
    summary = f"{names[wrong]} {says} and {loses}. {names[right]} is right."
    return _build(mismatch, guilty.verdict, guilty.cause, summary, sides, data)


_Tried = list[tuple[float, float, Suspect]]


def _reenact(stage: _Stage, logged: float, error: float, say: Report, *, thorough: bool) -> tuple[_Tried, _Tried]:
    """Ratio and standard error of every narrow sum that can be re-enacted; and those that fit the logged ratio."""
    tried: _Tried = []
    suspects = [s for s in list_recipe_suspects(stage.study.problem, thorough=thorough) if s.cause in _NARROW]
    deadline = time.perf_counter() + _MOST_TIME_S
    for number, suspect in enumerate(suspects):
        if time.perf_counter() > deadline:
            break
        say("re-enacting suspects", number / len(suspects))
        predicted = suspect.predict(stage.study, stage.sample)
        if predicted is not None and np.isfinite(predicted).all():
            own = predicted / stage.truth
            tried.append((float(own.mean()), float(own.std() / math.sqrt(own.size)), suspect))
    return tried, [t for t in tried if abs(t[0] - logged) <= _SIGMAS * (error + t[1])]


def _side(
    name: str,
    verdict: Verdict,
    cause: str | None,
    says: str | None,
    evidence: list[Evidence],
    suspect: Suspect | None = None,
) -> Side:
    return Side(
        name=name,
        engine=None,
        verdict=verdict,
        cause=cause,
        says=says,
        certainty="statistics" if says else None,
        recipe=format_recipe(suspect.recipe) if suspect and suspect.recipe else None,
        evidence=evidence,
    )


def _plain_sides(mismatch: Mismatch, means: tuple[float, float], expected: float) -> list[Side]:
    return [
        _side(
            n, "undecided", None, None, [Evidence("statistic", f"logged {m:.4g} on average, expected {expected:.4g}")]
        )
        for n, m in zip(mismatch.names, means, strict=True)
    ]


def _explain_impossible(mismatch: Mismatch, name: str, values: Floats) -> Comparison:
    what = "zero" if (values == 0).mean() > 0.5 else "no number"
    evidence = Evidence(
        "statistic",
        f"{name} is {what} in {len(values)} logged elements; the autotuner's operands are positive, so that their sums"
        " are not: whoever returns that did not compute them",
    )
    other = next(n for n in mismatch.names if n != name)
    sides = [
        _side(n, "wrong" if n == name else "undecided", None, f"returns {what}" if n == name else None, [evidence])
        for n in mismatch.names
    ]
    summary = (
        f"{name} is wrong: it returns {what} where positive products are added. Whether {other} is right the log does"
        " not show."
    )
    return _build(mismatch, "wrong", None, summary, sides, "not rebuilt")


def _explain_ratio_only(mismatch: Mismatch, first: Floats, second: Floats) -> Comparison:
    """No problem in the log: what the ratio alone suggests."""
    ratios = first / second
    mean, spread = float(ratios.mean()), float(ratios.std())
    steady = spread < abs(mean - 1) / 2
    suggests = (
        "nearly the same for all elements, as where one side keeps its sums in too few bits"
        if steady
        else "different from element to element, as rounding of operands, or another function, gives"
    )
    missing = mismatch.trouble or "the log names no problem"
    evidence = [
        Evidence("statistic", f"the first is {mean:.3f} of the second, within {spread:.2g}: {suggests}"),
        Evidence(
            "statistic",
            f"cannot tell which side is right: {missing}; to find out, have XLA print the instruction"
            " (TF_CPP_MIN_LOG_LEVEL=0, XLA_FLAGS=--xla_dump_to=DIR) and give samebits explain a log with that line",
        ),
    ]
    sides = [_side(n, "undecided", None, None, evidence) for n in mismatch.names]
    names = mismatch.names
    differ = f"{names[0]} and {names[1]} differ by {abs(mean - 1):.0%} on average"
    summary = f"{differ}; the log does not say of which convolution."
    return _build(mismatch, "undecided", None, summary, sides, "not rebuilt")


def _explain_metrics(mismatch: Mismatch, say: Report) -> Comparison:
    """Statistics only: what each mechanism would have given, if the problem is known."""
    metrics = mismatch.metrics or Metrics()
    shown = _say_metrics(metrics)
    if mismatch.problem is None:
        evidence = [Evidence("statistic", shown), Evidence("statistic", _RECORD)]
        sides = [_side(n, "undecided", None, None, evidence) for n in mismatch.names]
        missing = "Neither problem nor values are in the log: cannot tell rounding from a fault."
        summary = f"{shown[0].upper()}{shown[1:]}. {missing}"
        return _build(mismatch, "undecided", None, summary, sides, "not rebuilt")
    say("re-enacting what each mechanism gives", 0.0)
    stage = _rebuild(mismatch.problem, uniform=None)
    table = _list_fingerprints(stage.study.problem, stage)
    nearest = _find_nearest(metrics, table)
    rows = "; ".join(f"{name} {size:.1e}" for name, size, _ in table)
    evidence = [
        Evidence("statistic", shown),
        Evidence("statistic", f"largest error of each on normal data, in shares of the largest output: {rows}"),
    ]
    if nearest:
        evidence.append(Evidence("statistic", f"statistics suggest {nearest[0]}: the logged share is {nearest[1]:.1e}"))
    evidence.append(Evidence("statistic", _RECORD))
    sides = [_side(n, "undecided", None, None, evidence) for n in mismatch.names]
    suggestion = f" Statistics suggest {nearest[0]}." if nearest else ""
    summary = f"{shown[0].upper()}{shown[1:]}.{suggestion} Which side is right cannot be told from statistics."
    cause = nearest[2] if nearest else None
    return _build(mismatch, "undecided", cause, summary, sides, "re-enacted on normal data")


def _say_metrics(metrics: Metrics) -> str:
    parts = []
    if metrics.mismatched is not None and metrics.elements:
        parts.append(f"{metrics.mismatched:,} of {metrics.elements:,} elements differ by more than the tolerance")
    if metrics.max_abs is not None:
        parts.append(f"the largest difference is {metrics.max_abs:g}")
    if metrics.max_rel is not None:
        parts.append(f"relative {metrics.max_rel:g}, which says nothing where outputs are near zero")
    return ", ".join(parts) or "the log gives no statistics"


def _list_fingerprints(problem: Problem, stage: _Stage) -> list[tuple[str, float, str]]:
    """What mechanisms make of normal data: name, largest error in shares of the largest output, cause."""
    largest = float(np.abs(stage.truth).max()) or 1.0
    suspects = [next(list_order_suspects(problem)), *list_operand_suspects(problem)]
    found: list[tuple[str, float, str]] = []
    for suspect in suspects:
        predicted = suspect.predict(stage.study, stage.sample)
        if predicted is not None and suspect.cause != "subnormals":
            name = "rounding" if suspect.cause == "summation-order" else suspect.says
            found.append((name, float(np.abs(predicted - stage.truth).max()) / largest, suspect.cause))
    return [f for f in found if f[1] > 0][:8]


def _find_nearest(metrics: Metrics, table: list[tuple[str, float, str]]) -> tuple[str, float, str] | None:
    """The mechanism whose share is nearest to the logged one, on a scale of factors; None without a logged scale."""
    known = metrics.largest_value and metrics.max_abs
    if (
        not known
        or not table
        or not math.isfinite(metrics.largest_value or 0)
        or not math.isfinite(metrics.max_abs or 0)
    ):
        return None
    assert metrics.largest_value is not None
    assert metrics.max_abs is not None
    share = metrics.max_abs / metrics.largest_value
    name, size, cause = min(table, key=lambda row: abs(math.log(row[1] / share)))
    return (name, share, cause) if max(size / share, share / size) < 10 else None


def _explain_onednn(mismatch: Mismatch) -> Comparison:
    """Which implementation ran, in which formats: a setting, not a measurement."""
    source, weights, result = mismatch.computes_in
    algorithm = mismatch.facts.get("algorithm", "")
    name = f"oneDNN {mismatch.implementation}"
    says = f"reads {source or '?'} and {weights or '?'}, writes {result or '?'}" + (
        f", {algorithm}" if algorithm else ""
    )
    verdict: Verdict = "undecided"
    cause = None
    narrow = [f for f in (source, weights) if f in ("float16", "bfloat16")]
    if (narrow and result == "float32") or mismatch.facts.get("fpmath", "strict") != "strict":
        verdict, cause = "downgrade", "reduced-precision-operands"
    elif "wino" in algorithm or "wino" in mismatch.implementation:
        cause = "winograd"
    evidence = [Evidence("setting", f"line {mismatch.line}: {says}")]
    if verdict == "undecided":
        evidence.append(Evidence("statistic", _RECORD))
    summary = f"{name} {says}" + (
        ": it multiplies numbers rounded to less than its result holds." if verdict == "downgrade" else "."
    )
    side = Side(name=name, engine=None, verdict=verdict, cause=cause, says=says, evidence=evidence)
    return _build(mismatch, verdict, cause, summary, [side], "none in the log")
