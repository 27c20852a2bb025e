"""A run of products that some outputs lack, or have twice: parts of split sums lost or added again, ends left out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, gather_source
from samebits.mechanisms.other_weights.refitted import name_axis, view_own, with_rows

# All runs of sums up to so many products are looked at, in so many outputs; of these at least so many must tell.
_MOST_PRODUCTS, _LOOKED_AT, _FEWEST = 3072, 48, 4
# That a run fits by chance, in natural logarithms: runs times what each output lets pass.
_MOST_CHANCE, _SEED = -20.0, 12
# What float64 sums of differences may be off by, in shares of the sum of magnitudes.
_DOUBLE = 2.0**-44


@dataclass(frozen=True)
class _Run:
    """Products from `first` up to `end`, of sums with channels or taps fastest, lost or there twice."""

    first: int
    end: int
    by_taps: bool
    is_lost: bool


def list_lost_products(observation: Observation, wrong: npt.NDArray[np.bool_]) -> Iterator[Hypothesis]:
    """The run of products that the outputs marked as `wrong` lack, or have twice, if there is one and no other.

    Errors of some outputs are compared with the sums of all runs of their products, taps fastest and channels fastest.
    """
    terms = observation.terms
    if not 2 <= terms.count <= _MOST_PRODUCTS:
        return
    usable = wrong & mark_unclipped(observation.problem, observation.result) & np.isfinite(observation.result)
    rows, positions = np.nonzero(observation.whole().pick(usable))
    if len(rows) < _FEWEST:
        return
    random = np.random.default_rng(_SEED)
    chosen = np.sort(random.permutation(len(rows))[:_LOOKED_AT])
    rows, positions = rows[chosen], positions[chosen]
    products = _multiply(observation, rows, positions)
    if not np.isfinite(products).all():
        return
    whole = observation.whole()
    truth, given, bound, magnitudes = (
        whole.pick(a)[rows, positions].astype(np.float64)
        for a in (observation.truth, observation.result, observation.bound, observation.magnitudes)
    )
    if len(np.unique(truth - given)) < _FEWEST:
        return  # Of products that are all alike any would do.
    room = bound + _DOUBLE * magnitudes
    for by_taps in (False, True) if min(terms.depth, terms.volume) > 1 else (False,):
        flat = products.swapaxes(1, 2) if by_taps else products
        sums = np.cumsum(np.pad(flat.reshape(len(flat), -1), ((0, 0), (1, 0))), axis=1)
        for is_lost in (True, False):
            pair = _find_run(sums, (truth - given) if is_lost else (given - truth), room)
            if pair is not None:
                yield _assume(observation, _Run(*pair, by_taps, is_lost))
                return


def _multiply(observation: Observation, rows: npt.NDArray[np.int64], positions: npt.NDArray[np.int64]) -> Floats:
    """The products of some outputs, [outputs, depth, volume]."""
    terms = observation.terms
    source = terms.view_source(observation.operands[terms.source_operand])
    weights = view_own(observation).reshape(terms.groups * terms.rows, -1)[rows]
    group = rows // terms.rows
    met = np.empty(weights.shape)
    for g in np.unique(group):
        own = group == g
        met[own] = gather_source(terms, source, int(g), positions[own])
    with np.errstate(all="ignore"):
        return (weights * met).reshape(len(rows), terms.depth, terms.volume)


def _find_run(sums: Floats, missing: Floats, room: Floats) -> tuple[int, int] | None:
    """From where to where products add up to what is missing in all outputs; None if none does, or chance may.

    Products of zero at either end of a run change nothing: the run that is simplest to say is taken.
    """
    # Those whose error is largest compared with the room that rounding needs tell most.
    order = np.argsort(-np.abs(missing) / room)
    sums, missing, room = sums[order], missing[order], room[order]
    count = sums.shape[1]
    first, end = np.triu_indices(count, 1)
    chances = np.empty(len(sums))
    runs = len(first)
    for at, (row, want, most) in enumerate(zip(sums, missing, room, strict=True)):
        fits = np.abs(row[end] - row[first] - want) <= most
        if not fits.any():
            return None
        size = float(np.abs(np.diff(row)).max()) * np.sqrt(count)
        first, end = first[fits], end[fits]
        chances[at] = min(float(np.log(2 * most / size)) if size > 0 else 0.0, 0.0)
    length = end - first
    ends = (end != count - 1).astype(int) + (first != 0)
    even = (np.gcd(length, count - 1) != length).astype(int) + (first % length != 0)
    best = np.lexsort((length, even, ends))[0]
    alike = _count_alike(sums, missing, room, int(length[best]))
    if np.log(runs) + np.maximum(chances, alike).sum() > _MOST_CHANCE:
        return None
    return int(first[best]), int(end[best])


def _count_alike(sums: Floats, missing: Floats, room: Floats, length: int) -> Floats:
    """The logarithm, per output, of the share of other runs as long that also make up for what it misses.

    Products are mostly small, so that many runs make up for small errors.
    """
    runs = sums[:, length:] - sums[:, :-length]
    fits = (np.abs(runs - missing[:, None]) <= room[:, None]).sum(axis=1)
    with np.errstate(divide="ignore"):
        return np.log(np.maximum(fits - 1, 0) / runs.shape[1])


def _assume(observation: Observation, run: _Run) -> Hypothesis:
    terms = observation.terms
    inner = terms.depth if run.by_taps else terms.volume
    outer = terms.volume if run.by_taps else terms.depth
    count = run.end - run.first
    if run.first % inner == 0 and run.end % inner == 0 and outer > 1 and inner > 1:
        what = _say_numbers(name_axis(observation, int(run.by_taps)), run.first // inner, run.end // inner, outer)
    else:
        what = _say_numbers("product", run.first, run.end, terms.count)
        if inner > 1 and outer > 1:
            what += ", channels fastest" if run.by_taps else ", taps fastest"
    says = f"leaves out {what}" if run.is_lost else f"adds {what} twice"

    def change(rows: Floats) -> Floats:
        flat = np.ones(terms.count)
        flat[run.first : run.first + count] = 0.0 if run.is_lost else 2.0
        shape = (outer, inner)
        factors = flat.reshape(shape).T if run.by_taps else flat.reshape(shape)
        return rows * factors

    return with_rows(CauseCode.SHAPE_SPECIFIC_KERNEL, "wrong", says, change, observation)


def _say_numbers(name: str, first: int, end: int, total: int) -> str:
    """ "products 64 to 127 of 256", "product 7 of 144"."""
    numbers = f"{name}s {first:,} to {end - 1:,}" if end - first > 1 else f"{name} {first:,}"
    return f"{numbers} of the {total:,} of every sum (numbered from 0)"
