"""Runs of a network elsewhere, of which only values are on record: judged like engines, and never run."""

import base64
import io
import json

import numpy as np
import onnx
import pytest

import samebits
from networks.network_building import make_model, node, random, save
from samebits.cli import main
from samebits.errors import SamebitsError
from samebits.findings.causes import CauseCode

X = random((1, 3, 12, 12), 1)
WEIGHTS = {"w0": random((8, 3, 3, 3), 2), "b0": random((8,), 3), "w1": random((8, 8, 3, 3), 4), "w2": random((5, 8), 5)}


def make_deep():
    """Two convolutions, a mean over space, and a product."""
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["/a/conv"], pads=[1, 1, 1, 1]),
        node("Relu", ["/a/conv"], ["/a/relu"]),
        node("Conv", ["/a/relu", "w1"], ["b:conv"], pads=[1, 1, 1, 1]),
        node("Clip", ["b:conv", "low", "high"], ["b:clip"]),
        node("ReduceMean", ["b:clip"], ["mean"], axes=[2, 3], keepdims=0),
        node("Gemm", ["mean", "w2"], ["y"], transB=1),
    ]
    constants = {**WEIGHTS, "low": np.float32(0), "high": np.float32(3)}
    return make_model(nodes, {"x": [1, 3, 12, 12]}, {"y": [1, 5]}, constants)


def convolve(x, w):
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    size = x.shape[2]
    return sum(
        np.einsum("nchw,oc->nohw", padded[..., i : i + size, j : j + size], w[..., i, j].astype(np.float64))
        for i, j in np.ndindex(3, 3)
    )


def to_bfloat16(array):
    bits = array.view(np.uint32).astype(np.uint64)
    return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)


def record(*, second=lambda x, w: convolve(x, w), high=3.0):
    """What a run elsewhere kept, every value rounded once; its second convolution and its clip may be others."""
    kept = {"/a/conv": (convolve(X, WEIGHTS["w0"]) + WEIGHTS["b0"].astype(np.float64)[:, None, None]).astype("f4")}
    kept["/a/relu"] = np.maximum(kept["/a/conv"], 0)
    kept["b:conv"] = second(kept["/a/relu"], WEIGHTS["w1"]).astype("f4")
    kept["b:clip"] = np.clip(kept["b:conv"], 0, high)
    kept["mean"] = kept["b:clip"].astype("f8").mean(axis=(2, 3)).astype("f4")
    return {**kept, "y": (kept["mean"].astype("f8") @ WEIGHTS["w2"].T.astype("f8")).astype("f4")}


FAULTS = {
    "bfloat16": ({"second": lambda x, w: convolve(to_bfloat16(x), to_bfloat16(w))}, "downgrade"),
    "clip": ({"high": np.inf}, "wrong"),
    "kernel": ({"second": lambda x, w: convolve(x, w[..., ::-1, ::-1])}, "wrong"),
}


@pytest.fixture
def model(tmp_path):
    return save(make_deep(), tmp_path / "deep.onnx")


def compare(model, values, **options):
    return samebits.compare(str(model), inputs={"x": X}, recorded={"theirs": values}, **options)


@pytest.mark.parametrize("name", FAULTS)
def test_the_unit_that_deviates_is_named(model, name):
    change, verdict = FAULTS[name]
    found = compare(model, record(**change))
    (side,) = found.sides
    assert (found.verdict, side.engine, side.repeats, side.joined) == (verdict, None, None, 0)
    assert side.deviating == 1
    assert "b:clip" in next(u.outputs for u in found.units if u.name == side.first)
    if name == "bfloat16":
        assert side.cause == CauseCode.REDUCED_PRECISION_OPERANDS
        assert "bfloat16" in found.summary
    if name == "clip":
        assert "upper bound" in found.summary


def test_a_sound_run_is_rounding_and_outputs_alone_show_too_little(model):
    found = compare(model, record())
    assert (found.verdict, found.sides[0].joined) == ("identical", 0)
    found = compare(model, {"y": record()["y"]})
    assert (found.verdict, found.sides[0].joined) == ("undecided", 3)
    assert "is within the bound of its 3 products together, which is wide" in found.summary
    assert "record values in between" in str(found)


