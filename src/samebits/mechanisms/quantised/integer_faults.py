"""What integer kernels do wrong, each executed: other sums, other scales, other limits. One fault at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.errors import SamebitsError
from samebits.findings.causes import CauseCode
from samebits.mechanisms.quantised.integer_sums import (
    IntegerCase,
    Whole,
    list_orders_of,
    sum_exactly,
    sum_in_bits,
    sum_in_pairs,
    sum_running,
)
from samebits.numbers.array import round_array_to_format
from samebits.numbers.format import find_format
from samebits.problems.problem import PRODUCTS

_SCALES = ("x_scale", "w_scale", "y_scale")
# Widths of vectors that kernels step through a sum in.
_STEPS = (4, 8, 16, 32)
# Widths of accumulators: of int16, of processors for signals, of sums kept in a float32, of int32.
_WRAPPING = (16, 18, 20, 24, 32)


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


def list_faults(case: IntegerCase, sums: Whole) -> Iterator[Fault]:
    """Every fault that changes something here, the likeliest first; `sums` are the exact ones."""
    yield from _list_sums(case, sums)
    yield from _list_codes(case, sums)
    yield from _list_biases(case)
    yield from _list_windows(case)
    yield from _list_terms(case)
    if case.problem.out != "int32":
        yield from _list_scales(case, sums)
        yield from _list_ends(case, sums)


def _list_sums(case: IntegerCase, exact: Whole) -> Iterator[Fault]:
    orders = list_orders_of(case)
    for order in orders:
        sums = sum_in_pairs(case, order)
        if sums is not None:
            says = f"saturates sums of two integer products at 16 bits{f', {order}' if len(orders) > 1 else ''}"
            yield Fault(CauseCode.INT8_SATURATION, says, case, sums)
    says = "saturates sums of integer products at 16 bits, at their end"
    if (sums := sum_in_bits(case, exact, 16, wraps=False)) is not None:
        yield Fault(CauseCode.INT8_SATURATION, says, case, sums)
    for bits in _WRAPPING:
        if (sums := sum_in_bits(case, exact, bits, wraps=True)) is not None:
            yield Fault(CauseCode.OVERFLOW, f"lets sums of integer products wrap around in {bits} bits", case, sums)
    running = sum_running(case)
    if running is not None:
        yield Fault(CauseCode.INT8_SATURATION, "saturates running sums of integer products at 16 bits", case, running)


def _list_codes(case: IntegerCase, sums: Whole) -> Iterator[Fault]:
    """Other zero points, paddings, signs and biases."""
    yield from _change(case, CauseCode.DROPPED_ATTRIBUTE, "leaves x's zero point out", x_zero=0, pad=0)
    yield from _change(
        case, CauseCode.DROPPED_ATTRIBUTE, "leaves w's zero point out", w_zero=np.zeros_like(case.w_zero)
    )
    yield from _change(case, CauseCode.PADDING, "pads with the code 0 in place of x's zero point", pad=0)
    opposite = {"x_zero": -case.x_zero, "pad": -case.x_zero}
    yield from _change(case, CauseCode.DROPPED_ATTRIBUTE, "adds x's zero point in place of taking it away", **opposite)
    for name in ("x", "w"):
        zero = getattr(case, f"{name}_zero")
        for by in (1, -1, 128, -128):
            changes: dict[str, Any] = {f"{name}_zero": zero + by}
            changes |= {"pad": case.x_zero + by} if name == "x" else {}
            yield from _change(
                case, CauseCode.DROPPED_ATTRIBUTE, f"has a zero point of {name} that is off by {by}", **changes
            )
    if case.w_zero.size == 1 and case.w_zero[0] != case.x_zero:
        swapped: dict[str, Any] = {"x_zero": int(case.w_zero[0]), "w_zero": np.array([case.x_zero])}
        yield from _change(case, CauseCode.DROPPED_ATTRIBUTE, "exchanges the zero points of x and w", **swapped)
    less = case.x - case.x_zero
    for says, kept in (("wraps around", (less + 128) % 256 - 128), ("saturates", np.clip(less, -128, 127))):
        says = f"{says} in 8 bits where it takes x's zero point away"
        yield from _change(case, CauseCode.OVERFLOW, says, x=kept + case.x_zero)
    yield from _change(case, CauseCode.PADDING, "pads with y's zero point", pad=case.y_zero)
    both = case.align(case.problem.plain.reduction_length * case.x_zero * case.w_zero)
    if both.any():
        says = "leaves out the product of both zero points"
        yield Fault(CauseCode.DROPPED_ATTRIBUTE, says, case, sums - both)
    for name in ("x", "w"):
        codes, dtype = getattr(case, name), getattr(case.problem, name)
        other = (
            np.where(codes >= 128, codes - 256, codes) if dtype == "uint8" else np.where(codes < 0, codes + 256, codes)
        )
        says = f"reads {name}'s {dtype} codes as {'int8' if dtype == 'uint8' else 'uint8'}"
        yield from _change(case, CauseCode.OTHER_OPERANDS, says, **{name: other})
    yield from _list_orders(case)


def _list_orders(case: IntegerCase) -> Iterator[Fault]:
    """Operands whose memory is read in another sequence, and channels of other groups."""
    plain, order = case.problem.plain, CauseCode.AXIS_ORDER
    if plain.kind in PRODUCTS:
        says = (
            "takes w with its axes exchanged"
            if case.w.shape[0] == case.w.shape[1]
            else "reads w's memory, transposed, as it is"
        )
        yield from _change(case, order, says, w=case.w.T.reshape(case.w.shape))
        yield from _change(case, order, "takes x in reverse along the products", x=case.x[..., ::-1])
        return
    yield from _change(
        case,
        order,
        "reads x, laid out with channels last, as it is",
        x=np.moveaxis(case.x, 1, -1).reshape(case.x.shape),
    )
    if plain.groups == 1:
        return
    parts = case.x.reshape(case.x.shape[0], plain.groups, -1, *case.x.shape[2:])
    mixed = case.x.reshape(case.x.shape[0], -1, plain.groups, *case.x.shape[2:]).swapaxes(1, 2)
    for says, x in (
        ("reads the first group's channels for all groups", np.repeat(parts[:, :1], plain.groups, 1)),
        ("reads the groups of x in reverse", parts[:, ::-1]),
        ("reads each group's channels interleaved with the others'", mixed),
    ):
        yield from _change(case, order, says, x=x.reshape(case.x.shape))
    w = case.w.reshape(plain.groups, -1, *case.w.shape[1:])
    if w.shape[1] > 1:
        turned = case.w.reshape(w.shape[1], plain.groups, *case.w.shape[1:]).swapaxes(0, 1).reshape(case.w.shape)
        yield from _change(case, order, "takes the filters of the groups in turn", w=turned)


def _list_biases(case: IntegerCase) -> Iterator[Fault]:
    bias, lost = case.bias, CauseCode.DROPPED_ATTRIBUTE
    yield from _change(case, lost, "leaves the bias out", bias=np.zeros_like(bias))
    yield from _change(case, lost, "adds the bias twice", bias=2 * bias)
    for bits in (2, 3, 4):
        yield from _change(case, lost, f"shifts the bias by {bits} bits to the left", bias=bias << bits)
    yield from _change(case, lost, "takes the bias away in place of adding it", bias=-bias)
    yield from _change(case, CauseCode.OVERFLOW, "keeps the bias in 16 bits", bias=(bias + 2**15) % 2**16 - 2**15)
    if bias.size > 1:
        yield from _change(case, CauseCode.AXIS_ORDER, "adds the bias of the next channel", bias=np.roll(bias, -1))
        yield from _change(case, CauseCode.AXIS_ORDER, "adds the bias of the channel before", bias=np.roll(bias, 1))
        yield from _change(case, lost, "adds the first channel's bias to all", bias=np.full_like(bias, bias[0]))


def _list_windows(case: IntegerCase) -> Iterator[Fault]:
    """A convolution's kernel read otherwise, and its attributes lost."""
    plain = case.problem.plain
    if plain.kind in PRODUCTS:
        return
    axes = tuple(range(2, case.w.ndim))
    yield from _change(case, CauseCode.AXIS_ORDER, "reads the kernel backwards", w=np.flip(case.w, axes))
    if len(axes) > 1 and case.w.shape[-1] == case.w.shape[-2]:
        yield from _change(
            case, CauseCode.AXIS_ORDER, "takes the kernel with its axes exchanged", w=case.w.swapaxes(-1, -2)
        )
    for axis in axes:
        for end, place in (("last", -1), ("first", 0)):
            w, index = case.w.copy(), (slice(None),) * axis + (place,)
            w[index] = np.broadcast_to(case.w_zero.reshape(-1, *(1,) * (w.ndim - 2)), w[index].shape)
            says = f"leaves the {end} of the kernel along axis {axis} out"
            yield from _change(case, CauseCode.SHAPE_SPECIFIC_KERNEL, says, w=w)
        yield from _change(
            case, CauseCode.AXIS_ORDER, f"reads the kernel backwards along axis {axis}", w=np.flip(case.w, axis)
        )
    cause = CauseCode.DROPPED_ATTRIBUTE
    turned = tuple((end, begin) for begin, end in plain.padding)
    for says, changes in (
        ("pads the end where it should the begin", {"padding": turned}),
        ("leaves the dilation out", {"dilation": (1,) * plain.rank}),
    ):
        try:
            changed = replace(plain, **changes)
        except SamebitsError:
            continue
        if changed != plain and changed.out_shape == plain.out_shape:
            other = replace(case, problem=replace(case.problem, plain=changed))
            yield Fault(CauseCode.PADDING if "padding" in changes else cause, says, case, sum_exactly(other))


