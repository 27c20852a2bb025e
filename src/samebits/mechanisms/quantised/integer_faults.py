"""What integer kernels do wrong, each executed: other sums, other scales, other limits. One fault at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.quantised.integer_sums import (
    IntegerCase,
    Whole,
    sum_exactly,
    sum_in_16_bits,
    sum_in_pairs,
)
from samebits.problems.problem import PRODUCTS


@dataclass(frozen=True)
class Fault:
    """A fault as the predicate of a sentence: the case and the sums as that kernel has them, what it does in the end.

    `end` changes codes that were rescaled and not limited yet; where it is None they are limited to the dtype's range.
    """

    cause: CauseCode
    says: str
    case: IntegerCase
    sums: Whole
    end: Callable[[Whole], Whole] | None = None


def list_faults(case: IntegerCase) -> Iterator[Fault]:
    """Every fault that changes something here, the likeliest first."""
    yield from _list_sums(case)
    yield from _list_codes(case)
    if case.problem.out != "int32":
        yield from _list_scales(case)
        yield from _list_ends(case)


def _list_sums(case: IntegerCase) -> Iterator[Fault]:
    orders = (False,) if case.problem.plain.kind in PRODUCTS else (False, True)
    for taps_fastest in orders:
        order = f", {'taps' if taps_fastest else 'channels'} fastest" if len(orders) > 1 else ""
        sums = sum_in_pairs(case, taps_fastest=taps_fastest)
        if sums is not None:
            says = f"saturates sums of two integer products at 16 bits{order}"
            yield Fault(CauseCode.INT8_SATURATION, says, case, sums)
    for wraps, cause, says in (
        (True, CauseCode.OVERFLOW, "lets sums of integer products wrap around in 16 bits"),
        (False, CauseCode.INT8_SATURATION, "saturates sums of integer products at 16 bits, at their end"),
    ):
        sums = sum_in_16_bits(case, wraps=wraps)
        if sums is not None:
            yield Fault(cause, says, case, sums)


def _list_codes(case: IntegerCase) -> Iterator[Fault]:
    """Other zero points, paddings, signs and biases."""
    yield from _change(case, CauseCode.DROPPED_ATTRIBUTE, "leaves x's zero point out", x_zero=0, pad=0)
    yield from _change(
        case, CauseCode.DROPPED_ATTRIBUTE, "leaves w's zero point out", w_zero=np.zeros_like(case.w_zero)
    )
    yield from _change(case, CauseCode.PADDING, "pads with the code 0 in place of x's zero point", pad=0)
    opposite = {"x_zero": -case.x_zero, "pad": -case.x_zero}
    yield from _change(case, CauseCode.DROPPED_ATTRIBUTE, "adds x's zero point in place of taking it away", **opposite)
    says = "leaves the bias out"
    yield from _change(case, CauseCode.DROPPED_ATTRIBUTE, says, bias=np.zeros_like(case.bias))
    yield from _change(case, CauseCode.DROPPED_ATTRIBUTE, "adds the bias twice", bias=2 * case.bias)
    if case.bias.size > 1:
        yield from _change(case, CauseCode.AXIS_ORDER, "adds the bias of the next channel", bias=np.roll(case.bias, -1))
    for name in ("x", "w"):
        codes, dtype = getattr(case, name), getattr(case.problem, name)
        other = (
            np.where(codes >= 128, codes - 256, codes) if dtype == "uint8" else np.where(codes < 0, codes + 256, codes)
        )
        says = f"reads {name}'s {dtype} codes as {'int8' if dtype == 'uint8' else 'uint8'}"
        yield from _change(case, CauseCode.OTHER_OPERANDS, says, **{name: other})
    if case.problem.plain.kind in PRODUCTS and case.w.shape[0] == case.w.shape[1]:
        yield from _change(case, CauseCode.AXIS_ORDER, "takes w with its axes exchanged", w=case.w.T)


def _change(case: IntegerCase, cause: CauseCode, says: str, **changes: Any) -> Iterator[Fault]:
    changed = replace(case, **changes)
    if any(not np.array_equal(getattr(case, name), getattr(changed, name)) for name in changes):
        yield Fault(cause, says, changed, sum_exactly(changed))


def _list_scales(case: IntegerCase) -> Iterator[Fault]:
    sums, ws = sum_exactly(case), case.w_scale
    scales: list[tuple[str, dict[str, Any]]] = [
        ("leaves x_scale out", {"x_scale": 1.0}),
        ("leaves w_scale out", {"w_scale": np.ones_like(ws)}),
        ("leaves y_scale out", {"y_scale": 1.0}),
        ("multiplies by y_scale in place of dividing", {"y_scale": 1 / case.y_scale}),
    ]
    if ws.size > 1:
        scales += [
            ("takes the first channel's scale for all", {"w_scale": np.full_like(ws, ws[0])}),
            ("takes the largest scale for all channels", {"w_scale": np.full_like(ws, ws.max())}),
            ("takes the next channel's scale", {"w_scale": np.roll(ws, -1)}),
            ("takes the channels' scales in reverse", {"w_scale": ws[::-1]}),
        ]
    for says, changes in scales:
        yield Fault(CauseCode.DROPPED_ATTRIBUTE, says, replace(case, **changes), sums)
    unscaled = replace(case, bias=np.zeros_like(case.bias))
    if case.bias.any():
        says, late = "adds the bias after rescaling, unscaled", case.align(case.bias)
        yield Fault(CauseCode.DROPPED_ATTRIBUTE, says, unscaled, sum_exactly(unscaled), lambda codes: codes + late)


def _list_ends(case: IntegerCase) -> Iterator[Fault]:
    sums, low, high = sum_exactly(case), case.low, case.high
    span = high - low + 1
    if case.y_zero:
        says = "leaves y's zero point out"
        yield Fault(CauseCode.DROPPED_ATTRIBUTE, says, replace(case, y_zero=0), sums)
    yield Fault(
        CauseCode.OVERFLOW,
        "lets codes wrap around in place of saturating",
        case,
        sums,
        lambda c: (c - low) % span + low,
    )
    zero = case.y_zero
    yield Fault(
        CauseCode.FUSION, "is at least y's zero point, as after a Relu", case, sums, lambda c: np.clip(c, zero, high)
    )
    if low < 0:
        says = "never returns the least code"
        yield Fault(CauseCode.DROPPED_ATTRIBUTE, says, case, sums, lambda c: np.clip(c, low + 1, high))
    says = "limits codes before it adds y's zero point"
    yield Fault(CauseCode.OVERFLOW, says, case, sums, lambda c: np.clip(np.clip(c - zero, low, high) + zero, low, high))
