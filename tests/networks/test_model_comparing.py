"""Engines compared on networks: the unit that deviates, its cause, what is inherited, and what observing does."""

from types import SimpleNamespace

import numpy as np
import onnx
import pytest

from networks.model_sides import ReferenceSide
from networks.network_building import conv, conv_clip, make_model, node, random, residual, round_to, save
from samebits.display.charts import chart_branches
from samebits.errors import ArgumentError, ModelError
from samebits.findings import json_from_finding
from samebits.networks import model_judging, observing
from samebits.networks.model_comparing import compare_model
from samebits.networks.onnx_reading import make_network
from samebits.problems.case_file import load_case
from samebits.progress import FirstVerdict

pytestmark = pytest.mark.usefixtures("warm_workers")

ORT = "onnxruntime"


def compare(model, on, **options):
    return compare_model(make_network(model, "test"), on, **options)


def side_of(found, unit, name):
    one = next(u for u in found.units if unit in u.outputs)
    return next(s for s in one.sides if s.name == name)


@pytest.mark.parametrize("model", [conv_clip(), residual()])
def test_fault_free_engines_differ_by_rounding_at_most(model):
    found = compare(model, [ORT, f"{ORT}:optimization=disable", "truth", ReferenceSide()])
    assert found.verdict in ("rounding", "identical")
    assert all(s.deviating == 0 for s in found.sides)
    assert all(s.own.max_over_bound <= 1 for u in found.units for s in u.sides)
    assert not found.taps.changed_bits


def test_the_finding_has_the_form_that_others_rely_on():
    found = compare(residual(), [ORT, f"{ORT}:optimization=disable"])
    import json

    document = json.loads(json_from_finding(found))
    assert document["schema"] == "samebits.model/1"
    assert {"model", "verdict", "cause", "summary", "first", "units", "taps", "amplification", "fixes"} <= set(document)
    unit = document["units"][1]
    assert unit["operators"] == ["Conv", "Add", "Relu"]
    assert unit["problem"] == "conv2d x=2x4x8x8 w=4x4x3x3 bias padding=1 dtype=float32"
    assert {"name", "verdict", "cause", "own", "inherited", "recipe"} <= set(unit["sides"][0])
    assert {"max_over_bound", "max_ulp"} <= set(unit["sides"][0]["own"])
    assert document["taps"] == {"changed_bits": False, "left_out": [], "settled": True}


def faulty(change):
    return ReferenceSide("faulty", change)


def test_a_fault_is_found_at_its_unit_and_what_follows_inherits_it():
    def spoil(name, result, values):
        return result * 1.01 if name == "c2" else result

    found = compare(residual(), [ORT, faulty(spoil)])
    assert found.verdict == "wrong" or found.verdict == "undecided"
    assert found.first == "conv_c2"
    assert [s.deviating for s in found.sides] == [0, 1]
    assert side_of(found, "r1", "faulty").verdict in ("rounding", "identical")
    last = side_of(found, "p", "faulty")
    assert last.verdict in ("rounding", "identical")
    assert last.inherited.max_abs > 1e-4
    assert side_of(found, "p", ORT).inherited.max_abs == 0
    # Nothing else is at fault: with the truth in its place the difference is gone.
    assert side_of(found, "r2", "faulty").share > 0.99


def tf32(name, result, values):
    return conv(round_to(11)(values["x"]), round_to(11)(values["w"]), values["b"]) if name == "c" else result


def half(name, result, values):
    if name != "c":
        return result
    sums = conv(values["x"].astype(np.float16), values["w"].astype(np.float16), values["b"])
    return sums.astype(np.float16)


def lost_upper_bound(name, result, values):
    return np.maximum(values["c"], values["low"]) if name == "y" else result


def lost_relu(name, result, values):
    return values["c"] if name == "y" else result


def nan_to_bound(name, result, values):
    return np.fmin(np.fmax(values["c"], values["low"]), values["high"]) if name == "y" else result


def moved_pads(name, result, values):
    if name != "c":
        return result
    x = np.pad(values["x"], [(0, 0), (0, 0), (0, 2), (0, 2)])
    return conv(x, values["w"], values["b"], 0)


def lost_bias(name, result, values):
    return conv(values["x"], values["w"]) if name == "c" else result


def flipped(name, result, values):
    return conv(values["x"], values["w"][:, :, ::-1, ::-1], values["b"]) if name == "c" else result


