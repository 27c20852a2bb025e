"""Attention from the command line and from Python: compare, explain, sweep; files, arrays, exit statuses."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.attention_by_hand import FAULTS, SOUND, draw

import samebits
from samebits.cli import main
from samebits.errors import ArgumentError
from samebits.findings import Comparison
from samebits.questions.given_formula import FormulaCase, load_formula_case
from samebits.questions.sweep.sweep_schema import Sweep

TEXT = "attention q=2x4x24x16 k=2x2x40x16"


def _save(path: Path, words: str, **arrays: np.ndarray) -> Path:
    np.savez(path, problem=f"{TEXT} {words}", **arrays)
    return path


def test_a_case_file_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = draw(0)
    words, _, compute, _ = FAULTS["causal left out"]
    path = _save(tmp_path / "case.npz", words, **given, a=compute(given), name_a=np.array("kernel"))
    assert main(["explain", str(path)]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "40 keys each" in said
    assert "hides no later keys: causal was left out" in said
    assert main(["compare", str(path), "--json"]) == 1
    text = capsys.readouterr().out
    document = json.loads(text)
    assert document["schema"] == "samebits.comparison/1"
    assert [side["name"] for side in document["sides"]] == ["kernel"]
    assert main(["compare", "attention q=1x1x2x4 k=1x1x1x4", "--on", "numpy"]) == 0
    assert "8 outputs, 1 key each" in " ".join(capsys.readouterr().out.split())
    assert document["cause"] == "hidden-keys"
    (tmp_path / "found.json").write_text(text)
    found = samebits.load(tmp_path / "found.json")
    assert isinstance(found, Comparison)
    found.save(tmp_path / "page.html")
    assert "hides no later keys" in (tmp_path / "page.html").read_text()


def test_arrays_are_explained(tmp_path: Path) -> None:
    given = draw(0)
    files = {}
    for name, array in given.items():
        files[name] = tmp_path / f"{name}.npy"
        np.save(files[name], array)
    right = SOUND["in blocks of 8"](given)
    found = samebits.explain(problem=TEXT, **files, mine=right)
    assert found.verdict == "rounding"
    case = FormulaCase(samebits_attention(TEXT), given, {"mine": right})
    assert samebits.explain(case).verdict == "rounding"
    assert samebits.compare(case, "numpy").verdict == "rounding"


def samebits_attention(text: str):
    from samebits.problems.attention import parse_attention

    return parse_attention(text)


def test_bit_patterns_and_wider_numbers_are_taken(tmp_path: Path) -> None:
    import ml_dtypes

    given = {name: array.astype(ml_dtypes.bfloat16) for name, array in draw(0).items()}
    result = SOUND["plainly"]({name: array.astype(np.float32) for name, array in given.items()})
    narrow = result.astype(ml_dtypes.bfloat16)
    path = _save(
        tmp_path / "bits.npz", "dtype=bfloat16", **{n: a.view(np.uint16) for n, a in given.items()},
        a=narrow.view(np.uint16), b=narrow.astype(np.float32),
    )  # fmt: skip
    case = load_formula_case(path)
    assert case.results["a"].dtype == ml_dtypes.bfloat16
    assert (case.results["a"] == case.results["b"]).all()
    assert samebits.explain(path).verdict in ("identical", "rounding")


@pytest.mark.parametrize(
    ("words", "change", "says"),
    [
        ("mask=bool", {}, "operand mask is missing"),
        ("mask=bool", {"mask": np.full((24, 40), 0.5)}, "other than 0 and 1"),
        ("", {"mask": np.ones((24, 40), bool)}, "write mask=bool or mask=add"),
        ("", {"a": np.zeros((2, 4, 24, 17), np.float32)}, "have shapes 2x4x24x17 and 2x4x24x16"),
        ("dtype=float16", {}, "and the problem needs float16 numbers"),
        ("cap=1", {}, "unknown key 'cap'"),
    ],
)
def test_what_does_not_fit_is_one_line(
    words: str, change: dict, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = draw(0)
    path = _save(tmp_path / "case.npz", words, **{**given, "a": SOUND["plainly"](given), **change})
    assert main(["explain", str(path)]) == 2
    error = capsys.readouterr().err
    assert says in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["profile", "numpy", TEXT], "compare, explain and sweep"),
        (["reduce", TEXT, "--on", "numpy"], "compare, explain and sweep"),
        (["compare", TEXT, "--on", "numpy", "--inputs", "x.npz"], "are for networks"),
        (["sweep", TEXT, "--on", "numpy"], "no range"),
        (["sweep", "attention q=1x2x3x8 k=1x2x{4..6}x8", "--on", "numpy"], "give another result"),
        (["sweep", "attention q=1x{2..4:2}x3x8 k=1x2x4x8", "--on", "numpy"], "other heads of k"),
        (["sweep", "attention q=1x2x3x{8..9} k=1x2x4x8", "--on", "numpy"], "features"),
        (["compare", "attention q=9000x64x4096x128 k=9000x64x4096x128", "--on", "numpy"], "at most 2^36"),
    ],
)
def test_what_is_not_done_is_said(arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert says in capsys.readouterr().err


def test_queries_without_a_key_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    text = "attention q=1x2x6x8 k=1x2x4x8 causal=lower_right"
    assert main(["compare", text, "--on", "numpy", "--verbose"]) == 0
    assert "4 queries see no key, and no output of them is judged: numpy returns NaN" in " ".join(
        capsys.readouterr().out.split()
    )


def test_engines_are_asked_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compare", "attention q=1x2x6x16 k=1x2x6x16 softcap=30", "--quick", "--json"]) in (0, 1)
    sides = json.loads(capsys.readouterr().out)["sides"]
    assert {"numpy"} <= {side["name"] for side in sides}
    assert "litert" not in {side["name"] for side in sides}


@pytest.mark.needs("onnxruntime")
def test_a_setting_that_ends_it_is_found() -> None:
    on = ["onnxruntime:attention_as=pattern", "numpy"]
    found = samebits.compare("attention q=1x2x9x16 k=1x2x9x16", on, fix=True)
    assert isinstance(found, Comparison)
    assert any("samebits.attention" in fix.setting for fix in found.fixes) or not found.differences[0].differing


class _ByQueries:
    """Adds the keys from the end where it is asked for few queries: other bits than for many."""

    text = "by-queries"

    def __init__(self, few: int) -> None:
        self.few = few

    def identify(self):
        from samebits.engines.runner import Identity

        return Identity(self.text, self.text, "1", "CPU")

    def run(self, problem, operands):
        compute = SOUND["in reverse" if problem.q[2] < self.few else "in blocks of 8"]
        # Query by query: a product of NumPy's has other bits for one row than for several.
        rows = [compute({**operands, "q": operands["q"][:, :, i : i + 1]}) for i in range(problem.q[2])]
        return np.concatenate(rows, axis=2)

    def close(self) -> None:
        return


@pytest.mark.parametrize("few", [1, 4, 9])
def test_the_map_is_that_of_the_kernel(few: int) -> None:
    found = samebits.sweep("attention q=1x4x{1..8}x16 k=1x2x40x16", _ByQueries(few))
    assert isinstance(found, Sweep)
    expected = [[1, 8]] if few in (1, 9) else [[1, few - 1], [few, 8]]
    assert sorted(cell["queries"] for one in found.classes for cell in one.cells) == expected
    assert found.invariant is (few != 4)
    answer = "other bits" if few == 4 else "the same bits"
    assert any(answer in evidence.says and "decode" in evidence.says for evidence in found.evidence)


def test_a_sweep_over_items_and_hidden_keys_is_that_of_brute_force(capsys: pytest.CaptureFixture[str]) -> None:
    """NumPy, asked for each size by itself."""
    from samebits.engines.adapters.attention_operands import attend_in_parts
    from samebits.problems.attention import make_normal_attention

    assert main(["sweep", "attention q={n:1..4}x2x5x16 k={n}x2x7x16", "--on", "numpy", "--json"]) in (0, 1)
    found = json.loads(capsys.readouterr().out)
    largest = samebits_attention("attention q=4x2x5x16 k=4x2x7x16")
    operands = make_normal_attention(largest, 0)
    bits = []
    for items in range(1, 5):
        asked = samebits_attention(f"attention q={items}x2x5x16 k={items}x2x7x16")
        bits.append(attend_in_parts(np, asked, {n: a[:items] for n, a in operands.items()})[0].tobytes())
    assert len(found["classes"]) >= len(set(bits))
    assert main(["sweep", "attention q=1x2x5x16 k=1x2x{5..9}x16 causal", "--on", "truth"]) == 0
    assert "keys that no shared query sees do not change its bits" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("wrong", [{"data": "other"}, {"seed": -1}, {"calls": 0}, {"time_limit_s": -1.0}])
def test_what_cannot_be_asked_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ArgumentError):
        samebits.compare("attention q=1x1x2x4 k=1x1x3x4", "numpy", **wrong)
