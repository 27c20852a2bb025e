"""A model of one operator by onnx.helper, run by ONNX Runtime or OpenVINO, as a script has it."""

from __future__ import annotations

from collections.abc import Mapping

from samebits.problems import Problem

_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}


def write_onnxruntime(problem: Problem, settings: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Lines that import, and those that make `result` of `operands`."""
    lines = [*_write_model(problem, settings), "options = onnxruntime.SessionOptions()"]
    if "threads" in settings:
        lines.append(f"options.intra_op_num_threads = {int(settings['threads'])}")
    if "optimization" in settings:
        level = _LEVELS[settings["optimization"]]
        lines.append(f"options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.{level}")
    return ["import onnx", "import onnxruntime"], [
        *lines,
        "session = onnxruntime.InferenceSession(",
        '    model.SerializeToString(), options, providers=["CPUExecutionProvider"]',
        ")",
        'result = session.run(["y"], feeds)[0].astype(np.float64)',
    ]


def write_openvino(problem: Problem, settings: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Lines that import, and those that make `result` of `operands`."""
    properties = {name: value for name, value in settings.items() if name != "weights"}
    lines = [*_write_model(problem, settings), "core = openvino.Core()"]
    if properties:
        lines.append(f'core.set_property("CPU", {properties!r})')
    return ["import onnx", "import openvino"], [
        *lines,
        'compiled = core.compile_model(core.read_model(model.SerializeToString()), "CPU")',
        "result = compiled(feeds)[0].astype(np.float64)",
    ]


def _write_model(problem: Problem, settings: Mapping[str, str]) -> list[str]:
    runtime = settings.get("weights") == "runtime"
    element = {"float64": "DOUBLE", "float16": "FLOAT16", "bfloat16": "BFLOAT16"}.get(problem.dtype, "FLOAT")
    fed = list(problem.operand_shapes) if runtime else ["x"]
    lines = [
        "helper, numpy_helper = onnx.helper, onnx.numpy_helper",
        f"element = onnx.TensorProto.{element}",
        "dtype = helper.tensor_dtype_to_np_dtype(element)",
        "arrays = {name: array.astype(dtype) for name, array in operands.items()}",
        f"feeds = {{name: arrays[name] for name in {fed}}}",
        "constants = [numpy_helper.from_array(a, name) for name, a in arrays.items() if name not in feeds]",
        "inputs = [helper.make_tensor_value_info(name, element, a.shape) for name, a in feeds.items()]",
    ]
    output = "sum" if problem.then else "y"
    lines += [f"nodes = [{_write_node(problem, output)}]"]
    lines += _write_linear_bias(problem, output) + _write_epilogue(problem)
    return [
        *lines,
        f'outputs = [helper.make_tensor_value_info("y", element, {problem.y_shape})]',
        'graph = helper.make_graph(nodes, "fault", inputs, outputs, constants)',
        'model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)',
    ]


def _write_node(problem: Problem, output: str) -> str:
    names = list(problem.operand_shapes)
    if problem.kind == "matmul":
        return f'helper.make_node("MatMul", ["x", "w"], ["{output}"])'
    if problem.kind == "linear" and len(problem.x) == 2:
        return f'helper.make_node("Gemm", {names}, ["{output}"], transB=1)'
    if problem.kind == "linear":
        product = "product" if problem.bias else output
        turned = 'helper.make_node("Transpose", ["w"], ["turned"], perm=[1, 0])'
        return f'{turned}, helper.make_node("MatMul", ["x", "turned"], ["{product}"])'
    axes = problem.axes
    pads = [a.pad_begin for a in axes] + [a.pad_end for a in axes]
    given = f"strides={list(problem.stride)}, pads={pads}, dilations={list(problem.dilation)}, group={problem.groups}"
    if problem.is_transposed:
        extra = [a.extra for a in axes]
        return f'helper.make_node("ConvTranspose", {names}, ["{output}"], {given}, output_padding={extra})'
    return f'helper.make_node("Conv", {names}, ["{output}"], {given})'


def _write_linear_bias(problem: Problem, output: str) -> list[str]:
    if problem.kind != "linear" or len(problem.x) == 2 or not problem.bias:
        return []
    return [f'nodes.append(helper.make_node("Add", ["product", "bias"], ["{output}"]))']


def _write_epilogue(problem: Problem) -> list[str]:
    if problem.then is None:
        return []
    if problem.then.name == "relu":
        return ['nodes.append(helper.make_node("Relu", ["sum"], ["y"]))']
    bounds = f'("low", float("{problem.then.low}")), ("high", float("{problem.then.high}"))'
    return [
        f"constants += [numpy_helper.from_array(np.array(v, dtype), name) for name, v in ({bounds})]",
        'nodes.append(helper.make_node("Clip", ["sum", "low", "high"], ["y"]))',
    ]