@pytest.mark.parametrize(
    ("change", "verdict", "cause"),
    [
        (tf32, "downgrade", "reduced-precision-operands"),
        (half, "downgrade", "reduced-precision-operands"),
        (lost_upper_bound, "wrong", "fusion"),
        (lost_relu, "wrong", "fusion"),
        (nan_to_bound, "wrong", "nan-semantics"),
        (moved_pads, "wrong", "padding"),
        (lost_bias, "wrong", "dropped-attribute"),
        (flipped, "wrong", "axis-order"),
    ],
)
def test_a_convolution_and_a_clip_are_explained(change, verdict, cause):
    """The report about TensorRT: each cause that was named there, injected in turn."""
    inputs = {"x": random((1, 3, 12, 12), 7, 2.0)}
    if change is nan_to_bound:
        inputs["x"][0, 1, 3, 4] = np.nan
    found = compare(conv_clip(), [ORT, faulty(change)], inputs=inputs)
    assert (found.verdict, found.cause, found.first) == (verdict, cause, "conv_c")
    assert found.sides[0].verdict in ("rounding", "identical")


def flattened():
    """A convolution whose outputs are near -18, and a sigmoid: it returns numbers of 1e-8."""
    constants = {"w": random((4, 3, 3, 3), 1), "b": np.full(4, -18, np.float32)}
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1, 1, 1, 1]),
        node("Sigmoid", ["c"], ["y"]),
    ]
    return make_model(nodes, {"x": [1, 3, 12, 12]}, ["y"], constants)


def test_a_product_is_seen_before_a_sigmoid_hides_its_error():
    found = compare(flattened(), [ORT, faulty(tf32)])
    assert (found.verdict, found.cause, found.first) == ("downgrade", "reduced-precision-operands", "conv_c")
    assert [u.operators for u in found.units] == [["Conv"], ["Sigmoid"]]
    assert [s.verdict in ("rounding", "identical") for s in found.sides] == [True, False]
    sound = compare(flattened(), [ORT, ReferenceSide()])
    assert sound.verdict in ("rounding", "identical")


def test_a_side_that_must_not_show_what_is_flattened_has_it_in_its_unit():
    found = compare(flattened(), [ORT, ReferenceSide(alters_when_observed=["c"])])
    assert found.verdict in ("rounding", "identical")
    assert not found.taps.changed_bits
    judged = {tuple(u.operators): [s.name for s in u.sides] for u in found.units}
    assert judged == {("Conv",): [ORT], ("Sigmoid",): [ORT], ("Conv", "Sigmoid"): ["reference"]}


def test_a_fault_behind_a_product_is_named():
    def no_addition(name, result, values):
        return values["c2"] if name == "s" else result

    found = compare(residual(), [ORT, faulty(no_addition)])
    side = side_of(found, "r2", "faulty")
    assert (side.verdict, side.cause) == ("wrong", "fusion")
    assert "leaves out Add" in side.says


def test_an_attribute_that_was_changed_is_named():
    model = make_model(
        [node("LayerNormalization", ["x", "s"], ["y"], epsilon=1e-5)], {"x": [4, 16]}, ["y"], {"s": random((16,), 1)}
    )
    other = onnx.ModelProto()
    other.CopyFrom(model)
    other.graph.node[0].attribute[0].f = 1e-3
    spoiled = make_network(other, "other")

    class Other(ReferenceSide):
        def run_network(self, network, inputs, observed, wanted, given):
            return super().run_network(spoiled, inputs, observed, wanted, given)

    found = compare(model, [ORT, Other("other")])
    side = side_of(found, "y", "other")
    assert (side.verdict, side.cause) == ("wrong", "dropped-attribute")
    assert "epsilon = 0.001" in side.says


def test_what_rounding_may_take_anywhere_is_not_called_rounding():
    """A variance that is all error: whatever comes of it is not judged, however far off."""
    x = (random((1, 2, 64), 1) * np.float32(1e-3) + np.float32(3000)).astype(np.float32)
    constants = {"s": np.ones(2, np.float32), "b": np.zeros(2, np.float32)}
    model = make_model([node("InstanceNormalization", ["x", "s", "b"], ["y"])], {"x": [1, 2, 64]}, ["y"], constants)
    found = compare(model, [ORT, faulty(lambda name, result, values: result * np.float32(1000))], inputs={"x": x})
    assert found.sides[1].verdict == "undecided"


