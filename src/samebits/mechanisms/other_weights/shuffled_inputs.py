"""Input channels in another sequence, solved for from all outputs together: every channel's weights with every channel.

A result whose filters met the channels in another sequence is the sum of those pairs of a filter's channel and an
input's that the sequence puts together: least squares give each pair its factor, one or nought.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.judging.measuring import mark_unclipped
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample, gather_source
from samebits.mechanisms.other_weights.refitted import name_axis, view_own

# Pairs of channels, outputs for each of them, numbers held at once, what a fit leaves of the squares.
_MOST_CHANNELS, _EQUATIONS, _MOST_HELD, _LEFT = 32, 2.0, 8_000_000, 1 / 64
_FEWEST_POSITIONS, _SEED = 8, 23


def list_shuffled_inputs(observation: Observation) -> Iterator[Hypothesis]:
    """The sequence of channels that the result shows, where it shows one that is not the declared."""
    terms, depth = observation.terms, observation.terms.depth
    paired = _pair_channels(observation) if terms.groups == 1 and 2 < depth <= _MOST_CHANNELS else None
    if paired is None:
        return
    pairs, sums = paired
    # The factors need only be exact enough to distinguish one from zero.
    factors = np.linalg.lstsq(pairs.T @ pairs, pairs.T @ sums, rcond=None)[0].reshape(depth, depth)
    order = factors.argmax(axis=1)
    moved = np.flatnonzero(order != np.arange(depth))
    put_together = pairs.reshape(-1, depth, depth)[:, np.arange(depth), order].sum(axis=1)
    if len(set(order)) < depth or not len(moved) or ((sums - put_together) ** 2).sum() > _LEFT * (sums**2).sum():
        return
    what = name_axis(observation, 0)
    says = (
        f"takes {len(moved)} of {depth} {what}s of {terms.source_operand} in another sequence ({what}"
        f" {order[moved[0]]} stands in place of {moved[0]})"
    )
    yield Hypothesis(CauseCode.AXIS_ORDER, "wrong", says, lambda o, s: _sum_in_order(o, s, order))


def _pair_channels(observation: Observation) -> tuple[Floats, Floats] | None:
    """Sums over each filter's channel with each input's [outputs, pairs], and the results of those outputs.

    Both in shares of the largest pair, so that squares are numbers; None where too few outputs tell.
    """
    terms, depth = observation.terms, observation.terms.depth
    outputs = min(_MOST_HELD // depth**2, int(2 * _EQUATIONS * depth**2))
    random = np.random.default_rng(_SEED)
    rows = np.sort(random.permutation(terms.rows)[:outputs])
    most = min(max(-(-outputs // len(rows)), _FEWEST_POSITIONS), _MOST_HELD // terms.count)
    positions = np.sort(random.permutation(terms.positions)[:most])
    sample = Sample(terms, rows, positions)
    given = sample.pick(observation.result).astype(np.float64)
    told = np.isfinite(given) & mark_unclipped(observation.problem, given)
    if told.sum() < _EQUATIONS * depth**2:
        return None
    source = terms.view_source(observation.operands[terms.source_operand])
    met = gather_source(terms, source, 0, positions).reshape(len(positions), depth, -1)
    pairs = np.einsum("rcv,pdv->rpcd", view_own(observation)[0, rows], met, optimize=True)[told].reshape(-1, depth**2)
    bias = observation.operands["bias"].astype(np.float64)[rows][:, None] if observation.problem.bias else 0.0
    size = np.abs(pairs).max()
    if not np.isfinite(pairs).all() or not size:
        return None
    return pairs / size, (given - bias)[told] / size


def _sum_in_order(observation: Observation, sample: Sample, order: np.ndarray) -> Floats:
    terms, name = observation.terms, observation.terms.source_operand
    array = observation.operands[name].copy()
    view = terms.view_source(array)
    view[...] = view[:, :, order].copy()
    return observation.sum_instead({**observation.operands, name: array}, sample)
