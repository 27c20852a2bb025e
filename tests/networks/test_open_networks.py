"""Files as people have them: open sizes, nodes in any sequence, an If that inputs decide, unknown operators."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from networks.model_sides import ReferenceSide
from networks.network_building import make_model, node, random
from samebits.errors import ModelError
from samebits.networks.control_flow import settle_control_flow
from samebits.networks.model_comparing import compare_model
from samebits.networks.model_inputs import make_inputs
from samebits.networks.onnx_reading import make_network
from samebits.networks.open_sizes import settle_shapes
from samebits.questions.network.network_command import read_sizes


def build(nodes, inputs, output="y", constants=None, opset=17):
    """A network with open sizes: a text is a size's name, None and -1 are none."""
    types = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n, shape in inputs.items()]
    tensors = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    out = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", types, [out], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def relu(shape):
    return make_network(build([node("Relu", ["x"], ["y"])], {"x": shape}), "net.onnx")


def test_a_batch_is_one_and_what_is_named_alike_too():
    two = build([node("Add", ["x", "z"], ["y"])], {"x": ["n", 4], "z": [4, "n"]})
    assert settle_shapes(make_network(two, "two")) == {"x": (1, 4), "z": (4, 1)}
    assert settle_shapes(relu([None, 3, 5])) == {"x": (1, 3, 5)}


@pytest.mark.parametrize("size", [None, -1, "width"])
def test_another_open_size_is_asked_for_in_one_line(size):
    with pytest.raises(ModelError) as raised:
        settle_shapes(relu([1, 3, 8, size]))
    said = str(raised.value)
    assert "\n" not in said
    assert "x axis 3" in said
    assert "--size x=1x3x8xN" in said


def test_sizes_are_given_by_input_or_by_name():
    network = relu(["n", 3, "height", "width"])
    assert settle_shapes(network, {"x": (2, 3, 8, 9)}) == {"x": (2, 3, 8, 9)}
    assert settle_shapes(network, {"height": (8,), "width": (9,)}) == {"x": (1, 3, 8, 9)}
    assert make_inputs(network, 0, sizes={"x": (2, 3, 8, 9)})["x"].shape == (2, 3, 8, 9)
    assert read_sizes(["x=1x3x8x9,height=4"]) == {"x": (1, 3, 8, 9), "height": (4,)}


@pytest.mark.parametrize(
    ("sizes", "says"),
    [
        ({"x": (2, 4, 8, 9)}, "the model takes ?x3x?x?"),
        ({"x": (2, 3, 8)}, "the model takes ?x3x?x?"),
        ({"depth": (2,)}, "the model has x, n, height, width"),
        ({"height": (2, 3)}, "the model has x, n, height, width"),
    ],
)
def test_sizes_that_do_not_fit_are_one_line(sizes, says):
    with pytest.raises(ModelError, match=says.replace("?", r"\?")):
        settle_shapes(relu(["n", 3, "height", "width"]), sizes)


@pytest.mark.parametrize(
    "nodes",
    [
        [node("Reshape", ["x", "shape"], ["r"]), node("MatMul", ["r", "w"], ["y"])],
        [node("Flatten", ["x"], ["r"]), node("MatMul", ["r", "w"], ["y"])],
        [node("MatMul", ["x", "v"], ["y"])],
    ],
)
def test_what_the_graph_decides_is_taken(nodes):
    """Nine rows of `side` values meet 36 rows of weights, or `side` itself meets four."""
    constants = {"shape": np.array([1, 36], np.int64), "w": random((36, 2), 1), "v": random((4, 2), 1)}
    open_ = build(nodes, {"x": [1, 9, "side"]}, constants=constants)
    assert settle_shapes(make_network(open_, "net")) == {"x": (1, 9, 4)}


def test_nodes_stand_in_any_sequence():
    model = build([node("Exp", ["r"], ["y"]), node("Relu", ["x"], ["r"])], {"x": [2, 3]})
    assert [n.operator for n in make_network(model, "net").nodes] == ["Relu", "Exp"]


def branch(name, operator, value="x"):
    inner = [helper.make_node(operator, [value], ["i"]), helper.make_node("Add", ["i", "one"], [name])]
    one = numpy_helper.from_array(np.ones((), np.float32), "one")
    return helper.make_graph(inner, name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)], [one])