def test_a_value_whose_observation_changes_bits_is_left_out_and_said():
    found = compare(residual(), [ReferenceSide("shy", alters_when_observed=["r1", "l"]), ORT])
    assert found.taps.changed_bits
    assert found.taps.left_out == ["l", "r1"]
    assert found.verdict in ("rounding", "identical")
    shown = [u for u in found.units if any(s.name == found.sides[0].name for s in u.sides)]
    assert not any("r1" in u.outputs for u in shown)


def test_what_one_side_must_not_show_joins_units_on_that_side_alone():
    """The fault of the other side lies behind a value that the first one cannot show, and is located nonetheless."""

    def spoil(name, result, values):
        return result * np.float32(1.01) if name == "c2" else result

    shy = ReferenceSide("shy", alters_when_observed=["r1", "l"])
    found = compare(residual(), [shy, ReferenceSide("faulty", spoil)])
    assert [s.verdict for s in found.sides] == ["rounding", "wrong"]
    assert (found.first, found.sides[1].deviating) == ("conv_c2", 1)
    by_side = [{u.name for u in found.units for s in u.sides if s.name == side.name} for side in found.sides]
    assert by_side[0] == {"conv_c1 to relu_r2", "globalaveragepool_g", "matmul_m to softmax_p"}
    # Every operation is judged once on each side.
    for side in found.sides:
        own = [u for u in found.units if any(s.name == side.name for s in u.sides)]
        assert sum(len(u.operators) for u in own) == 10


def test_where_the_search_is_given_up_nothing_is_observed_and_the_side_is_one_unit(monkeypatch):
    """A fault that shows in a run that is looked at may be the looking's: what is judged is what was returned."""
    monkeypatch.setattr(observing, "_LONGEST_SEARCH_S", 0.0)

    def spoil(name, result, values):
        return result * 1.01 if name == "c2" else result

    side = ReferenceSide("faulty", spoil, alters_when_observed=("r1",))
    found = compare(residual(), [ORT, side])
    assert not found.taps.settled
    assert found.sides[0].verdict == "rounding"
    assert len([u for u in found.units if any(s.name == found.sides[0].name for s in u.sides)]) == 5
    (unit,) = (u for u in found.units if any(s.name == found.sides[1].name for s in u.sides))
    assert (unit.outputs, len(unit.operators)) == (["p"], found.operations)
    assert (found.sides[1].deviating, found.sides[1].unjudged) == (1, 0)
    assert found.verdict in ("undecided", "wrong")


def test_what_is_known_without_causes_is_said_before_they_are_looked_for():
    heard = []
    found = compare(residual(), [ORT, fault_in("c2")], progress=lambda what, share: heard.append(what))
    (first,) = (what for what in heard if what.startswith("so far "))
    assert isinstance(first, FirstVerdict)
    assert "wrong" in first or "undecided" in first
    assert "conv_c2" in first
    assert found.sides[1].cause == "fusion"
    sound = []
    compare(residual(), [ORT, ReferenceSide()], progress=lambda what, share: sound.append(what))
    assert not any(what.startswith("so far ") for what in sound)


def test_after_the_time_limit_no_causes_are_looked_for(monkeypatch):
    """All time is gone when the network has been judged: what deviates is said, and that nobody looked why."""
    monkeypatch.setattr(model_judging, "time", SimpleNamespace(monotonic=lambda: np.inf))
    found = compare(residual(), [ORT, fault_in("c2")])
    assert [s.verdict for s in found.sides] == ["rounding", "undecided"]
    assert (found.first, found.sides[1].cause) == ("conv_c2", None)
    assert [e.says for e in found.evidence] == ["the time limit ended the search for causes: 1 unit was not looked at"]


def fault_in(value):
    return ReferenceSide("faulty", lambda name, result, values: result * np.float32(1.01) if name == value else result)


def test_what_products_read_is_shown_first():
    """Seven of fifteen values are read by products: they are shown in one run; the others each change the result."""
    names = [f"v{i}" for i in range(15)]
    nodes = [
        node("Softmax", [b], [a]) if a in (*names[1::2], "y") else node("MatMul", [b, "w"], [a])
        for b, a in zip(["x", *names], [*names, "y"], strict=True)
    ]
    model = make_model(nodes, {"x": [2, 3]}, ["y"], {"w": random((3, 3), 1)})
    side = ReferenceSide("fusing", alters_when_observed=names[::2])
    found = compare(model, [side])
    assert found.taps.left_out == sorted(names[::2])
    assert found.taps.settled
    searched = [shown for shown in side.observed_sets if shown and not {"y"} & set(shown)]
    assert searched[0] == tuple(names[1::2])
    assert all(set(names[1::2]) <= set(shown) for shown in searched)


