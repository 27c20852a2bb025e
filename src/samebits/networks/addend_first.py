"""Sums of products that start from a tensor: what engines do that fuse an addition into the product's last buffer.

Where a product is added up in blocks of its channels, such an engine finds the other tensor in the buffer and adds one
block after the other to it, so that it is the first item of the sum and not the last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from samebits.problems import Problem
from samebits.problems.lowering import lower_problem
from samebits.sums.emulators import emulate
from samebits.sums.recipes.order import KeyedOrder
from samebits.sums.recipes.recipe import Recipe


def emulate_onto(
    problem: Problem, recipe: Recipe, operands: Mapping[str, np.ndarray], addend: np.ndarray
) -> np.ndarray | None:
    """The product's blocks added to `addend` one after the other, then its bias; float32, of the result's shape.

    A recipe without blocks of channels is one block: the addend meets the whole sum before the bias does. None where
    several orders, groups or transforms leave open what is added to what. Raises RecipeError as `emulate` does.
    """
    block = _find_block(problem, recipe)
    if block is None or problem.then is not None or problem.out != "float32":
        return None
    lowering = lower_problem(problem)
    convolution, arrays = lowering.convolution, lowering.lower_operands(operands)
    size, inner = block
    plain = replace(convolution, bias=False)
    running = lowering.lower_result(np.broadcast_to(addend, problem.y_shape).astype(np.float32))
    for start in range(0, convolution.x[1], size):
        part = slice(start, start + size)
        x, w = np.ascontiguousarray(arrays["x"][:, part]), np.ascontiguousarray(arrays["w"][:, part])
        small = replace(plain, x=x.shape, w=w.shape, stated=None)
        running = running + emulate(small, inner, {"x": x, "w": w})
    if problem.bias:
        running = running + arrays["bias"].reshape(convolution.bias_shape)
    return lowering.restore_result(running)


def _find_block(problem: Problem, recipe: Recipe) -> tuple[int, Recipe] | None:
    """How many channels one block has, and the recipe of a block by itself; all of them where there are no blocks."""
    convolution = lower_problem(problem).convolution
    if recipe.algorithm is not None or len(recipe.orders) != 1 or convolution.groups != 1 or convolution.is_transposed:
        return None
    if problem.direction != "forward" or (problem.bias and recipe.bias != "last"):
        return None
    whole = convolution.x[1], replace(recipe, bias="last")
    order = recipe.orders[0]
    if not isinstance(order, KeyedOrder) or len(order.levels) < 2:
        return whole
    first = order.levels[0]
    if len(first.keys) != 1 or first.rule != "chain" or first.format:
        return whole
    key = first.keys[0]
    is_channel = key.axis == "c" or (key.axis == "k" and int(np.prod(convolution.w[2:])) == 1)
    if not is_channel or key.modulus or key.descending:
        return whole
    return key.block, replace(whole[1], orders=(replace(order, levels=order.levels[1:]),))
