"""A summation tree as a program for a stack of running sums, which kernels execute for many outputs at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from samebits.errors import RecipeError
from samebits.recipes.recipe import Recipe
from samebits.recipes.tree import Chain, Fused, Item, count_depth, list_terms

# Opcodes. A step: opcode, first entry in `terms`, how many, and for ROUND the number of a format (0: the accumulator).
PUSH, ADD_TERMS, ADD_SUMS, PUSH_FUSED, ADD_FUSED, ADD_BIAS, ROUND = range(7)


class Program(NamedTuple):
    """Steps over a stack of sums; the result is what lies at its bottom in the end."""

    steps: npt.NDArray[np.int64]  # [steps, 4]
    terms: npt.NDArray[np.int64]
    depth: int
    formats: tuple[str, ...]
    plan: tuple[bool, bool, bool, bool, bool]  # fused, flushes, starts from zero, bias first, bias last


def compile_tree(tree: Item, recipe: Recipe, has_bias: bool, bias_after: int = -1) -> Program:
    """The program of a tree; with `bias_after`, the bias is added once so many terms are in the running sum.

    Those terms must be the first items of the outermost chain, as whatever the running sum of the first term has
    taken in always is.
    """
    steps: list[tuple[int, int, int, int]] = []
    terms: list[int] = []
    formats = [recipe.accumulator.format]

    def push(opcode: int, these: tuple[int, ...] | list[int]) -> None:
        steps.append((opcode, len(terms), len(these), 0))
        terms.extend(these)

    def carry(number: int) -> None:
        """What was added to a sum kept in a format of its own is rounded to that too."""
        if number:
            steps.append((ROUND, 0, 0, number))

    def visit(item: Item) -> None:
        """Leaves the item's value on top of the stack."""
        if isinstance(item, int):
            push(PUSH, (item,))
            return
        if isinstance(item, Fused):
            push(PUSH_FUSED, item.terms)
            return
        if item.format and item.format not in formats:
            formats.append(item.format)
        own = formats.index(item.format) if item.format else 0
        visit(item.items[0])
        carry(own)
        run: list[int] = []
        for part in item.items[1:]:
            if isinstance(part, int) and not own:
                run.append(part)
                continue
            if run:
                push(ADD_TERMS, run)
                run = []
            add(part)
            carry(own)
        if run:
            push(ADD_TERMS, run)

    def add(part: Item) -> None:
        """Adds an item to the sum on top of the stack."""
        if isinstance(part, int):
            push(ADD_TERMS, (part,))
        elif isinstance(part, Fused):
            push(ADD_FUSED, part.terms)
        else:
            visit(part)
            push(ADD_SUMS, ())

    if bias_after >= 0 and isinstance(tree, Chain):
        head, tail = _split_chain(tree, bias_after)
        visit(head)
        steps.append((ADD_BIAS, 0, 0, 0))
        for part in tail:
            add(part)
            carry(formats.index(tree.format) if tree.format else 0)
    else:
        visit(tree)
        if bias_after >= 0:
            steps.append((ADD_BIAS, 0, 0, 0))
    depth = count_depth(tree) if isinstance(tree, Chain) else 1
    return Program(
        np.array(steps, np.int64).reshape(-1, 4), np.array(terms, np.int64), depth, tuple(formats),
        (recipe.product == "fused", recipe.flush.results, recipe.start == "zero",
         has_bias and recipe.bias == "first", has_bias and recipe.bias == "last"),
    )  # fmt: skip


def _split_chain(chain: Chain, count: int) -> tuple[Chain, tuple[Item, ...]]:
    """The items that hold the first `count` terms, and the rest. Raises RecipeError where they end inside an item."""
    held = 0
    for i, item in enumerate(chain.items):
        if held == count and i:
            return Chain(chain.items[:i], chain.format), chain.items[i:]
        held += len(list_terms(item))
    if held != count:
        raise RecipeError(f"bias=after/{count}: no running sum holds just so many terms")
    return chain, ()
