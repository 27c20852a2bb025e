"""A summation tree as a program for a stack of running sums, which compiled kernels execute for many outputs at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from samebits.recipes.recipe import Recipe
from samebits.recipes.tree import Chain, Fused, Item, count_depth

# Opcodes. Operands of a row: opcode, first entry in `terms`, how many, number of the format (0: the accumulator).
PUSH, ADD_TERMS, ADD_SUMS, PUSH_FUSED, ADD_FUSED = range(5)


class Program(NamedTuple):
    """Steps over a stack of sums; the result is what lies at its bottom in the end."""

    steps: npt.NDArray[np.int64]  # [steps, 4]
    terms: npt.NDArray[np.int64]
    depth: int
    formats: tuple[str, ...]


def compile_tree(tree: Item, recipe: Recipe) -> Program:
    """The program of a tree."""
    steps: list[tuple[int, int, int, int]] = []
    terms: list[int] = []
    formats = [recipe.accumulator.format]

    def push(opcode: int, these: tuple[int, ...] | list[int], number: int) -> None:
        steps.append((opcode, len(terms), len(these), number))
        terms.extend(these)

    def visit(item: Item, number: int) -> None:
        """Leaves the item's value on top of the stack."""
        if isinstance(item, int):
            push(PUSH, (item,), number)
            return
        if isinstance(item, Fused):
            push(PUSH_FUSED, item.terms, number)
            return
        if item.format and item.format not in formats:
            formats.append(item.format)
        own = formats.index(item.format) if item.format else 0
        visit(item.items[0], own)
        run: list[int] = []
        for part in item.items[1:]:
            if isinstance(part, int):
                run.append(part)
                continue
            if run:
                push(ADD_TERMS, run, own)
                run = []
            if isinstance(part, Fused):
                push(ADD_FUSED, part.terms, own)
            else:
                visit(part, own)
                push(ADD_SUMS, (), own)
        if run:
            push(ADD_TERMS, run, own)

    visit(tree, 0)
    depth = count_depth(tree) if isinstance(tree, Chain) else 1
    return Program(np.array(steps, np.int64).reshape(-1, 4), np.array(terms, np.int64), depth, tuple(formats))
