"""Profiles of functions that have no recipe of their own: wrong ones, and those that change from run to run."""

import numpy as np
import pytest

import samebits
from samebits.cli.app import main
from samebits.display.html_page import render_html
from samebits.questions.profile.profile_document import lay_out_profile
from samebits.questions.profile.profile_sentences import name_outcome

PROBLEM = "linear x=8x64 w=16x64"
KERNELS = """
import numpy as np

def backwards(problem, operands):
    return operands["x"][:, ::-1] @ operands["w"].T

def one_column(problem, operands):
    result = operands["x"] @ operands["w"].T
    result[:, 3] = result[:, 4]
    return result

def shuffled(problem, operands):
    x, w = operands["x"], operands["w"]
    total = np.zeros((x.shape[0], w.shape[0]), np.float32)
    for k in np.random.default_rng().permutation(x.shape[1]):
        total = total + x[:, k, None] * w[None, :, k]
    return total

def rounded_twice(problem, operands):
    x, w = operands["x"], operands["w"]
    return ((x @ w.T).astype(np.float16).astype(np.float32) * np.float32(1.0))

def in_order(problem, operands):
    x, w = operands["x"], operands["w"]
    total = np.zeros((x.shape[0], w.shape[0]), np.float32)
    for k in range(x.shape[1]):
        total = total + x[:, k, None] * w[None, :, k]
    return total
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("kernels")
    (made / "own.py").write_text(KERNELS)
    return made


@pytest.mark.parametrize(("name", "where"), [("backwards", None), ("one_column", "only in out_features = 3")])
def test_another_function_is_called_so_and_asked_no_further(folder, name, where):
    found = samebits.profile(f"{folder / 'own.py'}:{name}", PROBLEM)
    assert (name_outcome(found), found.computes_another) == ("wrong", True)
    x, w = (samebits.problems.operands.make_exact(samebits.parse_problem_text(PROBLEM))[n] for n in "xw")
    right = x.astype(np.int64) @ w.astype(np.int64).T
    wrong = x[:, ::-1].astype(np.int64) @ w.astype(np.int64).T if name == "backwards" else right.copy()
    if name == "one_column":
        wrong[:, 3] = right[:, 4]
    assert found.exact_data.differing == (wrong != right).sum()
    assert where is None or where.split()[-1] in found.summary
    assert found.invariant_to.channel_order is None
    text = str(found)
    assert "invariant" not in text
    assert "recipe" not in text


def test_what_changes_by_itself_has_no_recipe_and_no_other_invariance(folder):
    found = samebits.profile(f"{folder / 'own.py'}:shuffled", PROBLEM)
    assert name_outcome(found) == "varies"
    assert found.invariant_to.repeat is False
    assert found.invariant_to.batch_size is None
    assert f"{found.distinct_results} results in 5 runs" in found.summary
    assert "recipe  " not in str(found)
    assert "order  " not in str(found)


def test_sound_functions_are_asked_as_ever(folder):
    found = samebits.profile(f"{folder / 'own.py'}:in_order", PROBLEM)
    assert name_outcome(found) == "replayed"
    assert found.exact_data is None
    # No recipe has a result that is rounded to float16 and back; on integers it is right.
    found = samebits.profile(f"{folder / 'own.py'}:rounded_twice", PROBLEM)
    assert name_outcome(found) != "wrong"
    assert found.exact_data is None or found.exact_data.differing == 0


def test_the_exit_status_is_that_of_a_difference(folder, capsys, tmp_path):
    for name in ("backwards", "shuffled"):
        assert main(["profile", f"{folder / 'own.py'}:{name}", PROBLEM, "--json"]) == 1
        (tmp_path / "found.json").write_text(capsys.readouterr().out)
        found = samebits.load(tmp_path / "found.json")
        assert found.summary in render_html(lay_out_profile(found))
    assert main(["profile", f"{folder / 'own.py'}:in_order", PROBLEM]) == 0
