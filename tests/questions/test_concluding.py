"""What a comparison makes of what its runners returned: names, exact integers, common cause, arguments."""

from types import SimpleNamespace

import numpy as np
import pytest

import samebits
from hand_made import make_side
from injected_runners import InjectedRunner
from samebits.engines.registry import runners
from samebits.errors import ArgumentError, EngineCrashed
from samebits.findings import ExactData, Failure
from samebits.findings.causes import CauseCode
from samebits.judging import side_running
from samebits.judging.references import Reference, make_reference
from samebits.judging.side_running import Ran
from samebits.judging.sides import Attribution, Recorded
from samebits.judging.verdict_rules import Mechanism
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.questions.compare import comparing
from samebits.questions.comparison_sentences import summarize_comparison
from samebits.questions.report.rendering import render_page
from samebits.sums.recipes import parse_recipe

TEXT = "conv1d x=1x2x4 w=2x2x1 dtype=float32"
PROBLEM = parse_problem_text(TEXT)
TRUTH = np.array([[[1, 2, 3, 4], [5, 6, 7, 0]]], np.float32)


def ran(name, result=None):
    return Ran(Recorded(name, result))


def exact(bound=0.0, magnitudes=0.0):
    return Reference(PROBLEM, TRUTH, np.full(TRUTH.shape, bound), np.full(TRUTH.shape, magnitudes), {})


def test_right_integers_leave_nothing_to_say():
    assert side_running.judge_exact(exact(), TRUTH.copy()) == (ExactData(0, 8, None, None, None, None), False)


def test_wrong_integers_are_counted_located_and_the_first_is_shown():
    result = TRUTH.copy()
    result[0, 1, 1:] += 3
    assert side_running.judge_exact(exact(), result) == (
        ExactData(3, 8, "only in c_out = 1, ow from 1 on (the tail)", [0, 1, 1], 9.0, 6.0),
        True,
    )
    zeros = np.zeros_like(TRUTH)
    assert side_running.judge_exact(exact(), zeros)[0].first_index == [0, 0, 0]


@pytest.mark.parametrize(
    ("bound", "magnitudes", "beyond"),
    [
        (1.0, 0.0, False),
        (0.99, 0.0, True),
        # 2^8 unit roundoffs of float32 of the largest magnitude.
        (0.0, 2.0**16, False),
        (0.0, 2.0**16 * 0.99, True),
        (1.0, 1.0, False),
    ],
)
def test_integers_that_rounding_could_have_missed_are_no_other_function(bound, magnitudes, beyond):
    result = TRUTH.copy()
    result[0, 1, 2] += np.float32(1)
    found, is_beyond = side_running.judge_exact(exact(bound, magnitudes), result)
    assert (found.differing, is_beyond) == (1, beyond)


@pytest.mark.parametrize(
    ("off", "magnitudes", "beyond"),
    # 2^-3 of the largest magnitude; whole numbers are no noise of a transform in halves, nor are mostly whole ones.
    [
        ([0.5], 4.0, False),
        ([0.5], 3.9, True),
        ([1.0], 100.0, True),
        ([0.5, 1.0], 8.0, True),
        ([0.5, 0.5, 1], 8.0, False),
    ],
)
def test_fractions_where_integers_belong_are_a_transforms(off, magnitudes, beyond):
    result = TRUTH.copy()
    result[0, 1, : len(off)] += np.array(off, np.float32)
    found, is_beyond = side_running.judge_exact(exact(0.0, magnitudes), result)
    assert (found.differing, is_beyond) == (len(off), beyond)


def test_zeros_of_another_sign_are_right_on_integers():
    result = TRUTH.copy()
    result[0, 1, 3] = -0.0
    assert side_running.judge_exact(exact(), result)[0].differing == 0


def test_sides_of_one_name_are_numbered_from_the_second_on():
    found = comparing._name_apart([ran(n) for n in ("a", "b", "a", "a", "b")])
    assert [r.recorded.name for r in found] == ["a", "b", "a #2", "a #3", "b #2"]


