"""The compiled stack machines: one program, one row of weights, many outputs side by side.

Three of them: sums in float32 and in float64, rounded to nearest by the processor itself; and sums in any narrower
format and mode, held in float64 and rounded by `rounding_kernel`, multi-term additions included. What each step does
is said by the scalar form, `sums_scalar`.
"""

from __future__ import annotations

import numpy as np

from samebits.sums.emulators.rounding_kernel import (
    add_to_odd,
    bits_of,
    float_of,
    fused32,
    fused64,
    round_nearest,
    round_value,
)
from samebits.sums.tiles.compiled_cache import compiled

_PUSH, _ADD_TERMS, _ADD_SUMS, _PUSH_FUSED, _ADD_FUSED, _ADD_BIAS, _ROUND = range(7)
_LEAST_NORMAL32 = np.float32(2.0**-126)
# Shared exponents, biased by 2046, stay where 2^(bits - exponent) and its inverse are float64 numbers.
_LEAST_SHARED, _LARGEST_SHARED = 2046 - 400, 2046 + 800


@compiled
def gather_columns(source, offsets, places, columns):
    """columns[d * V + v, p] = source[batch of p, d, offsets[place of p, v]], zero where the offset is negative.

    `source` is [batch, depth, size], `offsets` [unique places, V], `places` [p, 2] of (batch, row of `offsets`).
    """
    depth = source.shape[1]
    volume = offsets.shape[1]
    for d in range(depth):
        for v in range(volume):
            column = columns[d * volume + v]
            for p in range(len(places)):
                at = offsets[places[p, 1], v]
                column[p] = source[places[p, 0], d, at] if at >= 0 else 0.0


@compiled
def run_rows32(steps, terms, weights, columns, bias, plan, stack, out):
    """out[m, p] for all rows m of `weights`; plan = (fused, flushes, zero start, bias first, bias last)."""
    fused, flushes, from_zero, first, last = plan
    for m in range(weights.shape[0]):
        row = weights[m]
        top = -1
        started = False
        for i in range(steps.shape[0]):
            opcode, begin, count = steps[i, 0], steps[i, 1], steps[i, 2]
            if opcode == _PUSH:
                top += 1
                sums = stack[top]
                w, column = row[terms[begin]], columns[terms[begin]]
                # A product added to -0 is that product.
                start = np.float32(0.0) if from_zero else np.float32(-0.0)
                sums[:] = bias[m] if first and not started else start
                _add32(sums, w, column, fused, flushes)
                started = True
            elif opcode == _ADD_TERMS:
                _add_terms32(stack[top], row, columns, terms[begin : begin + count], fused, flushes)
            elif opcode == _ADD_BIAS:
                sums = stack[top]
                sums += bias[m]
                if flushes:
                    _flush32(sums)
            else:
                sums, upper = stack[top - 1], stack[top]
                for p in range(len(sums)):
                    sums[p] += upper[p]
                if flushes:
                    _flush32(sums)
                top -= 1
        sums = stack[0]
        if last:
            sums += bias[m]
            if flushes:
                _flush32(sums)
        out[m, : len(sums)] = sums


@compiled
def _add_terms32(sums, row, columns, terms, fused, flushes):
    done = 0
    if fused and not flushes:
        while done + 4 <= len(terms):
            a, b, c, d = terms[done], terms[done + 1], terms[done + 2], terms[done + 3]
            wa, wb, wc, wd = row[a], row[b], row[c], row[d]
            ca, cb, cc, cd = columns[a], columns[b], columns[c], columns[d]
            for p in range(len(sums)):
                sums[p] = fused32(wd, cd[p], fused32(wc, cc[p], fused32(wb, cb[p], fused32(wa, ca[p], sums[p]))))
            done += 4
    for t in terms[done:]:
        _add32(sums, row[t], columns[t], fused, flushes)


