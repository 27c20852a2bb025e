"""The library of recipes that engines were seen to use."""

from __future__ import annotations

import pytest

from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.sums.emulators import emulate
from samebits.sums.recipes import KeyedOrder
from samebits.sums.recipes.seen import find_seen, list_seen, name_form
from samebits.sums.truth import compute_truth

PROBLEMS = (
    "conv1d x=1x24x40 w=8x24x3 padding=1",
    "conv2d x=1x24x9x9 w=8x24x3x3 padding=1 bias",
    "conv2d.grad_weight x=4x3x9x9 w=5x3x3x3",
    "conv2d.grad_input x=2x16x9x9 w=8x16x3x3",
    "conv3d x=1x8x5x5x5 w=4x8x3x3x3",
    "linear x=7x96 w=9x96",
    "linear.grad_weight x=40x9 w=7x9",
)


def test_forms_name_the_axes_that_orders_sort_by():
    assert [name_form(parse_problem_text(t)) for t in PROBLEMS] == [
        "1-D gather", "2-D gather", "2-D filter", "2-D scatter", "3-D gather", "product gather", "product filter",
    ]  # fmt: skip


@pytest.mark.parametrize("text", PROBLEMS)
def test_every_recipe_of_a_form_is_an_order_by_keys_that_computes_the_function(text):
    """Rounding is all that may happen: the truth is never farther off than twice the float32 noise of its terms."""
    problem = parse_problem_text(text)
    operands = make_normal(problem)
    truth = compute_truth(problem, operands).values
    listed = list(list_seen(problem))
    assert [s.replayed for s in listed] == sorted((s.replayed for s in listed), reverse=True)
    for seen in listed:
        recipe = seen.parse()
        assert seen.engines
        assert seen.processors
        assert [type(order) for order in recipe.orders] == [KeyedOrder]
        assert find_seen(problem, recipe) == seen
        found = emulate(problem, recipe, operands)
        assert abs(found - truth).max() < 0.05 * abs(truth).max()


def test_common_layers_have_orders_that_were_seen():
    for text in PROBLEMS[:4]:
        assert len(list(list_seen(parse_problem_text(text)))) >= 3
