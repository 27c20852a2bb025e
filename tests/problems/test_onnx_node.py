"""ONNX nodes as problems: shapes against ONNX's own inference, values against onnxruntime and ONNX's reference."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from naive_convolution import compute
from samebits.errors import ProblemShapeError
from samebits.problems import parse_problem_text
from samebits.problems.languages.onnx_node import problem_from_onnx_node


def make_model(op_type, attributes, x, w, bias):
    names = ["x", "w", *(["b"] if bias else [])]
    channels = w[0] if op_type == "Conv" else w[1] * attributes.get("group", 1)
    shapes = {"x": x, "w": w, "b": (channels,)}
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shapes[n]) for n in names]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    node = helper.make_node(op_type, names, ["y"], **attributes)
    graph = helper.make_graph([node], "g", inputs, [output])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)


def infer_shape(op_type, attributes, x, w):
    inferred = onnx.shape_inference.infer_shapes(make_model(op_type, attributes, x, w, False), strict_mode=True)
    return tuple(d.dim_value for d in inferred.graph.output[0].type.tensor_type.shape.dim)


def read(op_type, attributes, x, w, *, bias=False):
    return problem_from_onnx_node(op_type, attributes, x, w, bias=bias, dtype="float32")


CONVOLUTIONS = [
    ({}, (1, 3, 8, 8), (4, 3, 3, 3)),
    ({"kernel_shape": [3, 2], "pads": [1, 0, 2, 1], "strides": [2, 1]}, (2, 3, 8, 7), (4, 3, 3, 2)),
    ({"dilations": [2, 1], "group": 2, "auto_pad": "NOTSET"}, (1, 4, 8, 7), (6, 2, 3, 3)),
    ({"auto_pad": "SAME_UPPER", "strides": [2, 3]}, (1, 2, 8, 7), (3, 2, 3, 4)),
    ({"auto_pad": "SAME_LOWER", "strides": [2, 1]}, (1, 2, 7, 8), (3, 2, 4, 3)),
    ({"auto_pad": "VALID", "strides": [2, 2]}, (1, 2, 7, 8), (3, 2, 4, 3)),
    ({"pads": [2, 1], "strides": [3]}, (2, 2, 9), (3, 2, 4)),
    ({"pads": [1, 0, 1, 0, 1, 2]}, (1, 2, 4, 3, 5), (2, 2, 2, 3, 3)),
]
TRANSPOSED = [
    ({}, (1, 3, 4, 5), (3, 2, 3, 3)),
    ({"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 0]}, (1, 3, 4, 5), (3, 2, 3, 3)),
    ({"group": 2, "dilations": [2]}, (2, 4, 5), (4, 3, 3)),
    ({"strides": [2], "output_shape": [11]}, (1, 2, 5), (2, 3, 3)),
    ({"strides": [2], "output_shape": [9]}, (1, 2, 5), (2, 3, 3)),
    ({"strides": [3], "output_shape": [16]}, (1, 2, 5), (2, 3, 3)),
    ({"strides": [2, 2], "output_shape": [9, 10], "auto_pad": "SAME_UPPER"}, (1, 2, 5, 5), (2, 3, 4, 3)),
    ({"auto_pad": "SAME_UPPER", "strides": [2, 2]}, (1, 2, 4, 5), (2, 3, 3, 4)),
    ({"auto_pad": "SAME_LOWER", "strides": [2, 2]}, (1, 2, 4, 5), (2, 3, 3, 4)),
    ({"auto_pad": "VALID", "strides": [2, 2]}, (1, 2, 4, 5), (2, 3, 3, 4)),
]
NODES = [("Conv", *node) for node in CONVOLUTIONS] + [("ConvTranspose", *node) for node in TRANSPOSED]


@pytest.mark.parametrize(("op_type", "attributes", "x", "w"), NODES)
def test_results_have_the_shape_that_onnx_infers(op_type, attributes, x, w):
    assert read(op_type, attributes, x, w).y_shape == infer_shape(op_type, attributes, x, w)


def is_run_by_the_reference(op_type, attributes):
    """ONNX's reference has no groups of a ConvTranspose (it slices its weights by outputs), and no output_shape."""
    return op_type == "Conv" or not ({"group", "output_shape"} & set(attributes))


@pytest.mark.parametrize(("op_type", "attributes", "x", "w"), NODES)
@pytest.mark.parametrize("bias", [True, False])
def test_exact_results_are_those_of_onnxruntime_and_of_the_reference(op_type, attributes, x, w, bias):
    problem = read(op_type, attributes, x, w, bias=bias)
    random = np.random.default_rng(0)
    operands = {n: random.integers(-4, 5, s) for n, s in problem.operand_shapes.items()}
    feeds = {n[0]: a.astype(np.float32) for n, a in operands.items()}
    model = make_model(op_type, attributes, x, w, bias)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    assert np.array_equal(session.run(None, feeds)[0], compute(problem, operands))
    if is_run_by_the_reference(op_type, attributes):
        assert np.array_equal(ReferenceEvaluator(model).run(None, feeds)[0], compute(problem, operands))


@pytest.mark.parametrize(("op_type", "attributes", "x", "w"), NODES)
def test_every_attribute_arrives(op_type, attributes, x, w):
    problem = read(op_type, attributes, x, w, bias=True)
    rank = len(x) - 2
    assert (problem.x, problem.w, problem.bias, problem.dtype) == (x, w, True, "float32")
    assert problem.kind == ("conv" if op_type == "Conv" else "conv_transpose") + f"{rank}d"
    assert problem.direction == "forward"
    assert problem.stride == tuple(attributes.get("strides", [1] * rank))
    assert problem.dilation == tuple(attributes.get("dilations", [1] * rank))
    assert problem.groups == attributes.get("group", 1)