@pytest.mark.parametrize(
    ("results", "differ"),
    [
        ([], False),
        ([None], False),
        ([TRUTH], False),
        ([TRUTH, TRUTH.copy()], False),
        ([TRUTH, TRUTH.copy(), TRUTH + 1], True),
        ([None, TRUTH, None, TRUTH + 1], True),
        ([None, TRUTH], False),
    ],
)
def test_only_results_that_are_there_can_differ(results, differ):
    assert comparing._some_differ([ran("a", r) for r in results]) is differ


ORDER, CUT = CauseCode.SUMMATION_ORDER, CauseCode.REDUCED_PRECISION_OPERANDS
BROKEN = make_side("x", "undecided", failure=Failure("crash", "ended"))


@pytest.mark.parametrize(
    ("verdict", "sides", "cause"),
    [
        ("rounding", [make_side("a", "rounding", cause=ORDER)], ORDER),
        ("rounding", [make_side("a", "rounding", cause=ORDER), make_side("b", "rounding")], None),
        ("rounding", [make_side("a", "rounding", cause=ORDER), make_side("b", "identical")], ORDER),
        ("rounding", [make_side("a", "rounding", cause=ORDER), BROKEN], ORDER),
        ("downgrade", [make_side("a", "rounding", cause=ORDER), make_side("b", "downgrade", cause=CUT)], CUT),
        ("undecided", [make_side("a", "undecided", cause=CUT)], CUT),
        ("identical", [make_side("a", "rounding", cause=ORDER)], None),
        ("wrong", [make_side("a", "wrong", cause=CauseCode.PADDING)], None),
        ("rounding", [make_side("a", "identical")], None),
    ],
)
def test_the_common_cause_is_the_gravest_if_every_side_is_explained(verdict, sides, cause):
    assert comparing._name_common_cause(verdict, sides) == cause


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"seed": -1}, "seed must be a whole number from 0, not -1"),
        ({"seed": 0.5}, "seed must be"),
        ({"data": "bogus"}, "data must be one of normal, uniform, exact, not 'bogus'"),
        ({"on": None}, "on must be an engine's text"),
        ({"on": {"truth"}}, "on must be an engine's text"),
        ({"on": b"truth"}, "on must be an engine's text"),
        ({"on": [3]}, "3 is neither"),
        ({"on": ["truth", 3]}, "3 is neither"),
        ({"time_limit_s": 0}, "time_limit_s must be above 0 and at most 1e"),
        ({"time_limit_s": float("nan")}, "time_limit_s must be"),
        ({"time_limit_s": 1000001}, "time_limit_s must be"),
        ({"time_limit_s": "1"}, "time_limit_s must be"),
    ],
)
def test_each_argument_that_is_none_is_refused_by_its_name(arguments, says):
    with pytest.raises(ArgumentError, match=says):
        samebits.compare(**{"subject": TEXT, "on": [], **arguments})


def multiply(problem, operands):
    return operands["x"] @ operands["w"].T


@pytest.mark.parametrize("on", ["numpy,truth", multiply, ["numpy", multiply], [multiply]])
def test_one_engine_or_many_are_taken(on):
    found = samebits.compare("linear x=3x5 w=2x5", on)
    assert [s.name for s in found.sides] == {str: ["numpy", "truth"], list: None}.get(type(on), ["multiply"]) or [
        one if isinstance(one, str) else "multiply" for one in on
    ]


def test_a_side_without_a_result_is_named_first():
    def write(problem, operands):
        operands["x"][:] = 0

    found = samebits.compare("linear x=3x5 w=2x5", [write, "truth"])
    assert found.summary.startswith("write returned no result. Of the others: truth is correctly rounded")


def test_the_ends_of_what_is_allowed_are_allowed():
    found = samebits.compare(TEXT, ["truth"], seed=0, time_limit_s=1000000)
    assert (found.verdict, found.data) == ("identical", "normal, seed 0")
    assert samebits.compare(TEXT, [], time_limit_s=0.001).verdict == "undecided"


