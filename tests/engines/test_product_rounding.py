"""Whether products are rounded before they are added, found on runners in plain NumPy that do and that do not."""

import numpy as np
import pytest

from numpy_runners import FailingRunner, NanRunner, PlainRunner, keep_bits, to_bfloat16_cut, to_float16, to_tf32_cut
from samebits.engines.probes.product_rounding import find_product_rounding, find_term_products
from samebits.engines.probes.session import ProbeSession
from samebits.errors import EngineFailure, ProbeStopped
from samebits.problems import parse_problem_text

LAYER = "conv2d x=1x4x8x8 w=8x4x3x3"
EVERYWHERE = np.arange(36)
# Positions of a 6x6 plane that are no border.
INNER = tuple(6 * i + j for i in range(1, 5) for j in range(1, 5))
# Two terms added exactly to nothing yet and rounded once; the others one by one.
TOGETHER = (frozenset((0, 1)), *range(2, 36))
WAYS = ("fused", "fused_reversed", "rounded", "exact")
RUNNERS = {
    "fused": PlainRunner(fused=True),
    "fused_reversed": PlainRunner(reversed_=True),
    "rounded": PlainRunner(),
    "exact": PlainRunner(TOGETHER),
}


def find(runner, text=LAYER, pair=(0, 1), positions=EVERYWHERE, accumulator="float32", **more):
    session = ProbeSession(runner, parse_problem_text(text))
    return find_product_rounding(session, pair, positions, accumulator, **more)


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("then", ["", " then=relu", " then=clip(0,6)", " then=clip(0,0.25)", " bias"])
def test_each_way_of_adding_two_products_is_the_only_one_left(way, then):
    found = find(RUNNERS[way], LAYER + then)
    assert found.possible == (way,)
    assert found.compared == 256


@pytest.mark.parametrize(
    ("text", "pair", "positions"),
    [
        ("conv2d.grad_input x=1x4x6x6 w=8x4x3x3 padding=1", (9, 22), INNER),
        ("conv2d.grad_weight x=2x4x6x6 w=6x2x3x3 groups=2", (0, 17), range(18)),
        ("conv_transpose1d x=1x4x6 w=4x6x3", (0, 5), range(2, 6)),
        ("conv1d x=1x4x8 w=8x2x3 groups=2", (1, 4), range(6)),
    ],
)
@pytest.mark.parametrize("fused", [True, False])
def test_every_direction_shows_it(text, pair, positions, fused):
    found = find(PlainRunner(fused=fused), text, pair, np.array(list(positions)))
    assert found.possible == ("fused" if fused else "rounded",)


@pytest.mark.parametrize("way", WAYS)
def test_float16_sums_show_it_too(way):
    own = RUNNERS[way]
    runner = PlainRunner(own.tree, fused=own.fused, reversed_=own.reversed, accumulator=to_float16)
    assert find(runner, LAYER + " dtype=float16", accumulator="float16").possible == (way,)


def test_a_truncating_sum_is_compared_with_truncated_predictions():
    runner = PlainRunner(fused=True, accumulator=keep_bits(24, np.trunc))
    assert find(runner, mode="toward_zero").possible == ("fused",)
    assert find(runner).possible == ()


def test_float16_products_are_exact_in_float32_and_leave_all_ways_open():
    # 11 + 11 bits fit 24, and so does the sum's rounding not depend on which product came first.
    assert find(PlainRunner(), LAYER + " dtype=float16 out=float32").possible == WAYS


@pytest.mark.parametrize(("cut", "format_"), [(to_bfloat16_cut, "bfloat16"), (to_tf32_cut, "tf32")])
def test_operands_that_are_rounded_first_are_asked_with_values_that_stay(cut, format_):
    rounding = (format_, "toward_zero")
    runner = PlainRunner(fused=True, reads={"all": cut})
    # Products of so few bits are exact in float32: nothing is wrong, and nothing is decided.
    assert find(runner, roundings=(rounding, rounding)).possible == WAYS
    assert find(runner).possible == ()


def test_one_rounded_operand_leaves_products_that_tell():
    # 11 bits times 24 are 35: more than float32 has.
    runner = PlainRunner(fused=True, reads={"x": to_tf32_cut})
    assert find(runner, roundings=(("tf32", "toward_zero"), None)).possible == ("fused",)


def test_a_result_that_is_nan_or_another_sum_is_explained_by_none():
    assert find(NanRunner()).possible == ()
    assert find(PlainRunner(reads={"w": lambda v: 1.5 * v})).possible == ()


def test_below_a_clip_at_nothing_nothing_can_be_asked():
    found = find(PlainRunner(), LAYER + " then=clip(-1,0)")
    assert (found.possible, found.compared) == (WAYS, 0)


def find_terms(runner, pairs, text=LAYER, positions=EVERYWHERE, accumulator="float32", **more):
    session = ProbeSession(runner, parse_problem_text(text))
    found = find_term_products(session, pairs, np.arange(8), positions, accumulator, **more)
    return found, session.calls


PAIRS = [(0, t) for t in range(1, 36)]


@pytest.mark.parametrize("fused", [True, False])
def test_every_later_term_is_fused_or_rounded(fused):
    found, calls = find_terms(PlainRunner(fused=fused), PAIRS)
    assert found == dict.fromkeys(PAIRS, "fused" if fused else "rounded")
    # Eight rows to a call, 36 positions that all tell: once round is enough.
    assert calls == 5


def test_terms_that_are_rounded_among_fused_ones_are_named():
    class Mixed(PlainRunner):
        """Fuses all products but that of every fourth term."""

        def _add_tree(self, tree, products, start, bias=0.0):
            total = np.zeros(len(products))
            for i in range(products.shape[1]):
                product = products[:, i] if i % 4 else self.accumulator(products[:, i])
                total = self._add(total, product)
            return total

    found, _ = find_terms(Mixed(), PAIRS)
    assert found == {(a, b): "fused" if b % 4 else "rounded" for a, b in PAIRS}


def test_of_the_first_two_either_may_be_the_fused_one():
    found, _ = find_terms(PlainRunner(reversed_=True), [(0, 1)], starting=[(0, 1)])
    assert found == {(0, 1): "fused_reversed"}
    # Not offered, it is no answer, and neither way explains all.
    assert find_terms(PlainRunner(reversed_=True), [(0, 1)])[0] == {}


def test_pairs_that_no_position_has_are_left_out():
    # At the corner there is no first tap.
    found, _ = find_terms(PlainRunner(), [(0, 4)], LAYER + " padding=1", np.array([0]))
    assert found == {}


def test_few_positions_are_asked_again_until_one_way_is_left():
    found, calls = find_terms(PlainRunner(), [(0, 7)], positions=np.array([3]))
    assert found == {(0, 7): "rounded"}
    assert 1 <= calls <= 12


def test_exact_products_are_never_decided():
    found, calls = find_terms(PlainRunner(), [(0, 7)], LAYER + " dtype=float16 out=float32")
    assert found == {}
    assert calls == 12


def test_failures_and_spent_budgets_come_through():
    with pytest.raises(EngineFailure):
        find(FailingRunner())
    session = ProbeSession(PlainRunner(), parse_problem_text(LAYER), most_calls=3)
    with pytest.raises(ProbeStopped):
        find_term_products(session, PAIRS, np.arange(8), EVERYWHERE, "float32")
