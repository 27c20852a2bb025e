"""What were the weights? Hypotheses with operands fitted to the result: products left out, channels with factors of
their own, filters or channels in another sequence, other weights altogether.

Fits need more outputs than unknowns; what a fit shows is then checked on every output, as for any hypothesis.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from samebits.findings import Verdict
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import list_in_words
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample, gather_source, gather_terms
from samebits.numbers.format import find_format
from samebits.problems import Problem

# Outputs that products are added up for one by one; more take memory and tell no more.
_ROWS, _POSITIONS, _MOST_PRODUCTS = 16, 96, 4_000_000
# Equations for every unknown.
_LEAST_EQUATIONS = 2.0
# A factor so near to zero, or to one, is taken for it; other factors are named.
_NEAR, _LARGE = 1e-2, 0.05
_MOST_UNKNOWNS = 2500
# Of how many neighbours how many weights are kept; sizes tried at once below which weights may have been left out.
_SPARSE, _TRIED = ((2, 4), (1, 2), (4, 8), (1, 4)), 24
# Filters tried in places of others: products, sums kept, and the positions that it takes.
_MOST_TRIED, _MOST_KEPT, _FEWEST_POSITIONS = 10**9, 10**7, 24


def list_refitted_hypotheses(observation: Observation, sample: Sample) -> Iterator[Hypothesis]:
    """What can be fitted to a result whose operands are known: the fewest unknowns first."""
    yield from _list_reordered_rows(observation)
    yield from _list_reordered_items(observation)
    yield from _list_reordered_filters(observation)
    few = sample.thin(_ROWS, _POSITIONS)
    terms = observation.terms
    while len(few.rows) * len(few.positions) * terms.count > _MOST_PRODUCTS and len(few.positions) > 8:
        few = few.thin(max(len(few.rows) // 2, 4), len(few.positions) // 2)
    weights, met = gather_terms(terms, observation.operands[terms.rows_operand],
                                observation.operands[terms.source_operand], few)  # fmt: skip
    products = (weights[:, None, :] * met).reshape(-1, terms.depth, terms.volume)
    missing, told = _find_missing(observation, few)
    if not told.any() or not np.isfinite(products).all() or not np.isfinite(np.square(products).sum()):
        return
    yield from _list_pruned(observation, products[told], missing[told], np.repeat(few.rows, len(few.positions))[told])
    yield from _list_tails(observation, products[told], missing[told])
    yield from _list_axis_tails(observation, products[told], missing[told])
    yield from _list_factors(observation, products.sum(axis=2)[told], missing[told], axis=0)
    if terms.volume > 1:
        yield from _list_factors(observation, products.sum(axis=1)[told], missing[told], axis=1)


def _find_missing(observation: Observation, sample: Sample) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """The result minus the declared sums, flat, and a mask of the outputs that no clip hides."""
    given = sample.pick(observation.result).astype(np.float64)
    told = mark_unclipped(observation.problem, given)
    return (given - observation.sum_with_bias(sample)).reshape(-1), told.reshape(-1)


def with_rows(
    cause: CauseCode, verdict: Verdict, says: str, change: Callable[[Floats], Floats], observation: Observation
) -> Hypothesis:
    """Other weights in place of the recorded; `change` maps [groups, rows, depth, volume]."""
    name = observation.terms.rows_operand

    def alter(observation: Observation) -> tuple[Problem, dict[str, np.ndarray]]:
        array = np.array(observation.operands[name], np.float64)
        view = observation.terms.view_rows(array)
        view[...] = change(view.copy())
        return observation.problem, {**observation.operands, name: array}

    def predict(observation: Observation, sample: Sample) -> Floats:
        return observation.sum_instead(alter(observation)[1], sample)

    return Hypothesis(cause, verdict, says, predict, fitted=cause == CauseCode.OTHER_OPERANDS)


# -- products left out, factors -------------------------------------------------------------------------------------


def _list_tails(observation: Observation, products: Floats, missing: Floats) -> Iterator[Hypothesis]:
    """Sums that end early, or begin late: channels fastest or taps fastest."""
    terms = observation.terms
    for by_taps, back in ((False, False), (True, False), (False, True), (True, True))[: 4 if terms.volume > 1 else 1]:
        flat = products[:, :, ::-1] if back else products
        flat = flat.swapaxes(1, 2) if by_taps else flat
        flat = flat.reshape(len(flat), -1)
        left = np.cumsum(flat[:, ::-1], axis=1)[:, ::-1]  # what all from k on add up to
        away = ((missing[:, None] + left) ** 2).sum(axis=0)
        at = int(away.argmin())
        if at == 0 or away[at] > (missing**2).sum() / 4:
            continue
        count = terms.count - at

        def cut(rows: Floats, at: int = at, by_taps: bool = by_taps, back: bool = back) -> Floats:
            kept = rows.copy()
            view = kept[..., ::-1] if back else kept
            view = view.swapaxes(2, 3) if by_taps else view
            view[..., :, :] = np.where(np.arange(view[0, 0].size).reshape(view.shape[2:]) < at, view, 0.0)
            return kept

        order = "taps fastest" if not by_taps else "channels fastest"
        order = f", {order}" if terms.volume > 1 else ""
        says = f"leaves out the last {count:,} of the {terms.count:,} products of every sum{order}"
        yield with_rows(CauseCode.SHAPE_SPECIFIC_KERNEL, "wrong", says, cut, observation)


def _list_axis_tails(observation: Observation, products: Floats, missing: Floats) -> Iterator[Hypothesis]:
    """The last indices along one axis of the sums left out, as the last rows of every item."""
    terms = observation.terms
    sizes, names = terms.axis_sizes, terms.axis_names
    for axis in range(len(sizes)):
        if sizes[axis] < 2 or sizes[axis] == terms.count:
            continue
        along = np.moveaxis(products.reshape(len(products), *sizes), axis + 1, 1).reshape(
            len(products), sizes[axis], -1
        )
        left = np.cumsum(along.sum(axis=2)[:, ::-1], axis=1)[:, ::-1]
        away = ((missing[:, None] + left) ** 2).sum(axis=0)
        at = int(away.argmin())
        if at == 0 or away[at] > (missing**2).sum() / 4:
            continue
        shape = [-1 if i == axis else 1 for i in range(len(sizes))]
        kept = np.broadcast_to((np.arange(sizes[axis]) < at).reshape(shape), sizes)

        def cut(rows: Floats, kept: npt.NDArray[np.bool_] = kept) -> Floats:
            return rows * kept.reshape(rows.shape[2:])

        says = f"leaves out the last {sizes[axis] - at} of the {sizes[axis]} steps along {names[axis]} of every sum"
        yield with_rows(CauseCode.SHAPE_SPECIFIC_KERNEL, "wrong", says, cut, observation)


def _list_factors(observation: Observation, parts: Floats, missing: Floats, axis: int) -> Iterator[Hypothesis]:
    """Each input channel (axis 0), or each tap (axis 1), times a factor of its own: zero where it is left out."""
    if len(missing) < _LEAST_EQUATIONS * parts.shape[1] or parts.shape[1] < 2:
        return
    met = (parts != 0).any(axis=0)
    more = np.zeros(parts.shape[1])
    more[met] = np.linalg.lstsq(parts[:, met], missing, rcond=None)[0]
    # Many factors near one take away a part of any noise.
    most = 4 if np.abs(more).max() >= _LARGE else 64
    if ((missing - parts @ more) ** 2).sum() > (missing**2).sum() / most:
        return
    factors = 1 + more
    what = name_axis(observation, axis)
    lost = np.flatnonzero(np.abs(factors) < _NEAR)
    odd = np.flatnonzero((np.abs(factors) >= _NEAR) & (np.abs(more) >= _NEAR))
    if len(odd) == 0 and len(lost) == 0:
        return
    if len(odd) == 0:
        factors = np.where(np.abs(factors) < _NEAR, 0.0, 1.0)
    shape = (1, 1, -1, 1) if axis == 0 else (1, 1, 1, -1)
    if len(odd) == 0:
        says = f"leaves out {what} {list_in_words(lost)} of {len(factors)}"
        cause = CauseCode.SHAPE_SPECIFIC_KERNEL
    else:
        which = f"each {what}" if len(odd) > len(factors) / 2 else f"{what} {list_in_words(odd)}"
        says = f"multiplies {which} by a factor of its own ({factors[odd].min():.3g} to {factors[odd].max():.3g})"
        cause = CauseCode.FUSION
    yield with_rows(cause, "wrong", says, lambda rows: rows * factors.reshape(shape), observation)


def name_axis(observation: Observation, axis: int) -> str:
    """What stands along the first (0) or second (1) axis of the weights' terms, in a word."""
    if axis == 1:
        return "tap"
    if observation.problem.stated is not None:
        return "product"
    return "batch item" if observation.terms.form == "filter" else "input channel"


