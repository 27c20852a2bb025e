"""oneDNN's verbose lines: which implementation ran a convolution, in which formats, by which algorithm."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence

from samebits.errors import SamebitsError
from samebits.problems.languages.benchdnn import parse_benchdnn
from samebits.questions.explain.logs.entry import LONGEST_NAME, Mismatch

_LINE = re.compile(
    r"(?:one)?dnnl?_verbose,(?:[\d.]+,)?(?:v\d+,)?(?:primitive,)?exec[\w:]*,\w+,((?:de)?convolution),(.*)"
)
# src_f32::blocked, wei_f32:a:blocked, src_f32:p:blocked; today src:f32::blocked.
_FORMATS = re.compile(r"\b(?:diff_)?(src|wei|dst)[_:](\w+):")
_ALGORITHM = re.compile(r"alg:(\w+)")
_SHAPE = re.compile(r"\b(?:g\d++)?+mb\d\w*?ic\d\w*")
_NO_BIAS = re.compile(r"\bbia[_:]undef")
_FPMATH = re.compile(r"attr-fpmath:(\w+)")
_DIRECTIONS = {"forward": "FWD_B", "backward_data": "BWD_D", "backward_weights": "BWD_W"}
_DRIVERS = {"convolution": "--conv", "deconvolution": "--deconv"}
_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}


def read_onednn(lines: Sequence[str]) -> list[Mismatch]:
    """Every convolution that oneDNN executed, once for each implementation, shape and setting."""
    found: dict[str, Mismatch] = {}
    seen: set[str] = set()
    for number, line in enumerate(lines, 1):
        parsed = _LINE.search(line)
        # The last field is the time it took.
        if not parsed or (said := parsed[0].rpartition(",")[0]) in seen:
            continue
        seen.add(said)
        entry = _read_line(parsed[1], parsed[2], number)
        found.setdefault(repr(dataclasses.replace(entry, line=0)), entry)
    return list(found.values())


def _read_line(kind: str, rest: str, number: int) -> Mismatch:
    """One executed convolution: `rest` is what follows `kind` on its line."""
    formats: dict[str, str] = dict(_FORMATS.findall(rest))
    matches = {"algorithm": _ALGORITHM.search(rest), "fpmath": _FPMATH.search(rest)}
    entry = Mismatch(
        "onednn",
        number,
        implementation=rest.partition(",")[0][:LONGEST_NAME],
        computes_in=tuple(_NAMES.get(formats.get(n, ""), formats.get(n, "")) for n in ("src", "wei", "dst")),
        facts={k: v[1] for k, v in matches.items() if v},
    )
    shape = _SHAPE.search(rest)
    if not shape:
        return entry
    direction = next((d for word, d in _DIRECTIONS.items() if word in rest), "FWD_B")
    if direction == "FWD_B" and _NO_BIAS.search(rest):
        direction = "FWD_D"
    types = ":".join(formats.get(n, "f32") for n in ("src", "wei", "dst"))
    try:
        problem = parse_benchdnn(f"{_DRIVERS[kind]} --dir={direction} --dt={types} {shape[0]}")
    except SamebitsError as error:
        return dataclasses.replace(entry, trouble=str(error))
    return dataclasses.replace(entry, problem=problem)
