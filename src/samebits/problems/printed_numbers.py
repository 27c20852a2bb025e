"""Numbers as people print and paste them: rows of a table, or nested brackets as NumPy and torch write them."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from samebits.errors import CaseFileError
from samebits.numbers.array import measure_spacing
from samebits.numbers.format import find_format, numpy_dtype

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d{1,4})?|[-+]?(?:nan|inf(?:inity)?)"
_TOKEN = re.compile(rf"\[|\]|(?:{_NUMBER})(?![\w.])", re.IGNORECASE)
# What may stand around the numbers: a call's name, its other arguments, separators.
_AROUND = re.compile(r"(?:\b(?:(?:np|numpy|torch|tf|jnp)\.)?(?:array|tensor|Tensor|Array|Parameter containing:)\s*\(?"
                     r"|<tf\.Tensor:|shape=\([\d, ]*\)|numpy=|>|[\s,;()]|dtype=[\w.]+|device=[\w.:']+"
                     r"|requires_grad=\w+|grad_fn=<[\w<> ]*>)*")  # fmt: skip
# What a session or a script has before a printed tensor: the line that printed it, a name that it was given.
_PROMPT = re.compile(
    r"^(?:>>>|In \[\d+\]:).*$|^Out\[\d+\]:|^\s*[A-Za-z_][\w.]*\s*=(?=\s*(?:[\w.]*\(?\s*\[|<tf))", re.MULTILINE
)
_DIGITS = re.compile(r"\.(\d*)")
_EXPONENT = re.compile(r"[eE]([-+]?\d+)")
_MOST_DEPTH, _LARGEST_EXPONENT = 8, 308
# The shortest decimal of a number is coarser than this many of its format's steps for less than one in four.
_COARSE_STEPS, _MOST_COARSE = 4, 0.5

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PrintedNumbers:
    """Numbers read from text, and the unit of the last digit printed of each."""

    values: Floats
    units: Floats

    def says(self, dtype: str) -> bool:
        """Whether there are enough digits to say which numbers of the format were printed."""
        with np.errstate(over="ignore", invalid="ignore"):
            rounded = self.values.astype(numpy_dtype(dtype)).astype(np.float64)
            inexact = np.isfinite(self.values) & (rounded != self.values)
            steps = measure_spacing(self.values[inexact], find_format(dtype))
        return not inexact.any() or bool((self.units[inexact] > _COARSE_STEPS * steps).mean() <= _MOST_COARSE)

    def round_to(self, where: str, dtype: str) -> np.ndarray:
        """The format's numbers that these decimals stand for.

        Raises CaseFileError where most have too few digits to say which number of the format was printed.
        """
        if not self.says(dtype):
            raise CaseFileError(
                f"{where} has too few digits to say which {dtype} numbers were printed; store them with np.save, or"
                " print them after torch.set_printoptions(precision=9) or np.set_printoptions(floatmode='unique')"
            )
        with np.errstate(over="ignore"):
            return self.values.astype(numpy_dtype(dtype))


def parse_numbers(where: str, text: str) -> PrintedNumbers:
    """The numbers of a table (a row a line), or of nested brackets; `where` begins an error's message.

    Raises CaseFileError for text with anything else, with dots in place of numbers, or with rows of several lengths.
    """
    text = _PROMPT.sub("", text)
    if "..." in text:
        raise CaseFileError(f"{where} has dots in place of numbers; store the whole array with np.save")
    if "[" in text or "]" in text:
        return _parse_brackets(where, text)
    if ";" in text and "," in text and "." not in text:
        raise CaseFileError(f"{where} has commas and semicolons: where a comma is a decimal point, write a point")
    _refuse_names(where, text)
    rows = [_list_tokens(where, line) for line in text.splitlines()]
    rows = [row for row in rows if row]
    if not rows or len({len(row) for row in rows}) != 1:
        raise CaseFileError(f"{where} is no table of numbers: {'rows of several lengths' if rows else 'it has none'}")
    shape = (len(rows), len(rows[0])) if len(rows) > 1 else (len(rows[0]),)
    return _make([t for row in rows for t in row], shape)


def _refuse_names(where: str, text: str) -> None:
    """Raises CaseFileError where the first line holds the names of columns, as tables with a head and an index have."""
    first = next((line for line in text.splitlines() if line.strip()), "")
    words = [word.strip(" \"'") for word in re.split(r"[,;\t]", first)]
    are_names = len(words) > 1 and all(re.match(r"[^\W\d]", w) and not re.fullmatch(_NUMBER, w, re.I) for w in words)
    if are_names or first.startswith((",", ";")):
        numbers = "write numbers alone (pandas: to_csv(FILE, header=False, index=False))"
        raise CaseFileError(f"{where} begins with names of columns: {numbers}")


def _list_tokens(where: str, text: str) -> list[str]:
    """All numbers and brackets of a text; raises CaseFileError where something else stands between them."""
    tokens: list[str] = []
    at = 0
    while True:
        around = _AROUND.match(text, at)
        at = around.end() if around else at
        if at == len(text) or text[at] == "#":
            return tokens
        token = _TOKEN.match(text, at)
        if token is None:
            raise CaseFileError(f"{where} has {text[at : at + 20].strip()!r} where a number should stand")
        tokens.append(token[0])
        at = token.end()


def _parse_brackets(where: str, text: str) -> PrintedNumbers:
    """Nested lists of equal lengths; text without comments."""
    numbers: list[str] = []
    counts: list[int] = []
    lengths: dict[int, set[int]] = {}
    deepest: set[int] = set()
    for token in _list_tokens(where, text):
        if token == "[":
            counts.append(0)
            if len(counts) > _MOST_DEPTH:
                raise CaseFileError(f"{where} has brackets more than {_MOST_DEPTH} deep")
            continue
        if token == "]":
            if not counts:
                raise CaseFileError(f"{where} has a bracket that nothing opens")
            lengths.setdefault(len(counts), set()).add(counts.pop())
        else:
            numbers.append(token)
            deepest.add(len(counts))
        if counts:
            counts[-1] += 1
    if counts or len(deepest) != 1 or any(len(found) != 1 for found in lengths.values()):
        raise CaseFileError(f"{where} is no array: its brackets do not fit")
    shape = tuple(lengths[depth].pop() for depth in sorted(lengths))
    if math.prod(shape) != len(numbers):
        raise CaseFileError(f"{where} holds several arrays, and one is needed")
    return _make(numbers, shape)


def _make(tokens: list[str], shape: tuple[int, ...]) -> PrintedNumbers:
    values = np.array([float(t) for t in tokens])
    lasts = np.array([_find_last(t) for t in tokens])
    units = np.array([float(f"1e{min(int(p), _LARGEST_EXPONENT)}") for p in _add_zeros(values, lasts)])
    return PrintedNumbers(values.reshape(shape), units.reshape(shape))


def _find_last(token: str) -> int:
    """The power of ten of a decimal's last digit."""
    digits, exponent = _DIGITS.search(token), _EXPONENT.search(token)
    return (int(exponent[1]) if exponent else 0) - (len(digits[1]) if digits else 0)


def _add_zeros(values: Floats, lasts: np.ndarray) -> np.ndarray:
    """The powers of the last digits that were printed, with zeros that the printer left out.

    One last digit in ten is a zero. Where more than half of the numbers have as many significant digits, or as many
    decimals, as any, the others had as many.
    """
    told = np.isfinite(values) & (values != 0)
    if not told.any():
        return lasts
    firsts = np.array([int(f"{abs(v):.16e}".split("e")[1]) if t else 0 for v, t in zip(values, told, strict=True)])
    counts = np.where(told, firsts - lasts + 1, 0)
    by_digits, by_decimals = (float((a[told] == a[told].max()).mean()) for a in (counts, -lasts))
    if max(by_digits, by_decimals) <= 0.5:
        return lasts
    if by_decimals >= by_digits:
        return np.full_like(lasts, lasts[told].min())
    return np.where(told, np.minimum(lasts, firsts - counts.max() + 1), lasts)
