"""The innermost loop of the float64 tiles, written in LLVM's vector instructions for this processor.

One call adds `count` terms to a block of C: PIXELS source positions times LANES rows. The row values stand packed,
LANES to a term; a source value is read where it lies and spread over the lanes, so nothing is copied per tap. All
registers of the widest vector unit hold partial sums. Each sum is a chain of fused multiply-adds in term order, started
from zero and added once to what C held before; where the processor has no fused multiply-add, product and sum are
rounded separately.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


@dataclass(frozen=True)
class Blocking:
    """How many doubles a vector holds, how many vectors make LANES, and how many source positions share a call."""

    width: int
    vectors: int
    pixels: int
    has_fma: bool


def choose_blocking() -> Blocking:
    """The blocking that fills this processor's vector registers: vectors * pixels sums, operands in the rest."""
    features = llvm.get_host_cpu_features()
    has_fma = bool(features.get("fma")) or "neon" in features
    if features.get("avx512f"):
        return Blocking(width=8, vectors=2, pixels=10, has_fma=has_fma)
    if features.get("avx2"):
        return Blocking(width=4, vectors=3, pixels=4, has_fma=has_fma)
    return Blocking(width=2, vectors=2, pixels=4, has_fma=has_fma)


BLOCKING = choose_blocking()
LANES = BLOCKING.width * BLOCKING.vectors
PIXELS = BLOCKING.pixels

_DOUBLE = ir.DoubleType()
_INT = ir.IntType(64)
_VECTOR = ir.VectorType(_DOUBLE, BLOCKING.width)


def _add_terms(
    typingctx: Any, rows: Any, source: Any, bases: Any, offsets: Any, count: Any, before: Any, before_stride: Any,
    sums: Any, sums_stride: Any,
):  # fmt: skip
    """C[p, l] = B[p, l] + sum over t of source[bases[p] + offsets[t]] * rows[t * LANES + l].

    Pointers are int64 addresses. `sums` is the address of C[0, 0], `sums_stride` the distance in doubles between C[p]
    and C[p + 1]; `before` and `before_stride` likewise for B, which may be C itself, or one row for all p with a stride
    of 0.
    """
    signature = types.void(*(types.int64,) * 9)
    return signature, _generate


def _generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    rows, source, bases, offsets, count, before, before_stride, sums, sums_stride = args
    doubles = _DOUBLE.as_pointer()
    source_pointer = builder.inttoptr(source, doubles)
    rows_pointer = builder.inttoptr(rows, doubles)
    offsets_pointer = builder.inttoptr(offsets, _INT.as_pointer())
    bases_pointer = builder.inttoptr(bases, _INT.as_pointer())
    pixels = [builder.gep(source_pointer, [builder.load(builder.gep(bases_pointer, [_INT(p)]))]) for p in range(PIXELS)]
    chains = _term_loop(builder, pixels, rows_pointer, offsets_pointer, count)
    before_pointer, sums_pointer = builder.inttoptr(before, doubles), builder.inttoptr(sums, doubles)
    for p in range(PIXELS):
        for v in range(BLOCKING.vectors):
            lane = _INT(v * BLOCKING.width)
            held = _load_vector(builder, before_pointer, builder.add(builder.mul(before_stride, _INT(p)), lane))
            total = builder.fadd(held, chains[p][v])
            _store_vector(builder, total, sums_pointer, builder.add(builder.mul(sums_stride, _INT(p)), lane))
    return context.get_dummy_value()


