"""The order probe: injected orders in every direction and format, orders that change from place to place, its cost."""

import math

import numpy as np
import pytest

from numpy_runners import FailingRunner, NanRunner, PlainRunner, keep_bits, to_float16
from samebits.engines.probes.session import ProbeSession
from samebits.engines.probes.summation_order import find_summation_orders
from samebits.engines.registry.runners import Emulator
from samebits.engines.runner import Identity
from samebits.errors import EngineFailure, ProbeStopped
from samebits.problems import parse_problem_text
from samebits.sums.emulators import emulate
from samebits.sums.recipes import expand_order, parse_recipe
from samebits.sums.recipes.tree import Chain, canonical_tree, restrict_tree, swap_first_pairs
from tree_walks import terms_of, under_junction


class PerOne:
    """Engine-like runner whose recipe a function chooses; counts calls."""

    def __init__(self, text):
        self.recipe, self.text, self.calls = parse_recipe(text), text, 0

    def identify(self):
        return Identity(self.text, self.text, "0", "CPU")

    def run(self, problem, operands):
        self.calls += 1
        return emulate(problem, self.recipe, operands)

    def close(self):
        return


def find(problem_text, recipe_text):
    problem = parse_problem_text(problem_text)
    session = ProbeSession(Emulator(parse_recipe(recipe_text)), problem)
    return session, find_summation_orders(session)


def injected_tree(session, recipe_text, number=0):
    order = parse_recipe(recipe_text).orders[number]
    return expand_order(order, session.terms.axis_names, session.terms.axis_sizes)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("problem", "recipe"),
    [
        ("conv2d x=1x16x8x8 w=16x16x3x3 padding=1 bias", "direct order=c/4|kh,kw,c"),
        ("conv2d x=1x16x8x8 w=16x16x3x3", "direct order=halves:k%8|k"),
        ("conv2d x=1x16x8x8 w=16x16x3x3 then=relu", "direct order=pairs:k"),
        ("conv2d x=1x16x8x8 w=16x16x3x3 then=clip(0,6)", "direct order=c/4|k"),
        ("conv2d x=1x16x8x8 w=16x16x3x3", "direct order=k/16|fused:k fused=24"),
        ("conv2d x=1x16x8x8 w=16x16x3x3", "direct order=k/8|fused:k fused=24 acc=float32/toward_zero"),
        ("conv2d x=1x16x8x8 w=16x16x3x3 dtype=float16", "direct order=halves:k%8|k acc=float16"),
        ("conv2d x=1x64x8x8 w=16x64x3x3 dtype=bfloat16", "direct order=c/16|kh,kw,c"),
        ("conv2d x=1x64x8x8 w=16x64x3x3 dtype=bfloat16", "direct order=halves:k%8|k acc=bfloat16"),
        ("conv2d.grad_weight x=2x8x9x9 w=6x4x3x3 stride=2 padding=1 groups=2", "direct order=n,oh|ow"),
        ("conv1d x=1x1x8 w=1x1x5", "direct order=k/4|pairs:k product=rounded"),
        ("conv2d x=1x1x6x6 w=1x1x3x3", "direct order=tree:7+8+6+5+4+3+2+1+0"),
        ("conv2d x=1x4x6x6 w=8x4x3x3 dtype=float64", "direct acc=float64 order=kw,kh,c"),
    ],
)
def test_an_injected_order_is_found_for_all_positions(problem, recipe):
    session, found = find(problem, recipe)
    assert not found.notes
    assert len(found.trees) == 1
    assert (found.places == 0).all()
    assert canonical_tree(found.trees[0]) == canonical_tree(injected_tree(session, recipe))


def test_every_phase_of_a_strided_scatter_gets_its_part_of_the_order():
    recipe = "direct order=kh,kw|c"
    session, found = find("conv2d.grad_input x=2x8x9x9 w=6x4x3x3 stride=2 padding=1 groups=2", recipe)
    tree = injected_tree(session, recipe)
    number, masks = session.terms.phases
    for s, place in enumerate(found.places[0]):
        exists = np.tile(masks[number[s]], session.terms.depth)
        assert canonical_tree(found.trees[place]) == canonical_tree(restrict_tree(tree, exists))


