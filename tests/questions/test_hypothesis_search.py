"""Which hypothesis is chosen: the closest that explains enough and all outputs, for predictions written by hand."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hand_made import observe
from injected_cases import make_case
from samebits import thresholds
from samebits.findings import Evidence, Replay
from samebits.findings.causes import CauseCode
from samebits.mechanisms.arithmetic.arithmetic import list_order_hypotheses
from samebits.mechanisms.arithmetic.recipe_hypotheses import from_recipe
from samebits.mechanisms.facts.observation import Hypothesis
from samebits.mechanisms.search import hypothesis_search
from samebits.mechanisms.search.hypothesis_search import HypothesisSearch
from samebits.mechanisms.search.recorded_case import explain_case
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.progress import ignore_progress
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe
from samebits.sums.truth import compute_truth

# Thirty outputs, each off by a half; up to 0.75 may be the rounding of sums of this magnitude.
COUNT, OFF = 30, 0.5
ROW = f"conv1d x=1x1x{COUNT} w=1x1x1 dtype=float32"
TRUTH = np.arange(1.0, COUNT + 1)
GIVEN = TRUTH + OFF
CUT = CauseCode.REDUCED_PRECISION_OPERANDS


def search(bound=1e-9, result=GIVEN, progress=ignore_progress, noise=0.0):
    searching = HypothesisSearch(observe(ROW, TRUTH, result, bound=bound, magnitudes=2.0**22), progress)
    searching._noise = noise
    return searching


def predict(values):
    """A prediction of these values, in whatever sample is asked for."""
    return lambda observation, sample: None if values is None else values[None, sample.positions]


def assume(share, says="rounds", cause=CUT, verdict="downgrade", **more):
    """A hypothesis that leaves this share of the distance; None for one that predicts nothing."""
    predicted = None if share is None else GIVEN - OFF * np.array(share) * np.ones(COUNT)
    return Hypothesis(cause, verdict, says, predict(predicted), **more)


def try_functions(searching, *hypotheses):
    found = searching._try_functions([("layout", h) for h in hypotheses])
    return found and found.says


@pytest.mark.parametrize(
    ("bound", "share", "explains"),
    [(1e-9, 0.49, True), (1e-9, 0.51, False), (1.0, 0.19, True), (1.0, 0.21, False), (1.0, -0.19, True)],
)
def test_a_hypothesis_takes_away_half_the_distance_and_within_the_bound_four_fifths(bound, share, explains):
    assert try_functions(search(bound), assume(share)) == ("rounds" if explains else None)


@pytest.mark.parametrize(("differing", "bound", "found"), [(19, 1.0, None), (20, 1.0, "rounds"), (19, 1e-9, "rounds")])
def test_within_the_bound_few_outputs_tell_nothing(differing, bound, found):
    result = np.where(np.arange(COUNT) < differing, GIVEN, TRUTH)
    fits = Hypothesis(CUT, "downgrade", "rounds", predict(result))
    assert try_functions(search(bound, result), fits) == found


def test_the_closest_is_tried_first_and_others_if_it_does_not_explain_all():
    near, nearer = assume(0.3, "near"), assume(0.2, "nearer")
    assert try_functions(search(), near, assume(None), nearer) == "nearer"
    wide = Hypothesis(CUT, "downgrade", "wide", assume(0.1).predict)
    refused = replace(wide, verdict="wrong")
    assert try_functions(search(1.0), refused, assume(0.15, "good")) == "good"


def test_at_most_so_many_are_held_against_every_output(monkeypatch):
    monkeypatch.setattr(thresholds, "MOST_CHECKED", 2.0)
    refused = [assume(0.01 * i, f"{i}", verdict="wrong") for i in range(2)]
    assert try_functions(search(1.0), *refused[:1], assume(0.1)) == "rounds"
    assert try_functions(search(1.0), *refused, assume(0.1)) is None


def test_what_the_data_do_not_distinguish_is_named_beside_it():
    one, other = np.zeros(COUNT), np.zeros(COUNT)
    # Corners are in every sample.
    one[0], other[-1] = 0.5, 0.5
    first, tie, worse = assume(one, "first"), assume(other, "tie"), assume(one * 1.3, "worse")
    searching = search()
    found = searching._try_functions([("layout", h) for h in (worse, first, tie)])
    assert found is not None
    assert (found.says, found.alternatives, found.tried) == ("first", ("tie",), 3)
    best = search()._try_functions([("layout", h) for h in (assume(0.0, "a"), assume(0.0, "b"))])
    assert best is not None
    assert (best.says, best.alternatives) == ("a", ("b",))


def test_hypotheses_are_counted_by_kind_and_reported_every_eighth_time():
    heard = []
    searching = search(progress=lambda what, share: heard.append((what, share)))
    searching._try_functions([("layout", assume(1.0))] * 9 + [("epilogue", assume(None))] * 8)
    assert searching.tried == Counter({"layout": 9, "epilogue": 8})
    assert heard == [("trying hypotheses (layout)", 0.0), ("trying hypotheses (epilogue)", 0.0)]


def list_nothing(monkeypatch, **lists):
    """No hypotheses of any kind but those given."""
    for name in (n for n in vars(hypothesis_search) if n.startswith("list_") and n.endswith("_hypotheses")):
        made = lists.get(name.removeprefix("list_").removesuffix("_hypotheses"), ())
        monkeypatch.setattr(hypothesis_search, name, lambda *asked, m=made: iter(m))


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("stored", "stored result"),
        ("operand", "operand rounding"),
        ("epilogue", "epilogue"),
        ("activation", "epilogue"),
        ("scale", "scale"),
        ("geometry", "index relation"),
        ("layout", "layout"),
        ("split", "quantised operands"),
        ("quantized", "quantised operands"),
        ("padding", "index relation"),
        ("fitted", "scale and shift"),
        ("refitted", "fitted operands"),
        ("searched", "quantised operands"),
    ],
)
def test_every_kind_of_function_is_tried(monkeypatch, name, kind):
    list_nothing(monkeypatch, **{name: [assume(1.0, "no"), assume(0.0, "yes")]})
    monkeypatch.setattr(hypothesis_search, "is_as_close_as_a_plain_sum", lambda *asked, times: False)
    searching = search()
    found = searching.run()
    assert found is not None
    assert (found.says, found.tried) == ("yes", 2)
    assert searching.tried == Counter({kind: 2, "order of addition": 0})


def test_zeros_only_are_not_explained_by_reading_nothing(monkeypatch):
    zeros = Hypothesis(CUT, "downgrade", "zeros", predict(np.zeros(COUNT)))
    for name, found in (("operand", "zeros"), ("epilogue", None), ("geometry", None), ("layout", None)):
        list_nothing(monkeypatch, **{name: [zeros]})
        mechanism = search(result=np.zeros(COUNT)).run()
        assert (mechanism and mechanism.says) == found


def test_what_is_simple_goes_before_what_is_fitted_if_it_leaves_only_rounding(monkeypatch):
    noise = 4 * thresholds.EXPLAINS
    monkeypatch.setattr(HypothesisSearch, "_noise", noise)
    simple, fitted = assume(0.2, "simple"), assume(0.1, "fitted", fitted=True)
    assert try_functions(search(), simple, fitted) == "simple"
    monkeypatch.setattr(HypothesisSearch, "_noise", 0.0)
    # A fit that leaves more than rounding explains nothing.
    assert try_functions(search(), simple, fitted) == "simple"
    assert try_functions(search(), assume(0.2, "fitted", fitted=True)) is None
    assert try_functions(search(), simple, assume(0.0, "fitted", fitted=True)) == "fitted"


def test_of_about_equally_close_ones_the_first_is_named():
    assert try_functions(search(), assume(0.105, "first"), assume(0.1, "second")) == "first"
    assert try_functions(search(), assume(0.115, "first"), assume(0.1, "second")) == "second"


@pytest.mark.parametrize(("close", "says"), [(True, "transforms"), (False, "narrow")])
def test_narrow_sums_are_tried_only_on_results_worse_than_plain_sums(monkeypatch, close, says):
    asked = []
    monkeypatch.setattr(
        hypothesis_search,
        "is_as_close_as_a_plain_sum",
        lambda o, s, *, times: asked.append((s.rows.size, times)) or close,
    )
    plain = parse_recipe("direct")
    list_nothing(
        monkeypatch,
        transform=[assume(0.1, "transforms", recipe=plain)],
        recipe=[assume(0.1, "narrow", recipe=plain)],
    )
    found = search().run()
    assert found is not None
    assert found.says == says
    assert asked == [(1, thresholds.PLAIN_TIMES)]


LAYER = parse_problem_text("conv1d x=2x16x12 w=6x16x3 bias dtype=float32")
DATA = make_normal(LAYER, 3)
ODD = parse_recipe("direct order=-k%7|-k")


def recorded(recipe, bound=1e-9):
    truth = compute_truth(LAYER, DATA).values
    return observe(LAYER, truth, emulate(LAYER, recipe, DATA), bound=bound, magnitudes=0.01, operands=DATA)


def test_a_common_order_is_proved_and_those_before_it_are_counted():
    orders = [h.recipe for h in list_order_hypotheses(LAYER)]
    searching = HypothesisSearch(recorded(orders[5]), ignore_progress)
    found = searching.run()
    assert found is not None
    assert (found.cause, found.verdict, found.fit) == (CauseCode.SUMMATION_ORDER, "rounding", "bits")
    assert found.says == "adds the declared products in an order of its own"
    assert found.replay == Replay(1.0, 120)
    first = next(i for i, r in enumerate(orders) if (emulate(LAYER, r, DATA) == searching.observation.result).all())
    assert found.tried == searching.tried.total() == first + 1
    assert found.recipe == orders[first]


def test_orders_that_do_not_fit_are_all_counted(monkeypatch):
    orders = [*list_order_hypotheses(LAYER)][:4]
    list_nothing(monkeypatch, order=orders)
    searching = HypothesisSearch(recorded(ODD), ignore_progress)
    assert searching.run() is None
    assert searching.tried == Counter({"order of addition": 4})


def of_recipe(recipe, says="does it so"):
    return from_recipe(CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", says, recipe)


def test_a_recipe_that_gives_every_bit_is_proved():
    searching = HypothesisSearch(recorded(ODD), ignore_progress)
    found = searching._try_recipes([of_recipe(parse_recipe("direct")), of_recipe(ODD, "this"), of_recipe(ODD, "late")])
    assert found is not None
    assert (found.cause, found.verdict, found.says) == (CauseCode.LOW_PRECISION_ACCUMULATOR, "downgrade", "this")
    assert (found.fit, found.recipe, found.replay, found.tried) == ("bits", ODD, Replay(1.0, 120), 2)
    assert not found.sampled
    assert searching.tried == Counter({"recipe": 2})


def test_a_few_bits_may_be_right_by_luck(monkeypatch):
    for most, found in ((1e9, None), (0.0, "does it so")):
        monkeypatch.setattr(thresholds, "FEWEST_BITS", most)
        searching = HypothesisSearch(recorded(ODD, bound=1.0), ignore_progress)
        mechanism = searching._try_recipes([of_recipe(ODD)])
        assert (mechanism and mechanism.says) == found


def test_one_other_bit_in_what_was_not_looked_at_first_refutes_a_recipe():
    given = recorded(ODD, bound=1.0)
    outside = tuple(np.argwhere(~given.choose_sample().thin(4, 24).mark())[0])
    given.result[outside] = np.nextafter(given.result[outside], np.float32(np.inf))
    found = HypothesisSearch(given, ignore_progress)._try_recipes([of_recipe(ODD)])
    assert (found.fit, found.recipe, found.replay) == ("nearness", None, None)


PLAIN = parse_recipe("direct")


def test_of_recipes_without_the_bits_the_closest_is_inferred():
    searching = search()
    found = searching._try_recipes(
        [assume(0.4, "near", recipe=PLAIN), assume(None, recipe=PLAIN), assume(0.25, "nearer", recipe=PLAIN)]
    )
    assert found is not None
    assert (found.cause, found.verdict, found.says, found.fit) == (CUT, "downgrade", "nearer", "nearness")
    assert (found.recipe, found.replay, found.tried) == (None, None, 3)
    # A quarter of the distance is a sixteenth of its square.
    says = "that takes away 93.8% of the squared error; nothing tried takes all"
    assert found.evidence == (Evidence("statistic", says),)


@pytest.mark.parametrize(
    "hypothesis",
    [
        assume(0.71, recipe=PLAIN),
        assume(None, recipe=PLAIN),
        assume(0.1),
        Hypothesis(CUT, "downgrade", "zeros", predict(np.zeros(COUNT)), recipe=PLAIN),
    ],
)
def test_what_comes_no_closer_predicts_nothing_or_is_no_recipe_is_not_inferred(hypothesis):
    assert search()._try_recipes([hypothesis]) is None
    assert search()._try_recipes([hypothesis, assume(0.3, "near", recipe=PLAIN)]).says == "near"


def test_within_the_bound_a_recipe_takes_away_four_fifths_of_the_distance_in_outputs_enough(monkeypatch):
    def find(share):
        return search(bound=1.0)._try_recipes([assume(share, recipe=PLAIN)])

    assert find(0.21) is None
    assert find(0.19).fit == "nearness"
    monkeypatch.setattr(thresholds, "FEWEST_TELLING", COUNT + 1.0)
    assert find(0.19) is None


def test_what_rounding_leaves_of_any_prediction_counts_for_none():
    """Of a unit of distance, half a unit of rounding is in what is left and in what there was: 0.49 beside 0.87."""
    for share, found in ((0.65, True), (0.70, False), (0.49, True)):
        searching = search(noise=0.5 * search()._declared)
        mechanism = searching._try_recipes([assume(share, recipe=PLAIN)])
        assert (mechanism is not None) == found


def test_equally_close_recipes_are_taken_as_they_come():
    found = search()._try_recipes([assume(0.2, "first", recipe=PLAIN), assume(-0.2, "second", recipe=PLAIN)])
    assert found is not None
    assert found.says == "first"


def test_at_most_so_many_are_compared_on_more_outputs(monkeypatch):
    monkeypatch.setattr(thresholds, "MOST_CHECKED", 1.0)
    seen = []

    def watch(observation, sample):
        seen.append(sample.positions.size)
        return assume(0.2).predict(observation, sample)

    slow = Hypothesis(CUT, "downgrade", "slow", watch, recipe=PLAIN)
    found = search()._try_recipes([slow, assume(0.1, "near", recipe=PLAIN)])
    assert seen == [24]
    assert found is not None
    assert found.says == "near"


def test_zeros_are_predicted_of_zeros():
    zeros = Hypothesis(CUT, "downgrade", "zeros", predict(np.zeros(COUNT)), recipe=PLAIN)
    found = search(result=np.zeros(COUNT))._try_recipes([zeros])
    assert found is not None
    assert found.evidence[0].says.startswith("that takes away 99.9%")


@pytest.mark.parametrize("seed", [0, 2])
def test_what_assumes_nothing_is_named_before_a_fit_that_comes_as_close(seed):
    """The bias read one element away: a shift per channel fits that, too."""
    text = "conv_transpose2d x=2x8x7x9 w=8x6x3x3 stride=2 padding=1 output_padding=1 bias dtype=float32"
    found = explain_case(make_case("bias shifted", text, seed).case)
    assert (found.verdict, found.cause) == ("wrong", "axis-order")