def test_what_is_left_out_or_empty_has_the_default():
    plain = parse_problem_text("conv2d x=1x3x8x8 w=4x3x3x3")
    assert read("Conv", {}, plain.x, plain.w) == plain
    empty = {"strides": [], "dilations": [], "pads": [], "kernel_shape": [], "auto_pad": "NOTSET"}
    assert read("Conv", empty, plain.x, plain.w) == plain
    # VALID overrules pads.
    assert read("Conv", {"auto_pad": "VALID", "pads": [1, 1, 1, 1]}, plain.x, plain.w) == plain


def test_pads_are_all_beginnings_and_then_all_ends():
    problem = read("Conv", {"pads": [1, 2, 3, 4]}, (1, 1, 9, 9), (1, 1, 3, 3))
    assert problem.padding == ((1, 3), (2, 4))


def test_an_output_shape_is_met_by_padding_or_by_output_padding():
    for size, kernel, stride, upper in itertools.product((3, 5), (2, 3, 4), (1, 2, 3), (True, False)):
        full = (size - 1) * stride + kernel
        for wanted in range(max(full - 4, 1), full + stride):
            auto = {"auto_pad": "SAME_UPPER"} if upper else {}
            attributes = {"strides": [stride], "output_shape": [wanted], **auto}
            problem = read("ConvTranspose", attributes, (1, 1, size), (1, 1, kernel))
            assert problem.y_shape == (1, 1, wanted)
            (begin, end), (extra,) = problem.padding[0], problem.output_padding
            # ConvTranspose's documentation: the odd row goes to the end for SAME_UPPER, else to the beginning.
            total = max(full - wanted, 0)
            odd = (total // 2, total - total // 2)
            assert (begin, end) == (odd if upper else odd[::-1])
            assert extra == max(wanted - full, 0)


def test_an_output_shape_with_batch_and_channels_is_read_from_its_end():
    short = read("ConvTranspose", {"strides": [2], "output_shape": [9]}, (1, 2, 5), (2, 3, 3))
    assert read("ConvTranspose", {"strides": [2], "output_shape": [1, 3, 9]}, (1, 2, 5), (2, 3, 3)) == short


@pytest.mark.parametrize(
    ("op_type", "attributes", "x", "w", "says"),
    [
        ("ConvInteger", {}, (1, 1, 5), (1, 1, 3), "ONNX ConvInteger with 1 spatial axes"),
        ("Conv", {}, (1, 1), (1, 1), "0 spatial axes"),
        ("Conv", {}, (1, 1, 3, 3, 3, 3), (1, 1, 1, 1, 1, 1), "4 spatial axes"),
        ("Conv", {"kernel_shape": [3, 3]}, (1, 1, 5, 5), (1, 1, 3, 2), "kernel_shape"),
        ("Conv", {"group": 2}, (1, 3, 5), (2, 2, 3), "groups"),
        ("ConvTranspose", {"strides": [2], "output_shape": [30]}, (1, 1, 5), (1, 1, 3), "output_padding"),
        ("Conv", {"pads": [-1, 0]}, (1, 1, 5), (1, 1, 3), "negative"),
    ],
)
def test_a_node_that_is_no_problem_is_refused(op_type, attributes, x, w, says):
    with pytest.raises(ProblemShapeError, match=says):
        read(op_type, attributes, x, w)


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("ConvTranspose", {"pads": [1, 1]}),
        ("Conv", {"pads": 1}),
        ("Conv", {"pads": "1111"}),
        ("Conv", {"strides": [1.5, 1]}),
        ("Conv", {"strides": 2}),
        ("Conv", {"dilations": [1]}),
        ("Conv", {"kernel_shape": "NOTSET"}),
        ("Conv", {"auto_pad": [1, 1]}),
        ("Conv", {"auto_pad": "SAME"}),
        ("Conv", {"group": "two"}),
        ("Conv", {"group": None}),
        ("ConvTranspose", {"output_shape": [5]}),
        ("ConvTranspose", {"output_shape": "5x5"}),
        ("ConvTranspose", {"output_padding": [0, None]}),
    ],
)
def test_attributes_of_another_type_or_number_are_refused_in_one_line(operator, attributes):
    with pytest.raises(ProblemShapeError) as raised:
        problem_from_onnx_node(operator, attributes, (1, 4, 8, 8), (4, 4, 3, 3), bias=True, dtype="float32")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("x", "w"), [((1, 4, "8", 8), (4, 4, 3, 3)), ((1, 4, 8, 8), (4, 4, 3)), (5, (4, 4, 3, 3))])
def test_shapes_that_are_none_are_refused_in_one_line(x, w):
    with pytest.raises(ProblemShapeError):
        problem_from_onnx_node("Conv", {}, x, w, bias=False, dtype="float32")


def test_attributes_may_be_arrays_and_empty_ones_are_not_set():
    """As tools hold them; 9 = (5 - 1) * 2 + 3 - 2 is one column of padding on each side."""
    given = {"strides": np.array([2]), "output_shape": np.array([9]), "dilations": np.array([], np.int64)}
    problem = problem_from_onnx_node("ConvTranspose", given, (1, 2, 5), (2, 3, 3), bias=False, dtype="float32")
    assert (problem.stride, problem.dilation, problem.out_shape) == ((2,), (1,), (1, 3, 9))