@compiled
def _add32(sums, w, column, fused, flushes):
    if fused:
        for p in range(len(sums)):
            sums[p] = fused32(w, column[p], sums[p])
    elif flushes:
        for p in range(len(sums)):
            product = w * column[p]
            sums[p] += product if abs(product) >= _LEAST_NORMAL32 else np.float32(0.0) * product
    else:
        for p in range(len(sums)):
            sums[p] += w * column[p]
    if flushes:
        _flush32(sums)


@compiled
def _flush32(sums):
    """Subnormals become zeros of their sign; NaN stays."""
    for p in range(len(sums)):
        value = sums[p]
        sums[p] = np.float32(0.0) * value if abs(value) < _LEAST_NORMAL32 else value


@compiled
def run_rows64(steps, terms, weights, columns, bias, plan, stack, out):
    """As run_rows32, with sums in float64; nothing is flushed."""
    fused, _, from_zero, first, last = plan
    for m in range(weights.shape[0]):
        row = weights[m]
        top = -1
        started = False
        for i in range(steps.shape[0]):
            opcode, begin, count = steps[i, 0], steps[i, 1], steps[i, 2]
            if opcode == _PUSH:
                top += 1
                sums = stack[top]
                w, column = row[terms[begin]], columns[terms[begin]]
                start = 0.0 if from_zero else -0.0
                sums[:] = bias[m] if first and not started else start
                for p in range(len(sums)):
                    sums[p] = fused64(w, column[p], sums[p]) if fused else sums[p] + w * column[p]
                started = True
            elif opcode == _ADD_TERMS:
                sums = stack[top]
                for t in terms[begin : begin + count]:
                    w, column = row[t], columns[t]
                    if fused:
                        for p in range(len(sums)):
                            sums[p] = fused64(w, column[p], sums[p])
                    else:
                        for p in range(len(sums)):
                            sums[p] += w * column[p]
            elif opcode == _ADD_BIAS:
                sums = stack[top]
                sums += bias[m]
            else:
                sums, upper = stack[top - 1], stack[top]
                for p in range(len(sums)):
                    sums[p] += upper[p]
                top -= 1
        sums = stack[0]
        if last:
            sums += bias[m]
        out[m, : len(sums)] = sums


@compiled
def run_rows_any(steps, terms, weights, columns, bias, plan, stack, out, targets, product, units):
    """As run_rows32, with sums rounded to targets[0], and to others where a step says so, and products to `product`.

    The last of the targets is that of multi-term additions.

    units = (fraction bits kept by a multi-term addition, least exponents of the source's, the rows' and the sum's
    format, whether all three are float16); all values are exact in float64.
    """
    fused, _, from_zero, first, last = plan
    narrow = units[4] == 1
    fused_target = targets[len(targets) - 1]
    largest = np.empty(stack.shape[1], np.int64)
    scale = np.empty(stack.shape[1])
    for m in range(weights.shape[0]):
        row = weights[m]
        top = -1
        started = False
        for i in range(steps.shape[0]):
            opcode, begin, count, target = steps[i, 0], steps[i, 1], steps[i, 2], targets[0]
            if opcode in (_PUSH, _PUSH_FUSED):
                top += 1
                sums = stack[top]
                if first and not started:
                    sums[:] = bias[m]
                else:
                    sums[:] = 0.0 if from_zero or opcode == _PUSH_FUSED else -0.0
                started = True
                if opcode == _PUSH:
                    t = terms[begin]
                    _add_any(sums, row[t], columns[t], fused, target, product, narrow)
                else:
                    _add_fused(sums, row, columns, terms[begin : begin + count], fused_target, units, largest, scale)
            elif opcode == _ADD_TERMS:
                for t in terms[begin : begin + count]:
                    _add_any(stack[top], row[t], columns[t], fused, target, product, narrow)
            elif opcode == _ADD_FUSED:
                _add_fused(stack[top], row, columns, terms[begin : begin + count], fused_target, units, largest, scale)
            elif opcode == _ADD_BIAS:
                _add_bias(stack[top], bias[m], targets[0])
            elif opcode == _ROUND:
                _round_sums(stack[top], targets[steps[i, 3]])
            else:
                _add_rounded(stack[top - 1], stack[top], target)
                top -= 1
        sums = stack[0]
        if last:
            _add_bias(sums, bias[m], targets[0])
        out[m, : len(sums)] = sums


