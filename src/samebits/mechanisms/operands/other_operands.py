"""Results of other operands than those on record: rounded copies of what was multiplied, or something else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from samebits import thresholds
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.evidence.nearness import measure_nearness_of_truth, measure_plain_noise
from samebits.mechanisms.facts.observation import Floats, Observation, gather_source
from samebits.mechanisms.facts.wrong_regions import mark_alike_windows
from samebits.numbers.array import measure_spacing
from samebits.numbers.format import find_format
from samebits.problems.windows import mark_border
from samebits.sums.emulators.result_rounding import round_array
from samebits.sums.recipes.recipe import Rounding

# Rows that weights are solved for, equations for every weight, the most unknowns that nobody waits long for, what
# may be left of the squares.
_ROWS, _EQUATIONS, _MOST_UNKNOWNS, _LEFT = 4, 3, 800, 1 / 16
_NARROWER = ("float8_e5m2", "float8_e4m3fn", "bfloat16", "float16", "tf32")


def explain_rounded_record(observation: Observation) -> Mechanism | None:
    """The mechanism where errors have just the size of rounding a recorded operand whose values show that rounding.

    What was multiplied had more digits, so that no result can be judged by the recorded operands. An error of one
    operand's rounding, uniform within half a step, has the variance step^2 / 12, of which sums of squares follow.
    """
    found = _find_rounded(observation)
    return None if found is None else _say_rounded(*found)


def explain_wider_weights(observation: Observation) -> Mechanism | None:
    """As `explain_rounded_record`, for weights, where other weights make up for all of the errors.

    Transforms leave errors as large, but those differ from place to place of a tile as no weights do.
    """
    found = _find_rounded(observation)
    if found is None or found[0] != observation.terms.rows_operand or not _is_made_by_weights(observation):
        return None
    return _say_rounded(*found)


def _find_rounded(observation: Observation) -> tuple[str, str] | None:
    """The operand that was rounded for the record, and the format it was rounded to."""
    sample = observation.choose_sample()
    noise = measure_plain_noise(observation, sample)
    if measure_nearness_of_truth(observation, sample) <= thresholds.UNUSUAL_TIMES * noise:
        return None
    for name, array in observation.operands.items():
        narrower = _find_narrower(array, observation.problem.dtype) if name != "bias" else None
        if narrower is None:
            continue
        if _has_error_of(observation, name, _measure_steps(array.astype(np.float64), narrower)):
            return name, narrower
    return None


def _say_rounded(name: str, narrower: str) -> Mechanism:
    says = f"multiplies {name} with more digits than on record, where it has only numbers of {narrower}"
    evidence = (
        f"the errors are as large as those of rounding {name} to {narrower}, and every output is within what that can"
        f" change; record {name} as the engine multiplies it"
    )
    return Mechanism(CauseCode.OTHER_OPERANDS, "undecided", says, "bound", evidence=(Evidence("statistic", evidence),))


def _is_made_by_weights(observation: Observation) -> bool:
    """Whether weights solved for by least squares, in some rows, leave next to nothing of the errors."""
    terms = observation.terms
    if terms.count > _MOST_UNKNOWNS or terms.positions < _EQUATIONS * terms.count:
        return False
    every = observation.whole()
    chosen = np.unique(np.linspace(0, terms.positions - 1, 4 * _EQUATIONS * terms.count).astype(int))
    sample = replace(every, rows=every.rows[: min(_ROWS, terms.rows)], positions=every.positions[chosen])
    source = terms.view_source(observation.operands[terms.source_operand])
    met = gather_source(terms, source, 0, sample.positions).astype(np.float64)
    errors = sample.pick(observation.result).astype(np.float64) - sample.pick(observation.truth).astype(np.float64)
    told = np.isfinite(errors) & mark_unclipped(observation.problem, sample.pick(observation.truth))
    left = before = 0.0
    for row, usable in zip(errors, told, strict=True):
        free = int(usable.sum()) - terms.count
        if free < terms.count or not np.isfinite(met).all():
            continue
        found = np.linalg.lstsq(met[usable], row[usable], rcond=None)[0]
        left += float(((row[usable] - met[usable] @ found) ** 2).sum()) * usable.sum() / free
        before += float((row[usable] ** 2).sum())
    return before > 0 and left <= _LEFT * before


def _find_narrower(array: np.ndarray, dtype: str) -> str | None:
    """The narrowest format that all values are numbers of, if they use its last digit as rounded numbers do."""
    values = array.astype(np.float64)
    declared = find_format(dtype)
    some = values[(values != 0) & np.isfinite(values)]
    if len(some) < thresholds.FEWEST_TELLING:
        return None
    for name in _NARROWER:
        format_ = find_format(name)
        if format_.precision >= declared.precision or not (round_array(some, Rounding(name)) == some).all():
            continue
        # Small integers are numbers of any format; rounded numbers have odd codes in one of two cases.
        odd = np.rint(np.abs(some) / _measure_steps(some, name)) % 2 == 1
        return name if odd.mean() > thresholds.LEAST_ODD else None
    return None


def is_low_precision(array: np.ndarray, dtype: str) -> bool:
    """Whether an operand on record holds numbers of a narrower format only, or few different ones."""
    some = array[np.isfinite(array) & (array != 0)]
    few = len(np.unique(some)) < len(some) / 2 and find_format(dtype).precision >= find_format("float32").precision
    return few or _find_narrower(array, dtype) is not None


def _measure_steps(values: Floats, name: str) -> Floats:
    """The distance to the next number of a format; 0 for zeros, which were zeros before rounding."""
    return np.where(values != 0, measure_spacing(values, find_format(name)), 0.0)


def _has_error_of(observation: Observation, name: str, step: Floats) -> bool:
    """Whether errors have the size that losing half a step of an operand gives, in total and at every output."""
    problem, sample = observation.problem, observation.choose_sample()
    bare = observation.as_bare_sums()
    other = next(n for n in observation.operands if n not in ("bias", name))
    values = np.abs(observation.operands[other].astype(np.float64))
    most = bare.sum_instead({name: step / 2, other: values}, sample)
    variance = bare.sum_instead({name: step * step / 12, other: values * values}, sample)
    away = sample.pick(observation.result).astype(np.float64) - sample.pick(observation.truth).astype(np.float64)
    told = np.isfinite(away) & (variance > 0) & mark_unclipped(problem, sample.pick(observation.truth))
    if told.sum() < thresholds.FEWEST_TELLING:
        return False
    size = float(np.sqrt(np.mean(away[told] ** 2 / variance[told])))
    allowed = most + sample.pick(observation.bound)
    return bool((np.abs(away) <= allowed).all()) and 1 / thresholds.ERROR_SIZE < size < thresholds.ERROR_SIZE


def explain_unrelated(observation: Observation) -> Mechanism | None:
    """A result as large as the true one that has nothing in common with it: other operands, or these elsewhere."""
    given, truth = observation.result.astype(np.float64), observation.truth.astype(np.float64)
    if not (np.isfinite(given).all() and np.isfinite(truth).all()):
        return None
    # Borders, where padding is read, plain backgrounds, and the mean of every channel are common to all operands.
    inner = ~mark_border(observation.problem) & ~mark_alike_windows(observation)
    counts = inner if inner.sum() >= thresholds.FEWEST_UNRELATED else np.ones(given.shape, bool)
    if counts.sum() < thresholds.FEWEST_UNRELATED:
        return None
    axes = tuple(i for i in range(given.ndim) if i != 1)
    usable = np.maximum(counts.sum(axis=axes, keepdims=True), 1)
    means = (np.where(counts, v, 0.0).sum(axis=axes, keepdims=True) / usable for v in (given, truth))
    a, b = (np.where(counts, v - mean, 0.0) for v, mean in zip((given, truth), means, strict=True))
    sizes = float(np.linalg.norm(a)), float(np.linalg.norm(b))
    if not min(sizes) or not (1 / thresholds.ALIKE_SIZE < sizes[0] / sizes[1] < thresholds.ALIKE_SIZE):
        return None
    alike = float((a * b).sum()) / (sizes[0] * sizes[1])
    if alike > thresholds.UNRELATED:
        return None
    says = "multiplies other operands than those on record, or these in a sequence that was not tried"
    evidence = (
        f"the result is as large as it should be, and its correlation with the right one is {alike:.3f}"
        f" over {int(counts.sum()):,} outputs; loss of precision, or a fault of a part, leaves more than that"
    )
    return Mechanism(
        CauseCode.OTHER_OPERANDS, "wrong", says, "nearness", evidence=(Evidence("statistic", evidence),),
    )  # fmt: skip
