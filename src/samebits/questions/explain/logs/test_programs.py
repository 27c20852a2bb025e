"""Failures that test programs print value by value: MIOpen's, BLAS's testers, TensorFlow's, googletest's equalities.

Each names the values of both sides; the sizes stand in lines of their own, or in the call that failed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from samebits.errors import SamebitsError
from samebits.problems import Problem
from samebits.problems.problem_text import parse_problem_text
from samebits.questions.explain.logs.entry import PLACE, Metrics, Mismatch, name_sides
from samebits.questions.explain.logs.metrics import NUMBER

_MOST_PAIRS = 4096
_Pairs = list[tuple[int, float, float]]

# MIOpen's test programs (test_conv2d): the failure first, then what was computed, then one mismatch.
_MIOPEN_FAILED = re.compile(rf"^\W{{0,8}}FAILED: ({NUMBER})")
_MIOPEN_WHAT = re.compile(r"\b(Forward|Backward data|Backward weights) convolution: {0,4}(\S{0,80})", re.IGNORECASE)
_MIOPEN_TENSOR = re.compile(r"\b(Input|Weights|Output) tensor: ((?:\d{1,9}, ?){1,5}\d{1,9})")
_MIOPEN_FILTER = re.compile(r"\bFilter: conv[23]d, miopenConvolution, \w{1,40}, (.{1,120})")
_MIOPEN_LARGEST = re.compile(rf"\bMax diff: ({NUMBER})")
_MIOPEN_PAIR = re.compile(rf"\bMismatch at (\d{{1,18}}): ({NUMBER}) != ({NUMBER})")
_MIOPEN_COMMAND = re.compile(r"\btest_(?:immed_)?conv[23]d\b.{0,400}?--(half|float|double|bfloat16)\b")
_MIOPEN_DTYPES = {"half": "float16", "float": "float32", "double": "float64", "bfloat16": "bfloat16"}
_MIOPEN_DIRECTIONS = {"forward": "", "backward data": ".grad_input", "backward weights": ".grad_weight"}
_NUMBERS_IN_BRACES = re.compile(r"\{([\d, ]{1,40})\}")
_MIOPEN_REACH = 16

# The testers of the reference BLAS and CBLAS: rows of one column, then the call.
_BLAS = re.compile(r"COMPUTED RESULT IS LESS THAN HALF ACCURATE")
_FORTRAN = r"[-+]?(?:\d{1,20}\.?\d{0,20}|\.\d{1,20})(?:[ED][-+]?\d{1,4})?|[-+]?Inf(?:inity)?|NaN"
_BLAS_REAL = re.compile(rf"^ *(\d{{1,6}}) +({_FORTRAN}) +({_FORTRAN}) *$", re.IGNORECASE)
_BLAS_COMPLEX = re.compile(
    rf"^ *(\d{{1,6}}) +\( *({_FORTRAN}) *, *({_FORTRAN}) *\) +\( *({_FORTRAN}) *, *({_FORTRAN}) *\) *$", re.IGNORECASE
)
_BLAS_COLUMN = re.compile(r"THESE ARE THE RESULTS FOR (COLUMN|ROW) +(\d{1,6})")
_BLAS_NAME = re.compile(r"\*{3,8} *(\w{1,20}) +FAILED ON CALL NUMBER")
_BLAS_GEMM = re.compile(r"\b(?:cblas_)?([sd])gemm *\(.{0,80}?, *(\d{1,6}), *(\d{1,6}), *(\d{1,6}),", re.IGNORECASE)
_BLAS_SAYS = (
    "fewer than half of the digits are right: the tester found an error of at least the square root of the machine"
    " precision in shares of the sum of magnitudes, which no order of addition makes"
)
_BLAS_REACH = 80

# Lines of one element each, whose indices grow: TensorFlow's ExpectClose in two wordings, Composable Kernel's check.
_ELEMENTS = (
    (
        re.compile(rf"\b(?:i|index) = (\d{{1,18}}) (?:Tx\[i\]|x) = ({NUMBER}) (?:Ty\[i\]|y) = ({NUMBER})"),
        ("x", "y"),
        False,
    ),
    (
        re.compile(rf"\bout\[(\d{{1,18}})\] != ref\[\d{{1,18}}\]: ({NUMBER}) != ({NUMBER})"),
        ("the kernel", "the reference"),
        True,
    ),
)
# googletest's equality of two numbers.
_EQUALITY = re.compile(r"Expected equality of these values:")
_WHICH_IS = re.compile(rf"^\s{{0,20}}Which is: ({NUMBER})\s{{0,20}}$")
_EQUALITY_REACH = 5


def read_test_programs(lines: Sequence[str]) -> list[Mismatch]:
    """Every failure that such a program prints, in the log's sequence."""
    found = [*_read_miopen(lines), *_read_blas(lines), *_read_elements(lines), *_read_equalities(lines)]
    return sorted(found, key=lambda m: m.line)