def test_engines_beside_it_keep_their_own_units(model):
    found = compare(model, {"y": record()["y"]}, on=["onnxruntime"])
    units = {side.name: [u for u in found.units if side.name in {s.name for s in u.sides}] for side in found.sides}
    assert (len(units["onnxruntime"]), len(units["theirs"])) == (4, 1)
    # What an engine returned, given as a recorded run, is judged as the engine is.
    import onnxruntime

    own = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"]).run(None, {"x": X})[0]
    found = compare(model, {"y": own}, on=["onnxruntime"])
    assert found.outputs[0].differing == 0
    assert found.verdict == "identical"


def encode(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return {"array": base64.b64encode(stream.getvalue()).decode(), "polygraphy_class": "ndarray"}


def test_files_of_every_kind_are_read(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    values = record(**FAULTS["bfloat16"][0])
    np.savez("all.npz", **values)
    np.save("y.npy", values["y"])
    (tmp_path / "y.pb").write_bytes(onnx.numpy_helper.from_array(values["y"], "y").SerializeToString())
    np.savez("in.npz", x=X)
    outputs = {name: {"values": encode(array), "polygraphy_class": "LazyArray"} for name, array in values.items()}
    runs = [[name, [{"outputs": outputs}]] for name in ("trt-runner-N0", "other-runner-N1")]
    (tmp_path / "runs.json").write_text(json.dumps({"lst": runs, "polygraphy_class": "RunResults"}))
    (tmp_path / "feed.json").write_text(json.dumps([{"x": encode(X)}]))
    for options, sides, status in (
        (["--recorded", "trt=all.npz", "--inputs", "in.npz"], ["trt"], 1),
        (["--recorded", "runs.json", "--inputs", "feed.json"], ["trt-runner-N0", "other-runner-N1"], 1),
        (["--recorded", "y.npy", "--recorded", "b=y.pb", "--inputs", "in.npz"], ["y", "b"], 0),  # The same bits.
    ):
        assert main(["compare", str(model), *options, "--json"]) == status
        document = json.loads(capsys.readouterr().out)
        assert [s["name"] for s in document["sides"]] == sides
        assert all(s["engine"] is None for s in document["sides"])


def test_advice_is_of_the_engine_that_a_side_is_called_by(model):
    values = record(**FAULTS["bfloat16"][0])
    found = samebits.compare(str(model), inputs={"x": X}, recorded={"trt-runner-N0": values})
    assert {fix.engine for fix in found.fixes} == {"tensorrt"}
    assert len({fix.engine for fix in compare(model, values).fixes}) > 1
    assert compare(model, record()).fixes == []


def test_other_names_and_types_are_taken_where_they_say_the_same(model):
    values = record()
    found = compare(model, {**values, "y": values["y"].astype(np.float64)})
    assert found.verdict == "identical"
    assert compare(model, {"output": values["y"]}).sides[0].joined == 3
    found = compare(model, {**values, "not_there": np.zeros(3)})
    assert found.sides[0].joined == 0
    assert any("no values called not_there" in e.says for e in found.evidence)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"mean": np.zeros((1, 8), "f4"), "z": np.zeros(3)}, "the output 'y' is not among what was recorded (mean, z)"),
        ({}, "is not among what was recorded (nothing)"),
        ({"y": np.zeros((5, 1), "f4")}, "'y' was recorded as (5, 1), but the network makes 1x5"),
        ({"y": np.full((1, 5), 0.1)}, "recorded as float64, and the network's float32 does not hold its numbers"),
        ({"y": np.full((1, 5), "a")}, "does not hold its numbers"),
    ],
)
def test_what_does_not_fit_is_one_line(model, values, says):
    with pytest.raises(SamebitsError) as error:
        compare(model, values)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


