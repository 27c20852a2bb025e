"""Every node test of ONNX's backend suite, as ONNX's reference and as ONNX Runtime compute it: all are right."""

import functools
import importlib.util
import warnings
from pathlib import Path

import numpy as np
import onnx
import pytest

from needed_engines import skip_without_engines
from networks.network_building import make_model, node, refer
from samebits.networks.onnx_reading import make_network
from samebits.networks.unit_judging import judge_unit
from samebits.networks.unit_reference import refer_unit
from samebits.networks.units import divide_network, fold_constants

# Left out of `make quick`.
pytestmark = pytest.mark.slow

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.loader import load_model_tests

    CASES = [c for c in load_model_tests(kind="node") if c.model is not None and len(c.model.graph.node) == 1]

ROOT = Path(__file__).parent.parent.parent

# What ONNX's own files expect with few decimals, or what ONNX Runtime does otherwise; judged right.
OTHERWISE = {
    "test_averagepool_2d_ceil_last_window_starts_on_pad": "the file's result is of an older reading of ceil_mode",
    "test_gridsample_bicubic": "the file's result has four decimals",
    "test_maxunpool_export_with_output_shape": "ONNX Runtime reads output_shape otherwise",
    "test_reduce_log_sum_empty_set": "log of nothing: an infinity without a bound",
    **dict.fromkeys(
        (
            "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal",
            "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal",
        ),
        "ONNX Runtime's masked scores are the lowest number, not -inf",
    ),
}


def judge(case, feeds, results):
    network = make_network(case.model, case.name)
    folded = fold_constants(network)
    found = []
    for unit in divide_network(network, folded, network.hidden):
        seen = {**feeds, **results}
        references = refer_unit(network, folded, unit, seen)
        judged = judge_unit(network, folded, unit, seen, references)
        found.append(judged.verdict if judged.is_judged else "not judged")
    return found


def read_case(case):
    """What is fed and what comes out; skipped where it is no array, or where the file cannot be read."""
    try:
        make_network(case.model, case.name)
    except Exception as error:
        pytest.skip(str(error)[-100:])
    inputs, outputs = case.data_sets[0]
    if not all(isinstance(array, np.ndarray) for array in (*inputs, *outputs)):
        pytest.skip("no plain arrays")
    graph = case.model.graph
    feeds = dict(zip((v.name for v in graph.input), inputs, strict=False))
    return feeds, dict(zip((v.name for v in graph.output), outputs, strict=False))


@functools.cache
def run_by_onnxruntime(number):
    import onnxruntime

    case = CASES[number]
    feeds, _ = read_case(case)
    try:
        session = onnxruntime.InferenceSession(case.model.SerializeToString(), providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return feeds, dict(zip(names, session.run(None, feeds), strict=True))
    except Exception:  # Not all of ONNX is there.
        return None


AGREE = {"identical", "rounding", "not judged"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(CASES)), ids=[c.name for c in CASES])
def test_sound_results_are_called_sound(number):
    case = CASES[number]
    feeds, results = read_case(case)
    assert case.name in OTHERWISE or set(judge(case, feeds, results)) <= AGREE
    skip_without_engines(["onnxruntime"])
    ran = run_by_onnxruntime(number)
    assert ran is None or case.name in OTHERWISE or set(judge(case, *ran)) <= AGREE