def _term_loop(builder: Any, pixels: list, rows: Any, offsets: Any, count: Any) -> list[list]:
    before = builder.block
    body = builder.append_basic_block("terms")
    after = builder.append_basic_block("done")
    zero = ir.Constant(_VECTOR, [0.0] * BLOCKING.width)
    has_terms = builder.icmp_signed(">", count, _INT(0))
    builder.cbranch(has_terms, body, after)

    builder.position_at_end(body)
    term = builder.phi(_INT)
    term.add_incoming(_INT(0), before)
    chains = [[builder.phi(_VECTOR) for _ in range(BLOCKING.vectors)] for _ in pixels]
    row_base = builder.mul(term, _INT(LANES))
    lanes = [
        _load_vector(builder, rows, builder.add(row_base, _INT(v * BLOCKING.width))) for v in range(BLOCKING.vectors)
    ]
    offset = builder.load(builder.gep(offsets, [term]))
    updated = []
    for p, pixel in enumerate(pixels):
        spread = _spread(builder, builder.load(builder.gep(pixel, [offset])))
        _fence_loads(builder)
        updated.append([_multiply_add(builder, spread, lanes[v], chains[p][v]) for v in range(BLOCKING.vectors)])
    following = builder.add(term, _INT(1))
    term.add_incoming(following, builder.block)
    last = builder.block
    builder.cbranch(builder.icmp_signed("<", following, count), body, after)

    builder.position_at_end(after)
    results = []
    for p in range(len(pixels)):
        row = []
        for v in range(BLOCKING.vectors):
            chains[p][v].add_incoming(zero, before)
            chains[p][v].add_incoming(updated[p][v], last)
            result = builder.phi(_VECTOR)
            result.add_incoming(zero, before)
            result.add_incoming(updated[p][v], last)
            row.append(result)
        results.append(row)
    return results


def _add_terms_twice(
    typingctx: Any, rows: Any, source: Any, bases: Any, offsets: Any, count: Any, anchors: Any, sums: Any, lows: Any,
    stride: Any,
):  # fmt: skip
    """As `_add_terms`, each sum kept as C[p, l] + D[p, l] (`sums` and `lows`) and nearly twice as precise.

    `anchors` is the address of LANES powers of two times 1.5, each more than four times what its sums can come to. A
    chain starts from it, so that all of it has one last place: t = fma(a, b, chain) adds a multiple of that, exactly
    known as t - chain, and what a * b has beyond is fma(a, b, chain - t), which goes to a second sum. Needs a fused
    multiply-add.
    """
    signature = types.void(*(types.int64,) * 9)
    return signature, _generate_twice


