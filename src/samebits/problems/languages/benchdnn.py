"""oneDNN's benchdnn convolution lines as problems: `--conv --dir=FWD_D --dt=f16 ic3ih227oc96oh55kh11sh4ph0`.

Rules and defaults, in oneDNN's tests/benchdnn: conv/conv_aux.cpp, deconv/deconv_aux.cpp,
doc/driver_conv.md, doc/knobs_attr.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from samebits.errors import ProblemTextError
from samebits.problems.languages.command_line import find_padding_end, split_command, split_transposed_end
from samebits.problems.problem import Direction, Epilogue, Problem, as_kind

# Fields of a descriptor; every one but n (the name, which ends it) is followed by a number.
_FIELD = re.compile(r"(g|mb|[io][cdhw]|[kspd][dhw])([0-9]+)")
_FORMAT = re.compile(r"bf16|f16|f32|f64|f8_e4m3|f8_e5m2")
_DTYPES = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "f64": "float64",
    "f8_e4m3": "float8_e4m3fn",
    "f8_e5m2": "float8_e5m2",
}
# --dir: the direction, and whether a bias is added to the result.
_DIRECTIONS: dict[str, tuple[Direction, bool]] = {
    "FWD_B": ("forward", True),
    "FWD_D": ("forward", False),
    "FWD_I": ("forward", False),
    "BWD_D": ("grad_input", False),
    "BWD_W": ("grad_weight", False),
    "BWD_WB": ("grad_weight", False),
}
_READ = ("dir", "dt", "cfg", "bia-dt", "mb", "attr-post-ops")
# Options that choose layouts, the implementation, the device, the timing or the checking; never what is computed.
_IGNORED = re.compile(
    r"[swd]tag|strides|alg|match|engine|(?:skip-)?impl|mode(?:-modifier)?|execution-mode|v[0-9]*|verbose|canonical|summary"
    r"|mem-check|memory-kind|allow-enum-tags-only|cpu-isa-hints|ctx-(?:init|exe)|stream-kind|num-streams|start|fast-ref"
    r"|attr-(?:same-pd-check|scratchpad|deterministic)|check-ref-impl|cold-cache|perf-template"
    r"|repeats-per-prb|fix-times-per-prb|max-ms-per-prb"
)
# Attributes that change the values computed, unless they have these values.
_HARMLESS = {"attr-fpmath": ("", "strict"), "attr-acc-mode": ("", "strict"), "attr-rounding-mode": ("", "environment")}
_CHANGING = ("attr", "attr-scales", "attr-zero-points", "attr-dropout", "attr-precomputed-reductions")


@dataclass(frozen=True)
class BenchdnnLine:
    """A line taken apart: options by name, and the descriptor. `is_bare` says that it has no option at all."""

    text: str
    descriptor: str
    driver: str = "conv"
    options: dict[str, str] = field(default_factory=dict)
    is_bare: bool = True

    def refuse(self, says: str, token: str = "") -> ProblemTextError:
        """The error that says this, and where in the line."""
        position = self.text.find(token) if token else -1
        return ProblemTextError(says, self.text, None if position < 0 else position)


@dataclass(frozen=True)
class _SpatialAxis:
    size: int
    kernel: int
    stride: int
    dilation: int
    padding: tuple[int, int]
    output_padding: int


def parse_benchdnn(text: str) -> Problem:
    """The problem that a benchdnn descriptor, with or without options before it, names.

    Defaults are benchdnn's: mb 2, g 1, stride 1, dilation 0 (meaning none), f32, and on a command line `--dir=FWD_B`,
    which adds a bias; a bare descriptor names shapes only and is read as forward without bias. ic and oc are totals
    over the groups. Where oh is given the end padding is the one that yields it. Raises ProblemTextError and
    ProblemShapeError.
    """
    line = _split_line(text)
    fields = _read_descriptor(line)
    axes = _read_axes(fields, line)
    direction, bias = _read_direction(line)
    dtype, out = read_number_types(line, line.options, direction)
    return Problem(
        kind=as_kind(f"{'conv_transpose' if line.driver == 'deconv' else 'conv'}{len(axes)}d"),
        x=(_read_minibatch(line, fields), fields["ic"], *(a.size for a in axes)),
        w=(*_read_channels(line, fields), *(a.kernel for a in axes)),
        direction=direction,
        bias=bias,
        stride=tuple(a.stride for a in axes),
        padding=tuple(a.padding for a in axes),
        dilation=tuple(a.dilation for a in axes),
        output_padding=tuple(a.output_padding for a in axes),
        groups=fields.get("g", 1),
        dtype=dtype,
        out=out,
        then=read_epilogue(line, line.options),
    )


def _split_line(text: str) -> BenchdnnLine:
    tokens = split_command(text.rpartition("__REPRO:")[2])
    if tokens and tokens[0].endswith("benchdnn"):
        tokens = tokens[1:]
    line = BenchdnnLine(text, "", is_bare=not any(t.startswith("-") for t in tokens))
    for token in tokens:
        line = _take_option(line, token) if token.startswith("-") else _take_descriptor(line, token)
    if not line.descriptor:
        raise line.refuse("no problem descriptor; expected one such as mb2ic3ih8oc4kh3")
    return line


def _take_descriptor(line: BenchdnnLine, token: str) -> BenchdnnLine:
    if line.descriptor:
        raise line.refuse("a second problem descriptor; give one at a time", token)
    return replace(line, descriptor=token)


def _take_option(line: BenchdnnLine, token: str) -> BenchdnnLine:
    name, _, value = token.lstrip("-").partition("=")
    if name in ("conv", "deconv"):
        return replace(line, driver=name)
    if name == "reset":
        return replace(line, options={})
    if name not in _READ:
        check_harmless(line, name, value, token)
        return line
    if "," in value:
        raise line.refuse(f"--{name} lists several values; give one problem at a time", token)
    return replace(line, options={**line.options, name: value})


def check_harmless(line: BenchdnnLine, name: str, value: str, token: str) -> None:
    """Raises ProblemTextError for an option that changes what is computed, or that is not known."""
    if _IGNORED.fullmatch(name) or value in _HARMLESS.get(name, ()) or (name in _CHANGING and not value):
        return
    if name in _HARMLESS:
        raise line.refuse(f"--{name}={value} is a setting of the engine, not of the problem; leave it out", token)
    if name in _CHANGING:
        raise line.refuse(f"--{name} changes what is computed in a way a problem cannot express", token)
    raise line.refuse(
        f"option --{name} is not one this reader knows for --conv, --deconv or --matmul; leave it out", token
    )


def _read_descriptor(line: BenchdnnLine) -> dict[str, int]:
    token, position = line.descriptor, 0
    fields: dict[str, int] = {}
    while position < len(token) and token[position] != "n":
        match = _FIELD.match(token, position)
        if match:
            fields[match[1]] = _read_number(line, match[2], match[0])
        elif token[position] != "_":
            raise line.refuse(f"no descriptor field at {token[position : position + 20]!r}", token[position:])
        position = match.end() if match else position + 1
    for name in ("ic", "oc"):
        if not fields.get(name):
            raise line.refuse(f"{name} is missing or 0 in the descriptor", token)
    return fields


def _read_number(line: BenchdnnLine, digits: str, token: str) -> int:
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
        raise line.refuse(f"expected a whole number of at most 18 digits, not {digits[:40]!r}", token)
    return int(digits)


def _read_axes(fields: dict[str, int], line: BenchdnnLine) -> tuple[_SpatialAxis, ...]:
    """Depth, height and width as given; benchdnn's rule: `h` alone is square, `d` alone is cubic."""
    d, h, w = (_read_axis(fields, letter, line) for letter in "dhw")
    if d and not h and not w:
        return (d, d, d)
    if d and h and w:
        return (d, h, w)
    if d:
        raise line.refuse("with d, give both h and w or neither", line.descriptor)
    if h:
        return (h, w or h)
    if w:
        return (w,)
    raise line.refuse("no spatial size; give iw and kw, or ih and kh, or id and kd", line.descriptor)


