"""The hardware table against recorded outputs of real matrix units, where those data are at hand."""

from pathlib import Path

import numpy as np
import pytest

from samebits.emulators import emulate
from samebits.problems import parse_problem_text
from samebits.recipes.hardware import MATRIX_UNITS

RECORDED = Path(__file__).parents[3] / "shared" / "hardware"
SHORT = {"float16": "fp16", "bfloat16": "bf16", "tf32": "tf32", "float8_e4m3fn": "E4M3", "float8_e5m2": "E5M2"}
NVIDIA = [u for u in MATRIX_UNITS if u.unit in ("V100", "A100", "Ada", "H100", "B200")]


@pytest.mark.parametrize("unit", NVIDIA, ids=lambda u: f"{u.unit}-{u.operands}-{u.result}")
def test_a_unit_of_the_table_reproduces_every_recorded_output(unit):
    path = RECORDED / f"{unit.unit}.npz"
    if not path.exists():
        pytest.skip(f"recorded outputs of {unit.unit} are not here ({path.parent.name}/{path.name})")
    short = SHORT[unit.operands]
    with np.load(path, allow_pickle=False) as data:
        a, b, c = (data[f"{short}_{name}"] for name in "abc")
        recorded = data[f"{short}_d_{'fp16' if unit.result == 'float16' else 'fp32'}"].reshape(-1)
    samples, group = a.shape
    problem = parse_problem_text(f"conv1d x=1x{samples * group}x1 w={samples}x{group}x1 groups={samples} bias")
    addend = np.zeros_like(c) if "c = 0" in unit.pinned else c
    operands = {
        "x": a.reshape(problem.x).astype(np.float32),
        "w": b.reshape(problem.w).astype(np.float32),
        "bias": addend.reshape(-1).astype(np.float32),
    }
    result = emulate(problem, unit.recipe, operands).reshape(-1)
    assert int((result == recorded).sum()) == samples


def test_one_bit_less_of_alignment_is_noticed():
    """The same data tell 25 kept bits from 24: the test above can fail."""
    path = RECORDED / "H100.npz"
    if not path.exists():
        pytest.skip("recorded outputs of H100 are not here")
    with np.load(path, allow_pickle=False) as data:
        a, b, c, recorded = (data[f"fp16_{name}"] for name in ("a", "b", "c", "d_fp32"))
    from samebits.recipes import parse_recipe

    samples, group = a.shape
    problem = parse_problem_text(f"conv1d x=1x{samples * group}x1 w={samples}x{group}x1 groups={samples} bias")
    operands = {"x": a.reshape(problem.x), "w": b.reshape(problem.w), "bias": c.reshape(-1)}
    recipe = parse_recipe("direct acc=float32/toward_zero fused=24 order=k/16|fused:k bias=first")
    assert (emulate(problem, recipe, operands).reshape(-1) != recorded.reshape(-1)).any()