def _read_miopen(lines: Sequence[str]) -> Iterator[Mismatch]:
    """The mismatch, with the convolution from the lines about it: the reference's value stands first there."""
    for number, line in enumerate(lines, 1):
        pair = _MIOPEN_PAIR.search(line)
        if pair is None:
            continue
        block = lines[max(number - _MIOPEN_REACH, 0) : number]
        failures = [at for at, before in enumerate(block) if _MIOPEN_FAILED.search(before)]
        block = block[failures[-1] :] if failures else block[-2:]
        command = next(filter(None, map(_MIOPEN_COMMAND.search, reversed(lines[max(number - 40, 0) : number]))), None)
        text = "\n".join(block)
        failed, largest = _MIOPEN_FAILED.search(block[0]), _MIOPEN_LARGEST.search(text)
        metrics = Metrics(
            rms_share=float(failed[1]) if failed else None, max_abs=float(largest[1]) if largest else None
        )
        what = _MIOPEN_WHAT.search(text)
        yield Mismatch(
            "verifier",
            number,
            _find_miopen_problem(text, what, command[1] if command else ""),
            names=name_sides((what[2] if what else "") or "MIOpen's solver", "the CPU's reference"),
            pairs=((int(pair[1]), float(pair[3]), float(pair[2])),),
            metrics=metrics,
            has_reference=True,
        )


def _find_miopen_problem(text: str, what: re.Match[str] | None, kind: str) -> Problem | None:
    """The convolution that a test of MIOpen prints; None where a part is not said or does not fit the output."""
    shapes = {name: tuple(map(int, sizes.split(","))) for name, sizes in _MIOPEN_TENSOR.findall(text)}
    filter_ = _MIOPEN_FILTER.search(text)
    if filter_ is None or what is None or kind not in _MIOPEN_DTYPES or len(shapes) < 3:
        return None
    settings = [tuple(map(int, sizes.split(","))) for sizes in _NUMBERS_IN_BRACES.findall(filter_[1])]
    if len(settings) != 3 or len({len(shape) for shape in shapes.values()}) != 1 or not shapes["Weights"][1]:
        return None
    x, w, padding, stride, dilation = (
        "x".join(map(str, sizes)) for sizes in (shapes["Input"], shapes["Weights"], *settings)
    )
    groups = shapes["Input"][1] // shapes["Weights"][1]
    name = f"conv{len(shapes['Input']) - 2}d"
    rest = f"padding={padding} stride={stride} dilation={dilation} groups={groups} dtype={_MIOPEN_DTYPES[kind]}"
    try:
        forward = parse_problem_text(f"{name} x={x} w={w} {rest}")
        if forward.out_shape != shapes["Output"]:
            return None
        return parse_problem_text(f"{name}{_MIOPEN_DIRECTIONS[what[1].lower()]} x={x} w={w} {rest}")
    except SamebitsError:
        return None


