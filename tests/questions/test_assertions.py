"""Failed assertions as torch and NumPy write them here, older wordings as logs hold them, and what is made of both."""

import numpy as np
import pytest
import torch

from samebits.questions.explain.explaining import explain
from samebits.questions.explain.logs.log_reading import parse_log, read_log

# What it says when it fails is what is read here; nothing is judged by it.
assert_allclose = np.testing.assert_allclose  # noqa: TID251


def written(check):
    """What an assertion says when it fails."""
    with pytest.raises(AssertionError) as caught:
        check()
    return str(caught.value).splitlines()


def explained(lines, tmp_path, encoding="utf-8"):
    path = tmp_path / "mismatch.log"
    path.write_text("\n".join(lines), encoding=encoding)
    return explain(path)


FLOATS = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)


def test_numpys_first_pairs_are_read_with_all_their_digits():
    (mismatch,) = parse_log(written(lambda: assert_allclose(FLOATS * 2, FLOATS)))
    assert [pair[1:] for pair in mismatch.pairs] == [(2 * float(v), float(v)) for v in FLOATS.reshape(-1)[:5]]
    assert (mismatch.metrics.mismatched, mismatch.metrics.elements) == (16, 16)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (FLOATS.astype(np.float16).astype(np.float32), "numbers of float16, none of expected's is"),
        (-FLOATS, "all 5 printed values of actual are -1 times expected's"),
        (FLOATS * np.float32(0.25), "all 5 printed values of actual are 0.25 times expected's"),
    ],
)
def test_what_printed_pairs_show_is_said(made, says, tmp_path):
    found = explained(written(lambda: assert_allclose(made, FLOATS)), tmp_path)
    assert says in found.summary.replace("All", "all")
    assert found.verdict == "undecided"


@pytest.mark.parametrize("seed", range(5))
def test_pairs_that_differ_by_noise_show_nothing(seed, tmp_path):
    noise = np.random.default_rng(seed).normal(size=(4, 4)).astype(np.float32)
    found = explained(written(lambda: assert_allclose(FLOATS + noise * 1e-3, FLOATS)), tmp_path)
    assert "alone cannot tell rounding from a fault" in found.summary
    assert any("put a line with its problem into the log" in e.says for e in found.sides[0].evidence)


def test_small_whole_numbers_show_no_format(tmp_path):
    whole = np.arange(16.0, dtype=np.float32).reshape(4, 4) + 1
    found = explained(written(lambda: assert_allclose(whole, whole + 1)), tmp_path)
    assert "numbers of" not in found.summary


def with_one(value):
    other = FLOATS.copy()
    other[0, 0] = value
    return other


@pytest.mark.parametrize(
    ("check", "says"),
    [
        (lambda: assert_allclose(with_one(np.nan), FLOATS), "NaN stand in other places"),
        (lambda: assert_allclose(with_one(np.inf), FLOATS), "Infinities stand in other places"),
        (lambda: assert_allclose(FLOATS, FLOATS[:2]), "other shapes, (4, 4) and (2, 4)"),
        (
            lambda: torch.testing.assert_close(torch.ones(2), torch.ones(3)),
            "another shape, torch.Size([2]) and torch.Size([3])",
        ),
    ],
)
def test_what_could_not_be_compared_is_said(check, says, tmp_path):
    found = explained(written(check), tmp_path)
    assert says in found.summary
    assert found.verdict == "undecided"


def test_scalars_are_one_pair():
    (mismatch,) = parse_log(written(lambda: torch.testing.assert_close(1.0, 1.5)))
    assert mismatch.pairs == ((0, 1.0, 1.5),)
    assert (mismatch.metrics.max_abs, mismatch.metrics.atol, mismatch.metrics.rtol) == (0.5, 1e-7, 1e-7)


@pytest.mark.parametrize("words", ["(mismatch 12.5%)", "Mismatch: 12.5%"])
def test_older_numpys_say_a_share(words, tmp_path):
    lines = ["Not equal to tolerance rtol=1e-05, atol=0", "", words, "Max absolute difference: 0.00024414"]
    found = explained(lines, tmp_path)
    assert found.summary.startswith("12.5 % of the elements differ by more than the tolerance")


def test_where_everything_that_differs_counts_no_tolerance_is_spoken_of(tmp_path):
    found = explained(written(lambda: np.testing.assert_array_equal(FLOATS, FLOATS + 1)), tmp_path)
    assert found.summary.startswith("16 of 16 elements differ, the largest difference is 1")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_what_windows_shell_writes_is_read(encoding, tmp_path):
    lines = written(lambda: assert_allclose(FLOATS * 2, FLOATS))
    path = tmp_path / "mismatch.log"
    path.write_bytes(("\ufeff" * (encoding != "utf-16") + "\n".join(lines)).encode(encoding))
    (mismatch,) = read_log(path)
    assert len(mismatch.pairs) == 5


def test_colours_within_numbers_are_no_part_of_them(tmp_path):
    path = tmp_path / "mismatch.log"
    path.write_text("Mismatched elements: \x1b[31m3\x1b[0m / \x1b[32m4\x1b[0m (75%)\n")
    (mismatch,) = read_log(path)
    assert (mismatch.metrics.mismatched, mismatch.metrics.elements) == (3, 4)


def test_ulp_asserts_with_large_counts_are_read():
    far = FLOATS.copy()
    far[0, 0] = -far[0, 0]
    lines = written(lambda: np.testing.assert_array_max_ulp(far, FLOATS, maxulp=4))
    (mismatch,) = parse_log(lines)
    assert mismatch.metrics.max_ulp > 1e9


def test_optimums_own_lines_are_read():
    lines = [
        '- Validating ONNX Model output "logits":',
        "  -[x] values not close enough, max diff: 0.0033 (atol: 1e-05)",
        "  -[x] values not close enough (atol: 0.0001)",
        "ValueError: ... Got max absolute difference of: 0.052",
    ]
    assert [m.metrics.max_abs for m in parse_log(lines)] == [0.0033, 0.052]
