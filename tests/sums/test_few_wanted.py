"""A few outputs alone, and many recipes on the same operands, have the bits of the whole result."""

import numpy as np
import pytest

from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe

PROBLEMS = (
    "conv2d x=2x6x9x8 w=8x3x3x3 bias padding=1 groups=2 then=clip(-0.5,1.5)",
    "conv2d.grad_weight x=2x4x7x7 w=3x4x3x3 padding=1",
    "conv_transpose1d x=1x6x9 w=6x4x3 stride=2 bias then=relu",
    "matmul x=3x7x33 w=33x5",
)
RECIPES = (
    "direct",
    "direct acc=float16 bias=rounded",
    "direct x=bfloat16 w=bfloat16 via=bfloat16 bias=rounded b=float16",
    "direct x=bfloat16 acc=float32/toward_zero",
    "direct flush=operands,results",
    "direct order=pairs:k out=toward_zero",
    "direct order=chain@float16:k/8|k",
)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.1, 0.6])
@pytest.mark.parametrize("text", PROBLEMS)
def test_outputs_that_are_wanted_have_the_bits_of_the_whole_result(text, share):
    problem = parse_problem_text(text)
    operands = make_normal(problem, 4)
    wanted = np.random.default_rng(7).random(problem.out_shape) < share
    kept = {}
    for recipe in map(parse_recipe, RECIPES):
        whole = emulate(problem, recipe, operands)
        for some in (wanted, np.asfortranarray(wanted)):
            few = emulate(problem, recipe, operands, wanted=some, kept=kept)
            assert few.dtype == whole.dtype
            assert few[wanted].tobytes() == whole[wanted].tobytes()
        assert emulate(problem, recipe, operands, kept=kept).tobytes() == whole.tobytes()


def test_what_is_kept_of_one_problem_is_not_taken_for_another_of_its_size():
    """The same shapes with other padding, and another mask of the same size: outputs lie elsewhere."""
    texts = (
        "conv1d x=1x3x10 w=4x3x3 padding=1",
        "conv1d x=1x3x10 w=4x3x3 padding=2:0",
        "conv1d x=1x3x10 w=4x3x3 padding=0:2",
    )
    recipe = parse_recipe("direct start=product")
    for text in texts * 2:
        problem = parse_problem_text(text)
        operands = make_normal(problem, 1)
        # Where weights are infinite, terms that lie in the padding must be left out.
        operands["w"][0, 0, 0] = np.inf
        whole = emulate(problem, recipe, operands)
        for first in (0, 1):
            wanted = np.zeros(problem.out_shape, bool)
            wanted[..., first::3] = True
            assert emulate(problem, recipe, operands, wanted=wanted)[wanted].tobytes() == whole[wanted].tobytes()
