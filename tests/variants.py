"""Cases that share nothing with the code that explains them: what kernels and converters do, in plain NumPy.

`make_variant` raises NotHere where a variant makes no sense or leaves no trace. Expected verdicts and causes come from
what was done; that a loss shows is measured against float64 sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import network_data
import plain_sums as plain
import variants_of_arithmetic
import variants_of_function
import variants_of_others
from samebits.problems import Problem, parse_problem_text
from samebits.problems.case_file import Case
from variant_making import EITHER, FAULT_FREE, LOST, OPEN, WRONG, Making, Variant, needs

PROBLEMS = (
    "conv2d x=2x16x14x14 w=16x16x3x3 padding=1 bias",
    "conv2d x=1x64x12x12 w=32x64x3x3 padding=1 bias then=relu",
    "conv2d x=2x3x32x32 w=16x3x7x7 stride=2 padding=3 bias",
    "conv2d x=1x128x10x10 w=32x128x1x1 bias",
    "conv2d x=1x24x16x16 w=24x1x3x3 padding=1 groups=24 bias then=clip(0,6)",
    "conv2d x=2x32x14x14 w=32x8x3x3 padding=1 groups=4",
    "conv1d x=2x40x100 w=32x40x5 padding=2 bias",
    "conv1d x=1x1x800 w=16x1x25 stride=4 bias",
    "conv3d x=1x4x8x10x10 w=8x4x3x3x3 padding=1 bias",
    "conv2d x=1x256x9x9 w=16x256x3x3 padding=1",
    "conv2d x=4x8x20x20 w=16x8x3x3 padding=1",
    "conv2d x=1x32x24x24 w=16x32x3x3 padding=1 bias then=relu",
    "conv_transpose2d x=1x16x8x8 w=16x8x4x4 stride=2 padding=1 bias",
    "conv2d.grad_weight x=8x8x12x12 w=8x8x3x3 padding=1",
    "conv2d.grad_input x=2x16x14x14 w=16x16x3x3 padding=1",
    "linear x=64x256 w=64x256 bias",
    "matmul x=96x384 w=384x48",
    "conv2d x=2x16x14x14 w=16x16x3x3 padding=1 bias dtype=float16",
    "conv2d x=1x64x12x12 w=32x64x3x3 padding=1 bias dtype=bfloat16",
    "conv2d x=1x16x20x20 w=24x16x3x3 stride=2 padding=1 bias then=relu",
)  # fmt: skip
VARIANTS: dict[str, Variant] = {
    v.name: v for v in (*variants_of_arithmetic.VARIANTS, *variants_of_function.VARIANTS, *variants_of_others.VARIANTS)
}
# Beyond so many times the error of float32 sums a loss is seen; another function is off by more than any sum's noise.
_SEEN, _ANOTHER, _FEWEST = 3.0, 1e-2, 32


@dataclass(frozen=True)
class Made:
    """A case and what is right to say of it."""

    variant: Variant
    case: Case
    data: str


def make_variant(name: str, problem_text: str, seed: int) -> Made:
    """A case of a variant on a problem, with one kind of data after the other by the seed."""
    variant, problem = VARIANTS[name], parse_problem_text(problem_text)
    rng = np.random.default_rng([seed, *name.encode(), *problem_text.encode()])
    kind = network_data.KINDS[seed % len(network_data.KINDS)]
    making = Making(problem, network_data.make_operands(problem, kind, rng), rng)
    with np.errstate(all="ignore"):
        made = variant.make(making)
    operands, result = made if isinstance(made, tuple) else (dict(making.operands), made)
    _check(problem, variant, Making(problem, operands, rng), result)
    return Made(variant, Case(problem, operands, {"a": result}), kind)


def _check(problem: Problem, variant: Variant, making: Making, result: np.ndarray) -> None:
    """Raises NotHere where what was done does not show in such data."""
    right = plain.finish(problem, making.exactly(), making.operands.get("bias"))
    usual = making.store(making.in_float32()).astype(np.float64)
    given = result.astype(np.float64)
    needs(np.isfinite(right).all() and np.isfinite(usual).all())
    if variant.verdicts == EITHER:
        # The nearer of two numbers of a result's format is not always the one that float64 sums give by way of float32.
        usual_away = np.abs(making.store(making.exactly()).astype(np.float64) - right)
        needs((np.abs(given - right) > usual_away).any())
    if variant.verdicts in (FAULT_FREE, EITHER):
        return
    with np.errstate(all="ignore"):
        off, noise = np.nan_to_num(given - right, nan=1e30, posinf=1e30, neginf=-1e30), usual - right
    if variant.verdicts == WRONG:
        needs((np.abs(off) > _ANOTHER * np.abs(right).max()).any())
        return
    assert variant.verdicts in (LOST, OPEN)
    needs(np.linalg.norm(off) > _SEEN * np.linalg.norm(noise) and (off != 0).sum() >= _FEWEST)