def _list_pruned(
    observation: Observation, products: Floats, missing: Floats, rows: npt.NDArray[np.int64]
) -> Iterator[Hypothesis]:
    """The smallest weights taken for zero: in every so many neighbours, or below a size that is searched for."""
    name = observation.terms.rows_operand
    for kept, block in _SPARSE:
        for axis, where in ((3, "products"), (2, name_axis(observation, 0) + "s")):
            if axis == 2 and observation.terms.volume == 1:
                continue
            says = f"takes all but the {kept} largest of every {block} {where} of {name} for zero"
            prune = functools.partial(_keep_largest, kept, block, axis)
            yield with_rows(CauseCode.OTHER_OPERANDS, "wrong", says, prune, observation)
    yield from _list_small(observation, np.abs(view_own(observation)), products, missing, rows)


def _keep_largest(kept: int, block: int, axis: int, rows: Floats) -> Floats:
    """Rows with the smallest of every block of neighbours zero: of products (axis 3), or of channels for each tap."""
    groups, count, depth, volume = rows.shape
    flat = rows.reshape(groups, count, -1) if axis == 3 else rows.swapaxes(2, 3).reshape(groups, count, volume, depth)
    whole = flat.shape[-1] // block * block
    blocks = flat[..., :whole].reshape(*flat.shape[:-1], -1, block)
    order = np.argsort(-np.abs(blocks), axis=-1, kind="stable").argsort(axis=-1)
    pruned = flat.copy()
    pruned[..., :whole] = np.where(order < kept, blocks, 0.0).reshape(*flat.shape[:-1], whole)
    return pruned.reshape(rows.shape) if axis == 3 else pruned.swapaxes(2, 3).reshape(rows.shape)