def _list_terms(case: IntegerCase) -> Iterator[Fault]:
    """The first or last products of every sum left out."""
    plain = case.problem.plain
    axis = -1 if plain.kind in PRODUCTS else 1
    length = case.x.shape[axis] // (1 if plain.kind in PRODUCTS else plain.groups)
    tails = dict.fromkeys([1, *(length % step for step in _STEPS if length % step and length > step)])
    for count in tails:
        for says, part in ((f"last {count}", slice(length - count, None)), ("first", slice(0, 1))):
            if length <= count or (says == "first" and count > 1):
                continue
            # The weight's inner axis: of matmul the first, of linear the last, of convolutions the second.
            w, inner = case.w.copy(), 0 if plain.kind == "matmul" else 1
            zero = case.w_zero if plain.kind == "matmul" else case.w_zero.reshape(-1, *(1,) * (w.ndim - 1))
            index = (slice(None),) * inner + (part,)
            w[index] = np.broadcast_to(zero, w[index].shape)
            of = "products" if plain.kind in PRODUCTS else "channels"
            yield from _change(
                case, CauseCode.SHAPE_SPECIFIC_KERNEL, f"leaves the {says} of {length} {of} out of every sum", w=w
            )


def _change(case: IntegerCase, cause: CauseCode, says: str, **changes: Any) -> Iterator[Fault]:
    changed = replace(case, **changes)
    if any(not np.array_equal(getattr(case, name), getattr(changed, name)) for name in changes):
        yield Fault(cause, says, changed, sum_exactly(changed))


