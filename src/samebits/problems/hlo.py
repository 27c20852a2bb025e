"""XLA HLO convolution lines as problems: plain `convolution` and the custom-calls that XLA makes of it for cuDNN.

Semantics: openxla.org/xla/operation_semantics (Conv) and xla/service/shape_inference.cc; the custom-calls:
xla/service/gpu/cublas_cudnn.h.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from samebits.errors import ProblemShapeError, ProblemTextError
from samebits.problems.benchdnn import find_padding_end, split_transposed_end
from samebits.problems.problem import Direction, Epilogue, Kind, Problem, Shape, as_kind

_OPERATION = re.compile(r"(?<![\w.$/\"-])(?:convolution|custom-call)\(")
_TARGET = re.compile(r'custom_call_target="([^"]*)"')
_ARRAY = re.compile(r"(?<![a-z0-9])([a-z][a-z0-9]*)\[([^\[\]]*)\]")
_NAME = re.compile(r"%?[\w.-]+")
_COMMENT = re.compile(r"/\*[^*]*\*/")
_DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
}
_CUDNN = "__cudnn$conv"
# Targets after the prefix; the bias one has a third operand, and may have an activation.
_TARGETS = ("Forward", "BackwardInput", "BackwardFilter", "BiasActivationForward")
# stream_executor's dnn.ActivationMode, by name as XLA prints it today and by number as it did until 2022.
_ACTIVATIONS = {
    **dict.fromkeys(("kNone", "0")),
    **dict.fromkeys(("kRelu", "2"), Epilogue("relu")),
    **dict.fromkeys(("kRelu6", "3"), Epilogue("clip", 0.0, 6.0)),
}
# What a window leaves out, per axis.
_WINDOW_DEFAULTS = {"stride": "1", "pad": "0_0", "lhs_dilate": "1", "rhs_dilate": "1", "rhs_reversal": "0"}


@dataclass(frozen=True)
class _Array:
    dtype: str
    sizes: Shape


@dataclass(frozen=True)
class _Window:
    size: Shape
    stride: Shape
    low: Shape
    high: Shape
    lhs_dilate: Shape
    rhs_dilate: Shape

    @property
    def pads(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip(self.low, self.high, strict=True))

    def reach(self, axis: int) -> int:
        return (self.size[axis] - 1) * self.rhs_dilate[axis] + 1

    def count_positions(self, axis: int, size: int) -> int:
        """XLA's size of the result: how often the window fits, from shape_inference.cc."""
        padded = (size - 1) * self.lhs_dilate[axis] + 1 + self.low[axis] + self.high[axis]
        return (padded - self.reach(axis)) // self.stride[axis] + 1


@dataclass(frozen=True)
class _Convolution:
    """One instruction. `lhs` is (b, f, spatial...), `rhs` (o, i, spatial...), `result` (b, f, spatial...).

    In a backward custom-call these are the forward's input, filter and output, whichever of them is the result.
    """

    text: str
    lhs: Shape
    rhs: Shape
    result: Shape
    window: _Window
    dtype: str
    out: str
    feature_groups: int = 1
    batch_groups: int = 1
    bias: bool = False
    then: Epilogue | None = None

    def refuse(self, says: str) -> NoReturn:
        raise ProblemTextError(says, self.text)

    def kind(self, name: str) -> Kind:
        return as_kind(f"{name}{len(self.window.size)}d")


def parse_hlo(text: str) -> Problem:
    """The problem that an HLO convolution computes: `convolution(...)`, or a cuDNN custom-call before autotuning.

    `text` is one instruction, or lines with one convolution among them, where operands printed without their shapes
    are looked up. Layouts are ignored, and so is `rhs_reversal`: from which end taps are counted is a matter of layout
    too. A plain convolution becomes the forward problem if it is one; with lhs_dilate the transposed one (stride =
    lhs_dilate); with batch_group_count, or where only that gives padding >= 0, the gradient of w. XLA writes gradients
    as plain convolutions on relabelled axes: that is how they are read back. Raises ProblemTextError,
    ProblemShapeError.
    """
    line = _find_instruction(text)
    target = _TARGET.search(line)
    name = target[1].removeprefix(_CUDNN) if target else ""
    instruction = _read_instruction(text, line, name)
    if name == "BackwardInput":
        return _read_as_forward(instruction, "grad_input")
    if name == "BackwardFilter":
        return _read_as_forward(instruction, "grad_weight")
    if name:
        return _read_as_forward(instruction, "forward")
    return _read_plain(instruction)


