"""A summation tree as a program for a stack of running sums, which kernels execute for many outputs at once."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from samebits.errors import RecipeError
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.recipes.tree import Chain, Fused, Item, count_depth, holds_terms_alone, list_terms

# Opcodes. A step: opcode, first entry in `terms`, how many, and for ROUND the number of a format (0: the accumulator).
PUSH, ADD_TERMS, ADD_SUMS, PUSH_FUSED, ADD_FUSED, ADD_BIAS, ROUND = range(7)


class Plan(NamedTuple):
    """What else programs are run by: products fused or rounded, what a sum starts from, where a bias is added to it."""

    fused: bool
    flushes: bool
    from_zero: bool
    bias_first: bool
    bias_last: bool


def plan_sums(recipe: Recipe, has_bias: bool) -> Plan:
    """The plan of a recipe."""
    return Plan(
        recipe.product == "fused",
        recipe.flush.results,
        recipe.start == "zero",
        has_bias and recipe.bias == "first",
        has_bias and recipe.bias == "last",
    )


class Program(NamedTuple):
    """Steps over a stack of sums; the result is what lies at its bottom in the end."""

    steps: npt.NDArray[np.int64]  # [steps, 4]
    terms: npt.NDArray[np.int64]
    depth: int
    formats: tuple[str, ...]
    plan: Plan


def compile_tree(tree: Item, accumulator: str, plan: Plan, bias_after: int = -1) -> Program:
    """The program of a tree whose sums are in the format `accumulator`.

    With `bias_after`, the bias is added once so many terms are in the running sum. Those terms must be the first items
    of the outermost chain, as whatever the running sum of the first term has taken in always is.
    """
    writer = _Writer(formats=[accumulator])
    if bias_after >= 0 and isinstance(tree, Chain):
        head, tail = _split_chain(tree, bias_after)
        writer.visit(head)
        writer.steps.append((ADD_BIAS, 0, 0, 0))
        for part in tail:
            writer.add(part)
            writer.store(writer.find_format(tree))
    else:
        writer.visit(tree)
        if bias_after >= 0:
            writer.steps.append((ADD_BIAS, 0, 0, 0))
    depth = count_depth(tree) if isinstance(tree, Chain) else 1
    steps = np.array(writer.steps, np.int64).reshape(-1, 4)
    return Program(steps, np.array(writer.terms, np.int64), depth, tuple(writer.formats), plan)


@dataclass
class _Writer:
    """Steps being written, with the terms they take and the formats that sums are rounded to."""

    formats: list[str]
    steps: list[tuple[int, int, int, int]] = field(default_factory=list[tuple[int, int, int, int]])
    terms: list[int] = field(default_factory=list[int])

    def push(self, opcode: int, these: Sequence[int]) -> None:
        """One step over some terms."""
        self.steps.append((opcode, len(self.terms), len(these), 0))
        self.terms.extend(these)

    def store(self, number: int) -> None:
        """What was added to a sum stored in a format of its own is rounded to that too."""
        if number:
            self.steps.append((ROUND, 0, 0, number))

    def find_format(self, chain: Chain) -> int:
        """The number of the format that a chain's sums are stored in; 0 is the accumulator's."""
        if not chain.format:
            return 0
        if chain.format not in self.formats:
            self.formats.append(chain.format)
        return self.formats.index(chain.format)

    def visit(self, item: Item) -> None:
        """Leaves the item's value on top of the stack."""
        if isinstance(item, int):
            self.push(PUSH, (item,))
        elif isinstance(item, Fused):
            self.push(PUSH_FUSED, item.terms)
        else:
            self._visit_chain(item)

    def _visit_chain(self, chain: Chain) -> None:
        own = self.find_format(chain)
        if not own and holds_terms_alone(chain.items):
            terms = list(chain.items)
            self.push(PUSH, terms[:1])
            self.push(ADD_TERMS, terms[1:])
            return
        self.visit(chain.items[0])
        self.store(own)
        # Single terms in a row are one step, unless each of their sums is rounded.
        for single, parts in itertools.groupby(chain.items[1:], lambda p: isinstance(p, int) and not own):
            if single:
                self.push(ADD_TERMS, [p for p in parts if isinstance(p, int)])
                continue
            for part in parts:
                self.add(part)
                self.store(own)

    def add(self, part: Item) -> None:
        """Adds an item to the sum on top of the stack."""
        if isinstance(part, int):
            self.push(ADD_TERMS, (part,))
        elif isinstance(part, Fused):
            self.push(ADD_FUSED, part.terms)
        else:
            self.visit(part)
            self.push(ADD_SUMS, ())


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
