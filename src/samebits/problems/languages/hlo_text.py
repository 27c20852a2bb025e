"""The text of an XLA HLO convolution instruction, read into shapes in a fixed order of axes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn

from samebits.errors import ProblemTextError
from samebits.problems.problem import Epilogue, Kind, Shape, as_kind

_OPERATION = re.compile(r"(?<![\w.$/\"-])(convolution|custom-call)\(")
_TARGET = re.compile(r'custom_call_target="__cudnn\$conv(\w+)"')
_ARRAY = re.compile(r"(?<![a-z0-9])([a-z][a-z0-9]*)\[([^\[\]]*)\](?:\{([0-9,]*))?")
_NAME = re.compile(r"[\w.-]+")
_NUMBER = re.compile(r"-?[0-9]{1,18}")
_COMMENT = re.compile(r"/\*[^*]*\*/")
_DTYPES = {
    "f64": "float64",
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
}
# What follows __cudnn$conv; the bias one has a third operand, and may have an activation.
TARGETS = ("Forward", "BackwardInput", "BackwardFilter", "BiasActivationForward")
# stream_executor's dnn.ActivationMode, by name as XLA prints it today and by number as it did until 2022.
_ACTIVATIONS: dict[str, Epilogue | None] = {
    **dict.fromkeys(("kNone", "0")),
    **dict.fromkeys(("kRelu", "2"), Epilogue("relu")),
    **dict.fromkeys(("kRelu6", "3"), Epilogue("clip", 0.0, 6.0)),
}
# What a window leaves out, per axis.
_WINDOW_DEFAULTS = {"stride": "1", "pad": "0_0", "lhs_dilate": "1", "rhs_dilate": "1", "rhs_reversal": "0"}


@dataclass(frozen=True)
class HloArray:
    """A type and a shape as HLO prints them; a scalar has no sizes.

    `layout` numbers the axes from the fastest in memory to the slowest; None where the text says nothing of it.
    """

    dtype: str
    sizes: Shape
    layout: Shape | None = None


@dataclass(frozen=True)
class Window:
    """XLA's window, one value per spatial axis; what a line leaves out has the value that does nothing."""

    size: Shape
    stride: Shape
    low: Shape
    high: Shape
    lhs_dilate: Shape
    rhs_dilate: Shape
    reversal: Shape

    @property
    def pads(self) -> tuple[tuple[int, int], ...]:
        """Begin and end padding of every axis."""
        return tuple(zip(self.low, self.high, strict=True))

    def reach(self, axis: int) -> int:
        """How many inputs a window spans along every axis."""
        return (self.size[axis] - 1) * self.rhs_dilate[axis] + 1

    def count_positions(self, axis: int, size: int) -> int:
        """XLA's size of the result: how often the window fits, from shape_inference.cc."""
        padded = (size - 1) * self.lhs_dilate[axis] + 1 + self.low[axis] + self.high[axis]
        return (padded - self.reach(axis)) // self.stride[axis] + 1


@dataclass(frozen=True)
class Convolution:
    """One instruction. `lhs` is (b, f, spatial...), `rhs` (o, i, spatial...), `result` (b, f, spatial...).

    In a backward custom-call these are the forward's input, filter and output, whichever of them is the result.
    `target` is one of TARGETS, or empty for a plain convolution.
    """

    text: str
    target: str
    lhs: Shape
    rhs: Shape
    result: Shape
    window: Window
    dtype: str
    out: str
    feature_groups: int = 1
    batch_groups: int = 1
    bias: bool = False
    then: Epilogue | None = None
    arrays: tuple[HloArray, ...] = ()
    labels: tuple[str, str, str] = ("", "", "")

    def refuse(self, says: str) -> NoReturn:
        """Raises ProblemTextError for what a problem cannot say."""
        raise ProblemTextError(says, self.text)

    def kind(self, name: str) -> Kind:
        """The problem's kind without its direction."""
        return as_kind(f"{name}{len(self.window.size)}d")