def _read_blas(lines: Sequence[str]) -> Iterator[Mismatch]:
    """The rows of one column (of complex numbers both parts in turn), and which routine failed in which call."""
    for number, line in enumerate(lines, 1):
        if not _BLAS.search(line):
            continue
        after = lines[number : number + _BLAS_REACH]
        end = next((at for at, later in enumerate(after) if _BLAS.search(later)), len(after))
        pairs = _read_blas_rows(after[:end])
        text = "\n".join(after[:end])
        name, column, gemm = _BLAS_NAME.search(text), _BLAS_COLUMN.search(text), _BLAS_GEMM.search(text)
        facts = {PLACE: f"{column[1].capitalize()} {column[2]}"} if column else {}
        yield Mismatch(
            "verifier",
            number,
            _find_gemm(gemm) if gemm else None,
            names=(name[1] if name else "the routine", "the tester's reference"),
            pairs=tuple(pairs[:_MOST_PAIRS]),
            metrics=_summarise(pairs) if pairs else None,
            facts=facts,
            has_reference=True,
            beyond=_BLAS_SAYS,
        )


def _read_blas_rows(lines: Sequence[str]) -> _Pairs:
    pairs: _Pairs = []
    for line in lines:
        if real := _BLAS_REAL.match(line):
            pairs.append((int(real[1]) - 1, _read_fortran(real[3]), _read_fortran(real[2])))
        elif both := _BLAS_COMPLEX.match(line):
            row = 2 * (int(both[1]) - 1)
            pairs += [(row + part, _read_fortran(both[4 + part]), _read_fortran(both[2 + part])) for part in (0, 1)]
        elif pairs and not line.strip():
            break
    return pairs


def _read_fortran(text: str) -> float:
    return float(text.upper().replace("D", "E"))


def _find_gemm(call: re.Match[str]) -> Problem | None:
    """The product of one call of gemm: M x N outputs of K products; factors and what is added are not said."""
    m, n, k = call[2], call[3], call[4]
    dtype = {"s": "float32", "d": "float64"}[call[1].lower()]
    try:
        return parse_problem_text(f"matmul x={m}x{k} w={k}x{n} dtype={dtype}")
    except SamebitsError:
        return None


def _read_elements(lines: Sequence[str]) -> list[Mismatch]:
    """Lines of one element each: those of one result follow each other with growing indices."""
    found: list[Mismatch] = []
    for pattern, names, has_reference in _ELEMENTS:
        pairs: _Pairs = []
        first = 0
        for number, match in ((n, m) for n, m in enumerate(map(pattern.search, lines), 1) if m):
            pair = (int(match[1]), float(match[2]), float(match[3]))
            if pairs and pair[0] <= pairs[-1][0]:
                found.append(_make_elements(first, names, pairs, has_reference))
                pairs = []
            first = first if pairs else number
            pairs.append(pair)
        if pairs:
            found.append(_make_elements(first, names, pairs, has_reference))
    return found


def _make_elements(line: int, names: tuple[str, str], pairs: _Pairs, has_reference: bool) -> Mismatch:
    return Mismatch(
        "verifier",
        line,
        names=names,
        pairs=tuple(pairs[:_MOST_PAIRS]),
        metrics=_summarise(pairs),
        has_reference=has_reference,
    )


def _read_equalities(lines: Sequence[str]) -> list[Mismatch]:
    """googletest's EXPECT_EQ and EXPECT_FLOAT_EQ of two numbers; all of a log together."""
    pairs: _Pairs = []
    first = 0
    for number, line in enumerate(lines, 1):
        if not _EQUALITY.search(line):
            continue
        values = [float(m[1]) for m in map(_WHICH_IS.match, lines[number : number + _EQUALITY_REACH]) if m]
        if len(values) == 2:
            first = first or number
            pairs.append((len(pairs), values[0], values[1]))
    if not pairs:
        return []
    return [
        Mismatch(
            "verifier",
            first,
            names=("the first value", "the second value"),
            pairs=tuple(pairs[:_MOST_PAIRS]),
            metrics=_summarise(pairs),
        )
    ]


def _summarise(pairs: Sequence[tuple[int, float, float]]) -> Metrics:
    """The largest difference and value among pairs."""
    return Metrics(
        max_abs=max(abs(a - b) for _, a, b in pairs),
        largest_value=max(max(abs(a), abs(b)) for _, a, b in pairs) or None,
    )