def test_an_engine_that_does_not_repeat_itself_is_said_to():
    class Restless(ReferenceSide):
        def run_network(self, network, inputs, observed, wanted, given):
            self.turn = getattr(self, "turn", 0) + 1
            found = super().run_network(network, inputs, observed, wanted, given)
            return {k: np.nextafter(v, np.float32(np.inf)) if self.turn % 2 else v for k, v in found.items()}

    found = compare(conv_clip(), [Restless("restless"), ORT], attributes=False)
    assert found.sides[0].repeats is False
    assert found.sides[1].repeats is True


def test_units_that_deviate_are_written_as_cases(tmp_path):
    model = make_network(conv_clip(), "test")
    found = compare_model(model, [ORT, faulty(tf32)], save_cases=tmp_path / "cases")
    (path,) = found.saved
    case = load_case(path)
    assert set(case.results) == {"faulty"}
    import samebits

    assert samebits.explain(path).cause == "reduced-precision-operands"


def test_names_of_a_network_lead_to_no_file_outside(tmp_path):
    model = conv_clip()
    model.graph.node[0].name = "../../evil\x00/name"
    found = compare_model(make_network(model, "test"), [ORT, faulty(tf32)], save_cases=tmp_path / "cases")
    (path,) = found.saved
    assert (tmp_path / "cases") in __import__("pathlib").Path(path).parents
    assert len(list((tmp_path / "cases").iterdir())) == 1


def test_every_bit_of_a_network_is_replayed():
    found = compare(residual(), [ORT], replay=True)
    assert found.sides[0].replayed == 3
    assert all(s.replay.matched == 1.0 for u in found.units for s in u.sides if u.problem)
    assert any("every bit of this network is explained" in e.says for e in found.sides[0].evidence)


def test_inputs_and_ranges_are_taken_and_checked(tmp_path):
    model = make_network(conv_clip(), "test")
    np.savez(tmp_path / "in.npz", x=random((1, 3, 12, 12), 3))
    assert compare_model(model, ["truth"], inputs=tmp_path / "in.npz", attributes=False).data == "given"
    with pytest.raises(ModelError, match="has shape"):
        compare_model(model, [ORT], inputs={"x": random((1, 3, 12, 13), 3)})
    with pytest.raises(ModelError, match="has dtype float64"):
        compare_model(model, [ORT], inputs={"x": np.zeros((1, 3, 12, 12))})
    with pytest.raises(ModelError, match="no input 'z'"):
        compare_model(model, [ORT], ranges={"z": (0, 1)})
    with pytest.raises(ArgumentError, match="a list of them, not 7"):
        compare_model(model, 7)


def test_an_engine_that_fails_is_a_finding_and_the_others_are_judged():
    class Broken(ReferenceSide):
        def run_network(self, *_):
            from samebits.errors import EngineCrashed

            raise EngineCrashed("its process was ended by SIGSEGV")

    found = compare(conv_clip(), [Broken("broken"), ORT])
    assert found.sides[0].failure.kind == "crash"
    assert found.sides[1].verdict in ("rounding", "identical")


def test_engines_without_onnx_compute_products_one_by_one(tmp_path):
    found = compare_model(save(residual(), tmp_path / "net.onnx"), ["numpy", "emulate:direct x=bfloat16 w=bfloat16"])
    assert found.sides[0].failure.kind == "unsupported"  # numpy multiplies matrices only
    assert found.sides[1].verdict == "downgrade"
    assert found.first == "conv_c1"


def change_weights(change):
    def spoil(model):
        tensor = next(t for t in model.graph.initializer if t.name == "w2")
        tensor.CopyFrom(onnx.numpy_helper.from_array(np.ascontiguousarray(change(random((4, 4, 3, 3), 2, 0.2))), "w2"))

    return spoil


def shift_padding(model):
    model.graph.node[2].attribute[0].ints[:] = [0, 0, 2, 2]


def lose_the_bias(model):
    del model.graph.node[2].input[2]


def lose_the_relu(model):
    model.graph.node[4].op_type = "Identity"