def _list_scales(case: IntegerCase, sums: Whole) -> Iterator[Fault]:
    ws = case.w_scale
    scales: list[tuple[str, dict[str, Any]]] = [
        ("leaves x_scale out", {"x_scale": 1.0}),
        ("leaves w_scale out", {"w_scale": np.ones_like(ws)}),
        ("leaves y_scale out", {"y_scale": 1.0}),
        ("multiplies by y_scale in place of dividing", {"y_scale": 1 / case.y_scale}),
        ("multiplies by x_scale twice", {"x_scale": case.x_scale**2}),
        ("rescales to half of what is right", {"y_scale": 2 * case.y_scale}),
        ("rescales to twice what is right", {"y_scale": case.y_scale / 2}),
    ]
    if ws.size > 1:
        scales += [
            ("takes the first channel's scale for all", {"w_scale": np.full_like(ws, ws[0])}),
            ("takes the largest scale for all channels", {"w_scale": np.full_like(ws, ws.max())}),
            ("takes the next channel's scale", {"w_scale": np.roll(ws, -1)}),
            ("takes the scale of the channel before", {"w_scale": np.roll(ws, 1)}),
            ("takes the mean of the scales for all channels", {"w_scale": np.full_like(ws, ws.mean())}),
            ("takes the channels' scales in reverse", {"w_scale": ws[::-1]}),
        ]
    for says, changes in scales:
        yield Fault(CauseCode.DROPPED_ATTRIBUTE, says, replace(case, **changes), sums)
    for name in ("float16", "bfloat16"):
        kept = {key: round_array_to_format(np.asarray(getattr(case, key)), find_format(name)) for key in _SCALES}
        if all((scale > 0).all() for scale in kept.values()):
            held = {key: scale if key == "w_scale" else float(scale) for key, scale in kept.items()}
            yield Fault(
                CauseCode.REDUCED_PRECISION_OPERANDS, f"keeps the scales in {name}", replace(case, **held), sums
            )
    quotient = case.x_scale * ws / case.y_scale
    for says, power in (("nearest", np.rint(np.log2(quotient))), ("next smaller", np.floor(np.log2(quotient)))):
        by = f"rescales by the {says} power of two alone"
        yield Fault(CauseCode.REQUANTIZATION, by, replace(case, x_scale=1.0, y_scale=1.0, w_scale=2.0**power), sums)
    unscaled = replace(case, bias=np.zeros_like(case.bias))
    if case.bias.any():
        says, late = "adds the bias after rescaling, unscaled", case.align(case.bias)
        yield Fault(CauseCode.DROPPED_ATTRIBUTE, says, unscaled, sum_exactly(unscaled), lambda codes: codes + late)


