"""What a condition may be about: the sizes and attributes of a problem, with their words."""

from __future__ import annotations

import math
from dataclasses import dataclass

from samebits.problems import Problem
from samebits.problems.problem import SPATIAL_AXES, Axis

_LENGTHS = {"d": "depth", "h": "height", "w": "width"}
# How far a quantity lies from what a person would name first: attributes and sizes, what follows from them, relations.
_PLAIN, _DERIVED, _RELATION = 0.0, 1.0, 1.5
# What is true of some axis, rather than of one that is named.
_SOMEWHERE = 0.1


@dataclass(frozen=True)
class Feature:
    """A quantity of problems: its words, its cost in a condition, and its floor (what it cannot be less than).

    A relation is the difference of two quantities, `words` the first and `other` the second.
    """

    words: str
    cost: float
    floor: int = 1
    other: str | None = None
    is_flag: bool = False


def list_features(problem: Problem) -> dict[str, Feature]:
    """The features of problems of this kind, by name."""
    if problem.product:
        found = {"columns": Feature("columns", _PLAIN), "k": Feature("terms (K)", _PLAIN)}
        found |= {"rows": Feature("rows", _PLAIN), "batch": Feature("batch size", _PLAIN)}
        found |= {"outputs": Feature("rows times columns", _RELATION), "work": Feature("multiply-adds", _RELATION)}
        found |= {
            "rows*k": Feature("rows times terms", _RELATION),
            "columns*k": Feature("columns times terms", _RELATION),
        }
        found |= {"rows-columns": Feature("rows", _RELATION, other="columns")}
        found |= {"rows-k": Feature("rows", _RELATION, other="terms (K)")}
        found |= {"columns-k": Feature("columns", _RELATION, other="terms (K)")}
        return found | _list_flags()
    found = {
        "n": Feature("batch size", _PLAIN),
        "groups": Feature("groups", _PLAIN),
        "c_in": Feature("input channels", _PLAIN),
        "c_out": Feature("output channels", _PLAIN),
        "c_in/g": Feature("input channels per group", _DERIVED / 2),
        "c_out/g": Feature("output channels per group", _DERIVED / 2),
        "terms": Feature("products per output", _DERIVED),
        "taps": Feature("kernel positions", _DERIVED),
        "pixels": Feature("positions of an output channel", _DERIVED),
        "work": Feature("multiply-adds", _RELATION),
        "padding": Feature("padding on all sides together", _DERIVED / 4, 0),
        "dilation": Feature("largest dilation", _DERIVED / 2),
        "rows": Feature("positions in the batch", _DERIVED),
        "outputs": Feature("outputs", _DERIVED),
        "n*c_out": Feature("batch size times output channels", _RELATION),
        "stride": Feature("largest stride", _DERIVED / 2),
        "rest": Feature(_name_rest(problem, "result"), _DERIVED + _SOMEWHERE, 0),
        "uneven": Feature("largest difference of padding before and after", _DERIVED, 0),
        "stated_dilation": Feature("largest dilation, stated", _DERIVED),
        "before-after": Feature("padding before, on some axis,", _RELATION, other="after it"),
        "after-before": Feature("padding after, on some axis,", _RELATION, other="before it"),
        "begin": Feature("padding before, on all axes together", _DERIVED, 0),
        "end": Feature("padding after, on all axes together", _DERIVED, 0),
        "c_in-c_out": Feature("input channels", _RELATION, other="output channels"),
    }
    return found | _list_axis_features(problem) | _list_flags()


def _list_axis_features(problem: Problem) -> dict[str, Feature]:
    """What each spatial axis has, and how the last two compare."""
    found: dict[str, Feature] = {}
    axes = SPATIAL_AXES[problem.rank]
    for axis in axes:
        of = _LENGTHS[axis] if problem.rank > 1 else "length"
        found |= {
            f"in_{axis}": Feature(f"input {of}", _PLAIN),
            f"out_{axis}": Feature(f"output {of}", _PLAIN),
            f"kernel_{axis}": Feature(f"kernel {of}", _PLAIN),
            f"stride_{axis}": Feature(f"stride along the {of}", _PLAIN),
            f"dilation_{axis}": Feature(f"dilation along the {of}", _PLAIN),
            f"stated_dilation_{axis}": Feature(f"dilation along the {of}, stated", _DERIVED / 2),
            f"begin_{axis}": Feature(f"padding before the {of}", _PLAIN, 0),
            f"end_{axis}": Feature(f"padding after the {of}", _PLAIN, 0),
            f"rest_{axis}": Feature(_name_rest(problem, of), _DERIVED, 0),
            f"reach_{axis}": Feature(f"reach of the kernel along the {of}", _DERIVED),
            f"padded_{axis}": Feature(f"padded input {of}", _DERIVED),
            f"stride-kernel_{axis}": Feature(f"stride along the {of}", _RELATION, other=f"kernel {of}"),
            f"begin-end_{axis}": Feature(f"padding before the {of}", _RELATION, other="after it"),
            f"kernel-in_{axis}": Feature(f"kernel {of}", _RELATION, other=f"input {of}"),
            f"begin-kernel_{axis}": Feature(f"padding before the {of}", _RELATION, other=f"kernel {of}"),
            f"end-kernel_{axis}": Feature(f"padding after the {of}", _RELATION, other=f"kernel {of}"),
            f"reach-in_{axis}": Feature(f"reach of the kernel along the {of}", _RELATION, other=f"input {of}"),
            f"stride-reach_{axis}": Feature(f"stride along the {of}", _RELATION, other="reach of the kernel"),
            f"c_in*in_{axis}": Feature(f"input channels times input {of}", _RELATION),
            f"divisor_{axis}": Feature(f"common divisor of padded {of}, kernel and stride", _RELATION),
        }
    if problem.rank > 1:
        a, b = "h", "w"
        for what in _COMPARED:
            words = _COMPARED[what]
            found[f"{what}_{a}-{b}"] = Feature(words.format(_LENGTHS[a]), _RELATION, other=words.format(_LENGTHS[b]))
    return found