def make_choice(condition):
    """y = If(condition): exp(relu(x)) + 1 or tanh(relu(x)) + 1, a second one nested in the first's place."""
    nodes = [
        node("Relu", ["x"], ["r"]),
        *condition,
        helper.make_node("If", ["c"], ["z"], then_branch=branch("a", "Exp", "r"), else_branch=branch("b", "Tanh", "r")),
        helper.make_node("If", ["c"], ["y"], then_branch=branch("a", "Neg", "z"), else_branch=branch("b", "Abs", "z")),
    ]
    return build(nodes, {"x": [2, 3]}, constants={"limit": np.float32(0.5), "n": np.int64(2)})


BY_INPUT = [
    node("ReduceMax", ["x"], ["m"], keepdims=0), node("Greater", ["m", "limit"], ["c"]),
]  # fmt: skip
BY_SHAPE = [
    node("Shape", ["r"], ["s"]), node("ReduceMin", ["s"], ["k"], keepdims=0), node("Equal", ["k", "n"], ["c"]),
]  # fmt: skip


@pytest.mark.needs("onnxruntime")
@pytest.mark.parametrize("condition", [BY_INPUT, BY_SHAPE])
@pytest.mark.parametrize("scale", [0.01, 3.0])
def test_the_branch_that_inputs_take_stands_in_place(condition, scale):
    """ONNX Runtime runs the file as it is and with its branches put in place: the same bits."""
    import onnxruntime

    model = make_choice(condition)
    x = {"x": random((2, 3), 5, scale)}
    taken = settle_control_flow(make_network(model, "net"), x, make_network)
    assert all(n.operator != "If" for n in taken.nodes)
    results = [
        onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, x)[0]
        for m in (model, taken.stored)
    ]
    assert results[0].tobytes() == results[1].tobytes()
    found = compare_model(make_network(model, "net"), ["onnxruntime", "truth"], inputs=x)
    assert found.verdict in ("identical", "rounding")
    assert all(side.failure is None for side in found.sides)


def test_a_condition_that_much_of_the_network_computes_is_found_by_the_reference():
    long = [node("Exp", ["x" if i == 0 else f"v{i - 1}"], [f"v{i}"]) for i in range(3)]
    long += [node("Abs", [f"v{i - 1}"], [f"v{i}"]) for i in range(3, 300)]
    condition = [*long, node("ReduceMax", ["v299"], ["m"], keepdims=0), node("Greater", ["m", "limit"], ["c"])]
    model = make_choice(condition)
    taken = settle_control_flow(make_network(model, "net"), {"x": np.zeros((2, 3), np.float32)}, make_network)
    assert all(n.operator != "If" for n in taken.nodes)
    assert any("(If) is compared as the branch that these inputs take: then" in note for note in taken.notes)


def test_a_condition_that_nothing_here_computes_leaves_one_operation_that_is_not_judged():
    strange = helper.make_node("Mystery", ["x"], ["c"], name="strange", domain="my.own")
    model = make_choice([strange])
    model.opset_import.append(helper.make_opsetid("my.own", 1))
    kept = settle_control_flow(make_network(model, "net"), {"x": np.zeros((2, 3), np.float32)}, make_network)
    assert [n.operator for n in kept.nodes if n.operator == "If"] == ["If", "If"]


def loop_of(rounds, *, ends_itself):
    """x is halved in each round, so long as its sum is large, or so many times; each round's x is collected."""
    body = [
        helper.make_node("Mul", ["state", "half"], ["next"]),
        helper.make_node("ReduceSum", ["next"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "limit"], ["on"])
        if ends_itself
        else helper.make_node("Identity", ["go"], ["on"]),
        helper.make_node("Identity", ["next"], ["each"]),
    ]
    inner = helper.make_graph(
        body,
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("state", TensorProto.FLOAT, [2, 3]),
        ],
        [
            helper.make_tensor_value_info("on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("next", TensorProto.FLOAT, [2, 3]),
            helper.make_tensor_value_info("each", TensorProto.FLOAT, [2, 3]),
        ],
    )
    nodes = [
        node("Abs", ["x"], ["a"]),
        helper.make_node("Loop", ["n", "yes", "a"], ["last", "all"], name="loop", body=inner),
        node("Exp", ["last"], ["y"]),
        node("ReduceSum", ["all"], ["z"], keepdims=0),
    ]
    constants = {"half": np.float32(0.5), "limit": np.float32(1.0), "n": np.int64(rounds), "yes": np.bool_(True)}
    constants = {name: np.asarray(value) for name, value in constants.items()}
    return make_model(nodes, {"x": [2, 3]}, ["y", "z"], constants)


