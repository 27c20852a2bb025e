"""The weights that an engine multiplied, solved for by least squares: others, shuffled ones, left out, or whole steps.

Where positions outnumber the products of a sum, its weights follow from a result and the other operand, up to what the
rounding of the sums leaves of doubt, which the residual tells.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from samebits import thresholds
from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample, gather_source
from samebits.mechanisms.other_weights.refitted import correlate, name_axis, view_own, with_rows
from samebits.mechanisms.other_weights.shuffled_inputs import list_shuffled_inputs
from samebits.numbers.format import find_format
from samebits.problems.terms import Terms
from samebits.sums.emulators.result_rounding import round_wide
from samebits.sums.recipes.recipe import Rounding

# Outputs of a channel for its number; products gathered; what a fit leaves of the squares; numbers that are one.
_FEWEST, _MOST_PRODUCTS, _LEFT, _ONE = 8, 4_000_000, 1 / 64, 1e-2
# Sums of inputs that are alike within this share change results as a bias does.
_ALIKE = 0.05


def list_shifted_weights(observation: Observation) -> Iterator[Hypothesis]:
    """Errors that are sums of the inputs under each window, times one number or one for each output channel."""
    terms = observation.terms
    if observation.problem.direction != "forward":
        return
    sample = observation.choose_sample()
    few = sample.thin(1, max(_MOST_PRODUCTS // (terms.count * terms.groups), _FEWEST))
    every = replace(observation.whole(), positions=few.positions)
    given = every.pick(observation.result).astype(np.float64)
    truth = every.pick(observation.truth).astype(np.float64)
    told = np.isfinite(given) & mark_unclipped(observation.problem, given) & mark_unclipped(observation.problem, truth)
    missing = np.where(told, given - truth, 0.0)
    source = terms.view_source(observation.operands[terms.source_operand])
    sums = np.stack([gather_source(terms, source, g, few.positions).sum(axis=1) for g in range(terms.groups)])
    size = np.abs(sums).max()
    if not size or not np.isfinite(sums).all():
        return
    # Of the largest size one, so that squares are numbers.
    met = np.where(told, np.repeat(sums / size, terms.rows, axis=0), 0.0)
    squares = (met * met).sum(axis=1)
    usable = told.sum(axis=1) >= _FEWEST
    if np.std(sums / size) <= _ALIKE * np.abs(sums / size).mean() or not squares[usable].any():
        return
    missing = missing / size
    numbers = np.where(usable & (squares > 0), (met * missing).sum(axis=1) / np.where(squares > 0, squares, 1.0), 0.0)
    left = ((missing - numbers[:, None] * met)[usable] ** 2).sum()
    if left > _LEFT * (missing[usable] ** 2).sum() or not numbers.any():
        return
    one = float((numbers * squares).sum() / squares.sum())
    if np.abs(numbers[usable] - one).max() <= _ONE * abs(one):
        numbers[:] = one
    yield _shift(observation, numbers, numbers[usable])


def _shift(observation: Observation, numbers: Floats, told: Floats) -> Hypothesis:
    shape = (observation.terms.groups, observation.terms.rows, 1, 1)
    low, high = f"{told.min():.4g}", f"{told.max():.4g}"
    what = low if low == high else f"a number of its own for each output channel ({low} to {high})"
    says = f"multiplies {observation.terms.rows_operand} plus {what}, as where a zero point is left out"
    return with_rows(CauseCode.OTHER_OPERANDS, "wrong", says, lambda rows: rows + numbers.reshape(shape), observation)


# Equations for every unknown; unknowns, and multiplications of the solution, that take no longer than anybody waits.
_LEAST_EQUATIONS = 1.5
_MOST_UNKNOWNS, _MOST_WORK = 2500, 3e10
# Rows whose solved weights differ from the recorded by this share; weights so much alike are no others.
_DIFFERENT, _SAME = 0.1, 0.99
# Codes of 8 bits, blocks of input channels with a step each, the doubt in steps that leaves codes to be told; and the
# chance of so many weights that lie near whole steps, which all steps that are tried have together.
_MOST_CODE, _MOST_OF_FOUR_BITS, _BLOCKS, _LARGEST_DOUBT, _CHANCE = 255, 8, (128, 64, 32, 16), 0.2, 1e-9
_FEWEST_BLOCKS_ON = 0.9
# Singular values of this share are noise; weights that are rounded are nearly as recorded, and off by no more than a
# step, whatever its size in each block: between the fourth moments of one step and of a normal distribution.
_RANK, _NEARLY, _FLAT_MOMENT = 1e-5, 0.9, 2.7
# Significant bits of rounded weights; doubts that are so small a share of their spacing tell.
_FEWEST_DIGITS, _MOST_DIGITS, _TELLS = 4, 16, 0.25
# The fourth moment of errors that are all of one size is 1, of what rounding leaves 1.8.
_LEAST_FOURTH = 1.4
# What the other operand may have been rounded to as well.
_BESIDE = ("float16", "bfloat16", "tf32")


@dataclass(frozen=True)
class _Solved:
    """Weights [groups, rows, depth, volume], and how far each may be off; infinitely where nothing tells it."""

    weights: Floats
    doubt: Floats


def list_solved_hypotheses(observation: Observation) -> Iterator[Hypothesis]:
    """The weights multiplied: off by one number, with channels in another sequence, or any that give the result.

    The last only where positions outnumber products.
    """
    yield from list_shifted_weights(observation)
    yield from list_shuffled_inputs(observation)
    terms = observation.terms
    unknowns = terms.count + 1
    enough = terms.positions >= _LEAST_EQUATIONS * unknowns
    work = float(terms.positions) * unknowns**2 * terms.groups
    if not enough or unknowns > _MOST_UNKNOWNS or work > _MOST_WORK:
        return
    solved = _solve(observation)
    if solved is None or _are_as_recorded(observation, solved):
        return
    yield from _name_left_out(observation, solved)
    yield from _name_steps(observation, solved)
    yield from _name_solved(observation, solved)
    for beside in _BESIDE if work <= _MOST_WORK / 10 else ():
        if find_format(beside).precision < find_format(observation.problem.dtype).precision:
            again = _solve(observation, beside)
            if again is not None:
                yield from _name_steps(observation, again, beside)


def _are_as_recorded(observation: Observation, solved: _Solved) -> bool:
    """Whether the recorded weights lie within the doubts of those solved for: then nothing says that they differ."""
    off = np.abs(solved.weights - view_own(observation))
    return bool((off <= thresholds.WEIGHT_DOUBTS * solved.doubt + 2.0**-20 * np.abs(solved.weights)).all())


def _round_source(observation: Observation, beside: str) -> np.ndarray:
    """The operand that the weights meet, as it is or rounded to a format."""
    source = observation.operands[observation.terms.source_operand]
    return round_wide(source.astype(np.float64), Rounding(beside)) if beside else source


def _solve(observation: Observation, beside: str = "") -> _Solved | None:
    """By least squares, rows with a clip by themselves; None if that is long."""
    terms, problem = observation.terms, observation.problem
    source = terms.view_source(_round_source(observation, beside))
    if not np.isfinite(source).all():
        return None
    given = terms.view_result(observation.result).reshape(terms.groups, terms.rows, -1).astype(np.float64)
    unclipped = mark_unclipped(problem, given)
    if problem.bias:
        given = given - observation.operands["bias"].astype(np.float64).reshape(terms.groups, terms.rows, 1)
    solved = np.ascontiguousarray(view_own(observation)).reshape(terms.groups, terms.rows, -1)
    doubt = np.full(solved.shape, np.inf)
    positions = np.arange(terms.positions)
    for g in range(terms.groups):
        met = gather_source(terms, source, g, positions)
        told = unclipped[g]
        used = (met != 0).any(axis=0)
        if told.all():
            parts = [(np.arange(terms.rows), positions)]
        else:
            parts = [(np.array([m]), np.flatnonzero(told[m])) for m in range(terms.rows)]
            if len(parts) * float(terms.positions) * terms.count**2 > _MOST_WORK:
                return None
        for rows, at in parts:
            if len(at) < _LEAST_EQUATIONS * (used.sum() + 1):
                continue
            right = given[g][np.ix_(rows, at)].T
            factors = met[np.ix_(at, used)]
            found = np.linalg.lstsq(factors, right, rcond=None)[0]
            solved[g][np.ix_(rows, used)] = found.T
            spread = np.sqrt(np.diag(np.linalg.pinv(factors.T @ factors)).clip(0))
            left = np.sqrt(((right - factors @ found) ** 2).sum(axis=0) / max(len(at) - used.sum(), 1))
            doubt[g][np.ix_(rows, used)] = left[:, None] * spread[None]
    shape = (terms.groups, terms.rows, terms.depth, terms.volume)
    return _Solved(solved.reshape(shape), doubt.reshape(shape))


def _name_solved(observation: Observation, found: _Solved) -> Iterator[Hypothesis]:
    """Names the solved weights by comparison with the recorded ones; yields nothing where only few rows differ."""
    terms, own, solved = observation.terms, view_own(observation), found.weights
    near = _name_nearly_alike(observation, found)
    if near is not None:
        yield near
        return
    shape = (terms.groups * terms.rows, -1)
    away = np.linalg.norm((solved - own).reshape(shape), axis=1) > _DIFFERENT * np.linalg.norm(
        own.reshape(shape), axis=1
    )
    if away.mean() < 1 / 2:
        return
    for axis in (2, 3):
        if solved.shape[axis] > 1:
            a, b = (np.moveaxis(v, axis, 0).reshape(solved.shape[axis], -1) for v in (solved, own))
            order = correlate(a, b).argmax(axis=1)
            if (order != np.arange(len(order))).any() and len(set(order)) == len(order):
                what = name_axis(observation, axis - 2)
                moved = np.flatnonzero(order != np.arange(len(order)))
                says = (
                    f"takes {len(moved)} of {len(order)} {what}s in another sequence ({what} {order[moved[0]]}'s"
                    f" weights meet {what} {moved[0]})"
                )
                yield with_rows(CauseCode.AXIS_ORDER, "wrong", says,
                                 lambda rows, o=order, axis=axis: np.take(rows, o, axis=axis), observation)  # fmt: skip
    alike = correlate(solved.reshape(1, -1), own.reshape(1, -1))[0, 0]
    if alike > _SAME:
        return
    says = (
        f"multiplies other {terms.rows_operand} than those on record (solved for; their correlation with the recorded"
        f" is {alike:.3f})"
    )
    yield with_rows(CauseCode.OTHER_OPERANDS, "wrong", says, lambda rows: solved, observation)


def _name_nearly_alike(observation: Observation, found: _Solved) -> Hypothesis | None:
    """Approximated weights: most differ from the recorded ones beyond their doubt, but by little; None otherwise."""
    own, solved, name = view_own(observation), found.weights, observation.terms.rows_operand
    known = np.isfinite(found.doubt)
    differ = np.abs(solved - own) > thresholds.WEIGHT_DOUBTS * found.doubt
    if not known.all() or differ.mean() < 1 / 2:
        return None
    alike = correlate(solved.reshape(1, -1), own.reshape(1, -1))[0, 0]
    rank = _find_lower_rank(solved, own)
    cause, verdict = CauseCode.OTHER_OPERANDS, "wrong"
    if rank is not None:
        says = f"multiplies {name} that a product of fewer numbers stands for (solved for: rank {rank})"
    elif alike > _NEARLY and _is_bounded(solved - own) and not _are_moved(solved - own, own):
        most = np.abs(solved - own).max()
        says = f"multiplies {name} rounded to few bits, in steps that were not found (solved for: off by {most:.3g})"
        cause, verdict = CauseCode.QUANTIZED_OPERANDS, "downgrade"
    elif alike > _NEARLY and not _is_narrow(own) and (bits := _find_digits(found)) is not None:
        says = f"multiplies {name} rounded to {bits} significant bits, not each to the nearest (solved for)"
        cause, verdict = CauseCode.REDUCED_PRECISION_OPERANDS, "downgrade"
    elif alike > _NEARLY and _are_moved(solved - own, own) and not _is_narrow(own):
        off = float(np.linalg.norm(solved - own) / np.linalg.norm(own))
        says = (
            f"multiplies other {name} than those on record, off by {off:.2g} of their size and in no steps, as of"
            " another step of training (solved for)"
        )
    else:
        return None
    hypothesis = with_rows(cause, verdict, says, lambda rows: solved, observation)
    return replace(hypothesis, fitted=True)


def _find_lower_rank(solved: Floats, own: Floats) -> int | None:
    """The rank of solved weights where it is lower than that of the recorded; None where it is not."""
    ranks: list[int] = []
    for weights in (solved, own):
        values = np.linalg.svd(weights.reshape(-1, weights.shape[2] * weights.shape[3]), compute_uv=False)
        ranks.append(int((values > _RANK * values.max()).sum()))
    return ranks[0] if 0 < ranks[0] < ranks[1] else None


def _find_digits(found: _Solved) -> int | None:
    """The few significant bits that all solved weights have, as far as their doubts tell: they were rounded."""
    values, room = found.weights, thresholds.WEIGHT_DOUBTS * found.doubt
    mantissas, exponents = np.frexp(values)
    for bits in range(_FEWEST_DIGITS, _MOST_DIGITS + 1):
        spacing = np.ldexp(1.0, exponents - bits)
        away = np.abs(np.ldexp(np.rint(mantissas * 2.0**bits), exponents - bits) - values)
        telling = room < _TELLS * spacing
        # By chance a weight would be as near in one case of its spacing over twice its room.
        if telling.sum() >= thresholds.FEWEST_TELLING and (away <= room + 2.0**-20 * np.abs(values))[telling].all():
            return bits
    return None


def _is_narrow(own: Floats) -> bool:
    """Whether the recorded weights are numbers of a narrower format: the others may be these with all their digits."""
    return any((round_wide(own, Rounding(name)) == own).all() for name in _BESIDE)


def _are_moved(off: Floats, own: Floats) -> bool:
    """Whether errors of weights are none of rounding: with tails in any sense, all of a size, or finer than of 8 bits.

    Whatever is finer was rounded to a format, which its numbers show; a step of training moves all by about as much.
    """
    if not _is_bounded(off):
        return not _is_bounded(np.divide(off, own, out=np.zeros(off.shape), where=own != 0))
    fine = np.linalg.norm(off) < thresholds.LEAST_OF_EIGHT_BITS * np.linalg.norm(own)
    return bool(fine or _measure_fourth(off) < _LEAST_FOURTH)


def _is_bounded(off: Floats) -> bool:
    """Whether the errors of weights, in shares of each row's usual one, have no tails, as rounding errors have none.

    The fourth moment is 1.8 of what is spread evenly, as rounding to one step leaves it, 3 of a normal distribution.
    """
    spread = np.sqrt(24 / max(off.size, 1))
    return off.size >= thresholds.FEWEST_UNRELATED and _measure_fourth(off) < _FLAT_MOMENT - 3 * spread


def _measure_fourth(off: Floats) -> float:
    """The fourth moment of errors in shares of each row's usual one."""
    rows = off.reshape(-1, off.shape[2] * off.shape[3])
    sizes = np.sqrt((rows**2).mean(axis=1, keepdims=True))
    shares = (rows / np.where(sizes > 0, sizes, 1.0))[sizes[:, 0] > 0]
    return float((shares**4).mean()) if shares.size else np.inf