def _list_small(
    observation: Observation, size: Floats, products: Floats, missing: Floats, rows: npt.NDArray[np.int64]
) -> Iterator[Hypothesis]:
    """All weights below one size left out, the size that leaves least."""
    terms = observation.terms
    own = size.reshape(terms.groups * terms.rows, terms.depth, terms.volume)[rows]
    at = np.sort(size[size > 0])

    def miss(index: int) -> float:
        left = np.where(own <= at[index], products, 0.0).sum(axis=(1, 2))
        return float(((missing + left) ** 2).sum())

    low, high = 0, len(at) - 1
    while high - low > 2:
        tried = np.unique(np.linspace(low, high, _TRIED).astype(int))
        best = int(np.argmin([miss(int(i)) for i in tried]))
        narrower = int(tried[max(best - 1, 0)]), int(tried[min(best + 1, len(tried) - 1)])
        if narrower == (low, high):
            break
        low, high = narrower
    best = min(range(low, high + 1), key=miss)
    if miss(best) > (missing**2).sum() / 4:
        return
    share = (best + 1) / size.size
    says = f"takes {share:.1%} of the weights for zero, those of at most {at[best]:.3g}"
    cause: CauseCode = CauseCode.OTHER_OPERANDS
    verdict: Verdict = "wrong"
    subnormals = int(np.searchsorted(at, 2.0 ** find_format(observation.problem.dtype).smallest_normal_exponent))
    if subnormals and miss(subnormals - 1) <= miss(best):
        best = subnormals - 1
        says = f"takes subnormal numbers of {terms.rows_operand} for zero"
        cause, verdict = CauseCode.SUBNORMALS, "downgrade"
    yield with_rows(cause, verdict, says, lambda rows: np.where(np.abs(rows) <= at[best], 0.0, rows), observation)


# -- another sequence -----------------------------------------------------------------------------------------------


def _list_reordered_rows(observation: Observation) -> Iterator[Hypothesis]:
    """Output channels that hold what belongs to others: each given row is paired with the true row nearest to it."""
    terms = observation.terms
    count = terms.groups * terms.rows
    if count < 2 or count > _MOST_UNKNOWNS:
        return
    positions = observation.choose_sample().positions
    if count**2 * terms.positions <= _MOST_PRODUCTS * 8:
        positions = np.arange(terms.positions)
    sample = Sample(terms, np.arange(count), positions)
    given = sample.pick(observation.result).astype(np.float64)
    true = sample.pick(observation.truth).astype(np.float64)
    yield from _say_reordered(observation, _find_nearest(given, lambda r: true), with_bias=True)
    if observation.problem.bias and count**2 * len(positions) <= _MOST_PRODUCTS * 8:
        bare, bias = sample.pick(observation.bare_sums()), observation.operands["bias"].astype(np.float64)
        order = _find_nearest(given, lambda r: observation.apply_epilogue(bare + bias[r]))
        yield from _say_reordered(observation, order, with_bias=False)


