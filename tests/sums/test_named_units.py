"""Matrix units by name: what is rounded, how many products are added at once, what the sum drops."""

from fractions import Fraction

import numpy as np
import pytest

from samebits.engines.registry.runner_text import format_runner_text, parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.errors import RecipeError
from samebits.problems import parse_problem_text
from samebits.sums.recipes import parse_recipe
from samebits.sums.recipes.hardware import MATRIX_UNITS


def multiply(text, x, w, dtype="float32"):
    problem = parse_problem_text(f"matmul x=1x{len(x)} w={len(x)}x1 dtype={dtype} out=float32")
    operands = {"x": np.array([x], dtype), "w": np.array(w, dtype).reshape(-1, 1)}
    return float(open_runner(text).run(problem, operands)[0, 0])


def test_tf32_keeps_eleven_bits_of_each_operand():
    # 1 + 2^-10 is a TF32 number, 1 + 2^-11 is a tie between 1 and the next, which even decides.
    assert multiply("emulate:a100/tf32", [1 + 2.0**-10], [1.0]) == 1 + 2.0**-10
    assert multiply("emulate:a100/tf32", [1 + 2.0**-11], [1.0]) == 1.0
    assert multiply("emulate:A100/TF32", [1 + 2.0**-10 + 2.0**-11], [1.0]) == 1 + 2.0**-9


@pytest.mark.parametrize(("unit", "group", "bits"), [("v100", 4, 23), ("a100", 8, 24), ("h100", 16, 25)])
def test_a_group_is_added_at_once_and_what_is_below_its_last_bit_is_dropped(unit, group, bits):
    """Beside 1 products of the last bit that is kept count together; half as large they are nothing."""
    small = 2.0**-12
    x, w = [1.0] + [small] * (group - 1), [1.0] + [2.0 ** -(bits - 12)] * (group - 1)
    # Each is 2^-bits: the last bit that is kept beside 1.
    exact = 1 + (group - 1) * Fraction(1, 2**bits)
    kept = multiply(f"emulate:{unit}/float16", x, w, "float16")
    assert kept == float(exact - exact % Fraction(1, 2**23))
    dropped = [1.0] + [2.0 ** -(bits - 11)] * (group - 1)
    assert multiply(f"emulate:{unit}/float16", x, dropped, "float16") == 1.0


def test_every_unit_of_the_table_has_its_name_and_keeps_its_text():
    for unit in MATRIX_UNITS:
        runner = parse_runner_text(f"emulate:{unit.unit}/{unit.operands}/{unit.result}")
        again = parse_runner_text(format_runner_text(runner)).recipe
        assert again == runner.recipe
        assert runner.recipe.orders == parse_recipe(unit.text).orders


@pytest.mark.parametrize("name", ["a100/int4", "a101/tf32", "a100/", "/tf32", "a100/tf32/float16", "a100/tf32/x/y"])
def test_what_is_not_in_the_table_is_named_with_what_is(name):
    with pytest.raises(RecipeError, match=r"no unit .* it has: v100/float16, a100/float16"):
        parse_runner_text(f"emulate:{name}")
