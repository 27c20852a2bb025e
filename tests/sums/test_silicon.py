"""The hardware table against recorded outputs of real matrix units, and against a model of them in exact integers.

The recordings may not be copied, so that they are not at hand everywhere; the model (tests/matrix_unit_model.py) is. It
makes operands and says what a unit returns for them. Where the recordings are, the model is compared with all of them,
and so are the emulators; everywhere, the emulators are compared with the model, on operands that go further than the
recorded ones. The last tests show that both kinds of data tell a unit from its neighbours.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from matrix_unit_model import SAMPLES, UNITS, Maker, Sample, compute
from samebits.problems import parse_problem_text
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.recipes.hardware import MATRIX_UNITS
from samebits.sums.recipes.recipe import Rounding

RECORDED = Path(__file__).parents[3] / "shared" / "hardware"
SHORT = {"float16": "fp16", "bfloat16": "bf16", "tf32": "tf32", "float8_e4m3fn": "E4M3", "float8_e5m2": "E5M2"}
NVIDIA = [u for u in MATRIX_UNITS if u.unit in ("V100", "A100", "Ada", "H100", "B200")]


KEYS = [(u.unit, u.operands, u.result) for u in NVIDIA]
NAMES = ["-".join(key) for key in KEYS]


def find_recording(unit: str) -> Path:
    path = RECORDED / f"{unit}.npz"
    if not path.exists():
        pytest.skip(f"recorded outputs of {unit} are not here ({path.parent.name}/{path.name})")
    return path


def load_recording(unit) -> tuple[Sample, np.ndarray]:
    """What was multiplied and what came out; c as the unit was given it."""
    short = SHORT[unit.operands]
    with np.load(find_recording(unit.unit), allow_pickle=False) as data:
        a, b, c = (data[f"{short}_{name}"] for name in "abc")
        recorded = data[f"{short}_d_{'fp16' if unit.result == 'float16' else 'fp32'}"].reshape(-1)
    addend = np.zeros_like(c) if "c = 0" in unit.pinned else c
    return Sample(a, b, addend.reshape(-1)), recorded


def emulate_sums(recipe, sample: Sample) -> np.ndarray:
    """Every sample is a channel of one grouped convolution, its c the channel's bias."""
    samples, group = sample.a.shape
    problem = parse_problem_text(f"conv1d x=1x{samples * group}x1 w={samples}x{group}x1 groups={samples} bias")
    operands = {
        "x": sample.a.reshape(problem.x).astype(np.float32),
        "w": sample.b.reshape(problem.w).astype(np.float32),
        "bias": sample.c.astype(np.float32),
    }
    return emulate(problem, recipe, operands).reshape(-1)


@pytest.mark.parametrize("unit", NVIDIA, ids=NAMES)
def test_a_unit_of_the_table_reproduces_every_recorded_output(unit):
    sample, recorded = load_recording(unit)
    assert len(recorded) == 3000
    assert int((emulate_sums(unit.recipe, sample) == recorded).sum()) == len(recorded)


@pytest.mark.parametrize("unit", NVIDIA, ids=NAMES)
def test_the_model_reproduces_every_recorded_output(unit):
    sample, recorded = load_recording(unit)
    if unit.result == "float16":
        sample = sample._replace(c=sample.c.astype(np.float16).astype(np.float32))
    found = compute((unit.unit, unit.operands, unit.result), sample)
    assert int((found == recorded).sum()) == len(recorded)


def test_the_model_knows_every_nvidia_unit_of_the_table_and_no_other():
    assert sorted(UNITS) == sorted(KEYS)


@pytest.mark.slow
@pytest.mark.parametrize("unit", NVIDIA, ids=NAMES)
def test_a_unit_of_the_table_returns_what_the_model_returns(unit):
    # In a float32 problem float16's subnormal numbers are ordinary ones: the recipe must name what the operands are.
    operands = Rounding(unit.operands)
    recipe = unit.recipe if unit.recipe.x else replace(unit.recipe, x=operands, w=operands)
    key = (unit.unit, unit.operands, unit.result)
    made = Maker(key).make()
    assert sum(len(sample.c) for sample in made.values()) == SAMPLES
    for kind, sample in made.items():
        differ = emulate_sums(recipe, sample) != compute(key, sample)
        assert not differ.any(), f"{kind}: {int(differ.sum())} of {differ.size}, first {int(differ.argmax())}"


def neighbours(model) -> dict[str, object]:
    """Models that are nearly this one."""
    nearly = {
        "half the group": model._replace(group=model.group // 2),
        "twice the group": model._replace(group=model.group * 2),
        "the other rounding": model._replace(target=model.target._replace(cuts=not model.target.cuts)),
    }
    if model.by_float16 and model.target.fraction_bits == 10:
        # Products of FP8 operands have so few digits that 18 bits keep them all (see the table).
        return {**nearly, "far fewer bits": model._replace(bits=12)}
    return {
        **nearly,
        "a bit less": model._replace(bits=model.bits - 1),
        "one more": model._replace(bits=model.bits + 1),
    }


@pytest.mark.slow
@pytest.mark.parametrize("key", KEYS, ids=NAMES)
def test_the_operands_made_tell_a_unit_from_its_neighbours(key):
    made = Maker(key).make()
    found = {kind: compute(key, sample) for kind, sample in made.items()}
    for name, model in neighbours(UNITS[key]).items():
        assert any((compute(key, s, model) != found[kind]).any() for kind, s in made.items()), name


def test_one_bit_less_of_alignment_is_noticed_in_the_recordings():
    """The recorded data tell 25 kept bits from 24: the first test above can fail."""
    unit = next(u for u in NVIDIA if (u.unit, u.operands, u.result) == ("H100", "float16", "float32"))
    sample, recorded = load_recording(unit)
    recipe = parse_recipe("direct acc=float32/toward_zero fused=24 order=k/16|fused:k bias=first")
    assert (emulate_sums(recipe, sample) != recorded).any()


def test_sums_of_the_b200_are_cut_before_c_is_added():
    """A recorded output that was kept aside while the table was made, with operands that give the same sum.

    -0x1.2bec038p+3 before c, of which 24 bits are kept, plus c = 0x1.02d09ep-1: the unit gave -0x1.1bbef8p+3, where
    the exact sum is -0x1.1bbef9ap+3 and rounding to nearest in between gives -0x1.1bbefap+3.
    """
    exponents = (3, 0, -2, -4, -5, -6, -7, -8, -10, -11, -20, -21, -22)
    total = -sum(2.0**e for e in exponents)
    assert total == float.fromhex("-0x1.2bec038p+3")
    a, b = np.zeros((1, 32), np.float32), np.zeros((1, 32), np.float32)
    # The larger ones in the first addition, whose sum then is exact.
    first, second = ([k for k in range(32) if (k % 4 < 2) is early] for early in (True, False))
    places = [*first[:10], *second[:3]]
    for k, e in zip(places, exponents, strict=True):
        a[0, k], b[0, k] = -(2.0 ** (e // 2)), 2.0 ** (e - e // 2)
    sample = Sample(a, b, np.array([float.fromhex("0x1.02d09ep-1")], np.float32))
    unit = next(u for u in NVIDIA if (u.unit, u.operands, u.result) == ("B200", "float8_e5m2", "float32"))
    for found in (emulate_sums(unit.recipe, sample), compute(("B200", "float8_e5m2", "float32"), sample)):
        assert float(found[0]).hex() == "-0x1.1bbef80000000p+3"
