"""Engines of a person's own: a class or a function in a file, and a bare function in Python, as any engine is."""

import json

import numpy as np
import pytest

import samebits
from samebits.cli import main
from samebits.engine import Engine, Setting, api
from samebits.engines.registry.runner_text import format_runner_text, parse_runner_text, refuse_text_of_file
from samebits.errors import EngineMissingError, RunnerTextError

MINE = """
import numpy as np
from samebits.engine import Engine, Setting


class Mine(Engine):
    version = "0.1"
    settings = {"skip": Setting("terms that are left out", is_number=True)}

    def run(self, problem, operands):
        x = operands["x"].copy()
        x[..., : int(self.given.get("skip", 0))] = 0
        return x @ operands["w"]


class Bare:
    settings = {"source": Setting("a name of mine")}

    def load(self, settings):
        self.source = settings["source"]

    def run(self, problem, operands):
        return operands["x"] @ operands["w"] + np.float32(self.source == "off")


class Idle:
    pass


class Unsure(Engine):
    def load(self, settings):
        pass

    def explain_unsupported(self, problem):
        return problem.no_such_thing

    def run(self, problem, operands):
        return operands["x"] @ operands["w"]


def kernel(problem, operands):
    return np.einsum("mk,kn->mn", operands["x"], operands["w"])


def broken(problem, operands):
    return 1 / 0


def of_operands(x, w):
    return x @ w


def of_one(a):
    return a


def none(problem, operands):
    return None


number = 5
"""
PROBLEM = "matmul x=3x8 w=8x4"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "unread.py").write_text("import a_module_that_is_not_there\n")
    (tmp_path / "odd.py").write_text("def f(:\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("of_operands", "(a function is called as kernel(problem, operands))"),
        ("of_one", "(a function is called as kernel(problem, operands))"),
        ("none", "returned NoneType where an array is needed"),
    ],
)
def test_a_function_that_is_no_kernel_is_told_what_one_is(folder, name, says):
    found = samebits.compare(PROBLEM, [f"./mine.py:{name}", "numpy"], attributes=False)
    assert says in found.sides[0].failure.says
    assert found.sides[1].failure is None


def test_the_text_is_read_and_printed_back():
    for text in ("./mine.py:Mine", "/a/b.py:kernel", "./mine.py:Mine:skip=1,env.A=b", "a.py:f:python=/opt/py"):
        assert format_runner_text(parse_runner_text(text)) == text
    for text in ("./mine.py", "./mine.py:", "./mine.py:a b", "mine.py:Mine:ssh=host", "mine.py:Mine:docker=a:1"):
        with pytest.raises(RunnerTextError):
            parse_runner_text(text)


def test_a_setting_that_looks_like_a_file_is_a_setting():
    known = parse_runner_text("torch:env.A=x.py:y")
    assert (known.name, known.environment) == ("torch", {"A": "x.py:y"})
    own = parse_runner_text("./a.py:f:env.A=b.py:c")
    assert (own.name, own.environment) == ("./a.py:f", {"A": "b.py:c"})


def test_a_class_and_a_function_are_judged_as_any_engine_is(folder):
    sides = samebits.compare(PROBLEM, ["./mine.py:Mine", "./mine.py:Mine:skip=1", "./mine.py:kernel"]).sides
    assert [side.verdict in ("identical", "rounding") for side in sides] == [True, False, True]
    assert sides[1].verdict == "wrong"
    # All outputs lose the first of eight integer terms, but where that term is zero.
    assert sides[1].exact_data.differing > 0
    assert (sides[0].version, sides[0].exact_data.differing) == ("0.1", 0)


def test_a_class_of_no_kind_has_settings_of_any_name(folder):
    sides = samebits.compare(PROBLEM, ["./mine.py:Bare:source=on", "./mine.py:Bare:source=off"]).sides
    assert [side.verdict == "wrong" for side in sides] == [False, True]


def test_a_function_in_python_is_a_runner():
    def mine(problem, operands):
        return operands["x"] @ operands["w"]

    def faulty(problem, operands):
        return mine(problem, operands) + np.float32(1)

    found = samebits.compare(PROBLEM, [mine, faulty, lambda p, o: 1 / 0])
    assert [side.name for side in found.sides] == ["mine", "faulty", "function"]
    assert [side.verdict for side in found.sides][1:] == ["wrong", "undecided"]
    assert "ZeroDivisionError" in found.sides[2].failure.says
    assert samebits.profile(mine, PROBLEM).replay.matched == 1.0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("./mine.py:broken", "mine.py:46: ZeroDivisionError: division by zero"),
        ("./mine.py:missing", "mine.py defines no missing"),
        ("./mine.py:Idle", "a class that computes has a method run(problem, operands)"),
        ("./mine.py:Unsure", "mine.py:35: AttributeError"),
        ("./mine.py:number", "number is neither a class nor a function"),
        ("./mine.py:Mine:speed=1", "has no setting 'speed'; it has: skip"),
        ("./mine.py:Mine:skip=x", "setting skip takes a whole number"),
        ("./unread.py:f", "unread.py:1: ModuleNotFoundError"),
        ("./odd.py:f", "odd.py:1: SyntaxError"),
    ],
)
def test_a_broken_one_costs_its_own_row(folder, text, says):
    found = samebits.compare(PROBLEM, [text, "./mine.py:kernel"])
    assert says in found.sides[0].failure.says
    assert found.sides[1].verdict in ("identical", "rounding")


def test_a_file_that_is_not_there_is_one_line(folder, capsys):
    with pytest.raises(EngineMissingError, match=r"no\.py is not there"):
        samebits.compare(PROBLEM, ["./no.py:f"])
    assert main(["compare", PROBLEM, "--on", "./no.py:f"]) == 2
    assert main(["compare", PROBLEM, "--on", "./mine.py"]) == 2
    assert "./mine.py:NAME, a class or function in it" in capsys.readouterr().err


def test_commands_take_it_as_they_take_any_engine(folder, capsys):
    assert main(["profile", "./mine.py:kernel", PROBLEM, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["replay"]["matched"] == 1.0
    assert main(["sweep", "matmul x={1,2}x8 w=8x4", "--on", "./mine.py:kernel", "--json"]) in (0, 1)
    assert json.loads(capsys.readouterr().out)["engine"] == "./mine.py:kernel"


def test_a_file_that_somebody_sends_does_not_choose_it():
    assert "only a person chooses ./evil.py:f" in refuse_text_of_file("./evil.py:f", ["numpy"], "a.lock")
    assert refuse_text_of_file("./evil.py:f", ["./evil.py:f"], "a.lock") is None


def test_what_the_door_promises():
    class Plain(Engine):
        def run(self, problem, operands):
            return operands["x"]

    assert api == 1
    plain = Plain()
    plain.load({})
    assert plain.report().device == "CPU"
    assert plain.explain_unsupported(None) is None
    with pytest.raises(RunnerTextError):
        Setting("a number", is_number=True).check("n", "x")
