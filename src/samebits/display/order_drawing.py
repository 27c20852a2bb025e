"""Orders and maps as lines for a terminal; `svg` makes pictures of the same."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from samebits.display.tree_drawing import draw_tree
from samebits.problems import Problem
from samebits.problems.lowering import lower_problem
from samebits.problems.terms import find_terms
from samebits.problems.windows import name_axes
from samebits.sums.recipes.order import expand_order
from samebits.sums.recipes.order_map import array_from_places, parse_places
from samebits.sums.recipes.recipe_text import parse_order
from samebits.sums.recipes.tree import Item, restrict_tree

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_MOST_ROWS, _MOST_COLUMNS = 16, 64


def draw_order(problem: Problem, text: str) -> list[str]:
    """An order's tree in a few lines."""
    return draw_tree(tree_of_order(problem, text))


def tree_of_order(problem: Problem, text: str) -> Item:
    """The tree of an order's text over the terms that some output of the problem has."""
    terms = find_terms(problem)
    tree = expand_order(parse_order(text), terms.axis_names, terms.axis_sizes)
    kept = restrict_tree(tree, np.tile(terms.patterns[1].any(axis=0), terms.depth))
    return kept if kept is not None else tree


def map_orders(problem: Problem, where: str | None) -> npt.NDArray[np.int64] | None:
    """The number of every output's order, most used first; None where it is not known.

    In the result's shape, of a product in that of the convolution with the same sums.
    """
    if where is None:
        return None
    problem = lower_problem(problem).convolution
    chosen = array_from_places(parse_places(where), name_axes(problem), problem.out_shape)
    numbers, inverse, counts = np.unique(chosen, return_inverse=True, return_counts=True)
    rank = np.empty(len(numbers), np.int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(numbers))
    return rank[inverse.reshape(chosen.shape)]


def draw_map(problem: Problem, where: str | None) -> list[str]:
    """Where each order is used: one sentence if it is the same everywhere, else letters over the last two axes."""
    ranks = map_orders(problem, where)
    if ranks is None:
        return ["undetermined"]
    positions = int(np.prod(problem.out_shape)) // find_terms(problem).rows // find_terms(problem).groups
    if (ranks == 0).all():
        return [f"the same for all {positions:,} positions" if positions > 1 else "the only position"]
    plane, says = choose_plane(problem, ranks)
    rows, columns = plane.shape
    row_step, column_step = -(-rows // _MOST_ROWS), -(-columns // _MOST_COLUMNS)
    lines = ["".join(LETTERS[min(int(n), len(LETTERS) - 1)] for n in row[::column_step]) for row in plane[::row_step]]
    if row_step > 1 or column_step > 1:
        says += f"; every {max(row_step, column_step)}th shown"
    return [says, *lines]


def choose_plane(problem: Problem, ranks: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], str]:
    """Two axes along which the map changes (the last two if it changes along no others), and a title."""
    axes = name_axes(lower_problem(problem).convolution)
    changing = [a for a in range(ranks.ndim) if (np.diff(ranks, axis=a) != 0).any()]
    shown = changing[-2:] if len(changing) > 1 else [a for a in (changing[0] - 1, changing[0]) if a >= 0]
    rest = tuple(0 if a not in shown else slice(None) for a in range(ranks.ndim))
    plane = np.atleast_2d(ranks[rest])
    if len(shown) == 2 and changing == changing[-1:]:
        plane, shown = plane[:1], shown[1:]
    return plane, "along " + " and ".join(axes[a] for a in shown)
