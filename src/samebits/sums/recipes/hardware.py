"""How matrix units add: one row per unit and format, each with the source of its numbers.

"Recorded" means: the recipe reproduces, bit for bit, all 3,000 recorded dot products of that unit and format in the
data that north-numerical-computing/MATLAB-tensor-core (commit b12b5a7) publishes with Khattak and Mikaitis, "Accurate
Models of NVIDIA Tensor Cores", ACM TACO; tests/sums/test_silicon.py repeats it where those data are at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from samebits.errors import RecipeError
from samebits.sums.recipes.order import EVERY_AXIS, Key, KeyedOrder, Level
from samebits.sums.recipes.recipe import FusedSum, Recipe, Rounding
from samebits.sums.recipes.recipe_text import parse_recipe

_RECORDED = "recorded outputs (MATLAB-tensor-core), all 3,000 reproduced"
_INTEL = "Intel 64 and IA-32 Architectures Software Developer's Manual, operation of {}"


@dataclass(frozen=True)
class MatrixUnit:
    """One instruction's arithmetic: group, alignment, rounding are in the recipe's text.

    `pinned` says what the recorded data leave open, where they do.
    """

    unit: str
    operands: str
    result: str
    text: str
    source: str
    pinned: str = ""

    @cached_property
    def recipe(self) -> Recipe:
        """The unit's arithmetic as a recipe."""
        return parse_recipe(self.text)


def _fused(group: int, bits: int, result: str, *, rest: str = "") -> str:
    accumulator = {"float32": "float32/toward_zero", "float16": "float16", "e8m13": "e8m13/toward_zero"}[result]
    return f"direct acc={accumulator} fused={bits} order=k/{group}|fused:k bias=first{rest}"


def _rows(unit: str, group: int, bits: int, formats: tuple[str, ...]) -> list[MatrixUnit]:
    rows: list[MatrixUnit] = []
    for operands in formats:
        own = group // 2 if operands == "tf32" else group
        pinned = "4 of 8 products recorded" if operands == "tf32" and own == 8 else ""
        rows.append(MatrixUnit(unit, operands, "float32", _fused(own, bits, "float32"), _RECORDED, pinned))
        if operands == "float16":
            rows.append(MatrixUnit(unit, operands, "float16", _fused(own, bits, "float16"), _RECORDED))
    return rows


# FP8 through the float16 unit: two steps of 16 products, of which the first takes those with k mod 4 in {0, 1}.
_QUADS = "order=k/2%2|fused:k bias=last"
_QUADS_THEN_C = "order=k/2%2|fused:k bias=rounded"
_BY_FLOAT16 = "mma.sync m16n8k32, which converts to float16 (NVIDIA/cutlass issue 1986)"
_FP8 = ("float8_e4m3fn", "float8_e5m2")

MATRIX_UNITS: tuple[MatrixUnit, ...] = (
    *_rows("V100", 4, 23, ("float16",)),
    *_rows("A100", 8, 24, ("float16", "bfloat16", "tf32")),
    *_rows("Ada", 8, 24, ("float16", "bfloat16", "tf32")),
    *_rows("H100", 16, 25, ("float16", "bfloat16", "tf32")),
    *_rows("B200", 16, 25, ("float16", "bfloat16", "tf32")),
    *(MatrixUnit("Ada", f, r, _fused(16, 13, a), _RECORDED) for f in _FP8
      for r, a in (("float32", "e8m13"), ("float16", "float16"))),
    *(MatrixUnit("H100", f, "float32", _fused(32, 13, "e8m13"), _RECORDED, "recorded with c = 0 only") for f in _FP8),
    *(MatrixUnit("H100", f, "float16", f"direct x=float16 w=float16 acc=float16 fused=25 {_QUADS}", _RECORDED,
                 f"{_BY_FLOAT16}; the data fix only that at least 18 bits are kept") for f in _FP8),
    *(MatrixUnit("B200", f, "float16", f"direct x=float16 w=float16 acc=float16 fused=25 {_QUADS}", _RECORDED,
                 f"{_BY_FLOAT16}; the data fix only that at least 18 bits are kept") for f in _FP8),
    *(MatrixUnit("B200", f, "float32",
                 f"direct x=float16 w=float16 acc=float32/toward_zero fused=25 {_QUADS_THEN_C}", _RECORDED,
                 "the sums before c are exact in nearly all recorded products; one of them, kept aside, shows that they"
                 " are cut to 24 bits before c is added, to nearest; grouping is taken over from the float16 result")
      for f in _FP8),
    MatrixUnit("AVX512-BF16", "bfloat16", "float32", "direct order=k/2,-k flush=operands,results",
               _INTEL.format("VDPBF16PS"), "of a pair the second product is added first; seen on an AMD EPYC (Zen 4)"
               " by profiling torch 2.13, whose bits it replays"),
    MatrixUnit("AMX-BF16", "bfloat16", "float32", "direct order=k/32|k%2|k flush=operands,results",
               _INTEL.format("TDPBF16PS"), "not checked on hardware: no such unit was at hand"),
)  # fmt: skip


# cuBLAS joins float8 sums after 128 products on an H100.
_JOINED_AFTER = (128, 64, 256, 512)


def list_unit_recipes(operands: str) -> Iterator[tuple[str, Recipe]]:
    """How units add operands of a format, in words and as a recipe: all by the unit, or blocks that are joined.

    Finished blocks are joined in float32 by ordinary additions.
    """
    for unit in MATRIX_UNITS:
        own, order = unit.recipe, unit.recipe.orders[0]
        if unit.operands != operands or not own.fused.fraction_bits or not isinstance(order, KeyedOrder):
            continue
        yield f"adds as {unit.unit} does", own
        joined = replace(own, accumulator=Rounding("float32"), fused=FusedSum(own.fused.fraction_bits, own.accumulator))
        for block in _JOINED_AFTER:
            levels = (Level((Key(EVERY_AXIS, block),)), *order.levels)
            yield (
                f"adds {block} products as {unit.unit} does, and these sums in float32",
                replace(joined, orders=(KeyedOrder(levels),)),
            )


def find_unit_recipe(name: str) -> Recipe | None:
    """The recipe of a unit by its name: `a100/tf32`, or with the result's format `a100/float16/float16`.

    Operands are rounded to the unit's format, to nearest, as libraries do before it multiplies (where its recipe does
    not say otherwise); the result is float32 where none is named. None for a name without a slash, which may be a
    recipe's text. Raises RecipeError for a unit that the table does not have.
    """
    unit, slash, formats = name.strip().lower().partition("/")
    if not slash or " " in name.strip():
        return None
    operands, _, result = formats.partition("/")
    fitting = [u for u in MATRIX_UNITS if (u.unit.lower(), u.operands) == (unit, operands)]
    found = next((u for u in fitting if u.result == (result or "float32")), None)
    if found is None:
        known = ", ".join(dict.fromkeys(f"{u.unit.lower()}/{u.operands}" for u in MATRIX_UNITS))
        raise RecipeError(f"no unit {name.strip()[:40]!r} in the table; it has: {known} (float16 results: .../float16)")
    narrow = Rounding(found.operands)
    return replace(found.recipe, x=found.recipe.x or narrow, w=found.recipe.w or narrow)