def test_what_belongs_together_is_asked_for(model, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    np.savez("y.npz", y=record()["y"])
    np.savez("in.npz", x=X)
    (tmp_path / "odd.json").write_text("{}")
    (tmp_path / "y.csv").write_text("0.1,0.2,0.3,0.4,0.5\n")
    for options, says in (
        (["--recorded", "y.npz"], "belongs to the inputs of that run: give them, too (--inputs)"),
        (["--recorded", "y.npz", "--recorded", "y.npz", "--inputs", "in.npz"], "called 'y'"),
        (["--recorded", "onnxruntime=y.npz", "--on", "onnxruntime", "--inputs", "in.npz"], "two sides are called"),
        (["--recorded", "odd.json", "--inputs", "in.npz"], "not what Polygraphy saves"),
        (["--recorded", "missing.npz", "--inputs", "in.npz"], "missing.npz"),
        (["--recorded", "y.npz", "--inputs", "odd.json"], "not what Polygraphy saves"),
        (["--recorded", "y.csv", "--inputs", "in.npz"], "printed text"),
    ):
        assert main(["compare", str(model), *options]) == 2, options
        said = capsys.readouterr().err
        assert says in said
        assert said.count("\n") == 1
    assert main(["compare", "linear x=2x3 w=2x3", "--recorded", "y.npz"]) == 2
    assert "--recorded are for networks" in capsys.readouterr().err


def test_settings_are_not_tried_on_what_cannot_be_run(model):
    found = compare(model, record(**FAULTS["bfloat16"][0]), on=["onnxruntime"], fix=True)
    assert all(not fix.verified for fix in found.fixes)
    assert {s.name: s.verdict for s in found.sides}["onnxruntime"] == "rounding"
    assert "--fix tries" not in str(found)


def test_scalars_and_other_byte_orders_are_taken_as_they_are(tmp_path):
    nodes = [
        node("ReduceMax", ["x"], ["most"], keepdims=0),
        node("Div", ["x", "most"], ["y"]),
    ]
    path = save(make_model(nodes, {"x": [1, 3, 12, 12]}, {"y": [1, 3, 12, 12]}, {}), tmp_path / "scaled.onnx")
    values = {"most": X.max(), "y": X / X.max()}
    for change in (lambda a: np.asarray(a), lambda a: np.asarray(a).astype(">f4")):
        found = samebits.compare(
            str(path), inputs={"x": X}, recorded={"theirs": {name: change(array) for name, array in values.items()}}
        )
        assert found.verdict in ("rounding", "identical")


def test_what_was_recorded_of_other_inputs_is_refused(tmp_path):
    made = make_model(
        [node("Gemm", ["x", "w2"], ["y"], transB=1)], {"x": ["n", 8]}, {"y": ["n", 5]}, {"w2": WEIGHTS["w2"]}
    )
    path = save(made, tmp_path / "open.onnx")
    fed = random((4, 8), 9)
    right = (fed.astype(np.float64) @ WEIGHTS["w2"].T.astype(np.float64)).astype(np.float32)
    assert samebits.compare(str(path), inputs={"x": fed}, recorded={"a": {"y": right}}).verdict == "identical"
    with pytest.raises(SamebitsError, match=r"recorded as \(2, 5\), but these inputs make \(4, 5\)"):
        samebits.compare(str(path), inputs={"x": fed}, recorded={"a": {"y": right[:2]}})


def test_a_value_in_between_is_no_output(model):
    with pytest.raises(SamebitsError, match="the output 'y' is not among"):
        compare(model, {"mean": record()["mean"]})


@pytest.mark.parametrize("given", [{"a": None}, {"a": [1, 2]}, {3: {"y": X}}, {"a": {"y": [[1], [2, 3]]}}])
def test_other_objects_are_one_line(model, given):
    with pytest.raises(SamebitsError):
        samebits.compare(str(model), inputs={"x": X}, recorded=given)


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("trt-runner-N0-10/01/25-10:00:00", "trt-runner-N0-10/01/25-10-00-00"),
        ("::error ::a", "error-a"),
        (" ", "recorded"),
    ],
)
def test_names_of_sides_are_shown_whole_and_begin_no_command(model, name, shown):
    found = samebits.compare(str(model), inputs={"x": X}, recorded={name: record()}, attributes=False)
    assert found.sides[0].name == shown
    assert shown in str(found)