def read_convolution(text: str) -> Convolution:
    """The one convolution in `text`, which may have other lines around it. Raises ProblemTextError."""
    line = _find_line(text)
    target, (head, rest) = _find_target(line), _OPERATION.split(line, maxsplit=1)[::2]
    words, attributes = split_operands(rest)
    operands = read_operands(words, 3 if target == "BiasActivationForward" else 2, text)
    result = read_array(head.rpartition("=")[2], text)
    if not result:
        raise ProblemTextError("the result's shape is needed before the operation, e.g. f32[1,4,6,6]", text)
    labels = _read_labels(attributes, text)
    arrays = _find_roles(target, operands, result)
    orders = ("bf", "oi", "bf")
    lhs, rhs, output = (_arrange(a, label, order, text) for a, label, order in zip(arrays, labels, orders, strict=True))
    return Convolution(
        text=text,
        target=target,
        lhs=lhs,
        rhs=rhs,
        result=output,
        window=_read_window(attributes, len(labels[0]) - 2, text),
        dtype=operands[0].dtype,
        out=result.dtype,
        feature_groups=_read_count(attributes, "feature_group_count", text),
        batch_groups=_read_count(attributes, "batch_group_count", text),
        bias=len(operands) == 3,
        then=_read_activation(attributes, text),
        arrays=(*operands, result),
        labels=labels,
    )


def _find_line(text: str) -> str:
    found = {line for line in text.splitlines() if _is_convolution(line)}
    if len(found) > 1:
        raise ProblemTextError(f"{len(found)} convolutions; give one of them at a time", text)
    if not found:
        targets = ", ".join("__cudnn$conv" + name for name in TARGETS)
        raise ProblemTextError(f"no HLO line with convolution(...) or a custom_call_target of {targets}", text)
    return found.pop()


def _is_convolution(line: str) -> bool:
    operation = _OPERATION.search(line)
    return bool(operation) and (operation[1] == "convolution" or _find_target(line) in TARGETS)


def _find_target(line: str) -> str:
    target = _TARGET.search(line)
    return target[1] if target else ""


def split_operands(rest: str) -> tuple[list[str], str]:
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


def read_operands(words: list[str], expected: int, text: str) -> list[HloArray]:
    """So many operands of one type, with their shapes. Raises ProblemTextError."""
    if len(words) != expected:
        raise ProblemTextError(f"expected {expected} operands, found {len(words)}", text)
    operands = [_read_operand(word, text) for word in words]
    dtypes = sorted({operand.dtype for operand in operands})
    if len(dtypes) > 1:
        raise ProblemTextError(f"operands of several types, {' and '.join(dtypes)}; a problem has one", text)
    return operands


def _read_operand(word: str, text: str) -> HloArray:
    """The operand's own shape or, where it is printed as a name only, that of the line which defines the name."""
    name = _COMMENT.sub("", word).strip().removeprefix("%")
    array = read_array(word, text)
    if not array and _NAME.fullmatch(name):
        defined = re.search(rf"(?<![\w.-]){re.escape(name)} = ([^ ]+) ", text)
        array = read_array(defined[1], text) if defined else None
    if not array:
        raise ProblemTextError(
            f"operand {name[:40]!r} has no shape; print HLO with operand shapes, or add the line that defines it", text
        )
    return array


def read_array(word: str, text: str) -> HloArray | None:
    """The first type and shape in a text, as f32[8,64]; None where there is none. Raises ProblemTextError."""
    array = _ARRAY.search(word)
    if not array:
        return None
    if array[1] not in _DTYPES:
        raise ProblemTextError(f"element type {array[1][:40]} is none of {', '.join(_DTYPES)}", text)
    sizes = tuple(_read_number(size, text) for size in array[2].split(",") if array[2])
    layout = tuple(_read_number(axis, text) for axis in array[3].split(",")) if array[3] else None
    return HloArray(_DTYPES[array[1]], sizes, layout)


def _read_number(digits: str, text: str) -> int:
    if not _NUMBER.fullmatch(digits):
        raise ProblemTextError(f"expected a whole number of at most 18 digits, not {digits[:40]!r}", text)
    return int(digits)


