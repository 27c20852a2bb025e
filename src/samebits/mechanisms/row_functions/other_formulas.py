"""Hypotheses: another formula. Attributes lost or exchanged, steps left out, rows read in part."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.row_functions.plain_rows import (
    AlteredRows,
    Floats,
    Operands,
    PlainNorm,
    alter,
    compute_altered,
    find_mean,
)
from samebits.problems.row_functions import NORMS, RowFunction, join_pairs, take_pairs

# What eps is elsewhere: torch, TensorFlow, BERT, ONNX, image networks, none, lost digits.
_EPSILONS = (1e-5, 1e-3, 1e-12, 1e-6, 1e-8, 1e-2, 0.0)
# Kernels take rows in blocks of so many numbers.
_BLOCKS = tuple(2**k for k in range(2, 14))
_MOST_PADDED = 8
_QUICK = 1.702
_PARTS = (2, 4, 8, 16)
# Abramowitz and Stegun 7.1.25, with an error of up to 2.5e-5.
_COARSE = (0.47047, 0.3480242, -0.0958798, 0.7478556)
# How constants of gelu are written wrongly or shortly.
_ROOTS, _CUBES = (0.8, 0.7978, 0.79788), (0.44715, 0.0447, 0.045, 0.04)


def list_other_formulas(asked: RowFunction, operands: Operands) -> Iterator[AlteredRows]:
    """Every other formula that is known of this kind, those of most people first."""
    if asked.kind != "rope":
        yield AlteredRows("copies x", CauseCode.FUSION, operands["x"].astype(np.float64))
    if asked.kind in NORMS:
        norm = PlainNorm(asked, operands)
        yield from _list_other_epsilons(norm, operands)
        yield from _list_lost_steps(norm)
        yield from _list_other_axes(asked, operands)
        yield from _list_parts_of_norms(norm)
    elif asked.kind == "softmax":
        yield from _list_other_axes(asked, operands)
        yield from _list_softmaxes(asked, operands)
    elif asked.kind == "gelu":
        yield from _list_gelus(asked, operands)
    else:
        yield from _list_rotations(asked, operands)


def _list_other_epsilons(norm: PlainNorm, operands: Operands) -> Iterator[AlteredRows]:
    asked, own = norm.asked, CauseCode.DROPPED_ATTRIBUTE
    for eps in _EPSILONS:
        if eps != asked.eps:
            yield alter(f"has eps {eps:g} in place of {asked.eps:g}", own, replace(asked, eps=eps), operands)
    if asked.eps:
        outside = norm.divide(np.sqrt(norm.variance) + asked.eps)
        yield AlteredRows("adds eps outside of the root", CauseCode.FUSION, outside)
        count = norm.rows.shape[1]
        yield AlteredRows(
            "adds eps to the sum of squares, not to their mean",
            CauseCode.FUSION,
            norm.divide(np.sqrt(norm.variance + asked.eps / count)),
        )
        largest = norm.divide(np.sqrt(np.maximum(norm.variance, asked.eps)))
        yield AlteredRows("takes the larger of variance and eps in place of their sum", CauseCode.FUSION, largest)


def _list_lost_steps(norm: PlainNorm) -> Iterator[AlteredRows]:
    asked, own = norm.asked, CauseCode.FUSION
    rows, count = norm.rows, norm.rows.shape[1]
    if count > 1:
        unbiased = np.sqrt(norm.variance * count / (count - 1) + asked.eps)
        yield AlteredRows(f"divides the variance by {count - 1}, not by {count}", own, norm.divide(unbiased))
    squares = find_mean(rows**2)
    if asked.kind == "layernorm":
        yield alter("takes no mean off: it is an rmsnorm", own, replace(asked, kind="rmsnorm"), norm.operands)
        yield AlteredRows("divides by the root of the mean square, mean and all", own,
                          norm.divide(np.sqrt(squares + asked.eps)))  # fmt: skip
        yield AlteredRows("takes no mean off what it divides", own, norm.finish(rows / norm.root))
    else:
        mean = find_mean(rows)
        root = np.sqrt(find_mean((rows - mean) ** 2) + asked.eps)
        yield alter("takes the mean off: it is a layernorm", own, replace(asked, kind="layernorm"), norm.operands)
        yield AlteredRows(
            "divides by the standard deviation, not by the root mean square", own, norm.finish(rows / root)
        )
    yield AlteredRows("divides by the variance, not by its root", own, norm.divide(norm.root**2))
    yield AlteredRows("divides by the root of the sum, not of the mean", own,
                      norm.divide(np.sqrt(norm.variance * count + asked.eps)))  # fmt: skip
    yield AlteredRows("does not divide", own, norm.finish(norm.scattered))
    for parts in _PARTS:
        if count % parts == 0 and count > parts:
            split = rows.reshape(len(rows), parts, -1)
            mean = split.mean(axis=2, keepdims=True) if asked.kind == "layernorm" else 0.0
            own_root = np.sqrt(((split - mean) ** 2).mean(axis=2, keepdims=True) + asked.eps)
            each = ((split - mean) / own_root).reshape(rows.shape)
            yield AlteredRows(f"normalises each of {parts} parts of a row by itself", own, norm.finish(each))
    if asked.has_weight:
        weighted = rows * norm.weight
        mean = find_mean(weighted) if asked.kind == "layernorm" else 0.0
        first = (weighted - mean) / np.sqrt(find_mean((weighted - mean) ** 2) + asked.eps)
        yield AlteredRows("multiplies by the weight before it normalises", own, asked.from_rows(first + norm.bias))
    normalized = norm.scattered / norm.root
    if asked.has_weight:
        yield AlteredRows("leaves the weight out", own, asked.from_rows(normalized + norm.bias))
        more = normalized * (1 + norm.weight) + norm.bias
        yield AlteredRows("multiplies by 1 + weight", own, asked.from_rows(more))
        yield AlteredRows("multiplies by the weight twice", own,
                          asked.from_rows(normalized * norm.weight**2 + norm.bias))  # fmt: skip
    if asked.has_bias:
        yield AlteredRows("leaves the bias out", own, asked.from_rows(normalized * norm.weight))
        yield AlteredRows("takes the bias off", own, asked.from_rows(normalized * norm.weight - norm.bias))
    if asked.has_bias and asked.has_weight:
        before = (normalized + norm.bias) * norm.weight
        yield AlteredRows("adds the bias before it multiplies by the weight", own, asked.from_rows(before))


def _list_other_axes(asked: RowFunction, operands: Operands) -> Iterator[AlteredRows]:
    own, rank = CauseCode.AXIS_ORDER, len(asked.x)
    if asked.kind == "softmax":
        for axis in range(-rank, -1):
            flat = operands["x"].astype(np.float64).reshape(*asked.x[:axis], -1)
            weights = np.exp(flat - flat.max(axis=-1, keepdims=True))
            values = (weights / weights.sum(axis=-1, keepdims=True)).reshape(asked.x)
            says = f"goes over axes {rank + axis} to {rank - 1} together, as before opset 13"
            yield AlteredRows(says, own, values)
        for axis in range(-rank, 0):
            if axis != asked.axis % -rank and asked.x[axis] > 1:
                says = f"goes along axis {rank + axis}, not along axis {asked.axis % rank}"
                yield alter(says, own, replace(asked, axis=axis), operands)
        return
    x = operands["x"].astype(np.float64)
    weight = operands["weight"].astype(np.float64) if asked.has_weight else 1.0
    bias = operands["bias"].astype(np.float64) if asked.has_bias else 0.0
    for count in range(1, rank + 1):
        axes = tuple(range(rank - count, rank))
        if count != asked.axes:
            yield _norm_along(asked, x, weight, bias, axes, f"over the last {count} axes, not the last {asked.axes}")
    if rank > asked.axes:
        yield _norm_along(asked, x, weight, bias, (0,), "over the first axis")


def _norm_along(
    asked: RowFunction, x: Floats, weight: Floats | float, bias: Floats | float, axes: tuple[int, ...], where: str
) -> AlteredRows:
    mean = x.mean(axis=axes, keepdims=True) if asked.kind == "layernorm" else 0.0
    root = np.sqrt(((x - mean) ** 2).mean(axis=axes, keepdims=True) + asked.eps)
    return AlteredRows(f"goes {where}", CauseCode.AXIS_ORDER, (x - mean) / root * weight + bias)


def _list_parts_of_norms(norm: PlainNorm) -> Iterator[AlteredRows]:
    """Statistics of a part of each row, or of a row with padding behind it."""
    asked, rows, count = norm.asked, norm.rows, norm.rows.shape[1]
    own = CauseCode.SHAPE_SPECIFIC_KERNEL
    is_centred = asked.kind == "layernorm"
    for kept in _list_kept(count):
        part = rows[:, :kept]
        mean = find_mean(part) if is_centred else np.zeros((len(rows), 1))
        variance = find_mean((part - mean) ** 2)
        normalized = (rows - mean) / np.sqrt(variance + asked.eps)
        what = "mean and variance" if is_centred else "the mean square"
        yield AlteredRows(f"takes {what} of the first {kept:,} of {count:,} numbers", own, norm.finish(normalized))
        if not is_centred:
            short = rows / np.sqrt(variance * kept / count + asked.eps)
            yield AlteredRows(f"sums the squares of the first {kept:,} of {count:,} numbers", own,
                              norm.finish(short))  # fmt: skip
    for padded in _list_padded(count):
        share = count / padded
        if is_centred:
            # Numbers that are not there are 0, so that their distance from the mean is the mean.
            unmasked = norm.variance + norm.mean**2 * (padded - count) / count
            yield AlteredRows(f"takes the variance of rows with zeros up to {padded:,} numbers", own,
                              norm.divide(np.sqrt(unmasked + asked.eps)))  # fmt: skip
            mean = norm.mean * share
            variance = ((rows - mean) ** 2).sum(axis=1, keepdims=True) / padded + mean**2 * (1 - share)
            yield AlteredRows(f"takes mean and variance of rows with zeros up to {padded:,} numbers", own,
                              norm.finish((rows - mean) / np.sqrt(variance + asked.eps)))  # fmt: skip
        yield AlteredRows(f"divides the sum of squares by {padded:,}, not by {count:,}", own,
                          norm.divide(np.sqrt(norm.variance * share + asked.eps)))  # fmt: skip


def _list_kept(count: int) -> list[int]:
    """How many numbers of a row are read by who leaves out what is behind the last whole block, or the last number."""
    return sorted({n for n in (count - 1, *(count - count % b for b in _BLOCKS)) if 0 < n < count}, reverse=True)


def _list_padded(count: int) -> list[int]:
    """How many numbers a row has with padding to whole blocks."""
    return sorted({-(-count // block) * block for block in _BLOCKS} - {count})[:_MOST_PADDED]


def _list_softmaxes(asked: RowFunction, operands: Operands) -> Iterator[AlteredRows]:
    own, rows = CauseCode.SOFTMAX, asked.to_rows(operands["x"]).astype(np.float64)
    distances, count = rows - rows.max(axis=1, keepdims=True), rows.shape[1]
    weights = np.exp(distances)
    sums = weights.sum(axis=1, keepdims=True)
    for values, says in (
        (distances - np.log(sums), "returns the logarithm of the softmax"),
        (weights, "does not divide by the sum"),
        (weights / sums.sum(), "divides by the sum of all rows"),
        (weights / np.roll(sums, 1, axis=0), "divides by the sum of the row before"),
        (weights / np.roll(sums, -1, axis=0), "divides by the sum of the next row"),
        (np.exp(rows) / (1 + np.exp(rows).sum(axis=1, keepdims=True)), "adds 1 to the sum (softmax off by one)"),
    ):
        yield AlteredRows(says, own, asked.from_rows(values))
    with np.errstate(all="ignore"):
        of_all = np.exp(rows - rows.max()).astype(np.float32).astype(np.float64)
        values = of_all / of_all.sum(axis=1, keepdims=True)
    yield AlteredRows("takes the largest number of all rows off", own, asked.from_rows(values), predicts_nan=True)
    yield from _list_stale_sums(asked, rows)
    scaled = {"x": operands["x"].astype(np.float64) * math.log(2)}
    yield alter("takes powers of 2 in place of e", own, asked, scaled)
    parts = CauseCode.SHAPE_SPECIFIC_KERNEL
    for kept in _list_kept(count):
        part = weights[:, :kept].sum(axis=1, keepdims=True)
        yield AlteredRows(f"sums the first {kept:,} of {count:,} numbers", parts, asked.from_rows(weights / part))
    if count > 1:
        rest = weights[:, 1:].sum(axis=1, keepdims=True)
        yield AlteredRows("leaves the first number out of the sum", parts, asked.from_rows(weights / rest))
    largest = np.maximum(rows.max(axis=1, keepdims=True), 0)
    for padded in _list_padded(count):
        # Numbers that are not there are 0, and exp(0) is 1.
        padding = (padded - count) * np.exp(-largest)
        shifted = np.exp(rows - largest)
        values = shifted / (shifted.sum(axis=1, keepdims=True) + padding)
        yield AlteredRows(f"sums rows with zeros up to {padded:,} numbers", parts, asked.from_rows(values))


def _list_stale_sums(asked: RowFunction, rows: Floats) -> Iterator[AlteredRows]:
    """Sums of blocks, each taken at the largest number so far, that are not rescaled when it grows."""
    count = rows.shape[1]
    for block in (b for b in _BLOCKS if b < count):
        firsts = np.arange(0, count, block)
        so_far = np.maximum.accumulate(np.maximum.reduceat(rows, firsts, axis=1), axis=1)
        taken_at = np.repeat(so_far, np.diff([*firsts, count]), axis=1)
        with np.errstate(all="ignore"):
            sums = np.exp(rows - taken_at).sum(axis=1, keepdims=True)
            values = np.exp(rows - rows.max(axis=1, keepdims=True)) / sums
        says = f"does not rescale sums of blocks of {block:,} where the largest number grows"
        yield AlteredRows(says, CauseCode.SOFTMAX, asked.from_rows(values))


def _list_gelus(asked: RowFunction, operands: Operands) -> Iterator[AlteredRows]:
    x = operands["x"].astype(np.float64)
    other = "none" if asked.approximate == "tanh" else "tanh"
    named = {"none": "erf", "tanh": "tanh"}
    says = f"bends by {named[other]}, not by {named[asked.approximate]} (approximate={other})"
    yield alter(says, CauseCode.DROPPED_ATTRIBUTE, replace(asked, approximate=other), operands)
    own, root = CauseCode.FUSION, math.sqrt(2 / math.pi)
    with np.errstate(all="ignore"):
        erf = compute_altered(replace(asked, approximate="none"), {"x": x * math.sqrt(2)}) / math.sqrt(2)
        for values, said in (
            (x / (1 + np.exp(-_QUICK * x)), f"is x times sigmoid({_QUICK} x)"),
            (x / (1 + np.exp(-x)), "is x times sigmoid(x)"),
            (erf, "takes erf(x), not erf(x / sqrt 2)"),
            (2 * compute_altered(asked, operands), "leaves the factor 1/2 out"),
            (x * (1 + np.tanh(root * x)) / 2, "leaves the cube out"),
            (x * (1 + np.tanh(root * x + 0.044715 * x**3)) / 2, "adds the cube outside of the factor"),
            (_bend_coarsely(x), "takes a coarse erf (Abramowitz and Stegun 7.1.25)"),
            *((_bend_with(x, one, 0.044715), f"has {one} in place of sqrt(2 / pi)") for one in _ROOTS),
            *((_bend_with(x, root, one), f"has {one} in place of 0.044715") for one in _CUBES),
            (compute_altered(asked, operands) / np.where(x == 0, 1, x), "does not multiply by x"),
            (np.maximum(x, 0), "is a relu"),
        ):
            yield AlteredRows(said, own, values)


def _bend_with(x: Floats, root: float, cube: float) -> Floats:
    return x * (1 + np.tanh(root * (x + cube * x**3))) / 2


def _bend_coarsely(x: Floats) -> Floats:
    at = np.abs(x) / math.sqrt(2)
    t = 1 / (1 + _COARSE[0] * at)
    erf = 1 - (_COARSE[1] * t + _COARSE[2] * t**2 + _COARSE[3] * t**3) * np.exp(-(at**2))
    return x * (1 + np.sign(x) * erf) / 2


def _list_rotations(asked: RowFunction, operands: Operands) -> Iterator[AlteredRows]:
    kind = "pairs halves (i with i + D/2)" if asked.interleaved else "pairs neighbours (2i with 2i + 1)"
    yield alter(kind, CauseCode.DROPPED_ATTRIBUTE, replace(asked, interleaved=not asked.interleaved), operands)
    own, cos, sin = CauseCode.FUSION, operands["cos"].astype(np.float64), operands["sin"].astype(np.float64)
    x = operands["x"].astype(np.float64)
    yield alter("turns the other way", own, asked, {**operands, "sin": -sin})
    yield alter("exchanges cos and sin", own, asked, {**operands, "cos": sin, "sin": cos})
    yield AlteredRows("does not turn: copies x", own, x)
    half = asked.x[3] // 2
    first = replace(asked, x=(*asked.x[:3], half)) if half % 2 == 0 else None
    if first is not None:
        given = {"x": x[..., :half], "cos": cos[:, : half // 2], "sin": sin[:, : half // 2]}
        partly = np.concatenate([compute_altered(first, given), x[..., half:]], axis=-1)
        yield AlteredRows("turns the first half of the features only", own, partly)
    places = CauseCode.OTHER_OPERANDS
    for step in (1, -1):
        where = "the next position" if step == 1 else "the position before"
        rolled = {name: np.roll(operands[name], -step, axis=0) for name in ("cos", "sin")}
        # The angles beyond the table are not known here.
        beyond = {name: array.astype(np.float64) for name, array in rolled.items()}
        for array in beyond.values():
            array[-1 if step == 1 else 0] = np.nan
        for moved in (rolled, beyond):
            yield alter(f"turns by the angles of {where}", places, asked, {**operands, **moved})
    yield from _list_exchanged(asked, operands)
    still = {name: np.broadcast_to(operands[name][:1], operands[name].shape) for name in ("cos", "sin")}
    yield alter("turns every position by the angles of the first", places, asked, {**operands, **still})
    if asked.x[1] > 1:
        # The angles of the head's number in place of the position's.
        heads = np.arange(asked.x[1]) % asked.x[2]
        turned = replace(asked, x=(asked.x[0], asked.x[2], asked.x[1], asked.x[3]))
        given = {"x": np.moveaxis(x, 1, 2), "cos": cos[heads], "sin": sin[heads]}
        yield AlteredRows("takes the head's number for the position", CauseCode.AXIS_ORDER,
                          np.moveaxis(compute_altered(turned, given), 2, 1))  # fmt: skip


def _list_exchanged(asked: RowFunction, operands: Operands) -> Iterator[AlteredRows]:
    """Halves of pairs in each other's place, signs of one half, pairs turned twice or one after the other."""
    own = CauseCode.FUSION
    rows = asked.to_rows(operands["x"]).astype(np.float64)
    given = {name: operands[name].astype(np.float64) for name in ("cos", "sin")}
    a, b, cos, sin = take_pairs(asked, rows, given)
    first, second = a * cos - b * sin, b * cos + a * sin
    for halves, says in (
        ((second, first), "exchanges the two results of each pair"),
        ((a * cos + b * sin, second), "adds where the first of each pair is a difference"),
        ((first, b * cos - a * sin), "subtracts where the second of each pair is a sum"),
        ((first, b * cos + first * sin), "makes the second of each pair from the first that is turned already"),
        ((first * cos - second * sin, second * cos + first * sin), "turns twice"),
    ):
        yield AlteredRows(says, own, asked.from_rows(join_pairs(asked, *halves)))
    other = replace(asked, interleaved=not asked.interleaved)
    mixed = asked.from_rows(join_pairs(other, first, second))
    yield AlteredRows("writes pairs elsewhere than it reads them", CauseCode.AXIS_ORDER, mixed)
