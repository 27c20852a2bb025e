"""What is remembered of one result changes no answer on the next: each is what it is when asked alone."""

import pytest

from samebits.mechanisms.search.recalled import Recalled
from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe

# Results of one side, one after the other: problems, recipes, and how large x is.
SEQUENCES = {
    "the same": [("linear x=8x60 w=12x60", "direct x=bfloat16 w=bfloat16", 1)] * 2,
    "an overflow, then none": [
        ("linear x=8x64 w=16x64", "direct acc=float16", 20_000),
        ("linear x=8x64 w=16x64", "direct acc=float16", 1),
    ],
    "parts of another number": [
        ("linear x=8x512 w=16x512", "direct order=chain@float16:k/256|chain@float16:k/256|k", 1),
        ("linear x=8x1024 w=16x1024", "direct order=chain@float16:k/256|chain@float16:k/256|k", 1),
    ],
    "a bias, then none": [
        ("linear x=8x60 w=12x60 bias", "direct x=bfloat16 w=bfloat16 b=bfloat16 via=bfloat16", 1),
        ("linear x=8x60 w=12x60", "direct x=bfloat16 w=bfloat16 via=bfloat16", 1),
    ],
    "one operand, then both": [
        ("linear x=8x60 w=12x60", "direct x=bfloat16", 1),
        ("linear x=8x60 w=12x60", "direct x=bfloat16 w=bfloat16", 1),
    ],
    "operands, then sums": [
        ("conv2d x=1x8x9x9 w=6x8x3x3", "direct x=tf32 w=tf32", 1),
        ("conv2d x=1x8x9x9 w=6x8x3x3", "direct acc=bfloat16", 1),
        ("conv2d x=1x8x9x9 w=6x8x3x3", "direct x=tf32 w=tf32", 1),
    ],
    "then nothing": [
        ("linear x=8x60 w=12x60", "direct acc=bfloat16", 1),
        ("linear x=8x60 w=12x60", "direct order=pairs:k", 1),
    ],
}


def make(text, recipe, size, seed):
    problem = parse_problem_text(text)
    operands = make_normal(problem, seed)
    operands["x"] *= operands["x"].dtype.type(size)
    return Case(problem, operands, {"mine": emulate(problem, parse_recipe(recipe), operands)})


@pytest.mark.parametrize("name", SEQUENCES)
def test_answers_are_those_of_a_result_alone(name):
    recalled = Recalled()
    for seed, one in enumerate(SEQUENCES[name]):
        case = make(*one, seed)
        (alone,), (after,) = explain_case(case).sides, explain_case(case, recalled=recalled).sides
        for field in ("verdict", "certainty", "cause", "cause_certainty", "says", "recipe"):
            assert getattr(after, field) == getattr(alone, field), field
    assert recalled.rounds_operands or recalled.recipes


def test_numbers_that_two_formats_share_are_said_to_be_either():
    """Weights that float16 and TF32 round alike: both are named, whatever was proved before."""
    recalled = Recalled()
    first = make("linear x=8x60 w=12x60", "direct x=tf32 w=tf32", 1, 0)
    explain_case(first, recalled=recalled)
    case = make("linear x=8x60 w=12x60", "direct x=tf32 w=tf32", 1, 1)
    (side,) = explain_case(case, recalled=recalled).sides
    assert "float16" in side.says
    assert "tf32" in side.says