def _read_labels(attributes: str, text: str) -> tuple[str, str, str]:
    found = re.search(r"dim_labels=([a-z0-9?]+)_([a-z0-9?]+)->([a-z0-9?]+)", attributes)
    if not found:
        raise ProblemTextError("dim_labels=..._...->... is missing, e.g. dim_labels=b01f_01io->b01f", text)
    labels = (found[1], found[2], found[3])
    spatial = "012"[: len(labels[0]) - 2]
    expected = [sorted(letters + spatial) for letters in ("bf", "io", "bf")]
    if not spatial or [sorted(label) for label in labels] != expected:
        raise ProblemTextError("dim_labels must name b f, i o and b f, each with the spatial axes 0, 01 or 012", text)
    return labels


def _find_roles(target: str, operands: list[HloArray], result: HloArray) -> tuple[HloArray, HloArray, HloArray]:
    """(input, filter, output) of the forward convolution, which is what dim_labels speak of."""
    if target == "BackwardInput":
        return result, operands[1], operands[0]
    if target == "BackwardFilter":
        return operands[0], result, operands[1]
    return operands[0], operands[1], result


def _arrange(array: HloArray, labels: str, order: str, text: str) -> Shape:
    """The sizes in the order of `order`, then the spatial axes by number."""
    if len(array.sizes) != len(labels):
        raise ProblemTextError(f"dim_labels {labels} does not fit an array of {len(array.sizes)} axes", text)
    return tuple(array.sizes[labels.index(label)] for label in order + "012"[: len(labels) - 2])


def _read_window(attributes: str, rank: int, text: str) -> Window:
    found = re.search(r"window=\{([^{}]*)\}", attributes)
    words = {name: "x".join([default] * rank) for name, default in _WINDOW_DEFAULTS.items()}
    for word in (found[1] if found else "").split():
        name, _, words[name] = str(word).partition("=")
    if words.keys() != {"size", *_WINDOW_DEFAULTS}:
        raise ProblemTextError("window={...} needs size=, and knows " + ", ".join(_WINDOW_DEFAULTS), text)
    pads = [pad.partition("_")[::2] for pad in words.pop("pad").split("x")]
    values = {name: word.split("x") for name, word in words.items()}
    values["reversal"] = values.pop("rhs_reversal")
    values |= {"low": [low for low, _ in pads], "high": [high for _, high in pads]}
    if any(len(value) != rank for value in values.values()):
        raise ProblemTextError(f"window={{...}} needs {rank} values each, as many as dim_labels have axes", text)
    window = Window(**{name: tuple(_read_number(v, text) for v in value) for name, value in values.items()})
    if min(*window.size, *window.stride, *window.lhs_dilate, *window.rhs_dilate) < 1:
        raise ProblemTextError("sizes, strides and dilations of a window must be at least 1", text)
    return window


def _read_count(attributes: str, name: str, text: str) -> int:
    found = re.search(rf"{name}=([^\s,]+)", attributes)
    count = _read_number(found[1], text) if found else 1
    if count < 1:
        raise ProblemTextError(f"{name} must be at least 1, not {count}", text)
    return count


def _read_activation(attributes: str, text: str) -> Epilogue | None:
    """What cuDNN does to the sum, from the backend_config; nothing where there is none."""
    for name, harmless in (("conv_result_scale", "1"), ("side_input_scale", "0")):
        if _read_setting(attributes, name, harmless) not in (harmless, f"{harmless}.0"):
            raise ProblemTextError(f"{name} is not {harmless}, and a problem has no scales", text)
    mode = _read_setting(attributes, "activation_mode", "kNone")
    if mode not in _ACTIVATIONS:
        raise ProblemTextError(f"activation_mode {mode[:40]} is neither none, relu nor relu6", text)
    return _ACTIVATIONS[mode]


def _read_setting(attributes: str, name: str, default: str) -> str:
    found = re.search(rf"{name}[\\\"]*:[\s\\\"]*([\w.+-]+)", attributes)
    return found[1] if found else default