@pytest.mark.parametrize(
    ("spoil", "cause", "says"),
    [
        (shift_padding, "padding", "pads is [0, 0, 2, 2] in place of [1, 1, 1, 1]"),
        (lose_the_bias, "dropped-attribute", "input 3 of Conv is lost"),
        (lose_the_relu, "fusion", "Identity makes what Relu makes"),
        (change_weights(lambda w: w.astype(np.float16).astype(np.float32)), "reduced-precision-operands", "to float16"),
        (change_weights(lambda w: w.swapaxes(0, 1)), "axis-order", "axes exchanged"),
        (change_weights(lambda w: w[:, :, ::-1, ::-1]), "axis-order", "flipped"),
        (change_weights(lambda w: random((4, 4, 3, 3), 99, 0.2)), "other-operands", "of another run"),
    ],
)
def test_what_a_converter_broke_is_named(spoil, cause, says, tmp_path):
    broken = residual()
    spoil(broken)
    right = save(residual(), tmp_path / "right.onnx")
    found = compare_model(right, [ORT], against=save(broken, tmp_path / "broken.onnx"))
    assert found.first == "conv_c2"
    assert found.sides[0].verdict in ("rounding", "identical")
    assert found.sides[1].cause == cause
    assert any(says in e.says for e in found.evidence)


def test_a_file_that_is_the_same_is_said_to_be(tmp_path):
    right, other = (save(residual(), tmp_path / name) for name in ("right.onnx", "other.onnx"))
    found = compare_model(right, [ORT], against=other)
    assert found.verdict == "identical"
    assert [e.says for e in found.evidence] == [
        "the two files do not differ: every node and constant of one corresponds to the other's"
    ]
    with pytest.raises(ModelError, match="no other file of this network"):
        compare_model(right, [ORT], against=save(conv_clip(), tmp_path / "else.onnx"))


def test_a_replay_of_the_product_alone_is_none_of_its_unit():
    """bfloat16 operands are replayed from the product's own output; the addition behind it was never replayed."""
    narrow = "emulate:direct x=bfloat16 w=bfloat16"
    found = compare(residual(), [ORT, narrow], replay=False)
    side = side_of(found, "r2", narrow)
    assert (side.verdict, side.cause) == ("downgrade", "reduced-precision-operands")
    assert side.replay is None
    alone = side_of(found, "r1", narrow)
    assert alone.replay.matched == 1.0
    assert alone.replay.elements == 2 * 4 * 8 * 8


@pytest.mark.needs("openvino")
def test_what_openvino_computes_in_float32_all_the_same_is_not_said_to_be_narrow():
    """It has no kernel in bfloat16 for transposed convolutions, whatever it computes in by default."""
    constants = {"w": random((8, 4, 3, 3), 1, 0.3), "v": random((4, 4, 3, 3), 2, 0.3)}
    nodes = [
        node("ConvTranspose", ["x", "w"], ["c"], strides=[2, 2]), node("Relu", ["c"], ["r"]),
        node("ConvTranspose", ["r", "v"], ["d"]), node("Tanh", ["d"], ["y"]),
    ]  # fmt: skip
    model = make_network(make_model(nodes, {"x": [1, 8, 5, 5]}, ["y"], constants), "test")
    found = compare_model(model, ["openvino", "openvino:INFERENCE_PRECISION_HINT=f32"])
    same = found.outputs == [] or all(o.differing == 0 for o in found.outputs)
    assert not same or [s.verdict for s in found.sides] == ["rounding", "rounding"]


@pytest.mark.parametrize("skips", [True, False])
def test_a_page_draws_an_arc_over_units_that_a_value_passes_by(skips):
    nodes = [node("MatMul", ["x", "u"], ["a"]), node("MatMul", ["a", "v"], ["b"]), node("MatMul", ["b", "w"], ["c"])]
    nodes.append(node("Add", ["c", "a"], ["y"]) if skips else node("Relu", ["c"], ["y"]))
    constants = {name: random((4, 4), i) for i, name in enumerate("uvw")}
    found = compare_model(make_network(make_model(nodes, {"x": [2, 4]}, ["y"], constants), "net"), on=["truth"])
    spec = chart_branches(found)
    assert (spec is not None) == skips
    if spec is not None:
        (data,) = spec["datasets"].values() if "datasets" in spec else (spec["data"]["values"],)
        names = [unit.name for unit in found.units]
        assert {point["says"] for point in data} == {f"{names[0]} is read by {names[2]}"}
        assert (data[0]["at"], data[-1]["at"], data[0]["height"]) == (0, 2, 0)


def test_a_network_that_returns_a_single_number_is_compared():
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("ReduceMean", ["m"], ["y"], keepdims=0)]
    model = make_model(nodes, {"x": [3, 8]}, ["y"], {"w": random((8, 5), 1)})
    found = compare(model, [ORT, "truth"])
    assert found.verdict in ("identical", "rounding")
    assert found.outputs[0].differing in (0, 1)
