"""How operands are stored in eight bits or fewer and read back: whole steps, small floats, codes, with shared scales.

Scales are those that quantisers choose: the largest magnitude of a tensor, a channel or a block becomes the largest
code. Blocks are of channels, of products as they lie in memory, or of the whole tensor as it does.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.mechanisms.facts.observation import Floats, Observation
from samebits.numbers.format import find_format
from samebits.problems.terms import Terms
from samebits.sums.emulators.result_rounding import round_wide
from samebits.sums.recipes.recipe import Rounding

# How values are divided by their steps, which decides where the middle between two codes goes.
Divide = Callable[[Floats, Floats], Floats]
# Of values in blocks along the last axis, each with a scale.
Quantise = Callable[[Floats, Divide], Floats]
FLOAT8 = ("float8_e4m3fn", "float8_e5m2")
_GROUPS, _BLOCKS = (32, 64, 128), (16, 32, 64, 128)
# Elements of microscaling formats, with their largest exponents.
_SHARED = (("e2m1", 2), (FLOAT8[0], 8), (FLOAT8[1], 15), ("8 bits", 0))
# The codes of e2m1 (OCP Microscaling Formats 1.0), and of NF4, quantiles of a normal distribution (QLoRA, Dettmers et
# al. 2023, appendix E).
_E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip


@dataclass(frozen=True)
class Scheme:
    """One way to store an operand: in words, over which blocks a scale is chosen, and how.

    Blocks are "tensor", "channel", "item" (of the batch), a number of channels with all their taps or places, or such
    with "channels" (of one tap or place), "products" (of a row) or "values" (of all).
    """

    says: str
    blocks: str
    quantise: Quantise


def divide_in_float32(values: Floats, step: Floats) -> Floats:
    """Values in steps as float32 has them."""
    return (values / step).astype(np.float32).astype(np.float64)


def multiply_by_inverse(values: Floats, step: Floats) -> Floats:
    """Values times the inverse of their step, both rounded to float32."""
    with np.errstate(divide="ignore", over="ignore"):
        inverse = (1 / step.astype(np.float32)).astype(np.float64)
    return (values * inverse).astype(np.float32).astype(np.float64)


def divide_nudged(nudge: float, values: Floats, step: Floats) -> Floats:
    """Values in steps, all a little larger or smaller."""
    return values / step * (1 + nudge)


def _whole_steps(codes: float, lowest: int, values: Floats, divide: Divide, scale: str = "") -> Floats:
    step = _keep_scale(np.abs(values).max(axis=-1, keepdims=True) / codes, scale)
    return np.clip(np.rint(divide(values, step)), lowest, int(codes)) * step


def _from_zero_point(codes: int, values: Floats, divide: Divide, scale: str = "") -> Floats:
    """Unsigned codes from the least to the largest value, zero among them."""
    low = np.minimum(values.min(axis=-1, keepdims=True), 0.0)
    high = np.maximum(values.max(axis=-1, keepdims=True), 0.0)
    step = _keep_scale((high - low) / codes, scale)
    zero = np.rint(-low / step)
    return (np.clip(np.rint(divide(values, step)) + zero, 0, codes) - zero) * step


def _scaled_to(name: str, values: Floats, divide: Divide) -> Floats:
    scale = np.abs(values).max(axis=-1, keepdims=True) / float(find_format(name).largest)
    scale = np.where(scale > 0, scale, 1.0)
    return _round_to(name, divide(values, scale)) * scale


def _round_to(name: str, values: Floats) -> Floats:
    return round_wide(values, Rounding(name))


def list_schemes(*, blocks: tuple[str, ...], bits: tuple[int, ...]) -> Iterator[Scheme]:
    """Whole steps, with a zero point or without, and eight-bit floats, with a scale per tensor, channel or group."""
    for block in blocks:
        where = {"tensor": "with one step", "channel": "with a step per channel"}.get(block)
        where = where or f"with a step per {block} channels"
        for bit in bits:
            most = 2 ** (bit - 1)
            yield Scheme(f"in {bit} bits {where}", block, functools.partial(_whole_steps, most - 1, -most))
            yield Scheme(f"in {bit} bits {where}, from a zero point", block,
                          functools.partial(_from_zero_point, 2**bit - 1))  # fmt: skip
        for name in FLOAT8:
            scales = where.replace("step", "scale")
            yield Scheme(f"in {name} {scales}", block, functools.partial(_scaled_to, name))
    for name in FLOAT8:
        yield Scheme(f"in {name}", "tensor", lambda values, _, name=name: _round_to(name, values))


def list_tensor_schemes() -> Iterator[Scheme]:
    """What frameworks also choose: half a code more on either side."""
    for blocks, where in (("tensor", "one step"), ("channel", "a step per channel")):
        yield Scheme(f"in 8 bits with {where} of a 127.5th", blocks, functools.partial(_whole_steps, 127.5, -128))


def list_power_schemes() -> Iterator[Scheme]:
    """Steps that are powers of two, as units that shift have them: none too short, or the nearest."""
    for blocks, where in (("tensor", "one step"), ("channel", "a step per channel")):
        for kept, words in (("power up", "that covers all"), ("power", "the nearest")):
            says = f"in 8 bits with {where}, a power of two ({words})"
            yield Scheme(says, blocks, functools.partial(_whole_steps, 127, -128, scale=kept))


def list_shift_schemes() -> Iterator[Scheme]:
    """Weights that are powers of two themselves: the nearest one, in value or in its logarithm."""
    yield Scheme("as powers of two, the nearest", "tensor", lambda values, _: _find_power(values, 1.5))
    yield Scheme("as powers of two, in their logarithm", "tensor", lambda values, _: _find_power(values, math.sqrt(2)))


def list_short_schemes() -> Iterator[Scheme]:
    """Operands in 7 bits, as where pairs of products of 8 saturate; the first two are of activations."""
    yield Scheme("in 7 bits with one step, from a zero point", "tensor", functools.partial(_from_zero_point, 127))
    yield Scheme("in 7 bits with one step", "tensor", functools.partial(_whole_steps, 63, -64))
    yield Scheme("in 7 bits with a step per channel", "channel", functools.partial(_whole_steps, 63, -64))


def list_block_schemes(terms: Terms) -> Iterator[Scheme]:
    """Weights in blocks of their products: whole steps with scales of their own formats, small floats, code books."""
    sizes = [f"{n} products" for n in _BLOCKS if n < terms.count] + ["channel"]
    if terms.count > 1:
        sizes += [f"{n} values" for n in _BLOCKS if terms.count % n]
    for blocks in sizes:
        per = blocks if terms.volume > 1 else blocks.replace("products", "channels")
        where = f"with a scale per {per}"
        for bits in (4, 8) if blocks != "channel" else ():
            most, name = 2 ** (bits - 1), f"in {bits} bits with a step per {per}"
            yield Scheme(name, blocks, functools.partial(_whole_steps, most - 1, -most))
            yield Scheme(
                f"{name} in float16", blocks, functools.partial(_whole_steps, most - 1, -most, scale="float16")
            )
            yield Scheme(f"{name}, from a zero point", blocks, functools.partial(_from_zero_point, 2**bits - 1))
            yield Scheme(f"{name} in float16, from a zero point", blocks,
                         functools.partial(_from_zero_point, 2**bits - 1, scale="float16"))  # fmt: skip
        yield Scheme(f"in 4 bits with a step per {per}, its largest value the least code", blocks, _from_largest)
        for kept in ("", "float16", "float8_e4m3fn"):
            words = f"in e2m1 {where}{f' in {kept}' if kept else ''}"
            yield Scheme(words, blocks, functools.partial(_codes, _E2M1, kept))
        yield Scheme(f"in NF4 {where}", blocks, functools.partial(_codes, _NF4, ""))
        for name, exponent in _SHARED:
            yield Scheme(f"in {name} with a power of two per {per}", blocks,
                         functools.partial(_power_of_two, name, exponent))  # fmt: skip


def list_item_schemes() -> Iterator[Scheme]:
    """Activations in 8 bits as they come, a step for each item of the batch."""
    says = "in 8 bits with a step per batch item"
    yield Scheme(f"{says}, from a zero point", "item", functools.partial(_from_zero_point, 255))
    yield Scheme(says, "item", functools.partial(_whole_steps, 127, -128))


def list_shared_exponents() -> Iterator[Scheme]:
    """Microscaling formats in blocks of 32 channels, as both operands of matrix units have them."""
    for name, exponent in _SHARED:
        says = f"in {name} with a power of two per 32 channels of a place"
        yield Scheme(says, "32 channels", functools.partial(_power_of_two, name, exponent))


def _keep_scale(step: Floats, name: str) -> Floats:
    if name.startswith("power"):
        kept = 2.0 ** (np.ceil if name == "power up" else np.rint)(np.log2(np.where(step > 0, step, 1.0)))
    else:
        kept = _round_to(name, step) if name else step
    return np.where(kept > 0, kept, 1.0)


def _find_power(values: Floats, most: float) -> Floats:
    """A power of two next to each value, the next one from so many times the lower on."""
    mantissa, exponent = np.frexp(values)
    return np.sign(values) * np.ldexp(1.0, exponent - (2 * np.abs(mantissa) < most))


def _from_largest(values: Floats, divide: Divide) -> Floats:
    """Codes of 4 bits whose least is the value of the largest magnitude, whatever its sign."""
    at = np.abs(values).argmax(axis=-1, keepdims=True)
    step = np.take_along_axis(values, at, axis=-1) / -8
    step = np.where(step != 0, step, 1.0)
    return np.clip(np.rint(divide(values, step)), -8, 7) * step


def _codes(book: tuple[float, ...], kept: str, values: Floats, divide: Divide) -> Floats:
    """The nearest of the codes, times a scale that the largest magnitude gives; positive codes stand for both signs."""
    scale = _keep_scale(np.abs(values).max(axis=-1, keepdims=True) / max(book), kept)
    return _find_nearest(book, divide(values, scale)) * scale


def _find_nearest(book: tuple[float, ...], values: Floats) -> Floats:
    codes = np.array(book) if min(book) < 0 else np.unique([*book, *(-c for c in book)])
    return codes[np.searchsorted((codes[1:] + codes[:-1]) / 2, values)]


def _power_of_two(name: str, exponent: int, values: Floats, divide: Divide) -> Floats:
    """Elements as OCP's Microscaling Formats have them: the scale is the largest power of two in the block, less the
    format's largest exponent.
    """
    largest = np.abs(values).max(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        scale = np.where(largest > 0, 2.0 ** (np.floor(np.log2(largest)) - exponent), 1.0)
    given = divide(values, scale)
    if name == "e2m1":
        return np.clip(_find_nearest(_E2M1, given), -6, 6) * scale
    if name == "8 bits":
        return np.clip(np.rint(given * 64), -127, 127) / 64 * scale
    most = float(find_format(name).largest)
    return _round_to(name, np.clip(given, -most, most)) * scale


def read_back(observation: Observation, terms: Terms, name: str, scheme: Scheme, divide: Divide) -> np.ndarray:
    """An operand as a scheme stores it and reads it back, in float64."""
    array = np.array(observation.operands[name], np.float64)
    view = terms.view_rows(array) if name == terms.rows_operand else terms.view_source(array)
    view[...] = read_back_view(view, scheme, divide)
    return array


def read_back_view(view: Floats, scheme: Scheme, divide: Divide) -> Floats:
    """The same of a view [groups, rows, depth, volume] of weights, or [groups, batch, depth, places] of the other."""
    g, m, depth, _ = view.shape
    with np.errstate(all="ignore"):
        if scheme.blocks == "tensor":
            return scheme.quantise(view.reshape(1, -1), divide).reshape(view.shape)
        if scheme.blocks == "channel":
            return scheme.quantise(view.reshape(g, m, -1), divide).reshape(view.shape)
        if scheme.blocks == "item":
            items = view.swapaxes(0, 1)
            return scheme.quantise(items.reshape(m, -1), divide).reshape(items.shape).swapaxes(0, 1)
        if scheme.blocks.endswith("channels"):
            last = view.swapaxes(2, 3)
            return _in_blocks(last.reshape(-1, depth), scheme, divide).reshape(last.shape).swapaxes(2, 3)
        if scheme.blocks.endswith("values"):
            return _in_blocks(view.reshape(1, -1), scheme, divide).reshape(view.shape)
        if scheme.blocks.endswith("products"):
            return _in_blocks(view.reshape(g * m, -1), scheme, divide).reshape(view.shape)
        stored, size = np.empty_like(view), int(scheme.blocks)
        for first in range(0, depth, size):
            part = view[:, :, first : first + size]
            stored[:, :, first : first + size] = scheme.quantise(part.reshape(g, m, -1), divide).reshape(part.shape)
        return stored


def read_back_rows(view: Floats, rows: npt.NDArray[np.int64], scheme: Scheme, divide: Divide) -> Floats:
    """Some rows (groups * rows) of weights [groups, rows, depth, volume] as read back, [rows, depth, volume].

    A scale of the whole tensor is that of its least and largest value, which are stored beside the rows.
    """
    m, depth, volume = view.shape[1:]
    own = view[rows // m, rows % m]
    if scheme.blocks != "tensor":
        return read_back_view(own[None], scheme, divide)[0]
    with np.errstate(all="ignore"):
        ends = np.array([np.min(view), np.max(view)])
        stored = scheme.quantise(np.concatenate([own.reshape(-1), ends])[None], divide)
    return stored[0, : own.size].reshape(len(rows), depth, volume)


def _in_blocks(rows: Floats, scheme: Scheme, divide: Divide) -> Floats:
    """Rows stored in blocks along them, the last one shorter."""
    size = int(scheme.blocks.split()[0])
    whole = rows.shape[1] // size * size
    stored = np.empty_like(rows)
    blocks = rows[:, :whole].reshape(len(rows), -1, size)
    stored[:, :whole] = scheme.quantise(blocks, divide).reshape(len(rows), -1)
    if whole < rows.shape[1]:
        stored[:, whole:] = scheme.quantise(rows[:, whole:], divide)
    return stored
