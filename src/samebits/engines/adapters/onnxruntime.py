"""ONNX Runtime on the CPU: each problem as a model of one convolution or product and its epilogue."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import ON_OFF, THREADS, Engine, InForce, Prepared, Setting
from samebits.errors import EngineUnsupported
from samebits.problems import Problem

_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}
_OPSET = 17


class OnnxruntimeEngine(Engine):
    """An inference session of Conv, ConvTranspose, Gemm or MatMul on the CPU execution provider.

    `linear` is what torch's exporter makes of it: Gemm where x has two axes, else MatMul with transposed weights, Add.
    """

    name = "onnxruntime"
    runs_onnx = True
    settings: ClassVar[dict[str, Setting]] = {
        "threads": THREADS,
        "optimization": Setting("graph optimization level", "all", tuple(_LEVELS)),
        "weights": Setting(
            "weights stand in the model or arrive with each run", "constant", ("constant", "runtime"), of_problems=True
        ),
        "flush_denormal": Setting("session.set_denormal_as_zero", "off", ON_OFF),
        "conv1d_as": Setting(
            "run 1-D problems as they are, or as tf2onnx exports them: in 2-D with a first axis of size 1",
            "conv1d",
            ("conv1d", "conv2d"),
            of_problems=True,
        ),
        "linear_as": Setting("the operator that computes linear", "", ("gemm", "matmul"), of_problems=True),
    }
    variables: ClassVar[dict[str, str]] = {
        "OMP_NUM_THREADS": "threads, in builds with OpenMP",
        "ORT_MLAS_DISABLE_KLEIDIAI": "forbids KleidiAI kernels on Arm",
        "NVIDIA_TF32_OVERRIDE": "0 forbids TF32 in every NVIDIA library",
    }

    def load(self, settings: Mapping[str, str]) -> None:
        try:
            import onnx
        except ModuleNotFoundError:
            raise EngineUnsupported("onnxruntime is asked by models that onnx makes: it is needed there, too") from None
        # It would keep a file of its own in the home folder and report to its maker.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        self.onnx: Any = onnx
        self.runtime: Any = onnxruntime
        self.given = dict(settings)
        self.session: Any = None
        onnxruntime.set_default_logger_severity(3)

    def report(self) -> InForce:
        options = self._options()
        in_force = {
            "threads": str(options.intra_op_num_threads or "all cores"),
            "optimization": self.given.get("optimization", "all"),
            "weights": self.given.get("weights", "constant"),
            "flush_denormal": self.given.get("flush_denormal", "off"),
            "conv1d_as": self.given.get("conv1d_as", "conv1d"),
            "linear_as": self.given.get("linear_as", "gemm where x has two axes, else matmul"),
            "provider": "CPUExecutionProvider",
        }
        return InForce(self.runtime.__version__, self.device, in_force)

    def explain_unsupported(self, problem: Problem) -> str | None:
        if problem.direction != "forward":
            return "onnxruntime's inference package has no gradients"
        if problem.out != problem.dtype:
            return "ONNX's Conv, Gemm and MatMul return their operands' dtype"
        if problem.product:
            known = problem.dtype in ("float32", "float64", "float16")
            return None if known else f"onnxruntime's CPU MatMul takes no {problem.dtype}"
        if problem.dtype not in ("float32", "float16"):
            return f"onnxruntime's CPU Conv takes no {problem.dtype}"
        return None

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        if problem.rank == 1 and self.given.get("conv1d_as") == "conv2d":
            operands = {n: a if n == "bias" else a[:, :, None, :] for n, a in operands.items()}
            return self._prepare_model(_in_two_dimensions(problem), operands, problem.out_shape)
        return self._prepare_model(problem, operands, problem.out_shape)

    def _prepare_model(self, problem: Problem, operands: Mapping[str, np.ndarray], shape: tuple[int, ...]) -> Prepared:
        runtime_weights = self.given.get("weights") == "runtime"
        constants = {} if runtime_weights else {n: a for n, a in operands.items() if n != "x"}
        model = self._build_model(problem, constants)
        session = self.runtime.InferenceSession(
            model.SerializeToString(), self._options(), providers=["CPUExecutionProvider"]
        )
        feeds = {name: array for name, array in operands.items() if name not in constants}
        return Prepared(lambda: session.run(["y"], feeds), lambda results: results[0].reshape(shape))

    def load_onnx(self, model: bytes, observed: Sequence[str]) -> None:
        self.session = None
        self.session = self.runtime.InferenceSession(model, self._options(), providers=["CPUExecutionProvider"])

    def run_onnx(self, inputs: Mapping[str, np.ndarray], wanted: Sequence[str]) -> dict[str, np.ndarray]:
        # Asking for fewer outputs leaves the session's graph as it is.
        return dict(zip(wanted, self.session.run(list(wanted), dict(inputs)), strict=True))

    def _options(self) -> Any:
        options = self.runtime.SessionOptions()
        level = _LEVELS[self.given.get("optimization", "all")]
        options.graph_optimization_level = getattr(self.runtime.GraphOptimizationLevel, level)
        if "threads" in self.given:
            options.intra_op_num_threads = int(self.given["threads"])
        if self.given.get("flush_denormal") == "on":
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        return options

    def _build_model(self, problem: Problem, constants: Mapping[str, np.ndarray]) -> Any:
        helper, numpy_helper = self.onnx.helper, self.onnx.numpy_helper
        element = helper.np_dtype_to_tensor_dtype(np.dtype(problem.dtype))
        inputs = [
            helper.make_tensor_value_info(name, element, shape)
            for name, shape in problem.operand_shapes.items()
            if name not in constants
        ]
        tensors = [numpy_helper.from_array(array, name) for name, array in constants.items()]
        nodes = [self._convolution(problem)] if problem.product is None else self._product(problem, tensors)
        if problem.then:
            nodes.append(self._epilogue(problem, tensors))
        graph = helper.make_graph(
            nodes, "samebits", inputs, [helper.make_tensor_value_info("y", element, problem.y_shape)], tensors
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)

    def _convolution(self, problem: Problem) -> Any:
        pads = [a.pad_begin for a in problem.axes] + [a.pad_end for a in problem.axes]
        attributes: dict[str, Any] = {
            "pads": pads, "strides": problem.stride, "dilations": problem.dilation, "group": problem.groups,
            "kernel_shape": problem.w[2:],
        }  # fmt: skip
        if problem.is_transposed:
            attributes["output_padding"] = [
                a.size_large
                - ((a.size_small - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 - a.pad_begin - a.pad_end)
                for a in problem.axes
            ]
        operator = "ConvTranspose" if problem.is_transposed else "Conv"
        output = "sum" if problem.then else "y"
        return self.onnx.helper.make_node(operator, list(problem.operand_shapes), [output], **attributes)

    def _product(self, problem: Problem, tensors: list[Any]) -> list[Any]:
        helper, output = self.onnx.helper, "sum" if problem.then else "y"
        if problem.kind == "matmul":
            return [helper.make_node("MatMul", ["x", "w"], [output])]
        flat = len(problem.x) == 2
        if (self.given.get("linear_as") or ("gemm" if flat else "matmul")) == "gemm":
            return self._gemm(problem, tensors, output, flat=flat)
        nodes: list[Any] = []
        for i, tensor in enumerate(tensors):
            if tensor.name == "w":
                array = np.ascontiguousarray(self.onnx.numpy_helper.to_array(tensor).T)
                tensors[i] = self.onnx.numpy_helper.from_array(array, "w_turned")
                break
        else:
            nodes.append(helper.make_node("Transpose", ["w"], ["w_turned"], perm=[1, 0]))
        product = "product" if problem.bias else output
        nodes.append(helper.make_node("MatMul", ["x", "w_turned"], [product]))
        if problem.bias:
            nodes.append(helper.make_node("Add", ["product", "bias"], [output]))
        return nodes

    def _gemm(self, problem: Problem, tensors: list[Any], output: str, *, flat: bool) -> list[Any]:
        """Gemm takes two axes; more are put together before it and taken apart after it."""
        helper = self.onnx.helper
        names = ["x" if flat else "x_flat", *list(problem.operand_shapes)[1:]]
        gemm = helper.make_node("Gemm", names, [output if flat else "y_flat"], transB=1)
        if flat:
            return [gemm]
        for name, shape in (("shape_flat", (-1, problem.x[-1])), ("shape", problem.y_shape)):
            tensors.append(self.onnx.numpy_helper.from_array(np.array(shape, np.int64), name))
        return [
            helper.make_node("Reshape", ["x", "shape_flat"], ["x_flat"]),
            gemm,
            helper.make_node("Reshape", ["y_flat", "shape"], [output]),
        ]

    def _epilogue(self, problem: Problem, tensors: list[Any]) -> Any:
        assert problem.then is not None
        helper = self.onnx.helper
        if problem.then.name == "relu":
            return helper.make_node("Relu", ["sum"], ["y"])
        for name, bound in (("low", problem.then.low), ("high", problem.then.high)):
            tensors.append(self.onnx.numpy_helper.from_array(np.array(bound, np.dtype(problem.dtype)), name))
        return helper.make_node("Clip", ["sum", "low", "high"], ["y"])


def _in_two_dimensions(problem: Problem) -> Problem:
    """The 2-D problem with a first spatial axis of size 1 that computes a 1-D one."""
    (axis,) = problem.axes
    return replace(
        problem,
        kind="conv_transpose2d" if problem.is_transposed else "conv2d",
        x=(*problem.x[:2], 1, problem.x[2]),
        w=(*problem.w[:2], 1, problem.w[2]),
        stride=(1, axis.stride),
        padding=((0, 0), (axis.pad_begin, axis.pad_end)),
        dilation=(1, axis.dilation),
        output_padding=(0, *problem.output_padding),
    )
