"""What an H100 returned, replayed without one: results recorded by benchmarks/gpu_survey.py, bit for bit.

NVIDIA H100 80GB HBM3, driver 580.159.04, CUDA 13.0, cuDNN 9.19.0, cudnn-frontend 1.17.0, torch 2.11.0; 2026-11-27.
Operands are `make_normal`'s of the problem with the same sums, seed 20260; `h100_results.npz` holds the results' bytes.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import samebits
from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.registry.runners import Emulator
from samebits.numbers.format import numpy_dtype
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.lowering import lower_problem
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe

RECORDED = np.load(Path(__file__).with_name("h100_results.npz"))
SEED = 20260
_APART = "direct acc=float32 fused=25/float32/toward_zero"
_ALIKE = "direct acc=float32/toward_zero fused=25"
_FLOAT8 = "direct acc=float32 fused=13/e8m13/toward_zero order=k/128|k/32|fused:k"
# Engine, problem, recipe; the same recipe with one step of it otherwise, which must not give these bits.
ROWS = (
    ("torch:device=cuda", "linear x=32x256 w=64x256 dtype=float8_e4m3fn out=float32", _FLOAT8,
     "direct acc=e8m13/toward_zero fused=13 order=k/32|fused:k"),
    ("torch:device=cuda", "linear x=32x256 w=64x256 dtype=float8_e4m3fn out=bfloat16", _FLOAT8, "direct acc=float32"),
    ("cudnn:plan=eng0_k24=0", "matmul x=64x256 w=256x64",
     f"{_APART} x=tf32 w=tf32 order=k/32|k/8|fused:k", f"{_ALIKE} x=tf32 w=tf32 order=k/32|k/8|fused:k"),
    ("torch:device=cuda,cudnn=off", "conv2d x=2x64x14x14 w=64x64x3x3 padding=1 dtype=float16",
     f"{_APART} order=k/128|chain@float16:k/128|k/16|fused:k", f"{_APART} order=k/128|k/16|fused:k"),
    ("torch:device=cuda,cudnn=off", "conv2d.grad_input x=2x16x12x12 w=16x16x5x5 padding=2 dtype=float16",
     f"{_APART} order=-kh,-kw|chain@float16:kh,kw|c/16|fused:c", f"{_APART} order=-kh,-kw|c/16|fused:c"),
    ("torch:device=cuda,cudnn=off", "conv2d.grad_input x=2x16x12x12 w=16x16x5x5 padding=2 dtype=bfloat16",
     f"{_APART} order=-kh,-kw|chain@bfloat16:kh,kw|c/16|fused:c", f"{_APART} order=-kh,-kw|c/16|fused:c"),
    ("torch:device=cuda", "conv2d x=1x16x12x12 w=16x16x5x5 padding=2 dtype=float16",
     f"{_ALIKE} order=kh,kw|fused:c", f"{_ALIKE} order=k/16|fused:k"),
    ("cudnn:plan=eng46_k2=0_k5=2_k14=3", "conv2d x=1x32x14x14 w=32x1x3x3 padding=1 groups=32",
     f"{_ALIKE} x=tf32/nearest_away w=tf32/nearest_away order=kh,kw|fused:c",
     "direct x=tf32/nearest_away w=tf32/nearest_away acc=float32/toward_zero"),
    ("cudnn:layout=channels_last,plan=eng67", "conv2d.grad_input x=2x16x12x12 w=16x16x5x5 padding=2 dtype=float16",
     f"{_ALIKE} order=-kh,-kw|fused:c", f"{_ALIKE} order=kh,kw|fused:c"),
)  # fmt: skip


@pytest.mark.parametrize("number", range(len(ROWS)))
def test_the_recipe_gives_the_recorded_bits_and_its_neighbour_does_not(number: int) -> None:
    _, text, recipe, other = ROWS[number]
    problem = lower_problem(parse_problem_text(text)).convolution
    operands = make_normal(problem, SEED)
    recorded = RECORDED[str(number)].tobytes()
    assert emulate(problem, parse_recipe(recipe), operands).tobytes() == recorded
    assert emulate(problem, parse_recipe(other), operands).tobytes() != recorded


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(ROWS)))
def test_the_search_finds_what_adds_so(number: int) -> None:
    _, text, recipe, _ = ROWS[number]
    found = search_recipe(ProbeSession(Emulator(parse_recipe(recipe)), parse_problem_text(text)))
    assert found.chosen.matched == 1.0


def make_case(number: int) -> Case:
    """A recorded result with its operands, as a person would bring it."""
    problem = replace(lower_problem(parse_problem_text(ROWS[number][1])).convolution, stated=None)
    result = np.frombuffer(RECORDED[str(number)].tobytes(), numpy_dtype(problem.out)).reshape(problem.out_shape)
    return Case(problem, make_normal(problem, SEED), {"theirs": result})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "cause"),
    [
        (0, "low-precision-accumulator"),
        (1, "low-precision-accumulator"),
        (2, "reduced-precision-operands"),
        (3, "low-precision-accumulator"),
        (4, "low-precision-accumulator"),
        (7, "reduced-precision-operands"),
    ],
)
def test_what_was_recorded_is_explained(number: int, cause: str) -> None:
    found = samebits.explain(make_case(number))
    assert (found.verdict, found.cause) == ("downgrade", cause)


@pytest.mark.slow
@pytest.mark.parametrize("number", [6, 8])
def test_what_a_matrix_unit_adds_in_float32_is_rounding(number: int) -> None:
    """Its truncated float32 sums are within the bounds of the declared formats."""
    assert samebits.explain(make_case(number)).verdict == "rounding"
