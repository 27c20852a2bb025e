"""Every convolution with stored data in ONNX's own backend test suite, judged by the derived bound."""

import warnings
from pathlib import Path
from typing import ClassVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from samebits.errors import ProblemShapeError
from samebits.problems.languages.onnx_node import problem_from_onnx_node
from samebits.sums.bounds import bound_errors
from samebits.sums.truth import compute_truth

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from onnx.backend.test.loader import load_model_tests

    SUITE = [c for kind in ("node", "pytorch-operator", "pytorch-converted") for c in load_model_tests(kind=kind)]


def convolution_of(model: onnx.ModelProto) -> onnx.NodeProto | None:
    """The model's only node, if that is a convolution."""
    nodes = [n for n in model.graph.node if n.op_type != "Constant"]
    return nodes[0] if len(nodes) == 1 and nodes[0].op_type in ("Conv", "ConvTranspose") else None


def is_convolution(case) -> bool:
    model = case.model or onnx.load(Path(case.model_dir) / "model.onnx")
    return convolution_of(model) is not None


CASES = [c for c in SUITE if "conv" in c.name.lower() and is_convolution(c)]


def data_sets(case):
    """The model and its (inputs, outputs), from the files of the suite or as it made them in memory."""
    if case.model is not None:
        return case.model, list(case.data_sets)
    model = onnx.load(Path(case.model_dir) / "model.onnx")
    sets = []
    for folder in sorted(Path(case.model_dir).glob("test_data_set_*")):
        arrays = [
            [numpy_helper.to_array(onnx.load_tensor(folder / f"{part}_{i}.pb")) for i in range(count)]
            for part, count in (("input", len(list(folder.glob("input_*.pb")))), ("output", 1))
        ]
        sets.append(arrays)
    return model, sets


def test_the_suite_has_the_convolutions_we_think_it_has():
    assert len(CASES) >= 45


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_the_suite_agrees_with_the_truth_within_the_bound(case):
    model, sets = data_sets(case)
    node = convolution_of(model)
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes = {k: v.decode() if isinstance(v, bytes) else v for k, v in attributes.items()}
    initializers = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    feeds = [i.name for i in model.graph.input if i.name not in initializers]
    assert sets
    for inputs, outputs in sets:
        values = initializers | dict(zip(feeds, map(np.asarray, inputs), strict=True))
        operands = dict(zip(("x", "w", "bias"), (values[name] for name in node.input if name), strict=False))
        x, w = operands["x"], operands["w"]
        problem = problem_from_onnx_node(
            node.op_type, attributes, x.shape, w.shape, bias="bias" in operands, dtype=x.dtype.name
        )
        truth = compute_truth(problem, operands).values
        expected = np.asarray(outputs[0])
        assert truth.shape == expected.shape
        error = np.abs(truth.astype(np.float64) - expected)
        assert (error <= bound_errors(problem, operands, truth)).all()


class CorrectlyRoundedConv(OpRun):
    """ONNX's Conv for its reference evaluator; remembers how far its result may be from anybody's."""

    op_domain = ""
    bounds: ClassVar[list[np.ndarray]] = []

    def _run(self, x, w, bias=None, **attributes):
        given = {name: value for name, value in attributes.items() if value is not None}
        operands = {"x": x, "w": w} | ({} if bias is None else {"bias": bias})
        problem = problem_from_onnx_node("Conv", given, x.shape, w.shape, bias=bias is not None, dtype=x.dtype.name)
        truth = compute_truth(problem, operands).values
        self.bounds.append(bound_errors(problem, operands, truth))
        return (truth,)


CorrectlyRoundedConv.__name__ = "Conv"


def ends_in_its_convolution(case) -> bool:
    """Whether a model of several nodes returns its only Conv's result unchanged."""
    if case.model is None:
        return False
    nodes = case.model.graph.node
    convolutions = [n for n in nodes if n.op_type == "Conv"]
    last = [n for n in nodes if n.output[0] == case.model.graph.output[0].name]
    return (
        len(convolutions) == 1
        and len(nodes) > 1
        and last[0].op_type == "Identity"
        and last[0].input[0] == convolutions[0].output[0]
    )


COMPOSED = [c for c in SUITE if ends_in_its_convolution(c)]


def test_the_suite_has_convolutions_inside_of_larger_models():
    assert len(COMPOSED) >= 8


@pytest.mark.parametrize("case", COMPOSED, ids=lambda c: c.name)
def test_a_convolution_inside_a_model_agrees_with_the_truth_within_the_bound(case):
    evaluator = ReferenceEvaluator(case.model, new_ops=[CorrectlyRoundedConv])
    for inputs, outputs in case.data_sets:
        CorrectlyRoundedConv.bounds.clear()
        names = [i.name for i in case.model.graph.input]
        result = evaluator.run(None, dict(zip(names, map(np.asarray, inputs), strict=True)))[0]
        (bound,) = CorrectlyRoundedConv.bounds
        assert (np.abs(result.astype(np.float64) - np.asarray(outputs[0])) <= bound).all()


def load_case(case) -> onnx.ModelProto:
    return case.model or onnx.load(Path(case.model_dir) / "model.onnx")


