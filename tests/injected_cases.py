"""Cases with a known answer: fault-free results of many orders and formats, and every mechanism that arrays can show.

Each is a recorded result and what `explain` should say of it: the verdict, and the causes that are right. A transform
is a loss of precision where some output is beyond the bound of direct sums, and rounding where none is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

import injected_faults as faults
import injected_values as values
from injected_faults import Maker
from samebits.numbers.ulps import has_same_bits
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.problem import Epilogue
from samebits.sums.truth import compute_truth

WRONG, LOST, FAULT_FREE, TRANSFORM = "wrong", "downgrade", "fault-free", "downgrade or rounding"


@dataclass(frozen=True)
class Injected:
    """A case and the right answer."""

    mechanism: str
    case: Case
    verdict: str
    causes: tuple[str | None, ...]


PROBLEMS = (
    "conv2d x=2x8x12x11 w=12x8x3x3 padding=1 bias dtype=float32",
    "conv2d x=1x16x14x14 w=16x16x3x3 padding=1 dtype=float32",
    "conv2d x=3x6x17x13 w=8x6x5x3 stride=2x1 padding=2x1 bias dtype=float32",
    "conv2d x=2x8x10x10 w=16x8x1x1 bias dtype=float32",
    "conv2d x=2x12x15x15 w=24x3x3x3 padding=1:2x0:1 groups=4 bias dtype=float32",
    "conv2d x=2x10x16x16 w=10x1x3x3 padding=1 groups=10 dtype=float32",
    "conv2d x=1x32x20x20 w=24x32x3x3 padding=2 dilation=2 dtype=float32",
    "conv2d x=1x64x9x9 w=16x64x3x3 padding=1 bias dtype=float32",
    "conv1d x=2x24x60 w=16x24x5 padding=2 bias dtype=float32",
    "conv1d x=4x8x101 w=8x8x9 stride=3 dtype=float32",
    "conv3d x=1x6x7x9x8 w=8x6x3x3x3 padding=1 bias dtype=float32",
    "conv_transpose2d x=2x8x7x9 w=8x6x3x3 stride=2 padding=1 output_padding=1 bias dtype=float32",
    "conv_transpose2d x=1x12x8x8 w=12x8x4x4 stride=2 padding=1 dtype=float32",
    "conv_transpose1d x=2x10x33 w=10x8x8 stride=4 padding=2 dtype=float32",
    "conv2d.grad_input x=2x8x12x12 w=12x8x3x3 padding=1 dtype=float32",
    "conv2d.grad_weight x=6x8x14x14 w=12x8x3x3 padding=1 dtype=float32",
    "conv2d.grad_weight x=40x6x9x9 w=8x6x3x3 padding=1 dtype=float16",
    "conv2d x=2x16x14x14 w=16x16x3x3 padding=1 bias dtype=float16",
    "conv2d x=2x16x14x14 w=16x16x3x3 padding=1 dtype=bfloat16",
    "conv2d x=1x8x11x11 w=8x8x5x5 stride=2 padding=2 bias dtype=float64",
)
RELU, CLIP6 = Epilogue("relu"), Epilogue("clip", 0.0, 6.0)
_TF32 = faults.pick("x=tf32 w=tf32", "x=tf32/toward_zero w=tf32/toward_zero")
_BFLOAT16 = faults.pick("x=bfloat16 w=bfloat16")
_FLOAT16 = faults.pick("x=float16 w=float16 via=float16")
_ONE_OPERAND = faults.pick("w=float16", "w=bfloat16", "x=bfloat16", "w=tf32", "x=tf32")
REDUCED = ("reduced-precision-operands",)
_PART = ("shape-specific-kernel",)
# Mechanism: how it is made, the verdict and the causes that are right.
MECHANISMS: dict[str, tuple[Maker, str, tuple[str | None, ...]]] = {
    "operands tf32": (faults.with_recipe(_TF32, ("float32",)), LOST, REDUCED),
    "operands bfloat16": (faults.with_recipe(_BFLOAT16, ("float32",)), LOST, REDUCED),
    "operands float16": (faults.with_recipe(_FLOAT16, ("float32",)), LOST, REDUCED),
    "one operand": (faults.with_recipe(_ONE_OPERAND, ("float32",)), LOST, REDUCED),
    "float16 accumulator": (faults.accumulate_in("float16"), LOST, ("low-precision-accumulator",)),
    "bfloat16 accumulator": (faults.accumulate_in("bfloat16"), LOST, ("low-precision-accumulator",)),
    "truncating accumulator": (faults.accumulate_in("float32/toward_zero"), LOST, ("low-precision-accumulator",)),
    "stored partial sums": (faults.store_partial_sums, LOST, ("low-precision-accumulator",)),
    "winograd": (faults.transform_with("winograd(4)"), TRANSFORM, ("winograd",)),
    "winograd 6": (faults.transform_with("winograd(6)"), TRANSFORM, ("winograd",)),
    "winograd fp16": (faults.transform_with("winograd(4) acc=float16"), TRANSFORM, ("winograd",)),
    "fft": (faults.transform_with("fft"), TRANSFORM, ("fft",)),
    "flush": (faults.flush, LOST, ("subnormals",)),
    "overflow": (faults.overflow, LOST, ("overflow",)),
    "saturation": (faults.saturate, LOST, ("overflow",)),
    "padding moved": (faults.move_padding, WRONG, ("padding",)),
    "padding of other axis": (faults.mix_padding, WRONG, ("padding",)),
    "padding mode": (faults.pad_otherwise, WRONG, ("padding",)),
    "crop moved": (faults.move_crop, WRONG, ("transposed-geometry",)),
    "kernel flipped": (faults.flip_kernel, WRONG, ("axis-order", "transposed-geometry")),
    "weights relaid": (faults.relay_weights, WRONG, ("axis-order",)),
    "kernel axes swapped": (faults.swap_kernel, WRONG, ("axis-order",)),
    "channels shuffled": (faults.shuffle_channels, WRONG, ("axis-order",)),
    "view misread": (faults.misread_view, WRONG, ("strided-view",)),
    "stride 0": (faults.expand_first, WRONG, ("strided-view",)),
    "dilation ignored": (faults.ignore_dilation, WRONG, ("dropped-attribute",)),
    "strides exchanged": (faults.swap_strides, WRONG, ("dropped-attribute",)),
    "bias missing": (faults.change_bias(np.zeros_like), WRONG, ("dropped-attribute",)),
    "bias doubled": (faults.change_bias(lambda b: b + b), WRONG, ("fusion",)),
    "bias shifted": (faults.change_bias(lambda b: np.roll(b, 1)), WRONG, ("axis-order",)),
    "relu missing": (faults.exchange_epilogue(RELU, None), WRONG, ("fusion",)),
    "relu unasked": (faults.exchange_epilogue(None, RELU), WRONG, ("fusion",)),
    "upper bound lost": (faults.exchange_epilogue(CLIP6, RELU), WRONG, ("fusion",)),
    "affine": (faults.scale_channels, WRONG, ("fusion",)),
    "tail channels": (faults.spoil_part(faults.last_channels, zeros=False), WRONG, _PART),
    "tail columns": (faults.spoil_part(faults.last_columns, zeros=False), WRONG, _PART),
    "group zero": (faults.spoil_part(faults.one_group, zeros=True), WRONG, _PART),
    "batch item": (faults.spoil_part(faults.one_item, zeros=False), WRONG, (*_PART, "strided-view")),
    "zeros from an index": (values.zero_from_index, WRONG, ("index-overflow",)),
    "unwritten memory": (values.leave_unwritten, WRONG, ("uninitialized-memory",)),
    "nan lost": (values.lose_nan, WRONG, ("nan-semantics",)),
}  # fmt: skip


def make_case(mechanism: str, problem_text: str, seed: int) -> Injected:
    """A injected (or fault_free) case. Raises Skip where the mechanism leaves no trace in such data."""
    rng = np.random.default_rng([seed, *mechanism.encode(), *problem_text.encode()])
    problem = parse_problem_text(problem_text)
    operands = faults.make_data(problem, rng)
    if mechanism == FAULT_FREE:
        problem, operands, result = faults.make_fault_free(problem, operands, rng)
        case = Case(problem, operands, {"a": result})
        # Without a differing bit there is nothing to name a cause of.
        if has_same_bits(result, compute_truth(problem, operands).values):
            return Injected(FAULT_FREE, case, "identical", (None,))
        return Injected(FAULT_FREE, case, "rounding", ("summation-order", "ill-conditioned"))
    maker, verdict, causes = MECHANISMS[mechanism]
    problem, operands, result = maker(problem, operands, rng)
    if verdict == TRANSFORM:
        verdict = LOST if faults.is_seen(problem, operands, result) else "rounding"
    injected = Injected(mechanism, Case(problem, operands, {"a": result}), verdict, causes)
    if verdict == WRONG:
        faults.needs(faults.is_seen(problem, operands, result, least=2))
    else:
        _check_loss(injected, rng)
        if not np.isfinite(result.astype(np.float64)).all():
            injected = replace(injected, causes=(*causes, "overflow"))
    return injected


def _check_loss(injected: Injected, rng: np.random.Generator) -> None:
    """A loss of precision must show: farther from the truth than a correct sum is, in total."""
    case = injected.case
    truth = compute_truth(case.problem, case.operands).values.astype(np.float64)
    fault_free = faults.compute(case.problem, case.operands, rng).astype(np.float64)
    given = case.results["a"].astype(np.float64)
    with np.errstate(all="ignore"):
        lost, usual = (
            np.nan_to_num(given - truth, nan=1e30, posinf=1e30, neginf=-1e30),
            np.nan_to_num(fault_free - truth),
        )
    faults.needs(bool(np.linalg.norm(lost) > 2 * np.linalg.norm(usual)))
    faults.needs(int((given != truth).sum()) >= 32)
