"""Polygraphy's saved outputs: what the numbers of two runners show, on relations put in and on noise."""

import base64
import io
import json
import pickle

import ml_dtypes
import numpy as np
import pytest

from samebits import explain
from samebits.cli import main
from samebits.errors import LogError, SamebitsError
from samebits.questions.explain.logs import read_log

# As Polygraphy 0.53.6 writes it, but for the blanks; the second runner's arrays as older ones do.
WRITTEN = """\
{"lst": [["onnxrt-runner-N0-x", [{"outputs": {"y": {"values": {"array": "%s", "polygraphy_class": "ndarray"},
"polygraphy_class": "LazyArray"}}, "runtime": 0.1, "runner_name": "onnxrt-runner-N0-x",
"polygraphy_class": "IterationResult"}]],
["trt-runner-N1-x", [{"outputs": {"y": {"array": "%s", "polygraphy_class": "ndarray"}}, "runtime": 0.1,
"polygraphy_class": "IterationResult"}]]], "polygraphy_class": "RunResults"}
"""


def encode(array, **options):
    stream = io.BytesIO()
    np.save(stream, array, **options)
    return base64.b64encode(stream.getvalue()).decode()


def write(path, *runners):
    lst = [
        [
            name,
            [
                {
                    "outputs": {
                        output: {
                            "values": {"array": encode(array), "polygraphy_class": "ndarray"},
                            "polygraphy_class": "LazyArray",
                        }
                        for output, array in outputs.items()
                    },
                    "polygraphy_class": "IterationResult",
                }
            ],
        ]
        for name, outputs in runners
    ]
    path.write_text(json.dumps({"lst": lst, "polygraphy_class": "RunResults"}))
    return path


@pytest.fixture
def values():
    return np.random.default_rng(3).normal(size=(2, 8, 9)).astype(np.float32)


def explain_pair(path, ours, theirs):
    return explain(write(path, ("onnxrt", {"y": ours}), ("trt", {"y": theirs})))


def test_a_file_as_polygraphy_writes_it_is_read(tmp_path):
    one, other = encode(np.array([0.5, -1], np.float32)), encode(np.array([0.5, -1.25], np.float32))
    (tmp_path / "r.json").write_text(WRITTEN % (one, other))
    (mismatch,) = read_log(tmp_path / "r.json")
    assert mismatch.names == ("onnxrt-runner-N0-x", "trt-runner-N1-x")
    assert [list(side) for side in mismatch.outputs] == [[0.5, -1.0], [0.5, -1.25]]
    assert (mismatch.metrics.mismatched, mismatch.metrics.elements, mismatch.metrics.max_abs) == (1, 2, 0.25)


RELATIONS = {
    "has {other}'s values, rounded to float16": lambda v: v.astype(np.float16).astype(np.float32),
    "has {other}'s values, rounded to bfloat16": lambda v: v.astype(ml_dtypes.bfloat16).astype(np.float32),
    "is at least 0, {other} is not, and else the same": lambda v: np.maximum(v, 0),
    "is at least -0.5 and at most 0.5, {other} is not, and else the same": lambda v: np.clip(v, -0.5, 0.5),
    "is NaN or infinite where {other} has numbers": lambda v: np.where(v > 1, np.float32(np.nan), v),
    "is 0.25 times {other}": lambda v: v * np.float32(0.25),
    "is -1 times {other}": lambda v: -v,
    "stores its results in float16, and differs by more than that": lambda v: (
        (v + 0.01).astype(np.float16).astype(np.float32)
    ),
}


@pytest.mark.parametrize("says", RELATIONS)
@pytest.mark.parametrize("turned", [False, True])
def test_a_relation_of_all_numbers_is_named_with_its_side(says, turned, values, tmp_path):
    changed = RELATIONS[says](values)
    pair = (changed, values) if turned else (values, changed)
    found = explain_pair(tmp_path / "r.json", *pair)
    name, other = ("onnxrt", "trt") if turned else ("trt", "onnxrt")
    # A mirrored factor is its own inverse.
    if says == "is -1 times {other}":
        name, other = "onnxrt", "trt"
    elif says == "is 0.25 times {other}" and not turned:
        says, name, other = "is 4 times {other}", "onnxrt", "trt"
    assert f"{name} {says.format(other=other)}" in found.summary
    assert {side.verdict for side in found.sides} == {"undecided"}
    assert {side.certainty for side in found.sides} == {"open"}


def test_infinities_beyond_float16_are_its_range(values, tmp_path):
    large = values * 60_000
    found = explain_pair(
        tmp_path / "r.json", large, np.where(np.abs(large) > 65504, np.copysign(np.float32(np.inf), large), large)
    )
    assert found.cause == "overflow"
    assert "trt is infinite beyond the range of float16" in found.summary


@pytest.mark.parametrize("noise", [1e-7, 1e-3, 1.0])
@pytest.mark.parametrize("seed", range(20))
def test_noise_shows_no_relation(noise, seed, tmp_path):
    random = np.random.default_rng(seed)
    values = random.normal(size=(4, 50)).astype(np.float32)
    other = (values * (1 + noise * random.normal(size=values.shape))).astype(np.float32)
    found = explain_pair(tmp_path / "r.json", values, other)
    assert found.cause is None
    assert all(side.says is None and side.cause is None for side in found.sides)


