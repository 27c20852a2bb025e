"""Single rows and outputs that are added or rounded otherwise: tails of kernels, injected, and found whole."""

import numpy as np
import pytest

from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.registry.runners import Emulator
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe

TAILS = [
    # Three last rows, each with an order of its own, as kernels have them that peel rows to an aligned address.
    (
        "conv2d x=1x5x12x12 w=11x5x3x3 dtype=float32",
        "order=k/16|k;k%4|k;k%8|k;pairs:k where=c_out(0*8,1*1,2*1,3*1)",
    ),
    # One position whose sums are lanes in some rows, and products rounded there.
    (
        "conv2d x=1x5x12x12 w=6x5x3x3 padding=1 dtype=float64",
        "acc=float64 order=c,kh,kw;k%4|k!product=rounded where=c_out(oh(0*11,ow(0*11,1*1)*1)*3,0*3)",
    ),
    # Products rounded but for a few terms in the last row.
    (
        "conv2d x=2x4x9x9 w=5x4x2x2 dtype=float64",
        "acc=float64 product=fused order=tree:0+(1)+(2)+(3)+4+(5)+(6)+(7)+8+[(9)]*7@1;k where=c_out(0*1,1*4)",
    ),
    # Lanes fused, a tail of products rounded; as many positions in a row as there are rows of positions to choose from.
    (
        "conv2d x=1x17x23x19 w=1x17x3x3 padding=1 dtype=float32",
        "product=fused order=tree:[0:109:36]*9@1+([9:118:36]*9@1)+([18:127:36]*9@1+([27:136:36]*9@1))+(144)*9@1",
    ),
    # Products distinguished below a bound that most sums of theirs exceed.
    (
        "conv2d x=1x3x12x12 w=8x3x3x3 bias dtype=float32 then=clip(0,6)",
        "product=fused order=tree:0:9+(9:18)+(18)*9@1",
    ),
    # Some inner sums begin with their second term.
    (
        "conv1d x=2x12x40 w=3x12x1 dtype=float32",
        "product=fused order=tree:0:3+(4+3+5)+(7+6+8)+(9:12)",
    ),
    # Conversion to eight bits by way of sixteen.
    ("conv1d x=1x16x64 w=16x16x3 padding=1 dtype=float8_e5m2", "order=kw,c via=float16"),
    ("conv1d x=1x16x64 w=16x16x3 padding=1 dtype=float8_e5m2", "order=kw,c"),
    # Engines that compute in a half format: bias and result rounded too, or the bias added behind in float32.
    (
        "conv2d x=2x32x9x9 w=16x32x3x3 padding=1 bias dtype=float32",
        "x=bfloat16 w=bfloat16 b=bfloat16 order=c/16,kh,kw,c via=bfloat16",
    ),
    (
        "conv2d x=2x32x9x9 w=16x32x3x3 padding=1 bias dtype=float32",
        "x=bfloat16 w=bfloat16 order=kh,kw,c via=bfloat16 bias=rounded",
    ),
    ("conv1d x=4x32x20 w=16x32x3 bias dtype=float32", "x=float16 w=float16 b=float16 order=c,kw via=float16"),
    # The fault-free control: nothing is refined where nothing is missed.
    ("conv2d x=2x4x9x9 w=5x4x2x2 dtype=float64", "acc=float64 order=kh,kw,c"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "recipe"), TAILS)
def test_injected_tails_are_found_and_replayed_on_data_not_used_to_find_them(problem, recipe):
    problem, injected = parse_problem_text(problem), parse_recipe(f"direct {recipe}")
    found = search_recipe(ProbeSession(Emulator(injected), problem))
    assert found.recipe is not None
    for seed in range(70, 80):
        operands = make_normal(problem, seed)
        np.testing.assert_array_equal(emulate(problem, found.recipe, operands), emulate(problem, injected, operands))
