"""Recipes injected in emulators are found again, up to bits: on at least 100,000 random outputs each."""

import math

import numpy as np
import pytest

from injected_recipes import list_injected
from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.registry.runners import Emulator
from samebits.numbers.ulps import has_same_bits
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.recipes import format_recipe, parse_recipe

# Left out of `make quick`.
pytestmark = pytest.mark.slow

INJECTED = list_injected()
CHUNK = 12
OUTPUTS = 100_000


def test_the_grid_holds_at_least_300_distinct_recipes():
    assert len({(problem, format_recipe(parse_recipe(text))) for problem, text in INJECTED}) >= 300


@pytest.mark.parametrize("chunk", range(-(-len(INJECTED) // CHUNK)))
def test_injected_recipes_are_recovered_bit_for_bit(chunk):
    for problem_text, text in INJECTED[chunk * CHUNK : (chunk + 1) * CHUNK]:
        problem, injected = parse_problem_text(problem_text), parse_recipe(text)
        found = search_recipe(ProbeSession(Emulator(injected), problem))
        assert found.recipe is not None, text
        assert found.chosen.matched == 1.0, (text, format_recipe(found.recipe))
        outputs, seed = 0, 100
        while outputs < OUTPUTS:
            operands = make_normal(problem, seed)
            if injected.flush.results and seed % 2:
                # Products about the smallest normal float32, where flushing shows.
                operands = {n: (v * np.float32(2.0**-62)).astype(v.dtype) for n, v in operands.items()}
            ours, theirs = emulate(problem, found.recipe, operands), emulate(problem, injected, operands)
            assert has_same_bits(ours, theirs), (text, format_recipe(found.recipe))
            outputs, seed = outputs + math.prod(problem.out_shape), seed + 1
