"""What a person may ask about: problems, texts in four languages, cases, paths; and what is none of them."""

from pathlib import Path

import numpy as np
import pytest

from samebits.errors import ArgumentError, CaseFileError, ProblemShapeError, ProblemTextError
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.languages.any_language import load_any_case, read_subject

TEXT = "conv1d x=1x2x5 w=3x2x3 dtype=float32"
PROBLEM = parse_problem_text(TEXT)
SAYING_THE_SAME = {
    "ours": TEXT,
    "hlo": "c = f32[1,3,3] convolution(f32[1,2,5] x, f32[3,2,3] w), window={size=3}, dim_labels=bf0_oi0->bf0",
    "benchdnn": "--conv --dir=FWD_D mb1ic2iw5oc3kw3",
}
OPERANDS = {"x": np.arange(10, dtype=np.float32).reshape(1, 2, 5), "w": np.ones((3, 2, 3), np.float32)}


def write_case(folder, text=TEXT, name="case.npz", **more):
    path = folder / name
    with path.open("wb") as file:
        np.savez(file, problem=np.array(text), **OPERANDS, **more)
    return path


def test_a_problem_and_a_case_are_what_they_are():
    case = Case(PROBLEM, OPERANDS)
    assert read_subject(PROBLEM) is PROBLEM
    assert read_subject(case) is case


@pytest.mark.parametrize("language", SAYING_THE_SAME)
def test_a_text_in_any_language_is_its_problem(language):
    assert read_subject(SAYING_THE_SAME[language]) == PROBLEM


@pytest.mark.parametrize("language", SAYING_THE_SAME)
@pytest.mark.parametrize("form", [str, Path])
def test_a_path_is_its_case_whose_problem_stands_in_any_language(tmp_path, language, form):
    result = np.zeros((1, 3, 3), np.float32)
    path = write_case(tmp_path, SAYING_THE_SAME[language], a=result)
    case = read_subject(form(path))
    assert isinstance(case, Case)
    assert case.problem == PROBLEM
    assert {n: a.tolist() for n, a in case.operands.items()} == {n: a.tolist() for n, a in OPERANDS.items()}
    assert np.array_equal(case.results["a"], result)
    assert load_any_case(path).problem == PROBLEM


def test_a_file_needs_no_ending(tmp_path):
    path = write_case(tmp_path, name="recorded")
    assert read_subject(str(path)).problem == PROBLEM


def test_a_path_is_a_path_even_where_its_name_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CaseFileError):
        read_subject(Path(TEXT))
    write_case(tmp_path, name=TEXT)
    assert isinstance(read_subject(TEXT), Case)


@pytest.mark.parametrize("name", ["missing.npz", "x=1x2x5.npz"])
def test_a_name_that_ends_like_a_case_is_a_case_even_if_it_is_missing(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CaseFileError, match=name):
        read_subject(name)


def test_a_file_that_is_no_case_is_told_so(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text(TEXT)
    with pytest.raises(CaseFileError, match=r"notes\.txt"):
        read_subject(str(path))


@pytest.mark.parametrize("folder", [str, Path])
def test_a_folder_is_no_case(tmp_path, folder):
    error = ArgumentError if folder is str else CaseFileError
    with pytest.raises(error):
        read_subject(folder(tmp_path))


@pytest.mark.parametrize("subject", [None, 3, 1.5, b"conv1d", ["conv1d"], {"problem": TEXT}, OPERANDS["x"]])
def test_anything_else_is_refused_by_its_type(subject):
    with pytest.raises(ArgumentError, match=f"not {type(subject).__name__}"):
        read_subject(subject)


@pytest.mark.parametrize("text", ["", "x" * 300_000, "conv1d\0", "nonsense"])
def test_text_that_is_neither_path_nor_problem_is_an_error_of_text(text):
    with pytest.raises(ProblemTextError):
        read_subject(text)


def test_shapes_that_do_not_fit_are_an_error_of_shapes():
    with pytest.raises(ProblemShapeError):
        read_subject("conv1d x=1x2x5 w=3x4x3")
