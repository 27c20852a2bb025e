"""Bounds that hold with a probability: against errors counted in exact arithmetic, for orders of every shape."""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest

from samebits.problems import parse_problem_text
from samebits.sums.bounds import bound_errors, bound_likely_errors
from samebits.sums.bounds.probabilistic import spread_any_order, spread_order
from samebits.sums.recipes.tree import Chain, Fused, Item, chain_pairs
from samebits.sums.tiles.magnitudes import sum_squares

LINEAR = parse_problem_text("linear x=400x576 w=60x576 dtype=float32")
LONG = parse_problem_text("linear x=40x4608 w=40x4608 dtype=float32")


def draw(problem, seed, kind="normal"):
    rng = np.random.default_rng(seed)
    x, w = (rng.standard_normal(problem.operand_shapes[name]) for name in ("x", "w"))
    if kind == "relu":
        x = np.maximum(x, 0)
    elif kind == "picture":
        x = rng.integers(0, 256, x.shape)
    elif kind == "one sign":
        x, w = np.abs(x), np.abs(w)
    elif kind == "mostly zeros":
        x = x * (rng.random(x.shape) < 0.1)
    return {"x": x.astype(np.float32), "w": w.astype(np.float32)}


def add_in_order(operands):
    """Every sum from left to right in float32, products rounded, and the exact sums to float64."""
    x, w = operands["x"], operands["w"]
    sums = np.stack([np.add.accumulate(row * w, axis=1, dtype=np.float32)[:, -1] for row in x])
    return sums, x.astype(np.float64) @ w.astype(np.float64).T


def share(problem, operands, sums, exact, **options):
    bound = bound_likely_errors(problem, operands, exact.astype(np.float32), **options)
    return float((np.abs(sums - exact) / bound).max())


@pytest.mark.parametrize("kind", ["normal", "relu", "picture", "one sign", "mostly zeros"])
@pytest.mark.parametrize("problem", [LINEAR, LONG], ids=["576 products", "4,608 products"])
def test_no_sum_from_left_to_right_is_beyond_and_the_largest_is_near(problem, kind):
    operands = draw(problem, 1, kind)
    sums, exact = add_in_order(operands)
    reached = share(problem, operands, sums, exact)
    assert reached <= 1
    # Terms that are zero round nothing, and are counted all the same.
    assert reached >= (0.03 if kind == "mostly zeros" else 0.1)


def test_sums_of_operands_rounded_to_tf32_are_beyond_it_and_within_the_worst_case():
    operands = draw(LONG, 2)
    bits = operands["x"].view(np.uint32) + np.uint32(0x1000)
    rounded = {"x": (bits & np.uint32(0xFFFFE000)).view(np.float32), "w": operands["w"]}
    sums, _ = add_in_order(rounded)
    exact = operands["x"].astype(np.float64) @ operands["w"].astype(np.float64).T
    worst = bound_errors(LONG, operands, exact.astype(np.float32))
    assert (np.abs(sums - exact) <= worst).all()
    assert share(LONG, operands, sums, exact) > 5


def test_terms_sorted_by_their_values_are_outside_of_the_model():
    """All that is positive first: partial sums grow as no random order lets them."""
    operands = draw(LONG, 3)
    products = np.sort(operands["x"][0] * operands["w"][0])[::-1]
    ordered = {"x": np.tile(products, (40, 1)), "w": np.ones((40, 4608), np.float32)}
    sums, exact = add_in_order(ordered)
    assert (np.abs(sums - exact) <= bound_errors(LONG, ordered, exact.astype(np.float32))).all()
    assert share(LONG, ordered, sums, exact) > 0.5


def make_tree(rng: random.Random, terms: list[int]) -> Item:
    if len(terms) == 1:
        return terms[0]
    cut = rng.randrange(1, len(terms))
    return Chain((make_tree(rng, terms[:cut]), make_tree(rng, terms[cut:])))


def list_partial_sums(tree: Item) -> list[set[int]]:
    """The sets of terms that every addition has in its result, by walking the tree."""
    if isinstance(tree, int):
        return []
    assert isinstance(tree, Chain)
    found, running = [], set()
    for i, item in enumerate(tree.items):
        inner = list_partial_sums(item)
        found += inner
        running = running | ({item} if isinstance(item, int) else inner[-1])
        if i:
            found.append(running)
    return found