def test_the_data_are_said_and_every_step_is_heard_of():
    heard = []
    runners = [InjectedRunner("one"), InjectedRunner("two")]
    found = samebits.compare(
        TEXT, runners, data="uniform", seed=5, progress=lambda what, share: heard.append((what, share))
    )
    assert found.data == "uniform, seed 5"
    assert (found.outputs, found.reduction_length, len(found.sides), len(found.differences)) == (8, 2, 2, 1)
    assert [h for h in heard if h[0].startswith("running")] == [("running one", 0.0), ("running two", 0.5)]
    assert heard[0][0] == "computing exact integers"


def test_runners_get_exact_integers_and_then_the_data(monkeypatch):
    seen = []

    def compute(problem, operands):
        seen.append({n: a.copy() for n, a in operands.items()})
        return samebits.compute_truth(problem, operands).values

    samebits.compare(TEXT, [InjectedRunner("a", compute=compute)], data="uniform", seed=3, calls=2)
    on_integers, on_data, again, exact_again = seen
    assert all((a == np.round(a)).all() for given in (on_integers, exact_again) for a in given.values())
    for name, array in comparing.MAKERS["uniform"](PROBLEM, 3).items():
        assert (on_data[name] == array).all()
        assert (again[name] == array).all()
    for name, array in comparing.MAKERS["exact"](PROBLEM, 3).items():
        assert (on_integers[name] == array).all()


def test_only_engines_with_a_result_are_probed(monkeypatch):
    asked, given = [], []

    def attribute(runner, reference, operands, result):
        asked.append(runner.text)
        given.append((reference.problem, operands, result))

    monkeypatch.setattr(comparing, "attribute", attribute)
    odd = InjectedRunner("odd", lambda problem, result: result + np.float32(2.0**-21))
    case = Case(PROBLEM, comparing.MAKERS["normal"](PROBLEM, 0), {"kept": TRUTH})
    found = samebits.compare(case, [odd, "truth", InjectedRunner("even")])
    assert [s.name for s in found.sides] == ["kept", "odd", "truth", "even"]
    assert found.data == "given"
    assert asked == ["odd", "even"]
    assert all(problem == PROBLEM for problem, _, _ in given)
    assert all(operands[name] is array for _, operands, _ in given for name, array in case.operands.items())
    assert [result.ravel().tolist() for _, _, result in given] == [found.sides[1].values, found.sides[3].values]
    asked.clear()
    samebits.compare(case, [odd], attributes=False)
    samebits.compare(TEXT, [InjectedRunner("a"), InjectedRunner("b")])
    assert asked == []


class CrashingLater(InjectedRunner):
    """Returns what it makes of exact integers, then crashes."""

    def run(self, problem, operands):
        if (operands["x"] == np.round(operands["x"])).all():
            return super().run(problem, operands)
        raise EngineCrashed("ended")


def test_every_side_is_judged_on_integers_and_on_the_data_and_the_whole_is_summed_up():
    def off(problem, result):
        return result + np.float32(1)

    found = samebits.compare(TEXT, [InjectedRunner("good"), InjectedRunner("off", off), CrashingLater("later")])
    good, wrong, crashed = found.sides
    assert [s.exact_data.differing for s in found.sides] == [0, 8, 0]
    assert (good.verdict, wrong.verdict, crashed.verdict) == ("identical", "wrong", "undecided")
    assert (wrong.exact_data.where, wrong.certainty) == ("everywhere", "bounds")
    assert (crashed.failure, crashed.values) == (Failure("crash", "ended"), None)
    assert (found.verdict, found.cause, found.summary) == ("wrong", None, summarize_comparison("wrong", found.sides))
    assert [(d.a, d.b) for d in found.differences] == [("good", "off")]


def test_a_crash_weighs_nothing_unless_a_fault_was_proved_before():
    good, harmless = InjectedRunner("good"), CrashingLater("later")
    assert samebits.compare(TEXT, [good, harmless]).verdict == "identical"
    faulty = CrashingLater("faulty", lambda problem, result: result + np.float32(1))
    found = samebits.compare(TEXT, [good, faulty])
    assert (found.verdict, found.sides[1].verdict) == ("wrong", "wrong")


