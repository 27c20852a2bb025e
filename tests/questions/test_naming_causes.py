"""From a recipe to a cause, and from a replay to a mechanism, for recipes written by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from injected_runners import InjectedRunner
from samebits import compare, thresholds
from samebits.engines.recipe_search.stages import RecipeStage, SearchResult
from samebits.errors import ProbeStopped
from samebits.findings import Evidence, Replay
from samebits.findings.causes import CauseCode
from samebits.findings.words.order_words import say_what_it_does
from samebits.judging import attribution
from samebits.judging.attribution import attribute
from samebits.judging.measuring import measure_distances
from samebits.judging.recipe_causes import name_cause
from samebits.judging.references import make_reference
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.progress import ignore_progress
from samebits.sums.emulators import emulate
from samebits.sums.recipes import parse_recipe

PROBLEM = parse_problem_text("conv2d x=1x4x6x6 w=3x4x3x3 dtype=float32")
DATA = make_normal(PROBLEM, 1)
REFERENCE = make_reference(PROBLEM, DATA, ignore_progress)


def name(problem, text, operands):
    """The cause of what a recipe makes of some operands."""
    reference = make_reference(problem, operands, ignore_progress)
    result = emulate(problem, parse_recipe(text), operands)
    distances = measure_distances(problem, result, reference.truth, reference.bound, reference.magnitudes)
    return name_cause(problem, parse_recipe(text), result, reference.truth, distances)


@pytest.mark.parametrize(
    ("dtype", "text", "cause"),
    [
        ("float32", "direct", "summation-order"),
        ("float32", "direct order=pairs:k product=rounded", "summation-order"),
        ("float32", "direct x=tf32", "reduced-precision-operands"),
        ("float32", "direct w=bfloat16 acc=float16", "reduced-precision-operands"),
        ("float32", "winograd(2) w=float16", "reduced-precision-operands"),
        ("float32", "direct x=float32 w=float32", "summation-order"),
        ("float16", "direct x=float16", "summation-order"),
        ("float16", "direct x=bfloat16", "reduced-precision-operands"),
        ("float32", "direct acc=float16", "low-precision-accumulator"),
        ("float16", "direct acc=float16", "low-precision-accumulator"),
        ("float16", "direct acc=float32", "summation-order"),
        ("float64", "direct x=float32 w=float32 acc=float32", "reduced-precision-operands"),
        ("float64", "direct acc=float64", "summation-order"),
        ("float32", "direct acc=float64", "summation-order"),
        ("float32", "direct order=chain@float16:c|kh,kw", "low-precision-accumulator"),
        ("float32", "winograd(2) acc=float16", "low-precision-accumulator"),
        ("float32", "direct acc=float32/toward_zero", "low-precision-accumulator"),
        ("float32", "direct via=bfloat16", "reduced-precision-operands"),
        ("float32", "direct flush=operands,results", "summation-order"),
        ("float32", "winograd(2)", "winograd"),
        ("float32", "fft", "fft"),
    ],
)
def test_the_gravest_way_of_a_recipe_names_its_cause(dtype, text, cause):
    problem = parse_problem_text(f"conv2d x=1x4x6x6 w=3x4x3x3 dtype={dtype}")
    assert name(problem, text, make_normal(problem, 1)) == cause


def test_flushing_is_a_cause_where_it_takes_a_result_beyond_its_bound():
    small = {name: array * np.float32(scale) for (name, array), scale in zip(DATA.items(), (1e-30, 1e-9), strict=True)}
    assert name(PROBLEM, "direct flush=operands,results", small) == "subnormals"
    found = compare(Case(PROBLEM, small), ["emulate:direct flush=operands,results", "emulate:direct"])
    assert [(s.verdict, s.cause) for s in found.sides] == [("downgrade", "subnormals"), ("rounding", "summation-order")]


def test_a_lost_nan_is_a_cause_where_it_was_lost():
    problem = parse_problem_text("conv1d x=1x1x40 w=2x1x3 then=relu dtype=float32")
    operands = make_normal(problem, 1)
    assert name(problem, "direct nan=bound", operands) == "summation-order"
    operands["x"][0, 0, 7] = np.nan
    assert name(problem, "direct nan=bound", operands) == "nan-semantics"
    found = compare(Case(problem, operands), ["emulate:direct nan=bound", "emulate:direct"])
    assert (found.verdict, found.sides[0].verdict, found.sides[0].cause) == ("wrong", "wrong", "nan-semantics")


def test_a_replayed_sample_does_not_take_back_a_fault(monkeypatch):
    monkeypatch.setattr(thresholds, "MOST_REPLAYED_PRODUCTS", 400)
    problem = parse_problem_text("conv2d x=1x4x18x18 w=8x4x3x3 dtype=float32")
    operands = make_normal(problem, 1)
    recipe = parse_recipe("direct order=kh,kw,c")

    class Faulty(InjectedRunner):
        """Adds 5000 to one output of the operands in question, and of no others."""

        def run(self, problem, given):
            result = emulate(problem, recipe, given)
            if (given["x"] == operands["x"]).all():
                result[0, 3, 5, 5] += 5000
            return result

    side = compare(Case(problem, operands), [Faulty("faulty"), "truth"]).sides[0]
    assert (side.verdict, side.certainty, side.cause) == ("wrong", "bounds", None)
    assert side.where == "only in c_out = 3, oh = 5, ow = 5"


@pytest.fixture
def probing(monkeypatch):
    """Attributes a result of one recipe to the recipe that probing is said to find."""

    def run(made_by, found, spoil=()):
        sessions = []

        def search(session):
            sessions.append(session)
            recipe = parse_recipe(found) if isinstance(found, str) else None
            return SearchResult(chosen=RecipeStage(recipe, 1.0, 48), stopped=found if recipe is None else None)

        monkeypatch.setattr(attribution, "search_recipe", search)
        result = emulate(PROBLEM, parse_recipe(made_by), DATA)
        for index in spoil:
            result[index] += np.float32(1)
        runner = SimpleNamespace(text="odd")
        got = attribute(runner, REFERENCE, DATA, result)
        (session,) = sessions
        assert (session.runner, session.problem) == (runner, PROBLEM)
        assert (session.most_calls, session.most_time_s) == (600, 20.0)
        return got

    return run


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("direct order=kh,kw,c", "rounding"),
        ("direct x=tf32 w=tf32", "downgrade"),
        ("direct acc=float16", "downgrade"),
        ("winograd(2)", "downgrade"),
        ("fft", "downgrade"),
    ],
)
def test_a_recipe_that_reproduces_all_is_a_mechanism_proved_by_bits(probing, text, verdict):
    recipe = parse_recipe(text)
    found = probing(text, text)
    assert (found.recipe, found.replay) == (recipe, Replay(1.0, 48))
    assert found.evidence == (Evidence("replay", "its recipe reproduces 48 of 48 outputs bit for bit"),)
    made_by = found.mechanism
    cause = name(PROBLEM, text, DATA)
    assert (made_by.cause, made_by.verdict, made_by.fit, made_by.recipe) == (cause, verdict, "bits", recipe)
    assert made_by.replay == Replay(1.0, 48)
    assert made_by.says == say_what_it_does(recipe, CauseCode(cause))


def test_a_recipe_that_reproduces_some_is_no_mechanism(probing):
    found = probing("direct", "direct", spoil=[(0, 0, 0, 0), (0, 2, 3, 3), (0, 1, 1, 1)])
    assert found.mechanism is None
    assert found.replay == Replay(45 / 48, 48)
    assert found.evidence[0].says == "its recipe reproduces 45 of 48 outputs bit for bit"


def test_where_nothing_is_found_nothing_is_attributed(probing):
    assert probing("direct", None) is None
    assert probing("direct", ProbeStopped("enough")) is None
    assert probing("direct", ValueError("a runner of anybody's")) is None
    everywhere = [(0, c, h, w) for c in range(3) for h in range(4) for w in range(4)]
    assert probing("direct", "direct", spoil=everywhere) is None