def _read_axis(fields: dict[str, int], letter: str, line: BenchdnnLine) -> _SpatialAxis | None:
    size, result, kernel = (fields.get(name + letter, 0) for name in "iok")
    stride, dilation = fields.get("s" + letter, 1), fields.get("d" + letter, 0) + 1
    begin = fields.get("p" + letter)
    if not (size or result or kernel or begin) and stride == 1 and dilation == 1:
        return None
    for name, value in (("i", size), ("k", kernel), ("s", stride)):
        if value < 1:
            raise line.refuse(f"{name}{letter} is missing or 0 in the descriptor", line.descriptor)
    reach = (kernel - 1) * dilation + 1
    small, large = (size, result) if line.driver == "deconv" else (result, size)
    if result and begin is None:
        begin = _halve((small - 1) * stride - large + reach)
    begin = begin or 0
    if begin < 0:
        raise line.refuse(
            f"o{letter}={result} needs a negative padding, which a problem does not have", line.descriptor
        )
    end, extra = begin, 0
    if result and line.driver == "deconv":
        end, extra = split_transposed_end(begin, (small - 1) * stride + reach - begin - large, stride, dilation)
    elif result:
        end = find_padding_end(small, large, reach, stride, begin)
    return _SpatialAxis(size, kernel, stride, dilation, (begin, end), extra)