def _name_left_out(observation: Observation, solved: _Solved) -> Iterator[Hypothesis]:
    """Weights of zero in places where the record has others, all others being as recorded."""
    own, off = view_own(observation), thresholds.WEIGHT_DOUBTS * solved.doubt
    known = np.isfinite(off)
    gone = known & (np.abs(solved.weights) <= off) & (np.abs(own) > 2 * off)
    kept = known & ~gone & (np.abs(solved.weights - own) <= off + 2.0**-20 * np.abs(own))
    if not gone.any() or not (gone | kept)[known].all():
        return
    count, which = int(gone.sum()), "single weights"
    if np.abs(own[gone]).max() <= np.abs(own[kept]).min(initial=np.inf):
        which = f"the smallest, up to {np.abs(own[gone]).max():.3g}"
    says = f"takes {count:,} of {gone.size:,} weights for zero ({which})"
    yield with_rows(CauseCode.OTHER_OPERANDS, "wrong", says, lambda rows: np.where(gone, 0.0, rows), observation)


def _name_steps(observation: Observation, solved: _Solved, beside: str = "") -> Iterator[Hypothesis]:
    """Weights that are whole steps, of one size in each channel or in each block of input channels."""
    terms, name = observation.terms, observation.terms.rows_operand
    for where, size in _list_blocks(terms):
        found = _fit_steps(solved, size)
        if found is None:
            continue
        weights, most = found
        if (np.abs(weights - view_own(observation)) <= 2.0**-20 * np.abs(weights)).all():
            return  # As they are on record.
        bits = 4 if most <= _MOST_OF_FOUR_BITS else 8
        alike = correlate(weights.reshape(1, -1), view_own(observation).reshape(1, -1))[0, 0]
        cause, verdict = CauseCode.QUANTIZED_OPERANDS, "downgrade"
        says = f"multiplies {name} as stored in {bits} bits with {where}"
        if alike < thresholds.LEAST_OF_ITSELF:
            cause, verdict = CauseCode.OTHER_OPERANDS, "wrong"
            says = (
                f"multiplies other {name} than those on record (solved for; they have {bits} bits with {where}, and"
                f" their correlation with the recorded is {alike:.3f})"
            )
        if beside:
            says += f", and rounds {terms.source_operand} to {beside}"
        array = np.array(observation.operands[terms.rows_operand], np.float64)
        terms.view_rows(array)[...] = weights

        def predict(observation: Observation, sample: Sample, array: np.ndarray = array) -> Floats:
            changed = {terms.rows_operand: array, terms.source_operand: _round_source(observation, beside)}
            return observation.sum_instead({**observation.operands, **changed}, sample)

        yield Hypothesis(cause, verdict, says, predict, fitted=True)
        return


