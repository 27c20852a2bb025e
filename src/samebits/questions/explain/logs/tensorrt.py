"""TensorRT's builds in logs of trtexec and Polygraphy: which formats below float32 its layers may compute in.

A build names what is allowed; which layers use it no log says. Only warnings about weights say what was done.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from samebits.questions.explain.logs.entry import Mismatch

_COMMAND = re.compile(r"RUNNING TensorRT\.trtexec(?: \[TensorRT v(\d{4,7})\])?.{0,40}?# (\S{0,200}trtexec.{0,4000})")
# As TensorRT's logger writes it: other tools have a precision, too.
_TRTEXEC_PRECISION = re.compile(r"-\d\d:\d\d:\d\d\] \[I\] Precision: (FP32(?:\+\w{2,5}){0,8}|Strongly Typed)")
_POLYGRAPHY_BUILD = "Building engine with configuration"
_POLYGRAPHY_PRECISION = re.compile(r"\bPrecision {1,40}\| (\w{2,5}: (?:True|False).{0,200})")
_POLYGRAPHY_FLAGS = re.compile(r"\bFlags {1,40}\| \[([\w, ]{0,400})\]")
_SWITCHED = re.compile(r"(\w{2,5}): (True|False)")
_WEIGHTS = re.compile(
    r"Weights \[name=.{1,400}\] had the following issues when converted to (FP16|BF16)"
    r"|\d{1,9} weights are affected by this issue: Detected .{0,60}?\b(FP16|BF16)\b"
)
# The lines that belong to one build of Polygraphy.
_REACH = 12
_FORMATS = {"FP16": "float16", "BF16": "bfloat16", "INT8": "int8", "FP8": "float8", "INT4": "int4", "TF32": "TF32"}
# What each option of trtexec allows.
_OPTIONS = {
    "--fp16": ("FP16",),
    "--bf16": ("BF16",),
    "--int8": ("INT8",),
    "--fp8": ("FP8",),
    "--int4": ("INT4",),
    "--best": ("FP16", "BF16", "INT8"),
}
# The facts that say what weights were converted to, and where a mismatch's build stands.
WEIGHTS, BUILD_LINE = "weights", "build from line"
# The fact that a build's formats are known: where nothing is allowed, that is said.
KNOWN = "formats known"
_RUNNER = re.compile(r"\b(?:trt|tensorrt|trtexec)\b", re.IGNORECASE)


@dataclass
class _Build:
    """`allowed` is None where only weights are known."""

    line: int
    version: str = ""
    allowed: tuple[str, ...] | None = None
    weights: str = ""
    is_command: bool = False

    def as_entry(self) -> Mismatch:
        facts = {WEIGHTS: self.weights} if self.weights else {}
        known = {KNOWN: "yes"} if self.allowed is not None else {}
        return Mismatch(
            "tensorrt", self.line, implementation=self.version, computes_in=self.allowed or (), facts=facts | known
        )


def read_tensorrt(lines: Sequence[str]) -> list[Mismatch]:
    """Every build of an engine that a log tells of, in its sequence."""
    builds: list[_Build] = []
    begun = -_REACH
    for number, line in enumerate(lines, 1):
        begun = number if _POLYGRAPHY_BUILD in line else begun
        command = _COMMAND.search(line)
        if command:
            if "--loadEngine" not in command[2]:
                builds.append(
                    _Build(number, _read_version(command[1] or ""), _list_options(command[2]), is_command=True)
                )
            continue
        allowed = _list_polygraphy(line) if number - begun < _REACH else None
        if allowed is not None:
            builds.append(_Build(number, allowed=allowed))
        precision = _TRTEXEC_PRECISION.search(line)
        if precision and not (builds and builds[-1].is_command):
            # The command itself is not in this part of the log: TF32 is allowed unless it says no.
            builds.append(_Build(number, allowed=_name_formats(["TF32", *precision[1].split("+")])))
        weights = _WEIGHTS.search(line)
        if weights:
            if not builds:
                builds.append(_Build(number))
            builds[-1].weights = builds[-1].weights or _FORMATS[weights[1] or weights[2]]
    return [build.as_entry() for build in builds]


def keep_different(builds: Sequence[Mismatch]) -> list[Mismatch]:
    """Builds of which a log says the same, once."""
    return list({repr(dataclasses.replace(build, line=0)): build for build in reversed(builds)}.values())[::-1]


def is_tensorrt(name: str) -> bool:
    """Whether a side's name says that TensorRT computed it."""
    return _RUNNER.search(name) is not None


def _list_options(command: str) -> tuple[str, ...]:
    """What a command line of trtexec allows; TF32 unless it says no."""
    words = {word.partition("=")[0] for word in command.split()}
    names = [] if "--noTF32" in words else ["TF32"]
    return _name_formats([*names, *(name for word in words for name in _OPTIONS.get(word, ()))])


def _list_polygraphy(line: str) -> tuple[str, ...] | None:
    """What Polygraphy says of a build: switches, or since 2023 the flags that are set; None for other lines."""
    switches = _POLYGRAPHY_PRECISION.search(line)
    if switches:
        return _name_formats(name for name, state in _SWITCHED.findall(switches[1]) if state == "True")
    flags = _POLYGRAPHY_FLAGS.search(line)
    return _name_formats(flag.strip() for flag in flags[1].split(",")) if flags else None


def _name_formats(names: Iterable[str]) -> tuple[str, ...]:
    known = set(names)
    return tuple(text for name, text in _FORMATS.items() if name in known)


def _read_version(digits: str) -> str:
    """8402 is 8.4.2, 100300 is 10.3.0."""
    if not digits:
        return ""
    number, step = int(digits), 100 if len(digits) > 5 else 10
    major, rest = divmod(number, 100 * step)
    return f"{major}.{rest // 100}.{rest % 100}"