def test_the_map_tells_positions_with_different_orders_apart():
    recipe = "direct order=c,kw;kw|c where=ow(0*8,1*4)"
    session, found = find("conv1d x=1x8x14 w=16x8x3", recipe)
    assert len(found.trees) == 2
    for position, place in enumerate(found.places[0]):
        wanted = injected_tree(session, recipe, int(position >= 8))
        assert canonical_tree(found.trees[place]) == canonical_tree(wanted)


def test_rows_that_add_otherwise_do_not_confuse_the_others():
    recipe = "direct order=c,kh,kw;c|kh,kw where=c_out(0*13,1*3)"
    session, found = find("conv2d x=1x16x8x8 w=16x16x3x3 padding=1", recipe)
    assert canonical_tree(found.trees[0]) == canonical_tree(injected_tree(session, recipe, 0))


def test_a_sum_that_nothing_absorbs_has_no_order_and_says_so():
    _, found = find("conv1d x=1x8x14 w=16x8x3", "fft")
    assert found.trees == []
    assert (found.places == -1).all()
    assert len(found.notes) == 1


@pytest.mark.slow
@pytest.mark.parametrize("order", ["-k", "tree:1:1500+0", "k"])
def test_long_sums_in_one_chain_are_found_in_few_calls(order):
    problem = parse_problem_text("conv1d x=1x1500x1 w=4x1500x1 dtype=float32")
    runner = PerOne(f"direct order={order}")
    found = find_summation_orders(ProbeSession(runner, problem))
    injected = expand_order(runner.recipe.orders[0], ("c", "kw"), (1500, 1))
    # Which of the first two comes first is no question of masks.
    assert canonical_tree(injected) in (found.trees[0], swap_first_pairs(found.trees[0]))
    # One question for each pair with at most three pivots, four rows to a call.
    assert runner.calls < 3 * 1500 / 4 + 24


def test_no_more_calls_are_made_than_allowed():
    problem = parse_problem_text("conv2d x=1x64x8x8 w=2x64x3x3")
    runner = PerOne("direct")
    session = ProbeSession(runner, problem, most_calls=20)
    found = find_summation_orders(session)
    assert runner.calls <= 20
    assert found.notes
    with pytest.raises(ProbeStopped):
        session.ask(session.make_operands())


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "order"), [(64, "c/16|kh,kw,c"), (64, "c,kh,kw"), (512, "kh,kw,c")])
def test_64_rows_or_more_answer_within_24_calls(channels, order):
    problem = parse_problem_text(f"conv2d x=1x{channels}x7x7 w={channels}x{channels}x3x3 padding=1")
    session = ProbeSession(Emulator(parse_recipe(f"direct order={order}")), problem)
    assert len(find_summation_orders(session).trees) == 1
    assert session.calls <= 24


def find_plain(runner, text, **more):
    return find_summation_orders(ProbeSession(runner, parse_problem_text(text)), **more)


def as_item(tree):
    """A tuple of terms and tuples as a tree."""
    return Chain(tuple(as_item(p) if isinstance(p, tuple) else p for p in tree))


def is_same_but_for_first_pairs(found, injected):
    """Whether all pairs meet at the same junctions; which of the first two came first is no question of masks."""
    return terms_of(found) == terms_of(injected) and all(
        under_junction(found, a, b) == under_junction(injected, a, b)
        for a in terms_of(found)
        for b in terms_of(found) - {a}
    )


SIX = (0, 1, 2, 3, 4, 5)
TREES_OF_SIX = [
    SIX,
    SIX[::-1],
    (4, 1, 5, 0, 2, 3),
    ((0, 1), (2, 3), (4, 5)),
    ((0, 3), (1, 4), (2, 5)),
    (0, 1, 2, (3, 4, 5)),
    (5, (1, (2, 0)), (4, 3)),
    ((((0, 1), 2), 3), (4, 5)),
]


@pytest.mark.parametrize("tree", TREES_OF_SIX)
@pytest.mark.parametrize(
    "text",
    [
        "conv1d x=1x2x7 w=4x2x3",
        "conv1d x=2x4x7 w=4x2x3 groups=2 bias",
        "conv1d x=1x2x7 w=4x2x3 then=relu",
        "conv1d x=1x2x7 w=4x2x3 dtype=float16",
        "conv1d.grad_weight x=2x4x5 w=4x2x3 groups=2",
        "conv1d x=1x2x7 w=1x2x3",
    ],
)
@pytest.mark.parametrize("runner", [PlainRunner, lambda tree: PlainRunner(tree, accumulator=to_float16)])
def test_orders_of_plain_numpy_sums_are_found(tree, text, runner):
    found = find_plain(runner(tree), text)
    assert found.notes == []
    assert (found.places == 0).all()
    assert len(found.trees) == 1
    assert is_same_but_for_first_pairs(found.trees[0], as_item(tree))