# What is judged must be able to fail: the same cases with one value of the result moved.
MOVED = (
    "test_lstm_with_initial_bias", "test_gru_defaults", "test_simple_rnn_with_initial_bias", "test_attention_4d",
    "test_reduce_l2_keep_dims_example", "test_reduce_log_sum_exp_default_axes_keepdims_example", "test_top_k",
    "test_argmax_default_axis_example", "test_gridsample", "test_rotary_embedding", "test_rms_normalization_2d_axis0",
    "test_lrn", "test_cumsum_1d", "test_quantizelinear", "test_triu", "test_thresholdedrelu_example",
    "test_resize_upsample_scales_nearest", "test_resize_downsample_scales_cubic", "test_resize_upsample_sizes_nearest",
    "test_resize_downsample_sizes_linear_antialias", "test_resize_upsample_scales_linear_align_corners", "test_dft",
    "test_dft_inverse", "test_stft_with_window", "test_lppool_2d_pads", "test_einsum_sum", "test_cumprod_1d",
    "test_col2im_pads", "test_deform_conv_with_mask_bias", "test_nonmaxsuppression_two_classes",
    "test_bitcast_bool_to_uint8", "test_roialign_aligned_true", "test_gridsample_nearest",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", MOVED)
def test_a_moved_value_is_seen(name):
    case = next(c for c in CASES if c.name == name)
    feeds, results = read_case(case)
    first = next(iter(results))
    moved = results[first].copy()
    place = np.unravel_index(np.argmax(moved), moved.shape)
    moved[place] = moved[place] - 3 if moved.dtype.kind in "iu" else moved[place] * 0.5 - 1
    assert set(judge(case, feeds, {**results, first: moved})) & {"wrong", "undecided"}


def test_the_page_is_what_the_tables_say():
    """`make operators` writes it; all but few operators are judged."""
    spec = importlib.util.spec_from_file_location("operators_page", ROOT / "benchmarks" / "operators_page.py")
    operators_page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(operators_page)
    page = (ROOT / "docs" / "operators.md").read_text()
    assert operators_page.write_table() in page
    assert page.endswith(operators_page.write_others())
    judged, total = (int(n) for n in page.split(" operators of opset")[0].rsplit("\n", 1)[1].split(" of "))
    assert total - judged == 6, "those that draw their values"


def test_an_operator_that_nobody_can_bound_stays_alone():
    nodes = [
        node("Relu", ["x"], ["r"]), node("RandomNormalLike", ["r"], ["d"]),
        node("Exp", ["d"], ["e"]), node("Neg", ["e"], ["y"]),
    ]  # fmt: skip
    network = make_network(make_model(nodes, {"x": [2, 3, 3]}, ["y"], {}), "test")
    units = divide_network(network, fold_constants(network))
    assert [unit.operators for unit in units] == [("Relu",), ("RandomNormalLike",), ("Exp", "Neg")]


def test_what_decides_sees_what_it_was_fed():
    """Of values with an error nobody knows which is the largest: they are observed first."""
    nodes = [node("Sigmoid", ["x"], ["s"]), node("ArgMax", ["s"], ["a"], axis=1)]
    nodes.append(node("Cast", ["a"], ["y"], to=onnx.TensorProto.FLOAT))
    network = make_network(make_model(nodes, {"x": [4, 9]}, ["y"], {}), "test")
    assert len(divide_network(network, fold_constants(network))) == 2


RIGHT, ALSO_RIGHT, WRONG = [2, 0, 1, -128], [3, 1, 1, -128], [4, 0, 1, -128]


@pytest.mark.parametrize(("codes", "is_right"), [(RIGHT, True), (ALSO_RIGHT, True), (WRONG, False)])
def test_codes_near_the_middle_may_be_either(codes, is_right):
    """x / 0.1 = 2.5 as a quotient, a hair off as a product with a reciprocal: 2 and 3 are right, 4 is not."""
    scale = np.float32(0.1)
    x = (np.array([2.5, 0.5, 1.2, -300.0]) * scale.astype(np.float64)).astype(np.float32)
    constants = [onnx.numpy_helper.from_array(a, n) for n, a in (("s", scale), ("z", np.zeros((), np.int8)))]
    x_type = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4])
    y_type = onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT8, [4])
    graph = onnx.helper.make_graph([node("QuantizeLinear", ["x", "s", "z"], ["y"])], "g", [x_type], [y_type], constants)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 19)], ir_version=9)
    network = make_network(model, "test")
    (unit,) = divide_network(network, fold_constants(network))
    seen = {"x": x, "y": np.array(codes, np.int8)}
    judged = judge_unit(
        network, fold_constants(network), unit, seen, refer_unit(network, {**network.constants}, unit, seen)
    )
    assert (judged.verdict in ("identical", "rounding")) == is_right
    assert judged.is_judged


@pytest.mark.needs("torch")
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers_are_torchs_in_float64(kind):
    import torch

    torch.manual_seed(0)
    layer = getattr(torch.nn, kind)(5, 7, bidirectional=True).double()
    x = torch.randn(6, 3, 5, dtype=torch.float64).float().double()
    order = {"LSTM": [0, 3, 1, 2], "GRU": [1, 0, 2], "RNN": [0]}[kind]

    def arrange(name):
        parts = [getattr(layer, f"{name}_l0{end}").detach().float().double() for end in ("", "_reverse")]
        return np.stack([np.concatenate([np.split(p.numpy(), len(order))[i] for i in order]) for p in parts])

    for parameter in layer.parameters():
        parameter.data = parameter.data.float().double()
    bias = np.concatenate([arrange("bias_ih"), arrange("bias_hh")], 1)
    constants = {"w": arrange("weight_ih"), "r": arrange("weight_hh"), "b": bias}
    attributes = {
        "hidden_size": 7,
        "direction": "bidirectional",
        **({"linear_before_reset": 1} if kind == "GRU" else {}),
    }
    nodes = [node(kind, ["x", "w", "r", "b"], ["y"], **attributes)]
    found = refer(nodes, {"x": x.numpy().astype(np.float32)}, {n: a.astype(np.float32) for n, a in constants.items()})
    expected = layer(x)[0].detach().numpy().reshape(6, 3, 2, 7).transpose(0, 2, 1, 3)
    assert np.abs(found.value - expected).max() < 1e-14
    assert 0 < found.bound.max() < 1e-4
