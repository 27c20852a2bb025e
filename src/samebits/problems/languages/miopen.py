"""MIOpenDriver convolution command lines as problems: `MIOpenDriver conv -n 1 -c 3 -H 8 -W 8 -k 4 -y 3 -x 3 -F 1`.

Options and defaults: MIOpen driver/conv_driver.hpp, driver/InputFlags.cpp, driver/driver.cpp.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from samebits.errors import ProblemTextError
from samebits.problems.languages.command_line import split_command
from samebits.problems.problem import Direction, Problem, Shape, as_kind

# The whitespace or the end that follows the program's name; what precedes it on the line is a log's prefix.
_PROGRAM = re.compile(r"MIOpenDriver(?:\.exe)?(?=[\s'\"]|$)")
_DTYPES = {"conv": "float32", "convfp16": "float16", "convbfp16": "bfloat16"}
# Long name, short name, default; in conv_driver.hpp's order.
_SHAPE_OPTIONS = (
    ("spatial_dim", "_", 2),
    ("forw", "F", 0),
    ("batchsize", "n", 100),
    ("in_channels", "c", 3),
    ("in_d", "!", 32),
    ("in_h", "H", 32),
    ("in_w", "W", 32),
    ("out_channels", "k", 32),
    ("fil_d", "@", 3),
    ("fil_h", "y", 3),
    ("fil_w", "x", 3),
    ("conv_stride_d", "#", 1),
    ("conv_stride_h", "u", 1),
    ("conv_stride_w", "v", 1),
    ("pad_d", "$", 0),
    ("pad_h", "p", 0),
    ("pad_w", "q", 0),
    ("trans_output_pad_d", "%", 0),
    ("trans_output_pad_h", "Y", 0),
    ("trans_output_pad_w", "X", 0),
    ("dilation_d", "^", 1),
    ("dilation_h", "l", 1),
    ("dilation_w", "j", 1),
    ("group_count", "g", 1),
    ("bias", "b", 0),
)
_CHOICES: dict[str, tuple[str, ...]] = {"mode": ("conv", "trans"), "pad_mode": ("default", "same", "valid")}
# Values, layouts, timing, verification, solver choice, allocation: they do not change which convolution is computed.
_IGNORED = {
    "in_layout": "I",
    "out_layout": "O",
    "fil_layout": "f",
    "iter": "i",
    "verify": "V",
    "verification_cache": "C",
    "time": "t",
    "wall": "w",
    "search": "s",
    "printconv": "P",
    "dump_output": "o",
    "in_data": "d",
    "weights": "e",
    "in_bias": "a",
    "dout_data": "D",
    "solution": "S",
    "gpualloc": "G",
    "gpubuffer_check": "~",
}
# These change it in ways a problem cannot express, unless they have the value at which they do nothing.
_HARMLESS = {
    "pad_val": ("r", "0"),
    "tensor_vect": ("Z", "0"),
    "vector_length": ("L", "1"),
    "in_cast_type": ("U", "-1"),
    "out_cast_type": ("T", "-1"),
    "wei_cast_type": ("R", "-1"),
}
_LONG_NAMES = (
    {short: name for name, short, _ in _SHAPE_OPTIONS}
    | {short: name for name, short in _IGNORED.items()}
    | {short: name for name, (short, _) in _HARMLESS.items()}
    | {"m": "mode", "z": "pad_mode"}
)
# Names of earlier MIOpen releases.
_FORMER_NAMES = {"conv_stride_0": "conv_stride_h", "conv_stride_1": "conv_stride_w"}
_DIRECTIONS: dict[int, Direction] = {1: "forward", 2: "grad_input", 4: "grad_weight"}


@dataclass(frozen=True)
class _Command:
    text: str
    dtype: str
    numbers: dict[str, int]
    mode: str
    pad_mode: str

    @property
    def letters(self) -> str:
        """The spatial axes, outermost first; options of an axis that is not there are read and not used."""
        return "dhw"[3 - self.numbers["spatial_dim"] :]

    def per_axis(self, name: str) -> Shape:
        return tuple(self.numbers[f"{name}_{letter}"] for letter in self.letters)


def parse_miopen(text: str) -> Problem:
    """The problem that a MIOpenDriver command line names.

    `-F 1` is forward, 2 the gradient of x, 4 the gradient of w; 0 (the default: all three) and sums of several are
    read as forward. An option that changes only layout, values, timing, verification or the solver is ignored; one
    that changes what is computed beyond what a problem can express, and any unknown one, is refused by name, since
    nothing tells what it does. Options not given have MIOpen's defaults. Raises ProblemTextError, ProblemShapeError.
    """
    command = _read_command(text)
    numbers = command.numbers
    direction = _DIRECTIONS.get(numbers["forw"], "forward")
    is_transposed = command.mode == "trans"
    return Problem(
        kind=as_kind(f"conv{'_transpose' if is_transposed else ''}{len(command.letters)}d"),
        x=(numbers["batchsize"], numbers["in_channels"], *command.per_axis("in")),
        w=(*_find_weight_channels(command), *command.per_axis("fil")),
        direction=direction,
        bias=direction == "forward" and numbers["bias"] != 0,
        stride=command.per_axis("conv_stride"),
        padding=tuple((p, p) for p in _find_padding(command)),
        dilation=command.per_axis("dilation"),
        output_padding=command.per_axis("trans_output_pad") if is_transposed else (),
        groups=max(numbers["group_count"], 1),
        dtype=command.dtype,
    )


def _read_command(text: str) -> _Command:
    name, *words = _split_words(text)
    if name not in _DTYPES:
        raise ProblemTextError(f"MIOpenDriver {name} is not one of {', '.join(_DTYPES)}", text, _find(text, name))
    options = _read_options(words, text)
    numbers = {
        long: _read_number(long, options[long], text) if long in options else default
        for long, _, default in _SHAPE_OPTIONS
    }
    if numbers["spatial_dim"] not in (2, 3):
        raise ProblemTextError(f"spatial_dim is 2 or 3 in MIOpen, not {numbers['spatial_dim']}", text)
    mode, pad_mode = (_read_choice(name, options, text) for name in ("mode", "pad_mode"))
    return _Command(text, _DTYPES[name], numbers, mode, pad_mode)


def _split_words(text: str) -> list[str]:
    """What follows the program's name, as a shell splits it; `!`, `#`, `$`, `@` and `^` stay what they are."""
    program = _PROGRAM.search(text)
    if not program:
        raise ProblemTextError("no MIOpenDriver in it; expected e.g. MIOpenDriver conv -n 1 -c 3 -F 1", text, 0)
    prefix, command = text[: program.end()], text[program.end() :]
    for quote in ("'", '"'):
        if prefix.count(quote) % 2:
            command = command.replace(quote, " ", 1)
    words = split_command(command)
    if not words:
        raise ProblemTextError("MIOpenDriver needs conv, convfp16 or convbfp16 after it", text, len(text.rstrip()))
    return words


