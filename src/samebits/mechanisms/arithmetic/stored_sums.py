"""Sums that are stored on the way: after how many products, along which axes; and what such long sums come to.

A recipe adds product by product. Sums of hundreds of thousands of products that are stored a few thousand times are
predicted here from the exact sums between two roundings: what float32 rounds inside them is negligible next to float16.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from samebits.errors import RecipeError
from samebits.findings.causes import CauseCode
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Predict, Sample, gather_terms
from samebits.problems import Problem
from samebits.problems.terms import find_terms
from samebits.sums.emulators.result_rounding import round_wide
from samebits.sums.recipes.recipe import Rounding
from samebits.sums.recipes.recipe_text import parse_recipe

_USUAL_BLOCKS = (4, 8, 16, 32, 64, 128, 256, 512, 10, 12, 24, 48)
_OTHER_BLOCKS = (*range(2, 64), *range(64, 1025, 16))
# Blocks of long sums, in products: tiles of kernels.
_LONG_BLOCKS = tuple(2**n for n in range(5, 19))
_MOST_STORED, _MOST_PRODUCTS = 50_000, 6e7


@dataclass(frozen=True)
class StoredSum:
    """An order with a place for the format of its running sum; `words` say what is added between two roundings.

    That is so many products of the declared sequence, or of the one that puts the first axis last (`turned`).
    """

    order: str
    words: str
    block: int
    turned: bool = False

    @property
    def along_products(self) -> bool:
        """Whether so many products are counted, whatever axes they lie along."""
        return self.words.endswith("products")


def list_stored_sums(problem: Problem, *, thorough: bool) -> Iterator[StoredSum]:
    """Running sums stored along the problem's axes, then after so many products; `thorough`: of odd numbers too."""
    if problem.stated:
        yield from _list_blocks(problem, (*_USUAL_BLOCKS, *(_OTHER_BLOCKS if thorough else ())))
        return
    terms = find_terms(problem)
    first, *spatial = terms.axis_names
    inner = ",".join(spatial)
    left = terms.count
    for i, size in enumerate(terms.axis_sizes):
        head, tail = terms.axis_names[: i + 1], terms.axis_names[i + 1 :]
        left //= max(size, 1)
        if tail:
            yield StoredSum(
                f"chain@{{}}:{','.join(head)}|{','.join(tail)}", f"the products of one {_say_axes(head)}", left
            )
    words = f"the products of one {_say_axes(tuple(spatial))}"
    yield StoredSum(f"chain@{{}}:{inner}|{first}", words, terms.depth, turned=True)
    for stored in _list_blocks(problem, (*_USUAL_BLOCKS, *(_OTHER_BLOCKS if thorough else ()))):
        yield stored
        # Kernels for channels-last data meet channels fastest.
        order = f"chain@{{}}:{inner},{first}/{stored.block}|{first}"
        yield StoredSum(order, f"{stored.block} channels", min(stored.block, terms.depth), turned=True)


def list_long_sum_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Running sums kept in a half format, for sums too long to be emulated product by product."""
    listed: dict[tuple[int, bool], StoredSum] = {}
    # Sums with a name of their own come first, and keep that name.
    for stored in (*list_stored_sums(problem, thorough=False), *_list_blocks(problem, _LONG_BLOCKS)):
        listed.setdefault((stored.block, stored.turned), stored)
    for stored in sorted(listed.values(), key=lambda s: (s.words[0].isdigit(), -s.block)):
        for name in ("float16", "bfloat16"):
            try:
                recipe = parse_recipe(f"direct order={stored.order.format(name)}")
            except RecipeError:
                continue
            says = f"adds {stored.words} in float32 and stores the running sum in {name}"
            yield Hypothesis(
                CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", says, _predict(stored, name), recipe=recipe
            )


def _list_blocks(problem: Problem, blocks: tuple[int, ...]) -> Iterator[StoredSum]:
    for block in dict.fromkeys(blocks):
        if block < problem.reduction_length:
            yield StoredSum(f"chain@{{}}:k/{block}|k", f"{block} products", block)


def _predict(stored: StoredSum, name: str) -> Predict:
    def predict(observation: Observation, sample: Sample) -> Floats | None:
        terms, count = sample.terms, len(sample.rows) * len(sample.positions)
        steps = -(-terms.count // stored.block)
        if steps > _MOST_STORED or count * terms.count > _MOST_PRODUCTS:
            return None
        parts = _add_blocks(observation, sample, stored)
        sums = np.zeros(parts.shape[:-1])
        rounding = Rounding(name)
        for step in range(steps):
            sums = round_wide(sums + parts[..., step], rounding)
        return observation.finish(sums, sample)

    return predict


def _add_blocks(observation: Observation, sample: Sample, stored: StoredSum) -> Floats:
    """Exact sums of every block of products, [rows, positions, blocks]; kept for the next format."""
    terms, operands = sample.terms, observation.operands
    key = f"blocks {stored.block} {stored.turned} {sample.rows.tobytes().hex()} {sample.positions.tobytes().hex()}"
    if key not in observation.cache:
        weights, met = gather_terms(terms, operands[terms.rows_operand], operands[terms.source_operand], sample)
        products = (weights[:, None, :] * met).reshape(len(weights), -1, terms.depth, terms.volume)
        if stored.turned:
            products = products.swapaxes(-1, -2)
        flat = products.reshape(*products.shape[:2], -1)
        starts = np.arange(0, flat.shape[-1], stored.block)
        observation.cache[key] = np.add.reduceat(flat, starts, axis=-1)
    return observation.cache[key]


def _say_axes(names: tuple[str, ...]) -> str:
    words = {"n": "batch item", "c": "channel", "kd": "kernel plane", "kh": "kernel row", "kw": "tap"}
    words |= {"od": "output plane", "oh": "output row", "ow": "output column"}
    return " and ".join(words[n] for n in names)