def _name_rest(problem: Problem, of: str) -> str:
    return f"output padding of the {of}" if problem.is_transposed else f"unread input at the end of the {of}"


def _list_flags() -> dict[str, Feature]:
    return {
        "bias": Feature("bias", _PLAIN, 0, is_flag=True),
        "then": Feature("an epilogue", _PLAIN, 0, is_flag=True),
    }


def measure_features(problem: Problem) -> dict[str, int]:
    """The values of all features, of a problem's forward direction."""
    flags = {"bias": int(problem.bias), "then": int(problem.then is not None)}
    if problem.product:
        columns, terms = problem.c_out, problem.x[-1]
        outputs = math.prod(problem.y_shape)
        batch = math.prod(problem.y_shape[:-2]) if problem.kind == "matmul" else 1
        rows = outputs // max(columns, 1) // batch
        return {
            "columns": columns, "k": terms, "rows": rows, "batch": batch, "rows-columns": rows - columns,
            "outputs": rows * columns, "work": rows * columns * terms, "rows*k": rows * terms,
            "columns*k": columns * terms, "rows-k": rows - terms, "columns-k": columns - terms, **flags,
        }  # fmt: skip
    in_channels, out_channels, groups = problem.c_in, problem.c_out, problem.groups
    spatial_in, spatial_out = problem.x[2:], problem.y_shape[2:]
    taps, pixels = math.prod(problem.w[2:]), math.prod(spatial_out)
    found = {
        "n": problem.x[0], "groups": groups, "c_in": in_channels, "c_out": out_channels,
        "c_in/g": in_channels // groups, "c_out/g": out_channels // groups, "terms": in_channels // groups * taps,
        "taps": taps, "pixels": pixels, "rows": problem.x[0] * pixels, "c_in-c_out": in_channels - out_channels,
        "work": problem.multiply_adds, "outputs": problem.x[0] * out_channels * pixels,
        "n*c_out": problem.x[0] * out_channels, "stride": max(problem.stride),
        "rest": max(problem.output_padding) if problem.is_transposed else _find_rest(problem),
        "uneven": max(abs(axis.pad_begin - axis.pad_end) for axis in problem.axes),
        "stated_dilation": max(problem.dilation),
        "before-after": max(axis.pad_begin - axis.pad_end for axis in problem.axes),
        "after-before": max(axis.pad_end - axis.pad_begin for axis in problem.axes),
        "begin": sum(axis.pad_begin for axis in problem.axes), "end": sum(axis.pad_end for axis in problem.axes),
        "padding": sum(axis.pad_begin + axis.pad_end for axis in problem.axes),
        "dilation": max(_find_dilation(axis) for axis in problem.axes),
    }  # fmt: skip
    axes = SPATIAL_AXES[problem.rank]
    for i, (name, axis) in enumerate(zip(axes, problem.axes, strict=True)):
        reach = (axis.kernel - 1) * axis.dilation + 1
        small = (axis.size_small - 1) * axis.stride + reach - axis.pad_begin - axis.pad_end
        size_in, size_out = spatial_in[i], spatial_out[i]
        found |= {
            f"in_{name}": size_in, f"out_{name}": size_out, f"kernel_{name}": axis.kernel,
            f"stride_{name}": axis.stride, f"dilation_{name}": _find_dilation(axis),
            f"stated_dilation_{name}": axis.dilation, f"begin_{name}": axis.pad_begin,
            f"end_{name}": axis.pad_end, f"rest_{name}": axis.size_large - small, f"reach_{name}": reach,
            f"padded_{name}": size_in + axis.pad_begin + axis.pad_end,
            f"stride-kernel_{name}": axis.stride - axis.kernel, f"begin-end_{name}": axis.pad_begin - axis.pad_end,
            f"kernel-in_{name}": axis.kernel - size_in,
            f"begin-kernel_{name}": axis.pad_begin - axis.kernel, f"end-kernel_{name}": axis.pad_end - axis.kernel,
            f"reach-in_{name}": reach - size_in, f"stride-reach_{name}": axis.stride - reach,
            f"c_in*in_{name}": in_channels * size_in,
            f"divisor_{name}": math.gcd(size_in + axis.pad_begin + axis.pad_end, axis.kernel, axis.stride),
        }  # fmt: skip
    if problem.rank > 1:
        a, b = "h", "w"
        found |= {f"{what}_{a}-{b}": found[f"{what}_{a}"] - found[f"{what}_{b}"] for what in _COMPARED}
    return {**found, **flags}


def _find_dilation(axis: Axis) -> int:
    """The dilation, or 1 for a kernel of one tap, which has nothing to dilate."""
    return axis.dilation if axis.kernel > 1 else 1


def _find_rest(problem: Problem) -> int:
    """The largest number of elements left unread at the end of an axis."""
    return max(
        a.size_large - ((a.size_small - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 - a.pad_begin - a.pad_end)
        for a in problem.axes
    )


# How the last two axes are compared.
_COMPARED = {
    "out": "output {}",
    "in": "input {}",
    "kernel": "kernel {}",
    "stride": "stride along the {}",
    "dilation": "dilation along the {}",
    "stated_dilation": "stated dilation along the {}",
    "begin": "padding before the {}",
    "end": "padding after the {}",
}