def scan_backwards():
    """Running sums along the second axis, from its end."""
    body = [helper.make_node("Add", ["sum", "part"], ["next"]), helper.make_node("Identity", ["next"], ["each"])]
    inner = helper.make_graph(
        body,
        "body",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("sum", "part")],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [2]) for n in ("next", "each")],
    )
    scan = helper.make_node(
        "Scan", ["zero", "x"], ["last", "all"], name="scan", body=inner, num_scan_inputs=1, scan_input_axes=[1],
        scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1],
    )  # fmt: skip
    nodes = [scan, node("Exp", ["all"], ["y"]), node("Neg", ["last"], ["z"])]
    return make_model(nodes, {"x": [2, 3]}, ["y", "z"], {"zero": np.zeros(2, np.float32)})


LOOPS = {
    "counted": (loop_of(4, ends_itself=False), 4),
    # 6 numbers below 8 in sum are below 1 after three rounds or fewer; the last round still counts.
    "ends itself": (loop_of(50, ends_itself=True), None),
    "scan": (scan_backwards(), 3),
}


@pytest.mark.needs("onnxruntime")
@pytest.mark.parametrize("kind", LOOPS)
def test_a_loop_is_its_rounds_one_after_the_other(kind):
    """ONNX Runtime runs the loop as it is, and its rounds: the same bits; each round is judged."""
    import onnxruntime

    model, rounds = LOOPS[kind]
    x = {"x": random((2, 3), 5)}
    settled = settle_control_flow(make_network(model, "net"), x, make_network)
    assert all(n.operator not in ("Loop", "Scan") for n in settled.nodes)
    if rounds is None:
        rounds = int(np.ceil(np.log2(np.abs(x["x"]).sum())))
    assert any(f"compared as its {rounds} rounds" in note for note in settled.notes)
    results = [
        onnxruntime.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, x)
        for m in (model, settled.stored)
    ]
    assert [r.tobytes() for r in results[0]] == [r.tobytes() for r in results[1]]
    found = compare_model(make_network(model, "net"), ["onnxruntime", "truth"], inputs=x)
    assert found.verdict in ("identical", "rounding")
    assert all(side.failure is None and not side.unjudged for side in found.sides)
    assert any("rounds" in e.says for e in found.evidence)


def test_a_loop_that_lacks_its_body_stays_as_it_is():
    model = loop_of(4, ends_itself=False)
    loop = next(n for n in model.graph.node if n.op_type == "Loop")
    body = next(a.g for a in loop.attribute if a.name == "body")
    network = make_network(model, "net")
    broken = next(n for n in network.stored.graph.node if n.op_type == "Loop")
    for spoil in (lambda: body.input.pop(), lambda: loop.attribute.pop()):
        spoil()
        broken.CopyFrom(loop)
        kept = settle_control_flow(network, {"x": random((2, 3), 5)}, make_network)
        assert any(n.op_type == "Loop" for n in kept.stored.graph.node)


@pytest.mark.needs("onnxruntime")
def test_a_loop_of_many_rounds_stays_one_operation_that_is_not_judged():
    x = {"x": random((2, 3), 5)}
    found = compare_model(make_network(loop_of(500, ends_itself=False), "net"), ["onnxruntime"], inputs=x)
    assert found.sides[0].failure is None
    assert found.sides[0].unjudged == 1
    assert "1 operation was not judged: loop (Loop)" in found.summary


def make_unknown():
    """A Hardmax as it was before opset 13, which nobody judges, between two operations that are."""
    nodes = [
        node("Relu", ["x"], ["r"]), node("Hardmax", ["r"], ["d"]), node("Exp", ["d"], ["y"]),
    ]  # fmt: skip
    return make_network(make_model(nodes, {"x": [4, 9]}, ["y"], {}, opset=11), "net")


def shift(name, result, values):
    return result + np.float32(1e-3) if name == "d" else result


def test_an_operation_that_is_not_judged_is_named_alone():
    found = compare_model(make_unknown(), [ReferenceSide(), ReferenceSide("other", shift)])
    assert found.verdict == "rounding"
    assert "1 operation was not judged: hardmax_d (Hardmax)." in found.summary
    (unit,) = (u for u in found.units if not all(s.is_judged for s in u.sides))
    assert unit.operators == ["Hardmax"]
    assert [side.unjudged for side in found.sides] == [1, 1]
    assert [side.deviating for side in found.sides] == [0, 0]