def test_small_integers_on_both_sides_show_no_format(tmp_path):
    random = np.random.default_rng(0)
    found = explain_pair(tmp_path / "r.json", *(random.integers(-9, 9, (2, 4, 50)).astype(np.float32)))
    assert found.cause is None


def test_only_outputs_that_differ_are_told_of(values, tmp_path):
    path = write(
        tmp_path / "r.json",
        ("a", {"same": values, "y": values, "names": np.array([1, 2])}),
        ("b", {"same": values, "y": values + 1, "names": np.array([[1, 2]])}),
    )
    assert [m.facts.get("output") for m in read_log(path)] == ["y", None]
    assert "has shape [2] on one side and [1, 2] on the other" in read_log(path)[1].trouble
    assert main(["explain", str(path)]) == 1


def test_what_cannot_be_compared_is_one_line(values, tmp_path, capsys):
    path = tmp_path / "r.json"
    whole = write(path, ("a", {"y": values}), ("b", {"y": values + 1})).read_text()
    pickled = base64.b64encode(b"\x93NUMPY\x01\x00" + pickle.dumps(print)).decode()
    objects = encode(np.array([print], object), allow_pickle=True)
    complex_ = encode(np.array([1j]))
    shapes = (b"{", b"((((", b"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", b"(True,)")
    headers = [base64.b64encode(b"\x93NUMPY\x01\x00" + bytes([len(h), 0]) + h).decode() for h in shapes]
    headers.append(base64.b64encode(b"PK\x03\x04garbage").decode())
    broken = [
        whole[: len(whole) // 2],
        "{" * 100_000 + '"polygraphy_class"',
        '{"lst": ' + "[" * 50_000 + "]" * 50_000 + ', "polygraphy_class": "RunResults"}',
        '{"lst": 3, "polygraphy_class": "RunResults"}',
        WRITTEN % (pickled, pickled),
        WRITTEN % (objects, objects),
        WRITTEN % ("no base64", "!!"),
        WRITTEN % (complex_, complex_),
        *(WRITTEN % (text, text) for text in headers),
        write(path, ("a", {"y": values}), ("b", {"z": values})).read_text(),
        write(path, ("a", {"y": values})).read_text(),
        write(path, ("a", {"y": values}), ("b", {"y": values})).read_text(),
    ]
    for text in broken:
        path.write_text(text)
        with pytest.raises(LogError) as caught:
            read_log(path)
        assert "\n" not in str(caught.value)
        assert main(["explain", str(path)]) == 2
        assert len(capsys.readouterr().err.strip().splitlines()) == 1
    assert issubclass(LogError, SamebitsError)


def test_what_was_not_compared_is_said(values, tmp_path):
    """One side lacks an output, a second iteration, integers beyond float64."""
    path = tmp_path / "r.json"
    write(path, ("a", {"y": values, "mine": values}), ("b", {"y": values}))
    (mismatch,) = read_log(path)
    assert "output mine is not there on both sides" in mismatch.trouble
    assert "not compared" in explain(path).summary
    write(path, ("a", {"n": np.array([2**53])}), ("b", {"n": np.array([2**53 + 1])}))
    (mismatch,) = read_log(path)
    assert (mismatch.metrics.mismatched, mismatch.metrics.elements) == (1, 1)
    document = json.loads(write(path, ("a", {"y": values}), ("b", {"y": values})).read_text())
    for runner, other in zip(document["lst"], (values, values + 1), strict=True):
        runner[1].append({"outputs": {"y": {"array": encode(other), "polygraphy_class": "ndarray"}}})
    path.write_text(json.dumps(document))
    (mismatch,) = read_log(path)
    assert mismatch.facts == {"output": "y (iteration 2)"}


@pytest.mark.parametrize("seed", range(5))
def test_special_values_are_no_relations(seed, values, tmp_path):
    """Constants, whole numbers, zeros put in, infinities of float32's own range: none is a format or a factor."""
    random = np.random.default_rng(seed)
    noise = random.normal(size=values.shape).astype(np.float32)
    large = (noise * 1e38).astype(np.float32)
    for ours, theirs in (
        (noise, np.zeros_like(noise)),
        (noise, np.full_like(noise, 0.5)),
        (noise, random.integers(-2000, 2000, noise.shape).astype(np.float32)),
        (noise, random.integers(-100, 100, noise.shape)),
        (noise, np.where(random.random(noise.shape) < 0.5, 2 * noise, 0)),
        (large, np.where(np.abs(large) > 1e38, np.float32(np.inf), large)),
        (np.full_like(noise, 1e-200, np.float64), noise.astype(np.float64) * 1e200),
    ):
        found = explain_pair(tmp_path / "r.json", ours, theirs)
        assert found.cause is None
        assert not any(word in found.summary for word in ("stores", "times", "rounded", "range of"))