def _halve(total: int) -> int:
    """C++'s total / 2, which rounds towards zero."""
    return -(-total // 2) if total < 0 else total // 2


def _read_minibatch(line: BenchdnnLine, fields: dict[str, int]) -> int:
    override = line.options.get("mb", "0")
    return _read_number(line, override, override) or fields.get("mb", 2)


def _read_channels(line: BenchdnnLine, fields: dict[str, int]) -> tuple[int, int]:
    """The first two sizes of w: (oc, ic/g), transposed (ic, oc/g)."""
    groups = fields.get("g", 1)
    if not groups or fields["ic"] % groups or fields["oc"] % groups:
        raise line.refuse(f"g={groups} must divide ic={fields['ic']} and oc={fields['oc']}", line.descriptor)
    if line.driver == "deconv":
        return fields["ic"], fields["oc"] // groups
    return fields["oc"], fields["ic"] // groups


def _read_direction(line: BenchdnnLine) -> tuple[Direction, bool]:
    name = line.options.get("dir") or ("FWD_D" if line.is_bare else "FWD_B")
    if name.upper() not in _DIRECTIONS:
        raise line.refuse(f"unknown --dir={name}; one of {', '.join(_DIRECTIONS)}", name)
    direction, bias = _DIRECTIONS[name.upper()]
    return direction, bias or (direction == "forward" and line.options.get("bia-dt", "undef") not in ("", "undef"))


def read_number_types(
    line: BenchdnnLine, options: Mapping[str, str], direction: Direction = "forward"
) -> tuple[str, str]:
    """(operands' dtype, result's dtype) from --dt=src:wei:dst, or from the older --cfg. Raises ProblemTextError."""
    given = options.get("dt") or options.get("cfg") or "f32"
    names = given.split(":") if options.get("dt") else _split_configuration(given)
    if len(names) not in (1, 3) or any(name not in _DTYPES for name in names):
        raise line.refuse(f"data types {given!r} are not one or three of {', '.join(_DTYPES)}", given)
    src, wei, dst = (_DTYPES[name] for name in (names * 3)[:3])
    first, second, out = {
        "forward": (src, wei, dst),
        "grad_input": (wei, dst, src),
        "grad_weight": (src, dst, wei),
    }[direction]
    if first != second:
        raise line.refuse(f"operands of two data types, {first} and {second}; a problem has one", given)
    return first, out


def _split_configuration(given: str) -> list[str]:
    """`bf16bf16f32` as its names; `_wino` chooses an algorithm only. What is not made of formats comes back whole."""
    given = given.removesuffix("_wino")
    names = _FORMAT.findall(given)
    return names if "".join(names) == given else [given]


def read_epilogue(line: BenchdnnLine, options: Mapping[str, str]) -> Epilogue | None:
    """relu or clip from --attr-post-ops, None where nothing is given. Raises ProblemTextError for anything else."""
    given = options.get("attr-post-ops", "")
    name, *arguments = given.split(":")
    try:
        numbers = [float(a) for a in arguments]
    except ValueError:
        numbers = [float("nan")]
    name = name.removeprefix("eltwise_")
    if name == "relu" and not any(numbers):
        return Epilogue("relu")
    if name in ("clip", "clip_v2") and len(numbers) == 2:
        return Epilogue("clip", *numbers)
    if given:
        raise line.refuse(f"--attr-post-ops={given} is neither relu nor clip:low:high, all that a problem has", given)
    return None


_DESCRIPTOR = re.compile(r"([0-9]{1,18}(?:x[0-9]{1,18})+):([0-9]{1,18}(?:x[0-9]{1,18})+)(?:n.*)?")
_READ_OF_PRODUCTS = ("dt", "cfg", "bia-dt", "bia-mask", "attr-post-ops")
# What chooses layouts only; the shapes of what is known at run time do not change what is computed.
_LAYOUTS = ("stag", "wtag", "dtag", "strides", "runtime-dims-masks", "sparse-dims")


def parse_benchdnn_matmul(text: str) -> Problem:
    """The product of a `--matmul` line: source (..., M, K), weights (..., K, N), each batch size 1 or the other's.

    With a bias along N (`--bia-dt`, mask of the last axis) it is `linear`, whose w is weights transposed: then weights
    must be one matrix. Raises ProblemTextError and ProblemShapeError.
    """
    tokens = split_command(text.rpartition("__REPRO:")[2])
    line = BenchdnnLine(text, "", driver="matmul", is_bare=False)
    options: dict[str, str] = {}
    descriptors: list[str] = []
    for token in tokens[1:] if tokens and tokens[0].endswith("benchdnn") else tokens:
        name, _, value = token.lstrip("-").replace("_", "-").partition("=")
        if not token.startswith("-"):
            descriptors.append(token)
        elif name in _READ_OF_PRODUCTS:
            options[name] = token.partition("=")[2]
        elif name == "reset":
            options = {}
        elif name not in ("matmul", *_LAYOUTS):
            check_harmless(line, name, value, token)
    if len(descriptors) != 1:
        raise ProblemTextError("one problem descriptor is needed, such as 3x20x30:1x30x40", text)
    found = _DESCRIPTOR.fullmatch(descriptors[0])
    if not found:
        raise line.refuse(
            f"no matmul descriptor: {descriptors[0][:40]!r}; expected one such as 20x30:30x40", descriptors[0]
        )
    x, w = (tuple(int(size) for size in side.split("x")) for side in found.groups())
    dtype, out = read_number_types(line, options)
    then = read_epilogue(line, options)
    if options.get("bia-dt", "undef") in ("", "undef"):
        return Problem("matmul", x, w, dtype=dtype, out=out, then=then)
    # benchdnn's own default, which is N of two axes, and M of three.
    mask = options.get("bia-mask", "2")
    if mask != str(1 << (len(x) - 1)) or any(size != 1 for size in w[:-2]):
        raise line.refuse("a bias along other axes than N, or with several matrices of weights, is no linear layer")
    return Problem("linear", x, (w[-1], w[-2]), bias=True, dtype=dtype, out=out, then=then)
