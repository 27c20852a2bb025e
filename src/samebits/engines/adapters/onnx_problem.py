"""A problem as an ONNX model: one Conv, ConvTranspose, Gemm or MatMul and its epilogue."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from samebits.errors import EngineUnsupported
from samebits.problems import Problem

_OPSET = 17


def import_onnx(engine: str) -> Any:
    """The onnx package, whose models ask an engine. Raises EngineUnsupported where it is missing."""
    try:
        import onnx
    except ModuleNotFoundError:
        raise EngineUnsupported(f"{engine} is asked by models that onnx makes: it is needed there, too") from None
    return onnx


def explain_no_model(problem: Problem) -> str | None:
    """Why a problem is no such model; None where it is one."""
    if problem.direction != "forward":
        return "ONNX has no gradients"
    if problem.out != problem.dtype:
        return "ONNX's Conv, Gemm and MatMul return their operands' dtype"
    return None


def build_model(onnx: Any, problem: Problem, constants: Mapping[str, np.ndarray], *, linear_as: str = "") -> Any:
    """The model that computes `y` from the operands; those in `constants` are stored in the model.

    `linear_as` is "gemm", "matmul" or "": what torch's exporter makes of it. `onnx` is the package.
    """
    helper, numpy_helper = onnx.helper, onnx.numpy_helper
    element = helper.np_dtype_to_tensor_dtype(np.dtype(problem.dtype))
    inputs = [
        helper.make_tensor_value_info(name, element, shape)
        for name, shape in problem.operand_shapes.items()
        if name not in constants
    ]
    tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
    nodes = (
        [_make_convolution(onnx, problem)]
        if problem.product is None
        else _make_product(onnx, problem, tensors, linear_as)
    )
    if problem.then:
        nodes.append(_make_epilogue(onnx, problem, tensors))
    graph = helper.make_graph(
        nodes, "samebits", inputs, [helper.make_tensor_value_info("y", element, problem.y_shape)], tensors
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)


def _make_convolution(onnx: Any, problem: Problem) -> Any:
    pads = [a.pad_begin for a in problem.axes] + [a.pad_end for a in problem.axes]
    attributes: dict[str, Any] = {
        "pads": pads, "strides": problem.stride, "dilations": problem.dilation, "group": problem.groups,
        "kernel_shape": problem.w[2:],
    }  # fmt: skip
    if problem.is_transposed:
        attributes["output_padding"] = [a.extra for a in problem.axes]
    operator = "ConvTranspose" if problem.is_transposed else "Conv"
    output = "sum" if problem.then else "y"
    return onnx.helper.make_node(operator, list(problem.operand_shapes), [output], **attributes)


def _make_product(onnx: Any, problem: Problem, tensors: list[Any], linear_as: str) -> list[Any]:
    helper, output = onnx.helper, "sum" if problem.then else "y"
    if problem.kind == "matmul":
        return [helper.make_node("MatMul", ["x", "w"], [output])]
    flat = len(problem.x) == 2
    if (linear_as or ("gemm" if flat else "matmul")) == "gemm":
        return _make_gemm(onnx, problem, tensors, output, flat=flat)
    nodes: list[Any] = []
    for i, tensor in enumerate(tensors):
        if tensor.name == "w":
            array = np.ascontiguousarray(onnx.numpy_helper.to_array(tensor).T)
            tensors[i] = onnx.numpy_helper.from_array(array, "w_turned")
            break
    else:
        nodes.append(helper.make_node("Transpose", ["w"], ["w_turned"], perm=[1, 0]))
    product = "product" if problem.bias else output
    nodes.append(helper.make_node("MatMul", ["x", "w_turned"], [product]))
    if problem.bias:
        nodes.append(helper.make_node("Add", ["product", "bias"], [output]))
    return nodes


def _make_gemm(onnx: Any, problem: Problem, tensors: list[Any], output: str, *, flat: bool) -> list[Any]:
    """Gemm takes two axes; more are put together before it and taken apart after it."""
    helper = onnx.helper
    names = ["x" if flat else "x_flat", *list(problem.operand_shapes)[1:]]
    gemm = helper.make_node("Gemm", names, [output if flat else "y_flat"], transB=1)
    if flat:
        return [gemm]
    for name, shape in (("shape_flat", (-1, problem.x[-1])), ("shape", problem.y_shape)):
        tensors.append(onnx.numpy_helper.from_array(np.array(shape, np.int64), name))
    return [
        helper.make_node("Reshape", ["x", "shape_flat"], ["x_flat"]),
        gemm,
        helper.make_node("Reshape", ["y_flat", "shape"], [output]),
    ]


def _make_epilogue(onnx: Any, problem: Problem, tensors: list[Any]) -> Any:
    assert problem.then is not None
    helper = onnx.helper
    if problem.then.name == "relu":
        return helper.make_node("Relu", ["sum"], ["y"])
    for name, bound in (("low", problem.then.low), ("high", problem.then.high)):
        tensors.append(onnx.numpy_helper.from_array(np.array(bound, np.dtype(problem.dtype)), name))
    return helper.make_node("Clip", ["sum", "low", "high"], ["y"])