@compiled(inline="always")
def _rounded(value, t):
    return round_value(value, t.drop, t.least_exponent, t.largest, t.beyond, t.mode, t.flushes)


@compiled
def _add_rounded(sums, upper, target):
    for p in range(len(sums)):
        sums[p] = _rounded(add_to_odd(sums[p], upper[p]), target)


@compiled
def _round_sums(sums, target):
    for p in range(len(sums)):
        sums[p] = _rounded(sums[p], target)


@compiled
def _add_bias(sums, bias, target):
    for p in range(len(sums)):
        sums[p] = _rounded(add_to_odd(sums[p], bias), target)


@compiled
def _add_any(sums, w, column, fused, target, product, narrow):
    """`narrow`: float64 holds w * column + sums, or rounds it to nothing that lies halfway between two results."""
    t = target
    if t.mode == 0 and product.mode == 0 and not t.flushes:
        if fused and narrow:
            for p in range(len(sums)):
                value = fused64(w, column[p], sums[p])
                sums[p] = round_nearest(value, t.drop, t.least_exponent, t.largest, t.beyond)
        elif fused:
            for p in range(len(sums)):
                value = add_to_odd(w * column[p], sums[p])
                sums[p] = round_nearest(value, t.drop, t.least_exponent, t.largest, t.beyond)
        else:
            u = product
            for p in range(len(sums)):
                term = round_nearest(w * column[p], u.drop, u.least_exponent, u.largest, u.beyond)
                sums[p] = round_nearest(add_to_odd(term, sums[p]), t.drop, t.least_exponent, t.largest, t.beyond)
    elif fused:
        for p in range(len(sums)):
            sums[p] = _rounded(add_to_odd(w * column[p], sums[p]), target)
    else:
        for p in range(len(sums)):
            sums[p] = _rounded(add_to_odd(_rounded(w * column[p], product), sums[p]), target)


@compiled
def _add_fused(sums, row, columns, terms, target, units, largest, scale):
    """One multi-term addition onto the running sums; `largest` holds exponents biased by 2046, as products have."""
    bits, least_column, least_row, least_sum, _ = units
    count = len(sums)
    for p in range(count):
        largest[p] = _exponent(sums[p], least_sum) + 1023 if sums[p] != 0.0 else _LEAST_SHARED
    for t in terms:
        w, column = row[t], columns[t]
        own = _exponent(w, least_row)
        if w != 0.0:
            for p in range(count):
                exponent = own + _exponent(column[p], least_column)
                exponent = exponent if column[p] != 0.0 else 0
                largest[p] = exponent if exponent > largest[p] else largest[p]
    for p in range(count):
        # Infinities and NaN need no alignment, only a factor that is finite.
        largest[p] = largest[p] if largest[p] < _LARGEST_SHARED else _LARGEST_SHARED
        scale[p] = float_of((bits - largest[p] + 3069) << 52)
        # Adding zero leaves no negative zero: an empty sum is +0.
        sums[p] = np.trunc(sums[p] * scale[p]) + 0.0
    for t in terms:
        w, column = row[t], columns[t]
        for p in range(count):
            sums[p] += np.trunc((w * column[p]) * scale[p])
    for p in range(count):
        sums[p] = _rounded(sums[p] * float_of((largest[p] - bits - 1023) << 52), target)


@compiled(inline="always")
def _exponent(value, least):
    """The biased float64 exponent of a value, at least `least`."""
    exponent = (bits_of(value) >> 52) & 2047
    return exponent if exponent > least else least