def _list_ends(case: IntegerCase, sums: Whole) -> Iterator[Fault]:
    low, high = case.low, case.high
    span = high - low + 1
    zero, lost = case.y_zero, CauseCode.DROPPED_ATTRIBUTE
    if zero:
        yield Fault(lost, "leaves y's zero point out", replace(case, y_zero=0), sums)
        yield Fault(lost, "takes y's zero point away in place of adding it", replace(case, y_zero=-zero), sums)
    for by in (1, -1, 128, -128):
        yield Fault(lost, f"has a zero point of y that is off by {by}", replace(case, y_zero=zero + by), sums)
    says = "wraps around where it adds y's zero point to limited codes"
    yield Fault(
        CauseCode.OVERFLOW, says, case, sums, lambda c: (np.clip(c - zero, low, high) + zero - low) % span + low
    )
    says = "returns codes of the other sign's dtype as they are"
    yield Fault(
        CauseCode.OTHER_OPERANDS, says, case, sums, lambda c: (np.clip(c, low, high) - low + span // 2) % span + low
    )
    six = zero + round(6 / case.y_scale)
    yield Fault(
        CauseCode.FUSION, "is cut off at 0 and 6, as after a Relu6", case, sums, lambda c: np.clip(c, zero, six)
    )
    says = "lets codes wrap around in place of saturating"
    yield Fault(CauseCode.OVERFLOW, says, case, sums, lambda c: (c - low) % span + low)
    for cause, says, least, most in (
        (CauseCode.FUSION, "is at least y's zero point, as after a Relu", zero, high),
        (CauseCode.FUSION, "is at least 0, as after a Relu of the code", 0, high),
        (lost, "is at most 127", low, 127),
        (lost, "is between 0 and 127", 0, 127),
        (lost, "never returns the least code", low + 1, high),
    ):
        if (least, most) != (low, high) and least <= most:
            yield Fault(cause, says, case, sums, lambda c, a=least, b=most: np.clip(c, a, b))
    axis, way = (-2, "transposed") if case.problem.plain.kind in PRODUCTS else (1, "with channels last")
    if sums.ndim > 1:
        says = f"writes its result {way}"
        yield Fault(CauseCode.AXIS_ORDER, says, case, sums, lambda c: np.moveaxis(c, axis, -1).reshape(c.shape))
    says = "limits codes before it adds y's zero point"
    yield Fault(CauseCode.OVERFLOW, says, case, sums, lambda c: np.clip(np.clip(c - zero, low, high) + zero, low, high))