def product_of(model: onnx.ModelProto) -> onnx.NodeProto | None:
    """The model's only MatMul or Gemm, if nothing but constants and one transposition stands beside it."""
    others = [n for n in model.graph.node if n.op_type not in ("Constant", "Transpose")]
    return others[0] if len(others) == 1 and others[0].op_type in ("MatMul", "Gemm") else None


PRODUCTS = [c for c in SUITE if product_of(load_case(c)) is not None]
# alpha, beta, a bias of other shapes than one row: refused as what no problem can express.
NOT_EXPRESSIBLE = {"test_gemm_alpha", "test_gemm_beta", "test_gemm_all_attributes", "test_gemm_default_matrix_bias"}


def test_the_suite_has_the_products_we_think_it_has():
    assert len(PRODUCTS) >= 20
    assert {c.name for c in PRODUCTS} >= NOT_EXPRESSIBLE


def product_operands(model, node, inputs) -> tuple[dict, dict]:
    """The node's attributes, and its operands as they are multiplied."""
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes.pop("broadcast", None)
    values = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    feeds = [i.name for i in model.graph.input if i.name not in values]
    values |= dict(zip(feeds, map(np.asarray, inputs), strict=True))
    for other in model.graph.node:
        if other.op_type == "Constant":
            values[other.output[0]] = numpy_helper.to_array(other.attribute[0].t)
        elif other.op_type == "Transpose":
            values[other.output[0]] = values[other.input[0]].T
    given = [values[name] for name in node.input if name]
    if len(given) > 2 and attributes.get("beta", 1.0) == 0.0:
        given.pop()
    return attributes, dict(zip(("x", "w", "bias"), given, strict=False))


@pytest.mark.parametrize("case", PRODUCTS, ids=lambda c: c.name)
def test_the_suites_products_agree_with_the_truth_within_the_bound(case):
    model, sets = data_sets(case)
    node = product_of(model)
    assert sets
    for inputs, outputs in sets:
        attributes, operands = product_operands(model, node, inputs)
        x, w = operands["x"], operands["w"]
        has_row = "bias" in operands and operands["bias"].size in (1, w.shape[0 if attributes.get("transB") else -1])
        if case.name in NOT_EXPRESSIBLE:
            if set(attributes) & {"alpha", "beta"}:
                with pytest.raises(ProblemShapeError, match=r"alpha|beta"):
                    problem_from_onnx_node("Gemm", attributes, x.shape, w.shape, bias=True, dtype="float32")
            assert set(attributes) & {"alpha", "beta"} or not has_row
            continue
        problem = problem_from_onnx_node(
            node.op_type, attributes, x.shape, w.shape, bias="bias" in operands, dtype=x.dtype.name
        )
        if node.op_type == "Gemm":
            operands["x"] = x.T if attributes.get("transA") else x
            turned = bool(attributes.get("transB")) != (problem.kind == "linear")
            operands["w"] = w.T if turned else w
        if problem.bias:
            operands["bias"] = np.broadcast_to(operands["bias"].reshape(-1), problem.w[:1])
        operands = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in operands.items()}
        truth = compute_truth(problem, operands).values
        expected = np.asarray(outputs[0])
        assert truth.shape == expected.shape
        error = np.abs(truth.astype(np.float64) - expected)
        assert (error <= bound_errors(problem, operands, truth)).all()


class CheckedMatMul(OpRun):
    """ONNX's MatMul for its reference evaluator: correctly rounded, and compared with NumPy's product in float64."""

    op_domain = ""
    compared: ClassVar[list[int]] = []

    def _run(self, a, b):
        if 0 in (*a.shape, *b.shape):
            return (np.matmul(a, b),)
        problem = problem_from_onnx_node("MatMul", {}, a.shape, b.shape, bias=False, dtype=a.dtype.name)
        operands = {"x": a, "w": b}
        truth = compute_truth(problem, operands).values
        with np.errstate(all="ignore"):
            other = np.matmul(a.astype(np.float64), b.astype(np.float64))
            error = np.abs(truth.astype(np.float64) - other)
        bound = bound_errors(problem, operands, truth)
        assert (np.isnan(other) == np.isnan(truth)).all()
        assert ((error <= bound) | ~np.isfinite(other)).all()
        self.compared.append(truth.size)
        return (truth,)


CheckedMatMul.__name__ = "MatMul"
WITH_PRODUCTS = [c for c in SUITE if c.model and len(c.model.graph.node) > 1 and product_of(c.model) is None
                 and any(n.op_type == "MatMul" for n in c.model.graph.node)]  # fmt: skip


def test_the_suite_has_products_inside_of_larger_models():
    assert len(WITH_PRODUCTS) >= 90


@pytest.mark.parametrize("case", WITH_PRODUCTS, ids=lambda c: c.name)
def test_products_inside_of_larger_models_are_within_the_bound(case):
    evaluator = ReferenceEvaluator(case.model, new_ops=[CheckedMatMul])
    CheckedMatMul.compared.clear()
    for inputs, _ in case.data_sets:
        feeds = dict(zip([i.name for i in case.model.graph.input], inputs, strict=False))
        with np.errstate(
            all="ignore"
        ):  # Rows that are masked as a whole: what the evaluator itself makes of infinities.
            evaluator.run(None, feeds)
    assert CheckedMatMul.compared
