"""What scripts for all engines have in common: operands written out, the exact sums in plain Python, the assertion."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from samebits.numbers.format import find_format
from samebits.problems import Problem

# So many values are written out; more are drawn as they were.
_MOST_WRITTEN = 1200
_VALUES_PER_LINE = 24
RESULT_MARK = "result  "
FAILURES = ("crash", "timeout", "error")
# What a call begins with, in every writer's lines; what stands before is made once.
_BEGINS = ("result = ", "y = ", "with ")
# How what is drawn in float32 gets the values of a narrower format.
_ROUNDED = {
    "float16": ("{name} = {name}.astype(np.float16).astype(np.float32)",),
    "bfloat16": (
        "bits = {name}.view(np.uint32)",
        "{name} = ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)",
    ),
}


def write_operands(problem: Problem, operands: Mapping[str, np.ndarray], *, drawn: bool) -> list[str]:
    """Lines that make the operands; with `drawn` large ones by the generator that made them."""
    if drawn and sum(array.size for array in operands.values()) > _MOST_WRITTEN:
        return _draw_operands(problem)
    return [line for name, array in operands.items() for line in _write_array(name, array)]


def _draw_operands(problem: Problem) -> list[str]:
    """As `make_normal` draws them with seed 0."""
    length = problem.product.length if problem.product else problem.w[1] * math.prod(problem.w[2:])
    lines = ["rng = np.random.default_rng(0)"]
    wide = problem.dtype == "float64"
    for name, shape in problem.operand_shapes.items():
        scale = 1 / math.sqrt(length) if name == "w" else 1.0
        drawn = f"rng.standard_normal({shape}{'' if wide else ', np.float32'})"
        factor = repr(scale) if wide else f"np.float32({scale!r})"
        lines.append(f"{name} = {drawn}" if scale == 1.0 else f"{name} = {drawn} * {factor}")
        lines += [line.format(name=name) for line in _ROUNDED.get(problem.dtype, ())]
    return lines


def _write_array(name: str, array: np.ndarray) -> list[str]:
    values = array.astype(np.float64).ravel()
    whole = bool(np.isfinite(values).all() and (values == np.rint(values)).all() and (np.abs(values) < 2**24).all())
    texts = [str(int(v)) if whole else _write_number(float(v)) for v in values]
    width = "np.float64" if array.dtype == np.float64 else "np.float32"
    if len(texts) <= _VALUES_PER_LINE:
        return [f"{name} = np.array([{', '.join(texts)}], {width}).reshape({array.shape})"]
    rows = [texts[i : i + _VALUES_PER_LINE] for i in range(0, len(texts), _VALUES_PER_LINE)]
    return [f"{name} = np.array([", *(f"    {', '.join(row)}," for row in rows), f"], {width}).reshape({array.shape})"]


def _write_number(value: float) -> str:
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def write_exact_sums(problem: Problem, *, whole: bool) -> list[str]:
    """Lines that define `add_up`, the sums of all products, and `expected`; `whole` for integers."""
    element = "np.int64" if whole else "np.float64"
    names = list(problem.operand_shapes)
    lines = _write_product(problem) if problem.product else _write_convolution(problem)
    lines += ["", "", f"wide = {{name: array.astype({element}) for name, array in operands.items()}}"]
    first, second = names[0], "dy" if problem.direction != "forward" else names[1]
    lines += [f'expected = add_up(wide["{first}"], wide["{second}"])']
    bias = f'wide["bias"].reshape({problem.bias_shape})'
    if problem.bias:
        lines.append(f"expected = expected + {bias}")
    if problem.then:
        low, high = problem.then.low, problem.then.high
        lines.append(
            "expected = np.maximum(expected, 0)"
            if problem.then.name == "relu"
            else f"expected = np.clip(expected, {_write_number(low)}, {_write_number(high)})"
        )
    if not whole:
        lines.append(f'magnitudes = add_up(abs(wide["{first}"]), abs(wide["{second}"]))')
        if problem.bias:
            lines.append(f"magnitudes = magnitudes + abs({bias})")
    return lines


def _write_product(problem: Problem) -> list[str]:
    lines = ["def add_up(a, b):"]
    if problem.kind == "matmul":
        return [*lines, "    return np.matmul(a, b)"]
    flat = "    a = a.reshape(-1, a.shape[-1])"
    if problem.direction == "forward":
        return [*lines, "    return np.matmul(a, b.T)"]
    if problem.direction == "grad_input":
        return [*lines, "    return np.matmul(b, a)"]
    return [*lines, flat, "    return np.matmul(b.reshape(-1, b.shape[-1]).T, a)"]


def _write_convolution(problem: Problem) -> list[str]:
    """Every product of the convolution, added where it belongs."""
    axes = problem.axes
    small, large = tuple(a.size_small for a in axes), tuple(a.size_large for a in axes)
    c_in, c_out = problem.c_in // problem.groups, problem.c_out // problem.groups
    x_at, y_at = ("small", "large") if problem.is_transposed else ("large", "small")
    own, other = ("c_in", "c_out") if problem.is_transposed else ("c_out", "c_in")
    at = {
        "x": f"(n, g * {c_in} + c_in, *{x_at})",
        "y": f"(n, g * {c_out} + c_out, *{y_at})",
        "w": f"(g * {c_in if problem.is_transposed else c_out} + {own}, {other}, *tap)",
    }
    a, b, out = {"forward": "xwy", "grad_input": "wyx", "grad_weight": "xyw"}[problem.direction]
    steps = [(axis.stride, axis.pad_begin, axis.dilation) for axis in axes]
    return [
        "def add_up(a, b):",
        f"    result = np.zeros({problem.out_shape}, a.dtype)",
        f"    counts = ({problem.x[0]}, {problem.groups}, {c_in}, {c_out})",
        "    for n, g, c_in, c_out in np.ndindex(*counts):",
        f"        for small in np.ndindex(*{small}):",
        f"            for tap in np.ndindex(*{problem.w[2:]}):",
        "                large = tuple(",
        "                    s * stride - pad + t * dilation",
        f"                    for s, t, (stride, pad, dilation) in zip(small, tap, {steps})",
        "                )",
        f"                if all(0 <= i < size for i, size in zip(large, {large})):",
        f"                    result[{at[out]}] += a[{at[a]}] * b[{at[b]}]",
        "    return result",
    ]


def write_assertion(problem: Problem, fault: str, *, whole: bool) -> list[str]:
    """Lines that compare `result` with `expected`."""
    if fault in FAILURES:
        return ['print("no fault here: a result came back")']
    lines = ['print("expected", expected.ravel()[:16])', f'print("{RESULT_MARK}", result.ravel()[:16])']
    if whole:
        return [
            *lines,
            "differing = result != expected",
            'says = f"{differing.sum()} of {differing.size} differ, first at {np.argwhere(differing)[:1].tolist()}"',
            "assert not differing.any(), says",
        ]
    return [
        *lines,
        *_write_bound(problem),
        "beyond = ~(abs(result - expected) <= bound)",
        'says = f"{beyond.sum()} of {beyond.size} are beyond the bound, first at {np.argwhere(beyond)[:1].tolist()}"',
        "assert not beyond.any(), says",
    ]


def _write_bound(problem: Problem) -> list[str]:
    unit = 2.0 ** -(find_format(problem.out).precision - 1)
    return [
        "# No order of additions and no rounding of its format makes a larger error than this.",
        f"bound = {problem.reduction_length + 2} * {unit!r} * magnitudes",
    ]


def repeat_call(problem: Problem, call: Sequence[str], calls: int, *, whole: bool) -> list[str]:
    """Lines that call so often, count the results that are wrong, and keep the first of them."""
    begin = next(i for i, line in enumerate(call) if line.startswith(_BEGINS))
    differing = "result != expected" if whole else "~(abs(result - expected) <= bound)"
    return [
        *call[:begin],
        "",
        *([] if whole else _write_bound(problem)),
        f"calls, wrong, first = {calls}, 0, None",
        "for _ in range(calls):",
        *(f"    {line}" for line in call[begin:]),
        f"    differing = {differing}",
        "    wrong += bool(differing.any())",
        "    if first is None and differing.any():",
        "        first = result, np.argwhere(differing)[:1].tolist()",
    ]


def write_count() -> list[str]:
    """Lines that say how many calls were wrong, and show the first of them."""
    return [
        'print("expected", expected.ravel()[:16])',
        f'print("{RESULT_MARK}", (first[0] if first else result).ravel()[:16])',
        'assert not wrong, f"{wrong} of {calls} calls are wrong, the first at {first[1]}"',
    ]