def test_a_product_that_nobody_could_judge_leaves_its_side_open():
    """The product's value cannot be observed, so that it is one unit with what nobody can bound."""
    nodes = [node("MatMul", ["x", "w"], ["p"]), node("Hardmax", ["p"], ["d"]), node("Relu", ["d"], ["y"])]
    network = make_network(make_model(nodes, {"x": [4, 3]}, ["y"], {"w": random((3, 3), 1)}, opset=11), "net")
    hides = ReferenceSide("hides", alters_when_observed=["p"])
    found = compare_model(network, [hides, ReferenceSide("other", shift)])
    assert found.verdict == "undecided"
    assert "cannot be judged" in found.summary
    assert "2 operations were not judged: matmul_p to hardmax_d (MatMul+Hardmax), hardmax_d (Hardmax)." in found.summary


def test_equal_bits_are_identical_however_little_is_known():
    found = compare_model(make_unknown(), [ReferenceSide(), ReferenceSide("same")])
    assert found.verdict == "identical"
    assert "not judged" not in found.summary


def test_what_is_proved_leads_before_what_is_open():
    """The unit that nobody can judge stands first; the one that is wrong is named."""

    def spoil(name, result, values):
        return {"d": result * np.float32(1.5), "y": result * 2}.get(name, result)

    found = compare_model(make_unknown(), [ReferenceSide(), ReferenceSide("faulty", spoil)])
    assert found.verdict == "wrong"
    assert found.first == "exp_y"
    assert "faulty" in found.summary.split(".")[0]
    assert found.sides[0].verdict in ("identical", "rounding")


@pytest.mark.needs("onnxruntime")
def test_another_file_may_have_other_names():
    """Inputs and outputs are matched by position, also where a name of the one is a value within the other."""
    constants = {"w": random((3, 2), 1)}
    ours = build([node("MatMul", ["x", "w"], ["h"]), node("Relu", ["h"], ["y"])], {"x": [2, 3]}, constants=constants)
    nodes = [node("MatMul", ["input.1", "w"], ["y"]), node("Relu", ["y"], ["12"])]
    theirs = build(nodes, {"input.1": [2, 3]}, "12", constants)
    found = compare_model(
        make_network(ours, "ours"),
        ["onnxruntime"],
        against=make_network(theirs, "theirs"),
        inputs={"x": random((2, 3), 2)},
    )
    assert found.verdict == "identical"
    assert [side.failure for side in found.sides] == [None, None]


def test_numbers_that_are_narrow_by_right_say_nothing():
    """Sums far below their bias: what is right is the bias, whose few digits any format holds; a side is a bit off."""
    constants = {"w": random((64, 16, 1, 1), 1, 1e-12), "b": np.full(64, 0.5, np.float32)}
    nodes = [node("Conv", ["x", "w", "b"], ["y"])]
    network = make_network(make_model(nodes, {"x": [1, 16, 4, 4]}, ["y"], constants), "net")

    def move(name, result, values):
        moved = result.copy()
        moved[0, 0] = 0.515625
        return moved

    found = compare_model(network, [ReferenceSide(), ReferenceSide("moved", move)])
    assert found.sides[0].verdict in ("identical", "rounding")
    moved = found.units[0].sides[1]
    assert "numbers of" not in (moved.says or "")


def test_many_ifs_in_a_row_and_an_einsum_before_them():
    """Each is replaced where it stands in the file, though the einsum was read as several nodes."""
    nodes = [helper.make_node("Einsum", ["x", "w"], ["v0"], equation="ij,jk->ik")]
    for n in range(20):
        chosen = {"then_branch": branch("a", "Neg", f"v{n}"), "else_branch": branch("b", "Abs", f"v{n}")}
        nodes.append(helper.make_node("If", ["c"], [f"v{n + 1}"], **chosen))
    constants = {"c": np.array(True), "w": random((3, 3), 1)}
    model = build(nodes, {"x": [2, 3]}, "v20", constants)
    taken = settle_control_flow(make_network(model, "net"), {"x": random((2, 3), 2)}, make_network)
    assert [n.op_type for n in taken.stored.graph.node] == ["Einsum", *["Neg", "Add"] * 20]


def test_whole_numbers_beyond_float64_are_compared_as_they_are():
    """2^53 and 2^53 + 1 are one number of float64."""
    nodes = [helper.make_node("Add", ["x", "one"], ["y"])]
    types = [helper.make_tensor_value_info(n, TensorProto.INT64, [1]) for n in "xy"]
    one = numpy_helper.from_array(np.array([0], np.int64), "one")
    graph = helper.make_graph(nodes, "g", types[:1], types[1:], [one])
    network = make_network(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "net")
    x = {"x": np.array([2**53], np.int64)}
    sides = [ReferenceSide(), ReferenceSide("other", lambda name, result, values: result + 1)]
    assert [side.verdict for side in compare_model(network, sides, inputs=x).sides] == ["identical", "wrong"]