def _generate_twice(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    rows, source, bases, offsets, count, anchors, sums, lows, stride = args
    doubles = _DOUBLE.as_pointer()
    source_pointer = builder.inttoptr(source, doubles)
    bases_pointer = builder.inttoptr(bases, _INT.as_pointer())
    pixels = [builder.gep(source_pointer, [builder.load(builder.gep(bases_pointer, [_INT(p)]))]) for p in range(PIXELS)]
    rows_pointer, offsets_pointer = builder.inttoptr(rows, doubles), builder.inttoptr(offsets, _INT.as_pointer())
    anchors_pointer = builder.inttoptr(anchors, doubles)
    sums_pointer, lows_pointer = builder.inttoptr(sums, doubles), builder.inttoptr(lows, doubles)
    # One vector of rows after the other: two sums for each leave no registers for more.
    for v in range(BLOCKING.vectors):
        lane = _INT(v * BLOCKING.width)
        anchor = _load_vector(builder, anchors_pointer, lane)
        chains = _two_sums_loop(builder, pixels, rows_pointer, offsets_pointer, count, lane, anchor)
        for p, (chain, rest) in enumerate(chains):
            at = builder.add(builder.mul(stride, _INT(p)), lane)
            high, low = _load_vector(builder, sums_pointer, at), _load_vector(builder, lows_pointer, at)
            part = builder.fsub(chain, anchor)
            total = builder.fadd(high, part)
            shadow = builder.fsub(total, high)
            error = builder.fadd(builder.fsub(high, builder.fsub(total, shadow)), builder.fsub(part, shadow))
            _store_vector(builder, total, sums_pointer, at)
            _store_vector(builder, builder.fadd(low, builder.fadd(error, rest)), lows_pointer, at)
    return context.get_dummy_value()


def _two_sums_loop(
    builder: Any, pixels: list, rows: Any, offsets: Any, count: Any, lane: Any, anchor: Any
) -> list[tuple[Any, Any]]:
    """For every pixel the chain, started from the anchor, and the sum of what it left out."""
    before = builder.block
    body, after = builder.append_basic_block("terms"), builder.append_basic_block("done")
    zero = ir.Constant(_VECTOR, [0.0] * BLOCKING.width)
    builder.cbranch(builder.icmp_signed(">", count, _INT(0)), body, after)

    builder.position_at_end(body)
    term = builder.phi(_INT)
    term.add_incoming(_INT(0), before)
    chains = [(builder.phi(_VECTOR), builder.phi(_VECTOR)) for _ in pixels]
    weights = _load_vector(builder, rows, builder.add(builder.mul(term, _INT(LANES)), lane))
    offset = builder.load(builder.gep(offsets, [term]))
    updated = []
    for pixel, (chain, rest) in zip(pixels, chains, strict=True):
        spread = _spread(builder, builder.load(builder.gep(pixel, [offset])))
        _fence_loads(builder)
        total = _multiply_add(builder, spread, weights, chain)
        left = _multiply_add(builder, spread, weights, builder.fsub(chain, total))
        updated.append((total, builder.fadd(rest, left)))
    following = builder.add(term, _INT(1))
    term.add_incoming(following, builder.block)
    last = builder.block
    builder.cbranch(builder.icmp_signed("<", following, count), body, after)

    builder.position_at_end(after)
    results = []
    for own, new in zip(chains, updated, strict=True):
        result = []
        for phi, start, value in zip(own, (anchor, zero), new, strict=True):
            phi.add_incoming(start, before)
            phi.add_incoming(value, last)
            end = builder.phi(_VECTOR)
            end.add_incoming(start, before)
            end.add_incoming(value, last)
            result.append(end)
        results.append((result[0], result[1]))
    return results


def _fence_loads(builder: Any) -> None:
    """Keeps the compiler from loading later source values early: held in registers they would push the sums out."""
    fence = ir.InlineAsm(ir.FunctionType(ir.VoidType(), []), "", "~{memory}", side_effect=True)
    builder.call(fence, [])


def _load_vector(builder: Any, pointer: Any, index: Any) -> Any:
    return builder.load(builder.bitcast(builder.gep(pointer, [index]), _VECTOR.as_pointer()), align=8)


def _store_vector(builder: Any, vector: Any, pointer: Any, index: Any) -> None:
    builder.store(vector, builder.bitcast(builder.gep(pointer, [index]), _VECTOR.as_pointer()), align=8)


def _spread(builder: Any, scalar: Any) -> Any:
    vector = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), scalar, ir.IntType(32)(0))
    mask = ir.Constant(ir.VectorType(ir.IntType(32), BLOCKING.width), [0] * BLOCKING.width)
    return builder.shuffle_vector(vector, ir.Constant(_VECTOR, ir.Undefined), mask)


def _multiply_add(builder: Any, a: Any, b: Any, c: Any) -> Any:
    if BLOCKING.has_fma:
        name = f"llvm.fma.v{BLOCKING.width}f64"
        function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(_VECTOR, [_VECTOR] * 3), name)
        return builder.call(function, [a, b, c])
    return builder.fadd(builder.fmul(a, b), c)


def _fused_multiply_add(typingctx: Any, a: Any, b: Any, c: Any):
    """a * b + c rounded once, in float64."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return types.float64(types.float64, types.float64, types.float64), generate


def _prefetch(typingctx: Any, address: Any):
    """Asks for the cache line at an address (an int64; any value is harmless)."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        function_type = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, function_type, "llvm.prefetch.p0i8")
        # Operands: address, 0 = read, 3 = keep in all levels, 1 = data cache.
        builder.call(function, [builder.inttoptr(args[0], byte), flag(0), flag(3), flag(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


# Typed as anything: pyright cannot see that numba calls these without their first parameter.
add_terms: Any = intrinsic(_add_terms)
add_terms_twice: Any = intrinsic(_add_terms_twice)
fused_multiply_add: Any = intrinsic(_fused_multiply_add)
prefetch: Any = intrinsic(_prefetch)