def form_matrix(sums: list[set[int]], n: int) -> np.ndarray:
    """The quadratic form of the squared partial sums in n numbers that add up to zero, times n / (n - 1)."""
    matrix = np.zeros((n, n))
    for terms in sums:
        mask = np.zeros(n)
        mask[list(terms)] = 1
        mask -= mask.mean()
        matrix += np.outer(mask, mask)
    return matrix / (n - 1)


@pytest.mark.parametrize("n", [2, 3, 7, 24, 60])
def test_no_tree_spreads_more_than_the_chain(n):
    rng = random.Random(n)
    chain = Chain(tuple(range(n)))
    trees = [chain, chain_pairs(range(n)), *(make_tree(rng, list(range(n))) for _ in range(40))]
    # Two chains of equal length spread as much as one in the limit.
    half = n // 2
    trees += [Chain((Chain((0, *range(1, half))), Chain(tuple(range(half, n)))))] if n > 3 else []
    most = spread_any_order(n)
    for tree in trees:
        sums, spread = list_partial_sums(tree), spread_order(tree)
        matrix = form_matrix(sums, n)
        assert spread.additions == n - 1
        assert abs(spread.scatter - np.trace(matrix)) <= 2.0**-50 * n * n
        assert abs(spread.drift - sum((len(s) / n) ** 2 for s in sums)) <= 2.0**-50 * n * n
        assert spread.drift <= most.drift
        assert spread.scatter <= most.scatter
        assert np.linalg.eigvalsh(matrix).max() <= (n + 4) / math.pi**2


def test_the_most_that_any_tree_can_scatter():
    """Over all ways of splitting, by trying every split of every length."""
    for n in (2, 3, 12, 60, 200):
        own = [a * (n - a) / (n * (n - 1)) for a in range(n + 1)]
        most = [0.0, 0.0]
        for a in range(2, n + 1):
            most.append(max(most[b] + most[a - b] for b in range(1, a)) + own[a])
        assert most[n] <= spread_any_order(n).scatter <= most[n] + 1


def test_a_fused_group_is_one_addition():
    tree = Chain((Fused((0, 1, 2, 3)), Fused((4, 5, 6, 7))))
    spread = spread_order(tree)
    assert (spread.terms, spread.additions, spread.drift) == (8, 2, 0.25 + 1)
    assert spread_order(Fused((0, 1, 2))).additions == 1


def test_sums_of_squares_are_upper_bounds_and_near():
    for problem, scale in itertools.product((LINEAR, LONG), (1.0, 1e-20, 1e15)):
        operands = {name: (a * np.float32(scale)) for name, a in draw(problem, 5).items()}
        wide = {name: a.astype(np.longdouble) ** 2 for name, a in operands.items()}
        exact = wide["x"] @ wide["w"].T
        found = sum_squares(problem, operands)
        assert (found >= exact * (1 - 1e-15)).all()
        assert (found <= exact * (1 + 2.0**-20) + 1e-40).all()


def test_a_smaller_probability_asks_for_more():
    operands = draw(LINEAR, 6)
    truth = add_in_order(operands)[1].astype(np.float32)
    rare, common = (bound_likely_errors(LINEAR, operands, truth, probability=p) for p in (1e-12, 1e-3))
    assert (rare > common).all()
    assert (rare <= bound_errors(LINEAR, operands, truth)).all()


def test_a_sum_that_is_not_finite_has_no_bound_and_huge_squares_leave_the_worst_case():
    problem = parse_problem_text("linear x=1x3 w=2x3 dtype=float64")
    operands = {"x": np.full((1, 3), 1e200), "w": np.array([[1e-3, 1, 1], [1e200, 1, 1]])}
    truth = np.array([[2.001e200, np.inf]])
    found = bound_likely_errors(problem, operands, truth)
    assert found[0, 0] == bound_errors(problem, operands, truth)[0, 0]
    assert found[0, 1] == np.inf
