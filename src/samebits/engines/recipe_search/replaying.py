"""The proof: a recipe executed on random data alongside the runner, compared bit for bit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.engines.probes.session import ProbeSession
from samebits.errors import RecipeError
from samebits.numbers.format import find_format
from samebits.numbers.ulps import mark_differing_bits
from samebits.problems import Problem
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.recipes.recipe import Recipe

_SEED = 20260
# Beyond so many products candidates are compared on a sample of output positions; the proof takes more.
_MOST_SAMPLED_PRODUCTS = 2e8
# Ways of rounding that agree by chance must not pass for one another.
_FEWEST_OUTPUTS, _MOST_SETS = 256, 16
# Rounding to eight bits hides how a sum came about; rounding twice shows in one output of a thousand.
_FEWEST_NARROW = 16_384


@dataclass(frozen=True)
class Replayer:
    """Operands, and what the runner made of them."""

    problem: Problem
    operands: Mapping[str, np.ndarray]
    result: np.ndarray

    def score(
        self, recipe: Recipe, *, sampled: bool = False, among: npt.NDArray[np.bool_] | None = None
    ) -> tuple[float, int, npt.NDArray[np.bool_]]:
        """The share of outputs reproduced (0 if it cannot run), the number compared, a mask of those not reproduced.

        `sampled` compares fewer positions where the problem is large, for choosing among candidates; `among`, a mask
        over the result, names the only outputs to compare.
        """
        wanted = self._choose(sampled)
        if among is not None:
            wanted = among if wanted is None else wanted & among
        try:
            replayed = emulate(self.problem, recipe, self.operands, wanted=wanted)
        except RecipeError:
            return 0.0, 0, np.ones(self.problem.out_shape, bool) if among is None else among.copy()
        differs = mark_differing_bits(replayed, self.result)
        if wanted is not None:
            differs &= wanted
        compared = int(wanted.sum()) if wanted is not None else differs.size
        return (compared - int(differs.sum())) / max(compared, 1), compared, differs

    def _choose(self, sampled: bool) -> npt.NDArray[np.bool_] | None:
        most = _MOST_SAMPLED_PRODUCTS if sampled else thresholds.MOST_REPLAYED_PRODUCTS
        products = self.problem.multiply_adds
        if products <= most:
            return None
        shape = self.problem.out_shape
        axis = 0 if self.problem.direction == "grad_weight" else 1
        places = [1 if i == axis else n for i, n in enumerate(shape)]
        chosen = np.zeros(math.prod(places), bool)
        count = max(int(len(chosen) * most / products), 1)
        chosen[np.random.default_rng(_SEED).choice(len(chosen), count, replace=False)] = True
        return np.broadcast_to(chosen.reshape(places), shape).copy()


def make_replayers(session: ProbeSession) -> list[Replayer]:
    """The runner on random normal data: once, or several times where a problem has few outputs."""
    outputs = math.prod(session.problem.out_shape)
    fewest = _FEWEST_NARROW if find_format(session.problem.out).width_bits <= 8 else _FEWEST_OUTPUTS
    sets = min(max(-(-fewest // outputs), 1), _MOST_SETS)
    replayers: list[Replayer] = []
    for number in range(sets):
        operands = make_normal(session.problem, _SEED + number)
        replayers.append(Replayer(session.problem, operands, session.ask(operands)))
    return replayers


def score_all(replayers: Sequence[Replayer], recipe: Recipe, *, sampled: bool = False) -> tuple[float, int]:
    """The share of outputs reproduced over all data, and how many were compared."""
    scores = [r.score(recipe, sampled=sampled) for r in replayers]
    compared = sum(count for _, count, _ in scores)
    return sum(matched * count for matched, count, _ in scores) / max(compared, 1), compared