def _list_blocks(terms: Terms) -> Iterator[tuple[str, int]]:
    """In words, and in products: what has a step of its own, the largest first."""
    yield "a step per channel", terms.count
    if terms.volume > 1:
        yield from ((f"a step per {n} channels", n * terms.volume) for n in _BLOCKS if n < terms.depth)
    what = "products" if terms.volume > 1 else "channels"
    yield from ((f"a step per {n} {what}", n) for n in _BLOCKS if n < terms.count)


def _fit_steps(solved: _Solved, size: int) -> tuple[Floats, int] | None:
    """The weights as whole steps in blocks of so many products, and the largest code; None where they are not."""
    groups, rows, depth, volume = solved.weights.shape
    weights, doubts = solved.weights.reshape(groups * rows, -1).copy(), solved.doubt.reshape(groups * rows, -1)
    told = on = most = 0
    starts = range(0, depth * volume, size)
    most_off = (1 - _FEWEST_BLOCKS_ON) * groups * rows * len(starts)
    for row, start in itertools.product(range(groups * rows), starts):
        if told - on > most_off:
            return None
        values, doubt = weights[row, start : start + size], doubts[row, start : start + size]
        known = np.isfinite(doubt)
        if not known.any() or not values[known].any():
            continue
        told += 1
        step = _find_step(values[known], doubt[known])
        if step is not None:
            on += 1
            codes = np.rint(values / step)
            values[known] = codes[known] * step
            most = max(most, int(np.abs(codes[known]).max()))
    return (weights.reshape(solved.weights.shape), most) if told and on >= _FEWEST_BLOCKS_ON * told else None


def _find_step(values: Floats, doubt: Floats) -> float | None:
    """The longest step that all values are multiples of, within their doubt, if chance does not give one."""
    largest = int(np.abs(values).argmax())
    for code in range(1, _MOST_CODE + 1):
        step = float(np.abs(values[largest])) / code
        off = thresholds.WEIGHT_DOUBTS * doubt / step + 2.0**-20
        if off.max() > _LARGEST_DOUBT:
            return None
        codes = np.rint(values / step)
        # The step itself is as doubtful as the value that it was taken from.
        off = off + np.abs(codes) / code * off[largest]
        away = np.abs(values / step - codes)
        chances = np.log(np.minimum(2 * off, 1.0)).sum() - np.log(2 * off[largest])
        if (away <= off).all() and chances + np.log(_MOST_CODE) < np.log(_CHANCE):
            return float((values * codes).sum() / (codes * codes).sum())
    return None