@pytest.mark.parametrize(
    "text",
    [
        "conv1d x=1x2x7 w=4x2x3 padding=1",
        "conv1d.grad_input x=1x4x6 w=2x4x3 padding=1",
        "conv1d.grad_input x=1x4x6 w=2x4x3 stride=2",
        "conv_transpose1d x=1x2x5 w=2x4x3",
        "conv_transpose1d.grad_weight x=2x4x3 w=4x2x3 padding=1",
    ],
)
@pytest.mark.parametrize("tree", TREES_OF_SIX)
def test_positions_that_lack_terms_have_what_is_left_of_the_order(text, tree):
    found = find_plain(PlainRunner(tree), text)
    problem = parse_problem_text(text)
    terms = ProbeSession(PlainRunner(), problem).terms
    at = terms.locate_sources(np.arange(int(np.prod(terms.outputs)))) >= 0
    exists = np.tile(np.tile(at, terms.depth), (terms.batch, 1))
    assert found.notes == []
    for own, place in zip(exists, found.places.reshape(-1), strict=True):
        injected = restrict_tree(as_item(tree), own)
        if injected is None:
            continue
        left = restrict_tree(found.trees[place], own)
        if isinstance(injected, int):
            assert left == injected
        else:
            assert is_same_but_for_first_pairs(left, injected)


class Exactly(PlainRunner):
    """Adds all products exactly and rounds once: no order at all."""

    def _add_tree(self, tree, products, start, bias=0.0):
        return np.array([math.fsum(p) for p in products])


def test_an_exact_sum_has_no_order():
    found = find_plain(Exactly(), "conv1d x=1x4x7 w=8x4x3")
    assert found.trees == []
    assert (found.places == -1).all()
    assert found.notes


def test_sums_in_a_narrow_format_are_found_as_far_as_they_can_be_counted():
    # With eight significant bits 257 does not exist; 300 terms are asked about in parts.
    found = find_plain(PlainRunner(accumulator=keep_bits(8)), "conv1d x=1x300x1 w=64x300x1")
    assert is_chain_in_order(found.trees[0], 300)


def is_chain_in_order(tree, count):
    terms = tree.items
    return sorted(terms[:2]) == [0, 1] and terms[2:] == tuple(range(2, count))


def test_a_single_term_needs_no_question():
    runner = PlainRunner()
    found = find_plain(runner, "conv1d x=1x1x4 w=2x1x1")
    assert (found.trees, runner.calls, (found.places == 0).all()) == ([0], 0, True)


def test_a_runner_that_returns_nan_has_no_order():
    found = find_plain(NanRunner(), "conv1d x=1x2x7 w=4x2x3")
    assert (found.trees, found.scale) == ([], None)
    assert (found.places == -1).all()
    assert len(found.notes) == 1


def test_a_failing_runner_raises_and_a_spent_budget_is_noted():
    with pytest.raises(EngineFailure):
        find_plain(FailingRunner(at=2), "conv1d x=1x2x7 w=4x2x3")
    for most in (0, 1, 3):
        session = ProbeSession(PlainRunner(), parse_problem_text("conv1d x=1x8x7 w=1x8x3"), most_calls=most)
        found = find_summation_orders(session)
        assert session.runner.calls == most
        assert found.trees == []
        assert (found.places == -1).all()
        assert any("stopped after" in note for note in found.notes)


def test_chosen_rows_answer_for_themselves():
    class Rows(PlainRunner):
        """Adds its last two rows in reverse."""

        def run(self, problem, operands):
            self.tree = None
            result = super().run(problem, operands)
            self.tree = SIX[::-1]
            result[:, 2:] = super().run(problem, operands)[:, 2:]
            return result

    for rows, tree in (([0, 1], SIX), ([2, 3], SIX[::-1])):
        found = find_plain(Rows(), "conv1d x=1x2x7 w=4x2x3", rows=np.array(rows))
        assert is_same_but_for_first_pairs(found.trees[0], as_item(tree))