def _read_options(words: list[str], text: str) -> dict[str, str]:
    """Options by long name. Each takes the word after it as its value; the last of a repeated one counts."""
    options: dict[str, str] = {}
    for i in range(0, len(words), 2):
        name = _find_long_name(words[i], text)
        if i + 1 == len(words):
            raise ProblemTextError(f"option {words[i]} needs a value", text, len(text.rstrip()))
        options[name] = words[i + 1]
    for name, (_, harmless) in _HARMLESS.items():
        if options.get(name, harmless) != harmless:
            raise ProblemTextError(f"--{name} {options[name]} is something a problem cannot express", text)
    return options


def _find_long_name(word: str, text: str) -> str:
    name = word[2:] if word.startswith("--") else _LONG_NAMES.get(word[1:], "") if word.startswith("-") else ""
    name = _FORMER_NAMES.get(name, name)
    if name not in _LONG_NAMES.values():
        raise ProblemTextError(f"{word[:40]!r} is no option of MIOpenDriver conv", text, _find(text, word))
    return name


def _find(text: str, word: str) -> int | None:
    position = text.find(word) if word else -1
    return None if position < 0 else position


def _read_number(name: str, value: str, text: str) -> int:
    if not (value.isascii() and value.isdigit()) or len(value) > 18:
        raise ProblemTextError(f"--{name} needs a whole number of at most 18 digits, not {value[:40]!r}", text)
    return int(value)


def _read_choice(name: str, options: dict[str, str], text: str) -> str:
    value = options.get(name, _CHOICES[name][0])
    if value not in _CHOICES[name]:
        raise ProblemTextError(f"--{name} is one of {', '.join(_CHOICES[name])}, not {value[:40]!r}", text)
    return value


def _find_weight_channels(command: _Command) -> tuple[int, int]:
    """(k, c/g), transposed (c, k/g): GetWeightTensorLengthsFromCmdLine."""
    c, k = command.numbers["in_channels"], command.numbers["out_channels"]
    groups = max(command.numbers["group_count"], 1)
    if c % groups or k % groups:
        raise ProblemTextError(f"group_count {groups} must divide in_channels {c} and out_channels {k}", command.text)
    return (c, k // groups) if command.mode == "trans" else (k, c // groups)


def _find_padding(command: _Command) -> Shape:
    """The padding of both ends: SetConvDescriptorFromCmdLineArgs.

    `same` gives both ends half of what SAME needs, rounded down, so an odd need yields a smaller result than SAME
    elsewhere. Like MIOpen's, this heeds pad_mode only in mode conv, and only without dilation or with 1x1 filters.
    """
    pads, kernels = command.per_axis("pad"), command.per_axis("fil")
    is_heeded = set(command.per_axis("dilation")) == {1} or set(kernels) == {1}
    if command.mode == "trans" or command.pad_mode == "default" or not is_heeded:
        return pads
    if command.pad_mode == "valid":
        return (0,) * len(pads)
    sizes, strides = command.per_axis("in"), command.per_axis("conv_stride")
    return tuple(_halve_same(*axis) for axis in zip(sizes, kernels, strides, strict=True))


def _halve_same(size: int, kernel: int, stride: int) -> int:
    rest = size % stride if stride else 0
    return max(kernel - (rest or stride), 0) // 2