def _list_reordered_items(observation: Observation) -> Iterator[Hypothesis]:
    """Items of the batch that hold what belongs to others: each given one is paired with the true one nearest to it."""
    problem = observation.problem
    count = problem.out_shape[0]
    if problem.direction != "forward" or count < 2 or count * observation.truth.size > _MOST_PRODUCTS * 8:
        return
    true = observation.truth.reshape(count, -1).astype(np.float64)
    order = _find_nearest(observation.result.reshape(count, -1).astype(np.float64), lambda r: true)
    moved = np.flatnonzero(order != np.arange(count))
    # Several that hold one item are what a batch index that is lost makes; that is said elsewhere.
    if len(moved) == 0 or len(set(order)) < count:
        return
    places = f"item {order[moved[0]]} stands in place of {moved[0]}"
    says = f"takes {len(moved)} of {count} items of the batch in another sequence ({places})"
    if len(moved) == 2:
        says = f"exchanges items {moved[0]} and {moved[1]} of the batch"

    def predict(observation: Observation, sample: Sample) -> Floats:
        return sample.pick(true[order].reshape(problem.out_shape))

    yield Hypothesis(CauseCode.AXIS_ORDER, "wrong", says, predict)


def _list_reordered_filters(observation: Observation) -> Iterator[Hypothesis]:
    """Filters that meet other groups' channels, which no sequence of outputs shows: each is tried in each place."""
    terms = observation.terms
    count = terms.groups * terms.rows
    most = min(_MOST_TRIED // (terms.groups * count * terms.count), _MOST_KEPT // (terms.groups * count))
    if terms.groups == 1 or most < _FEWEST_POSITIONS:
        return
    positions = observation.choose_sample().thin(1, most).positions
    source = terms.view_source(observation.operands[terms.source_operand])
    weights = view_own(observation).reshape(count, -1)
    bias = observation.operands["bias"].astype(np.float64) if observation.problem.bias else np.zeros(count)
    sums = [weights @ gather_source(terms, source, g, positions).T for g in range(terms.groups)]
    given = Sample(terms, np.arange(count), positions).pick(observation.result).astype(np.float64)
    order = _find_nearest(given, lambda r: observation.apply_epilogue(sums[r // terms.rows] + bias[r]))
    moved = np.flatnonzero(order != np.arange(count))
    if len(moved) == 0:
        return
    says = (
        f"takes {len(moved)} of {count} filters in another sequence (filter {order[moved[0]]} stands in place of"
        f" {moved[0]}, with that one's input channels)"
    )

    def change(rows: Floats) -> Floats:
        return rows.reshape(count, -1)[order].reshape(rows.shape)

    yield with_rows(CauseCode.AXIS_ORDER, "wrong", says, change, observation)


def _find_nearest(given: Floats, candidates: Callable[[int], Floats]) -> npt.NDArray[np.intp]:
    """For each given row the candidate nearest to it, of equal ones that of its own number."""
    order = np.arange(len(given))
    for r, row in enumerate(given):
        away = ((candidates(r) - row) ** 2).sum(axis=1)
        nearest = int(away.argmin())
        order[r] = r if away[r] <= away[nearest] + _NEAR**2 * (row * row).sum() else nearest
    return order


def _say_reordered(observation: Observation, order: npt.NDArray[np.intp], *, with_bias: bool) -> Iterator[Hypothesis]:
    terms, count = observation.terms, len(order)
    moved = np.flatnonzero(order != np.arange(count))
    if len(moved) == 0:
        return
    if len(moved) == 2 and order[moved[0]] == moved[1]:
        says = f"exchanges output channels {moved[0]} and {moved[1]}"
    else:
        places = f"channel {order[moved[0]]} stands in place of {moved[0]}"
        says = f"takes {len(moved)} of {count} output channels in another sequence ({places})"
    says = says if with_bias else f"{says}, their biases not"

    def predict(observation: Observation, sample: Sample) -> Floats:
        array = observation.truth if with_bias else observation.bare_sums()
        rows = terms.view_result(np.broadcast_to(array, observation.problem.out_shape)).reshape(count, -1)
        chosen = rows[order[sample.rows]][:, sample.positions].astype(np.float64)
        return chosen if with_bias else observation.finish(chosen, sample)

    yield Hypothesis(CauseCode.AXIS_ORDER, "wrong", says, predict)


def view_own(observation: Observation) -> Floats:
    """The recorded weights, [groups, rows, depth, volume]."""
    return observation.terms.view_rows(observation.operands[observation.terms.rows_operand]).astype(np.float64)


def correlate(a: Floats, b: Floats) -> Floats:
    """The correlation of every row of `a` with every row of `b`; 0 where a row is constant."""
    a, b = (v - v.mean(axis=1, keepdims=True) for v in (a, b))
    sizes = np.linalg.norm(a, axis=1)[:, None] * np.linalg.norm(b, axis=1)[None]
    with np.errstate(all="ignore"):
        return np.where(sizes > 0, (a @ b.T) / sizes, 0.0)
