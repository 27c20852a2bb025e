"""Error bounds that hold with a stated probability: what roundings reach when none conspires with another.

A sum of n terms rounds each of its partial sums s, by at most u |s|. The worst case adds these up with one sign. The
model here is what arithmetic does on data that know nothing of it:

    the relative errors of the additions are independent, and uniform over at most [-u, u];
    terms come in an order that does not depend on their values.

By the second, the sum of m of n terms that add up to y is t y + Q B, with t = m / n, Q the root of the sum of squared
terms, and B what random drawing without replacement adds: in the limit of many terms a Brownian bridge, of variance
t (1 - t). By the first, the error is a sum of independent errors once all partial sums are given. Of the part that
follows y, Hoeffding's lemma bounds the tail. Of the part that follows B, the sum of squared partial sums is random as
well, a quadratic form in normal numbers with the trace `scatter` and no eigenvalue above (n + 4) / pi^2 (the bridge's
n / pi^2 and what trees of few terms were found to have beyond it); both tails together are bounded by Chernoff's
inequality. (The idea of independent errors, without the second assumption: Higham and Mary, A new approach to
probabilistic rounding error analysis, SIAM J. Sci. Comput. 41(5), 2019.)

Among all orders of addition none has a larger `drift` than the one from left to right, n / 3 and a little, and none a
larger `scatter` than (n + 5/2) / 6, so that these serve where the order is not known. Errors of one sign, as of
truncation, are outside of the model. Such a bound proves nothing.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.numbers.float_environment import default_float_environment
from samebits.problems import Problem
from samebits.sums.bounds.any_order import accumulator_format, add_conversions, bound_sums
from samebits.sums.recipes.tree import Chain, Fused, Item, iterate_chains, list_terms
from samebits.sums.tiles.magnitudes import sum_magnitudes, sum_squares

# Of all outputs of a result together.
ERROR_PROBABILITY = 1e-9
# Products, the part of partial sums that follows the result, and the rest; each of two signs.
_TAILS = 6


@dataclass(frozen=True, slots=True)
class OrderSpread:
    """What an order of addition does to errors: how many additions of how many terms, and which share each has added.

    `drift` is the sum of t^2 over all additions, t the share of the terms in the partial sum; `scatter` that of
    t (1 - t), times n / (n - 1).
    """

    terms: int
    additions: int
    drift: float
    scatter: float


def spread_any_order(terms: int) -> OrderSpread:
    """The most that any order has of either."""
    n = max(terms, 1)
    return OrderSpread(n, n, (n + 1) * (2 * n + 1) / (6 * n), (2 * n + 5) / 12)


def spread_order(tree: Item) -> OrderSpread:
    """Of a tree over all terms of a sum; a fused group enters its running sum with a single rounding."""
    n = len(list_terms(tree))
    shares: list[float] = []
    for chain in iterate_chains(tree) if isinstance(tree, Chain) else ():
        counts = np.cumsum([len(list_terms(item)) for item in chain.items])
        # The first item is rounded as a sum of its own, or is a product.
        shares += [int(count) / n for i, count in enumerate(counts) if i or isinstance(chain.items[0], Fused)]
    if isinstance(tree, Fused):
        shares = [1.0]
    t = np.array(shares)
    return OrderSpread(n, max(len(t), 1), float((t * t).sum()), float((t * (1 - t)).sum()) * n / max(n - 1, 1))


@default_float_environment()
def bound_likely_errors(
    problem: Problem,
    operands: Mapping[str, np.ndarray],
    truth: np.ndarray,
    *,
    spread: OrderSpread | None = None,
    squares: npt.NDArray[np.float64] | None = None,
    magnitudes: npt.NDArray[np.float64] | None = None,
    probability: float = ERROR_PROBABILITY,
) -> npt.NDArray[np.float64]:
    """The |result - truth| that some output exceeds with at most `probability`, per output, under the model above.

    The declared formats, and any order of addition unless `spread` says which; rounded to the result's format as
    `bound_errors` has it, and never more than that. `squares` are the sums of squared terms and `magnitudes` the sums
    of their magnitudes, if known. Float64 of the truth's shape; infinite where the truth is.
    """
    if squares is None:
        squares = sum_squares(problem, operands)
    if magnitudes is None:
        magnitudes = sum_magnitudes(problem, operands)
    format_ = accumulator_format(problem)
    spread = spread or spread_any_order(problem.reduction_length + (1 if problem.bias else 0))
    tail = probability / max(truth.size, 1) / _TAILS
    hoeffding, chernoff = math.sqrt(2 * math.log(1 / tail)), _bound_mixture(spread, tail)
    # A uniform error's variance, which is also its proxy in Hoeffding's lemma: sinh(z) / z <= exp(z^2 / 6).
    deviation = float(format_.unit_roundoff) / math.sqrt(3)
    with np.errstate(over="ignore", invalid="ignore"):
        value, first = truth.astype(np.float64), _read_bias(problem, operands)
        # The bias may be in every partial sum, or come last.
        followed = np.maximum(np.abs(value - first), np.abs(value))
        following = math.sqrt(spread.drift) * followed + math.sqrt(spread.additions) * np.abs(first)
        scattered = np.sqrt(squares) * (chernoff + hoeffding)
        summed = deviation * (hoeffding * following + scattered) + spread.terms * float(format_.smallest_subnormal)
        worst = bound_sums(problem, magnitudes, format_)
        summed = np.where(np.isnan(summed), np.inf, np.minimum(summed, worst))
    return add_conversions(problem, operands, truth, summed, format_)


@functools.lru_cache(maxsize=4096)
def _bound_mixture(spread: OrderSpread, tail: float) -> float:
    """c such that the scattered part is beyond c Q deviations with at most `tail`: the least Chernoff bound.

    With eigenvalues that add up to the scatter S and none above e, the generating function at z is largest where all
    are e or 0: (1 - z^2 e)^(-S / 2e).
    """
    if spread.scatter <= 0:
        return 0.0
    largest = min((spread.terms + 4) / math.pi**2, spread.scatter)
    z = np.linspace(0, 1, 4002)[1:-1] / math.sqrt(largest)
    growth = -spread.scatter / (2 * largest) * np.log1p(-z * z * largest)
    return float(((math.log(1 / tail) + growth) / z).min())


def _read_bias(problem: Problem, operands: Mapping[str, np.ndarray]) -> npt.NDArray[np.float64] | float:
    if not problem.bias:
        return 0.0
    return operands["bias"].astype(np.float64).reshape(problem.bias_shape)
