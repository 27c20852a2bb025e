"""The one table of causes: what each is called, which verdicts it can have, how grave it is, what to do about it.

A cause's code is what findings carry. Its verdicts are those that a side may get with it; `within_bound` is the gravest
it gets where every output is inside the error bound of the declared formats. docs/causes.md is the same table for
people; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

Verdict = Literal["identical", "rounding", "downgrade", "wrong", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("identical", "rounding", "downgrade", "wrong", "undecided")
AGREEING: tuple[Verdict, ...] = ("identical", "rounding")
# What several sides come to: a proven fault outweighs an open question, and that a proven loss of precision.
_GRAVITY: tuple[Verdict, ...] = ("identical", "rounding", "downgrade", "undecided", "wrong")


def is_agreement(verdict: Verdict) -> bool:
    """Whether a verdict is one of results that need not differ less: `identical` or `rounding`."""
    return verdict in AGREEING


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """The gravest of some verdicts; `undecided` where there are none."""
    found = set(verdicts)
    gravest: list[Verdict] = [v for v in _GRAVITY if v in found]
    return gravest[-1] if gravest else "undecided"


_PAGE = "docs/causes.md"


class CauseCode(StrEnum):
    """The codes, as they stand in JSON."""

    SUMMATION_ORDER = "summation-order"
    ILL_CONDITIONED = "ill-conditioned"
    NONDETERMINISM = "nondeterminism"
    EXCESS_PRECISION = "excess-precision"
    REQUANTIZATION = "requantization"
    HARNESS = "harness"
    SUBNORMALS = "subnormals"
    WINOGRAD = "winograd"
    FFT = "fft"
    OVERFLOW = "overflow"
    LOW_PRECISION_ACCUMULATOR = "low-precision-accumulator"
    RESULT_ROUNDING = "result-rounding"
    REDUCED_PRECISION_OPERANDS = "reduced-precision-operands"
    QUANTIZED_OPERANDS = "quantized-operands"
    NARROW_INTERMEDIATE = "narrow-intermediate"
    CANCELLATION = "cancellation"
    OTHER_OPERANDS = "other-operands"
    NAN_SEMANTICS = "nan-semantics"
    FUSION = "fusion"
    DROPPED_ATTRIBUTE = "dropped-attribute"
    PADDING = "padding"
    TRANSPOSED_GEOMETRY = "transposed-geometry"
    AXIS_ORDER = "axis-order"
    HIDDEN_KEYS = "hidden-keys"
    OTHER_KEYS = "other-keys"
    SOFTMAX = "softmax"
    STRIDED_VIEW = "strided-view"
    INT8_SATURATION = "int8-saturation"
    SHAPE_SPECIFIC_KERNEL = "shape-specific-kernel"
    INDEX_OVERFLOW = "index-overflow"
    UNINITIALIZED_MEMORY = "uninitialized-memory"


@dataclass(frozen=True)
class Cause:
    """One row. `phrase` names the cause in plain words, `advice` says what to do where no setting is known."""

    code: CauseCode
    verdicts: tuple[Verdict, ...]
    within_bound: Verdict
    phrase: str
    advice: str

    @property
    def link(self) -> str:
        """Where the documentation explains it."""
        return f"{_PAGE}#{self.code}"


def _rounds(code: CauseCode, phrase: str, advice: str) -> Cause:
    return Cause(code, ("rounding",), "rounding", phrase, advice)


def _transforms(code: CauseCode, phrase: str, advice: str) -> Cause:
    return Cause(code, ("rounding", "downgrade"), "rounding", phrase, advice)


def _loses(code: CauseCode, phrase: str, advice: str) -> Cause:
    return Cause(code, ("downgrade",), "downgrade", phrase, advice)


def _differs(code: CauseCode, phrase: str, advice: str) -> Cause:
    return Cause(code, ("wrong",), "wrong", phrase, advice)


# From harmless to grave: of two causes the later one names the whole.
CAUSES: tuple[Cause, ...] = (
    _rounds(
        CauseCode.SUMMATION_ORDER,
        "the same products added in another order or rounded at other points",
        "nothing is broken: compare against the error bound, or use samebits' correctly rounded result",
    ),
    _rounds(
        CauseCode.ILL_CONDITIONED,
        "large terms that cancel: the result is small and its relative error large",
        "judge by the share of the error bound, not by a relative tolerance",
    ),
    _rounds(
        CauseCode.NONDETERMINISM,
        "the same engine gives other bits from run to run",
        "ask the framework for deterministic algorithms and switch its autotuner off",
    ),
    _rounds(
        CauseCode.EXCESS_PRECISION,
        "values kept in more digits between operations than declared",
        "nothing is broken: the result is the more exact one; compare in float32 if the bits must be the same",
    ),
    Cause(
        CauseCode.REQUANTIZATION, ("rounding", "wrong"), "rounding",
        "integer results rescaled with another rounding",
        "compare in steps of the output's scale; one step at ties is rounding",
    ),
    Cause(
        CauseCode.HARNESS, ("identical", "rounding"), "rounding",
        "the comparison itself was at fault, not the engines",
        "recompute the reference from the same inputs, in inference mode",
    ),
    _loses(
        CauseCode.SUBNORMALS,
        "subnormal numbers taken for zero",
        "switch flushing off, or scale the data away from the smallest numbers",
    ),
    _transforms(
        CauseCode.WINOGRAD,
        "Winograd's transforms, which enlarge rounding errors",
        "forbid Winograd algorithms, or accept their larger bound",
    ),
    _transforms(
        CauseCode.FFT,
        "a Fourier transform, whose errors follow the largest values of a plane",
        "forbid FFT algorithms, or accept their larger bound",
    ),
    Cause(
        CauseCode.OVERFLOW, ("rounding", "downgrade", "wrong"), "downgrade",
        "sums beyond the largest number of a format",
        "scale by a power of two, or compute in a format with more exponent bits",
    ),
    _loses(
        CauseCode.LOW_PRECISION_ACCUMULATOR,
        "partial sums kept in fewer bits than declared",
        "ask for float32 accumulation, or forbid the algorithm",
    ),
    _loses(
        CauseCode.RESULT_ROUNDING,
        "a result stored in fewer digits than declared, or not rounded to nearest",
        "ask for results in the declared format, or declare the format that they are stored in",
    ),
    _loses(
        CauseCode.REDUCED_PRECISION_OPERANDS,
        "operands rounded before they are multiplied",
        "switch TF32, bfloat16 or float16 arithmetic off for this operation",
    ),
    _loses(
        CauseCode.QUANTIZED_OPERANDS,
        "operands stored in eight bits or fewer and read back",
        "compare with the model as it was before it was quantised, or quantise the reference the same way",
    ),
    _loses(
        CauseCode.NARROW_INTERMEDIATE,
        "values on the way (scores, weights, what is normalised) kept in fewer digits than declared",
        "choose a kernel that keeps them in float32, or declare the narrower format",
    ),
    _transforms(
        CauseCode.CANCELLATION,
        "a variance or difference taken from large sums that cancel",
        "take the mean off first and square what is left, or use running means (Welford)",
    ),
    Cause(
        CauseCode.OTHER_OPERANDS, ("rounding", "undecided", "wrong"), "rounding",
        "other operands multiplied than those on record",
        "record the operands that the engine was given, in the format in which it multiplies them",
    ),
    _differs(
        CauseCode.NAN_SEMANTICS,
        "a clip or relu that turns NaN into a number",
        "test for NaN before the clip, or clip by comparisons that keep NaN",
    ),
    _differs(
        CauseCode.FUSION,
        "bias, epilogue or normalisation folded in wrongly",
        "switch graph optimisation off, then on again step by step",
    ),
    _differs(
        CauseCode.DROPPED_ATTRIBUTE,
        "an attribute that was lost or exchanged",
        "compare the attributes of the two graphs and attach what is missing",
    ),
    _differs(
        CauseCode.PADDING,
        "padding that begins elsewhere or is of another kind",
        "write explicit begin and end paddings in place of automatic ones",
    ),
    _differs(
        CauseCode.TRANSPOSED_GEOMETRY,
        "a transposed convolution that crops elsewhere",
        "write explicit paddings and output_padding",
    ),
    _differs(
        CauseCode.AXIS_ORDER,
        "axes, channels or groups taken in another sequence",
        "state the layouts where arrays change hands; flip or transpose once, on purpose",
    ),
    _differs(
        CauseCode.HIDDEN_KEYS,
        "an attention in which other keys are hidden than declared",
        "pass an explicit boolean mask in place of a causal flag, and fill rows that see no key",
    ),
    _differs(
        CauseCode.OTHER_KEYS,
        "an attention that reads keys or values of other positions, leaves some out or counts them twice",
        "compare with the whole cache written out, and with lengths that are multiples of the kernel's block",
    ),
    _differs(
        CauseCode.SOFTMAX,
        "weights that are not the softmax of their scores",
        "compute scores, softmax and weighted sum as separate operations, and compare them one by one",
    ),
    _differs(
        CauseCode.STRIDED_VIEW,
        "other elements of the same memory read or written",
        "make the arrays contiguous before the call",
    ),
    _differs(
        CauseCode.INT8_SATURATION,
        "pairs of integer products that saturate in 16 bits",
        "limit the weights to seven bits, or use a processor with VNNI",
    ),
    _differs(
        CauseCode.SHAPE_SPECIFIC_KERNEL,
        "one part of the result wrong, as by a kernel for just this shape",
        "try another algorithm, instruction set or version of the library",
    ),
    _differs(
        CauseCode.INDEX_OVERFLOW,
        "everything from one index on wrong, as by offsets that wrap around",
        "split the batch or the space into parts below 2^31 elements",
    ),
    _differs(
        CauseCode.UNINITIALIZED_MEMORY,
        "values that no sum of these products can have, as of memory never written",
        "fill fresh memory with NaN to see it; report the kernel",
    ),
)  # fmt: skip
_BY_CODE = {c.code: c for c in CAUSES}
_RANK = {c.code: i for i, c in enumerate(CAUSES)}


def find_cause(code: CauseCode) -> Cause:
    """The row of a code."""
    return _BY_CODE[code]


def gravest_cause(codes: Iterable[CauseCode]) -> CauseCode | None:
    """Of some causes the gravest; None of none."""
    return max(codes, key=_RANK.__getitem__, default=None)
