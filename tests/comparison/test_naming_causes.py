"""From a recipe to a cause, and from a replay to a mechanism, for recipes written by hand."""

from types import SimpleNamespace

import numpy as np
import pytest

from samebits.comparison import attribution
from samebits.comparison.attribution import attribute, name_cause
from samebits.emulators import emulate
from samebits.errors import ProbeStopped
from samebits.findings import Evidence, Replay
from samebits.findings.causes import CauseCode
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.recipes import parse_recipe
from samebits.wording.recipe_words import say_what_it_does

PROBLEM = parse_problem_text("conv2d x=1x4x6x6 w=3x4x3x3 dtype=float32")
DATA = make_normal(PROBLEM, 1)


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
        ("float64", "direct acc=float32", "low-precision-accumulator"),
        ("float64", "direct acc=float64", "summation-order"),
        ("float32", "direct acc=float64", "summation-order"),
        ("float32", "direct order=chain@float16:c|kh,kw", "low-precision-accumulator"),
        ("float32", "winograd(2) acc=float16", "low-precision-accumulator"),
        ("float32", "winograd(2)", "winograd"),
        ("float32", "fft", "fft"),
    ],
)
def test_the_gravest_way_of_a_recipe_names_its_cause(dtype, text, cause):
    problem = parse_problem_text(f"conv2d x=1x4x6x6 w=3x4x3x3 dtype={dtype}")
    assert name_cause(problem, parse_recipe(text)) == cause


@pytest.fixture
def probing(monkeypatch):
    """Attributes a result of one recipe to the recipe that probing is said to find."""

    def run(made_by, found, spoil=()):
        sessions = []

        def search(session):
            sessions.append(session)
            if isinstance(found, Exception):
                raise found
            return SimpleNamespace(recipe=None if found is None else parse_recipe(found))

        monkeypatch.setattr(attribution, "search_recipe", search)
        result = emulate(PROBLEM, parse_recipe(made_by), DATA)
        for index in spoil:
            result[index] += np.float32(1)
        runner = SimpleNamespace(text="odd")
        got = attribute(runner, PROBLEM, DATA, result)
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
    cause = name_cause(PROBLEM, recipe)
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
