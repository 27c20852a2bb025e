"""oneDNN's verbose lines: which implementation ran a convolution, in which formats, by which algorithm."""

from __future__ import annotations

import re
from collections.abc import Sequence

from samebits.errors import SamebitsError
from samebits.languages.benchdnn import parse_benchdnn
from samebits.logs.entry import Mismatch

_LINE = re.compile(
    r"(?:one)?dnnl?_verbose,(?:[\d.]+,)?(?:v\d+,)?(?:primitive,)?exec[\w:]*,\w+,((?:de)?convolution),(.*)"
)
_FORMATS = re.compile(r"\b(src|wei|bia|dst|diff_src|diff_wei|diff_dst)_(?:a?:?)?(\w+?)::")
_OTHER_FORMATS = re.compile(r"\b(src|wei|dst)[_:](f64|f32|f16|bf16|s8|u8)\b")
_ALGORITHM = re.compile(r"alg:(\w+)")
_SHAPE = re.compile(r"\b((?:g\d+)?mb\d+_?\w*ic\d+\w*)")
_NO_BIAS = re.compile(r"\bbia[_:]undef")
_FPMATH = re.compile(r"attr-fpmath:(\w+)")
_DIRECTIONS = {"forward": "FWD_B", "backward_data": "BWD_D", "backward_weights": "BWD_W"}
_DRIVERS = {"convolution": "--conv", "deconvolution": "--deconv"}
_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16", "f64": "float64"}


def read_onednn(lines: Sequence[str]) -> list[Mismatch]:
    """Every convolution that oneDNN executed, once for each implementation and shape."""
    found: dict[tuple[str, str, tuple[str, ...]], Mismatch] = {}
    for number, line in enumerate(lines, 1):
        parsed = _LINE.search(line)
        if not parsed:
            continue
        kind, rest = parsed[1], parsed[2]
        implementation = rest.partition(",")[0]
        formats: dict[str, str] = {n: f for pattern in (_OTHER_FORMATS, _FORMATS) for n, f in pattern.findall(rest)}
        shape, algorithm, fpmath = _SHAPE.search(rest), _ALGORITHM.search(rest), _FPMATH.search(rest)
        facts = {k: v[1] for k, v in (("algorithm", algorithm), ("fpmath", fpmath)) if v}
        used = tuple(_NAMES.get(formats.get(n) or "", formats.get(n) or "") for n in ("src", "wei", "dst"))
        problem, trouble = None, ""
        if shape:
            direction = next((d for word, d in _DIRECTIONS.items() if word in rest), "FWD_B")
            dt = formats.get("src") or formats.get("diff_src") or "f32"
            try:
                if direction == "FWD_B" and _NO_BIAS.search(rest):
                    direction = "FWD_D"
                problem = parse_benchdnn(f"{_DRIVERS[kind]} --dir={direction} --dt={dt} {shape[1]}")
            except SamebitsError as error:
                trouble = str(error)
        key = (implementation, str(problem or shape), used)
        found.setdefault(
            key,
            Mismatch(
                "onednn", number, problem, implementation=implementation, computes_in=used, trouble=trouble, facts=facts
            ),
        )
    return list(found.values())