def _read_plain(line: _Convolution) -> Problem:
    window = line.window
    positions = tuple(window.count_positions(a, size) for a, size in enumerate(line.lhs[2:]))
    if window.size != line.rhs[2:] or positions != line.result[2:]:
        line.refuse(f"window {window.size} over {line.lhs[2:]} gives {positions}, but the result has {line.result[2:]}")
    readings: tuple[Callable[[_Convolution], Problem], ...] = (_read_as_forward, _read_as_gradient, _read_as_transposed)
    if line.batch_groups > 1:
        readings = (_read_as_gradient,)
    elif max(window.lhs_dilate) > 1:
        readings = (_read_as_transposed,)
    return _take_first(line, readings)


def _take_first(line: _Convolution, readings: tuple[Callable[[_Convolution], Problem], ...]) -> Problem:
    """The first reading that a problem can express; the first one's error where none can."""
    errors: list[ProblemTextError | ProblemShapeError] = []
    for read in readings:
        try:
            return read(line)
        except (ProblemTextError, ProblemShapeError) as error:
            errors.append(error)
    raise errors[0]


def _read_as_forward(line: _Convolution, direction: Direction = "forward") -> Problem:
    window = line.window
    if min(*window.low, *window.high) < 0:
        line.refuse("a negative pad cuts off input, which a problem cannot express")
    if max(window.lhs_dilate) > 1 or line.batch_groups > 1:
        line.refuse("lhs_dilate and batch_group_count have no meaning in a cuDNN custom-call")
    if window.size != line.rhs[2:]:
        line.refuse(f"window size {window.size} is not the filter's, {line.rhs[2:]}")
    problem = Problem(
        kind=line.kind("conv"),
        x=line.lhs,
        w=line.rhs,
        direction=direction,
        bias=line.bias,
        stride=window.stride,
        padding=window.pads,
        dilation=window.rhs_dilate,
        groups=line.feature_groups,
        dtype=line.dtype,
        out=line.out,
        then=line.then,
    )
    return _check_shape(line, problem, problem.y_shape, line.result)