def test_integers_are_held_against_a_bound_without_rounding_and_recorded_results_are_kept(monkeypatch):
    asked = []

    def refer(problem, operands, progress, *, rounds=True):
        asked.append(rounds)
        return make_reference(problem, operands, progress, rounds=rounds)

    monkeypatch.setattr(comparing, "make_reference", refer)
    case = Case(PROBLEM, comparing.MAKERS["normal"](PROBLEM, 0), {"kept": TRUTH})
    (side,) = samebits.compare(case).sides
    assert asked == [False, True]
    assert (side.values, side.exact_data) == (TRUTH.ravel().tolist(), None)


def test_an_attribution_reaches_its_side_and_the_common_cause(monkeypatch):
    mechanism = Mechanism(ORDER, "rounding", "adds", "bits")
    recipe = parse_recipe("direct")
    monkeypatch.setattr(comparing, "attribute", lambda *given: Attribution(recipe, None, mechanism))

    def round_up(problem, result):
        return np.where(result == np.round(result), result, np.nextafter(result, np.float32(np.inf)))

    near = InjectedRunner("near", round_up)
    found = samebits.compare(TEXT, [near, "truth"])
    assert (found.sides[0].cause, found.sides[0].says, found.cause) == (ORDER, "adds", ORDER)
    assert found.summary == summarize_comparison("rounding", found.sides)
    assert samebits.compare(TEXT, [near, near]).verdict == "identical"


def test_defaults_are_seed_0_and_300_seconds(monkeypatch):
    limits = []
    monkeypatch.setattr(
        runners, "open_runner", lambda text, *, time_limit_s: limits.append(time_limit_s) or InjectedRunner(text)
    )
    assert samebits.compare(TEXT, ["a"]).data == "normal, seed 0"
    assert limits == [300]


def test_a_runner_is_closed_by_whom_it_was_opened(monkeypatch):
    closed = []

    def open_runner(text, *, time_limit_s):
        own = InjectedRunner(f"{text} {time_limit_s:g}")
        own.close = lambda: closed.append(own.text)
        return own

    monkeypatch.setattr(runners, "open_runner", open_runner)
    given = InjectedRunner("given")
    given.close = lambda: closed.append("given")
    found = samebits.compare(TEXT, ["a", given, "b"], time_limit_s=7)
    assert [s.name for s in found.sides] == ["a 7", "given", "b 7"]
    assert sorted(closed) == ["a 7", "b 7"]


def test_a_replayed_difference_is_the_evidence_of_the_whole(monkeypatch):
    evidence = SimpleNamespace(kind="structure", says="they add otherwise")
    monkeypatch.setattr(comparing, "explain_difference", lambda problem, sides, differences: evidence)
    assert samebits.compare(TEXT, ["truth"]).evidence == [evidence]
    monkeypatch.setattr(comparing, "explain_difference", lambda problem, sides, differences: None)
    assert samebits.compare(TEXT, ["truth"]).evidence == []


def exchange(problem, operands):
    """The kernel's height and width exchanged."""
    return samebits.compute_truth(problem, {**operands, "w": operands["w"].swapaxes(2, 3).copy()}).values


def test_how_another_function_adds_is_not_what_makes_sides_differ():
    found = samebits.compare("conv2d x=2x4x9x9 w=6x4x3x3 padding=1", [exchange, "truth"])
    side = found.sides[0]
    assert side.verdict == "wrong"
    assert "exchange" in side.says or "turn" in side.says or "transpose" in side.says
    assert found.evidence == []
    # On the operands that were given its recipe would give other bits.
    assert side.recipe is None
    page = render_page(found)
    # No shell knows a function of this program.
    assert "samebits compare" not in page
    assert "samebits profile" not in page


def test_a_function_of_other_arguments_is_told_what_it_is_called_with():
    found = samebits.compare("linear x=3x5 w=2x5", lambda x, w: x @ w.T)
    assert "called as kernel(problem, operands)" in found.sides[0].failure.says


def test_a_page_is_no_finding(tmp_path):
    samebits.compare("linear x=3x5 w=2x5", "truth").save(tmp_path / "x.html")
    with pytest.raises(samebits.errors.FindingError, match=r"its \.json is needed"):
        samebits.load(tmp_path / "x.html")
