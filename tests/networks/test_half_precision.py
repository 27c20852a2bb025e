"""Networks of float16 and bfloat16: what keeps more digits between operations is recognised, and is no fault."""

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from networks.network_building import node, random
from samebits.findings.causes import CauseCode
from samebits.judging.fixes.setting_changes import list_changes
from samebits.networks.model_comparing import compare_model
from samebits.networks.onnx_reading import make_network
from samebits.networks.unit_judging import judge_unit
from samebits.networks.unit_reference import refer_unit
from samebits.networks.units import divide_network, fold_constants

pytestmark = pytest.mark.usefixtures("warm_workers")

FORMATS = {"float16": (np.float16, TensorProto.FLOAT16), "bfloat16": (ml_dtypes.bfloat16, TensorProto.BFLOAT16)}
FIRST, SECOND = random((16, 32), 1, 0.3), random((32, 8), 2, 0.3)
X = random((4, 16), 3)


def two_products(name):
    """A product, a swish, and another product: all values of the format."""
    dtype, element = FORMATS[name]
    nodes = [
        node("MatMul", ["x", "w1"], ["h"]),
        node("Sigmoid", ["h"], ["s"]),
        node("Mul", ["h", "s"], ["g"]),
        node("MatMul", ["g", "w2"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info("x", element, [4, 16])],
        [helper.make_tensor_value_info("y", element, [4, 8])],
        [numpy_helper.from_array(w.astype(dtype), n) for n, w in (("w1", FIRST), ("w2", SECOND))],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    return make_network(model, "net")


def compute(name, *, rounds_between=True, spoil=None):
    """What an engine returns and shows: with or without a rounding of what the first product hands on."""
    dtype = FORMATS[name][0]
    x, w1, w2 = (a.astype(dtype).astype(np.float32) for a in (X, FIRST, SECOND))
    h = x @ w1
    g = h / (1 + np.exp(-h))
    shown = g.astype(dtype)
    handed = shown.astype(np.float32) if rounds_between else g
    handed = spoil(handed) if spoil else handed
    return {"x": X.astype(dtype), "g": shown, "y": (handed @ w2).astype(dtype)}


def judge_last(name, seen):
    network = two_products(name)
    folded = fold_constants(network)
    unit = next(u for u in divide_network(network, folded) if "y" in u.outputs)
    assert unit.inputs == ("g",)
    return judge_unit(network, folded, unit, seen, refer_unit(network, folded, unit, seen))


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_a_rounding_that_is_left_out_is_more_exact_and_no_fault(name):
    judged = judge_last(name, compute(name, rounds_between=False))
    assert (judged.verdict, judged.cause) == ("rounding", "excess-precision")
    assert judged.own.max_over_bound <= 1.0


@pytest.mark.parametrize("name", FORMATS)
def test_a_rounding_that_is_made_has_no_cause(name):
    judged = judge_last(name, compute(name))
    assert judged.verdict in ("identical", "rounding")
    assert judged.cause is None


def cut_digits(values):
    """Four bits fewer than bfloat16."""
    return (np.round(values * 16) / 16).astype(np.float32)


def leave_one_out(values):
    values = values.copy()
    values[:, 5] = 0
    return values


@pytest.mark.parametrize("spoil", [cut_digits, leave_one_out])
@pytest.mark.parametrize("name", FORMATS)
def test_a_fault_is_no_excess_of_digits(name, spoil):
    judged = judge_last(name, compute(name, spoil=spoil))
    assert judged.verdict in ("undecided", "wrong")
    assert judged.cause is None


@pytest.mark.parametrize(
    ("engine", "name"),
    [
        pytest.param("onnxruntime:threads=1", "float16", marks=pytest.mark.needs("onnxruntime")),
        # By default some processors have it compute in bfloat16.
        pytest.param("openvino:INFERENCE_PRECISION_HINT=f32", "float16", marks=pytest.mark.needs("openvino")),
        # Its arrays of bfloat16 have the name of float16.
        pytest.param("openvino", "bfloat16", marks=pytest.mark.needs("openvino")),
    ],
)
def test_a_half_file_is_rounding_on_engines_that_read_it(engine, name):
    found = compare_model(two_products(name), [engine, "truth"], inputs={"x": X.astype(FORMATS[name][0])})
    assert [side.failure for side in found.sides] == [None, None]
    assert found.verdict in ("identical", "rounding")
    assert [side.deviating for side in found.sides] == [0, 0]


NET = """
import torch
from torch import nn
from torch.utils import _pytree


class Answer(dict):
    pass


# As libraries do with the classes of their results.
_pytree.register_pytree_node(
    Answer, lambda a: (list(a.values()), list(a)), lambda values, names: Answer(zip(names, values)),
    serialized_type_name="strange.Answer",
    to_dumpable_context=lambda names: list(names), from_dumpable_context=lambda names: names,
)


class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        h = self.a(x)
        return Answer(y=self.b(nn.functional.silu(h) * h + x.repeat(1, 2)) + x, nothing=None)


def make():
    torch.manual_seed(0)
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(1))
    return Half().half().eval(), (x.half(),)
"""


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_a_half_module_with_a_result_of_its_own_class_agrees_with_itself_compiled(tmp_path):
    (tmp_path / "net.py").write_text(NET)
    found = compare_model(f"{tmp_path}/net.py:make", ["torch", "torch:compile=on"], attributes=False)
    eager, compiled = found.sides
    assert (eager.failure, compiled.failure) == (None, None)
    assert found.verdict == "rounding"
    assert (eager.cause, compiled.cause) == (None, "excess-precision")
    assert "torch:compile=on keeps more digits between operations" in found.summary


def test_the_setting_that_is_there_for_the_cause_is_tried_before_what_was_asked_for():
    changes = list_changes("torch:compile=on", None, CauseCode.EXCESS_PRECISION, {})
    assert [c.says for c in changes if c.is_meant] == ["env.TORCHINDUCTOR_EMULATE_PRECISION_CASTS=1"]
    assert not any(c.is_meant for c in list_changes("torch:compile=on", None, CauseCode.SUMMATION_ORDER, {}))


@pytest.mark.parametrize(
    ("dtype", "cuts_between", "verdict", "says"),
    [
        (ml_dtypes.bfloat16, True, "downgrade", "bfloat16"),
        (ml_dtypes.bfloat16, False, "downgrade", "returns numbers of bfloat16 only"),
        (np.float16, True, "rounding", "within its bound"),
    ],
)
def test_a_float16_network_computed_in_bfloat16_is_called_so(dtype, cuts_between, verdict, says):
    """By ml_dtypes: as some processors run such a file; the same arithmetic in float16 is the control."""

    def cut(array):
        return array.astype(dtype).astype(np.float32)

    x, w1, w2 = (cut(a.astype(np.float16)) for a in (X, FIRST, SECOND))
    h = x @ w1
    h = cut(h) if cuts_between else h
    g = h / (1 + np.exp(-h))
    g = cut(g) if cuts_between else g
    seen = {"g": g.astype(np.float16), "y": cut(g @ w2).astype(np.float16)}
    inputs = {"x": X.astype(np.float16)}
    found = compare_model(two_products("float16"), [], inputs=inputs, recorded={"phone": seen})
    assert found.verdict == verdict
    assert says in found.summary