def _read_as_transposed(line: _Convolution) -> Problem:
    """Large index = small * lhs_dilate - begin + tap * dilation, with taps counted from the window's other end."""
    window, groups = line.window, line.feature_groups
    if max(window.stride) > 1:
        line.refuse("stride together with lhs_dilate (or negative pads) is not a convolution a problem can express")
    if groups < 1 or line.rhs[0] % groups or line.rhs[1] * groups != line.lhs[1]:
        line.refuse(f"feature_group_count={groups} does not fit lhs features {line.lhs[1]} and filter {line.rhs[:2]}")
    spans = [window.reach(a) - 1 for a in range(len(window.size))]
    begins = [span - low for span, low in zip(spans, window.low, strict=True)]
    if min(begins) < 0:
        line.refuse("a low pad beyond the dilated filter adds zeros to the result, which a problem cannot express")
    ends = [
        split_transposed_end(begin, span - high, stride, dilation)
        for begin, span, high, stride, dilation in zip(
            begins, spans, window.high, window.lhs_dilate, window.rhs_dilate, strict=True
        )
    ]
    problem = Problem(
        kind=line.kind("conv_transpose"),
        x=line.lhs,
        w=(line.lhs[1], line.rhs[0] // groups, *window.size),
        stride=window.lhs_dilate,
        padding=tuple((begin, end) for begin, (end, _) in zip(begins, ends, strict=True)),
        dilation=window.rhs_dilate,
        output_padding=tuple(extra for _, extra in ends),
        groups=groups,
        dtype=line.dtype,
        out=line.out,
    )
    return _check_shape(line, problem, problem.out_shape, line.result)


def _read_as_gradient(line: _Convolution) -> Problem:
    """The gradient of w: lhs b = C_in and f = N, rhs i = N and o = C_out; stride and rhs_dilate change places."""
    window, groups = line.window, line.batch_groups
    if max(window.lhs_dilate) > 1 or line.feature_groups > 1 or min(window.low) < 0 or groups < 1:
        line.refuse("batch_group_count or negative pads with lhs_dilate or feature_group_count: no problem expresses it")
    if line.lhs[1] != line.rhs[1] or line.lhs[0] % groups:
        line.refuse(f"batch_group_count={groups} does not fit lhs {line.lhs[:2]} and filter {line.rhs[:2]}")
    kernel = line.result[2:]
    reaches = [(k - 1) * d + 1 for k, d in zip(kernel, window.stride, strict=True)]
    padding = tuple(
        (begin, find_padding_end(small, large, reach, stride, begin))
        for small, large, reach, stride, begin in zip(
            window.size, line.lhs[2:], reaches, window.rhs_dilate, window.low, strict=True
        )
    )
    problem = Problem(
        kind=line.kind("conv"),
        x=(line.lhs[1], line.lhs[0], *line.lhs[2:]),
        w=(line.rhs[0], line.lhs[0] // groups, *kernel),
        direction="grad_weight",
        stride=window.rhs_dilate,
        padding=padding,
        dilation=window.stride,
        groups=groups,
        dtype=line.dtype,
        out=line.out,
    )
    _check_shape(line, problem, problem.y_shape, (line.rhs[1], line.rhs[0], *window.size))
    return _check_shape(line, problem, problem.out_shape, (line.result[1], line.result[0], *kernel))


def _check_shape(line: _Convolution, problem: Problem, derived: Shape, given: Shape) -> Problem:
    if derived != given:
        line.refuse(f"the shapes disagree: window and operands give {derived}, the line has {given}")
    return problem


def _find_instruction(text: str) -> str:
    """The one line of `text` that is a convolution."""
    found = {line for line in text.splitlines() if _OPERATION.search(line) and _is_convolution(line)}
    if len(found) > 1:
        raise ProblemTextError(f"{len(found)} convolutions; give one of them at a time", text)
    if not found:
        targets = ", ".join(_CUDNN + name for name in _TARGETS)
        raise ProblemTextError(f"no HLO line with convolution(...) or a custom_call_target of {targets}", text)
    return found.pop()


def _is_convolution(line: str) -> bool:
    target = _TARGET.search(line)
    return target[1] in [_CUDNN + name for name in _TARGETS] if target else " custom-call(" not in line


def _read_instruction(text: str, line: str, name: str) -> _Convolution:
    operation = _OPERATION.search(line)
    assert operation
    head, rest = line[: operation.start()], line[operation.end() :]
    words, attributes = _split_operands(rest)
    has_bias = name == "BiasActivationForward"
    if len(words) != 2 + has_bias:
        raise ProblemTextError(f"expected {2 + has_bias} operands, found {len(words)}", text)
    operands = [_read_operand(word, text) for word in words]
    result = _read_array(head.rpartition("=")[2], text)
    if not result:
        raise ProblemTextError("the result's shape is needed before the operation, e.g. f32[1,4,6,6]", text)
    lhs, rhs, output = operands[0], operands[1], result
    if name == "BackwardInput":
        lhs, rhs, output = result, operands[1], operands[0]
    elif name == "BackwardFilter":
        lhs, rhs, output = operands[0], result, operands[1]
    dtypes = sorted({operand.dtype for operand in operands})
    if len(dtypes) > 1:
        raise ProblemTextError(f"operands of several types, {' and '.join(dtypes)}; a problem has one", text)
    labels = _read_labels(attributes, text)
    return _Convolution(
        text=text,
        lhs=_arrange(lhs, labels[0], "bf", text),
        rhs=_arrange(rhs, labels[1], "oi", text),
        result=_arrange(output, labels[2], "bf", text),
        window=_read_window(attributes, len(labels[0]) - 2, text),
        dtype=dtypes[0],
        out=result.dtype,
        feature_groups=_read_count(attributes, "feature_group_count", text),
        batch_groups=_read_count(attributes, "batch_group_count", text),
        bias=has_bias,
        then=_read_activation(attributes, text),
    )


def _split_operands(rest: str) -> tuple[list[str], str]:
    """The operands of `a, b), attributes` and the attributes. Brackets in layouts, {1,0:T(8,128)}, may nest."""
    words, depth, start = [], 0, 0
    for i, character in enumerate(rest):
        if depth == 0 and character in ",)":
            words.append(rest[start:i])
            start = i + 1
        if depth == 0 and character == ")":
            break
        depth += (character in "([{") - (character in ")]}")
    return words, rest[start:]


def _read_operand(word: str, text: str) -> _Array:
    """The operand's own shape or, where it is printed as a name only, that of the line which defines the name."""
    array = _read_array(word, text)
    name = _NAME.fullmatch(_COMMENT.sub("", word).strip())
    if not array and name:
        defined = re.search(rf"(?<![\w.%-])%?{re.escape(name[0].removeprefix('%'))} = ([^ ]+) ", text)
        array = _read_array(defined[1], text) if defined else None
    if not array:
        raise ProblemTextError(
            f"operand {word.strip()[:40]!r} has no shape; print HLO with operand shapes, or add the line defining it", text
        )
    return array


def _read_array(word: str, text: str) -> _Array | None:
    array = _ARRAY.search(word)
    if not array:
        return None
    if array[1] not in _DTYPES:
        raise ProblemTextError(f"element type {array[1]} is none of {', '.join(_DTYPES)}", text, text.find(array[0]))
    return _Array(_DTYPES[array[1]], tuple(_read_number(size, text) for size in array[2].split(",")))


def _read_number(digits: str, text: str) -> int:
    if not re.fullmatch(r"-?[0-9]{1,18}", digits):
        raise ProblemTextError(f"expected a whole number, not {digits[:40]!r}", text)
    return int(digits)


def _read_labels(attributes: str, text: str) -> tuple[str, str, str]:
    found = re.search(r"dim_labels=(\w+)_(\w+)->(\w+)", attributes)
    if not found:
        raise ProblemTextError("dim_labels=..._...->... is missing, e.g. dim_labels=b01f_01io->b01f", text)
    labels = (found[1], found[2], found[3])
    spatial = "012"[: len(labels[0]) - 2]
    if not spatial or any(sorted(label) != sorted(letters + spatial) for label, letters in zip(labels, ("bf", "oi", "bf"))):
        raise ProblemTextError("dim_labels must name b, f / o, i / b, f and 1 to 3 spatial axes 0, 1, 2", text)
    return labels


def _arrange(array: _Array, labels: str, letters: str, text: str) -> Shape:
    """The sizes in the order of `letters`, then the spatial axes by number."""
    if len(array.sizes) != len(labels):
        raise ProblemTextError(f"dim_labels {labels} does not fit an array of {len(array.sizes)} axes", text)
    return tuple(array.sizes[labels.index(label)] for label in letters + "012"[: len(labels) - 2])


def _read_window(attributes: str, rank: int, text: str) -> _Window:
    found = re.search(r"window=\{([^{}]*)\}", attributes)
    words = dict(word.partition("=")[::2] for word in found[1].split()) if found else {}
    values = {name: [default] * rank for name, default in _WINDOW_DEFAULTS.items()}
    for name, word in words.items():
        values[name] = word.split("x")
    if values.keys() - {"size", *_WINDOW_DEFAULTS} or any(len(v) != rank for v in values.values()) or "size" not in values:
        raise ProblemTextError(f"window={{size=... stride=... pad=...}} with {rank} values each is needed", text)
    low, high = zip(*(word.partition("_")[::2] for word in values.pop("pad")), strict=True)
    numbers = {
        name: tuple(_read_number(word, text) for word in (*words,))
        for name, words in {**values, "low": low, "high": high}.items()
    }
    del numbers["rhs_reversal"]
    window = _Window(**numbers)
    if min(*window.size, *window.stride, *window.lhs_dilate, *window.rhs_dilate) < 1:
        raise ProblemTextError("sizes, strides and dilations of a window must be at least 1", text)
    return window


def _read_count(attributes: str, name: str, text: str) -> int:
    found = re.search(rf"{name}=([0-9]+)", attributes)
    return _read_number(found[1], text) if found else 1


def _read_activation(attributes: str, text: str) -> Epilogue | None:
    """What the cuDNN backend_config adds to the sum; nothing where there is none."""
    for name, harmless in (("conv_result_scale", 1.0), ("side_input_scale", 0.0)):
        if _read_setting(attributes, name, str(harmless)) not in (str(harmless), f"{harmless:g}"):
            raise ProblemTextError(f"{name} is not {harmless:g}: a problem cannot express a scaled sum", text)
    mode = _read_setting(attributes, "activation_mode", "kNone")
    if mode not in _ACTIVATIONS:
        raise ProblemTextError(f"activation_mode {mode[:40]} is neither none, relu nor relu6", text)
    return _ACTIVATIONS[mode]


def _read_setting(attributes: str, name: str, default: str) -> str:
    found = re.search(rf"{name}[\\\"]*:[\s\\\"]*([\w.+-]+)", attributes)
    return found[1] if found else default
