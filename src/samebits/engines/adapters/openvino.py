"""OpenVINO on the CPU: each problem as a compiled model of one convolution or product and its epilogue."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.attention_operands import explain_no_cap, merge_mask, repeat_heads
from samebits.engines.adapters.engine import Engine, InForce, Prepared, Setting
from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem
from samebits.problems.attention import Attention

_YES_NO = ("YES", "NO")
_TYPES = {"float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16"}


class OpenvinoEngine(Engine):
    """Convolution, GroupConvolution, their BackpropData operators and MatMul on the CPU plugin.

    Its default precision is the hardware's: bfloat16 where the processor multiplies that, whatever the model's dtype.
    """

    name = "openvino"
    runs_onnx = True
    reads_data_files = True
    computes_attention = True
    settings: ClassVar[dict[str, Setting]] = {
        "INFERENCE_PRECISION_HINT": Setting("format the plugin computes in", "", ("f32", "bf16", "f16", "dynamic")),
        "EXECUTION_MODE_HINT": Setting("speed, or the model's own precision", "", ("PERFORMANCE", "ACCURACY")),
        "INFERENCE_NUM_THREADS": Setting("threads", is_number=True),
        "PERFORMANCE_HINT": Setting("what scheduling aims at", "", ("LATENCY", "THROUGHPUT", "CUMULATIVE_THROUGHPUT")),
        "ENABLE_CPU_PINNING": Setting("bind threads to cores", "", _YES_NO),
        "ENABLE_HYPER_THREADING": Setting("use both threads of a core", "", _YES_NO),
        "CPU_DENORMALS_OPTIMIZATION": Setting("flush subnormals to zero", "", _YES_NO),
        "weights": Setting(
            "weights stand in the model or arrive with each run", "constant", ("constant", "runtime"), of_problems=True
        ),
    }
    variables: ClassVar[dict[str, str]] = {
        "ONEDNN_MAX_CPU_ISA": "caps the instruction set of oneDNN's kernels",
        "OV_CPU_DISABLE": "switches optimisations of the CPU plugin off",
    }

    def load(self, settings: Mapping[str, str]) -> None:
        # Its telemetry keeps files in the home folder; openvino works without it where it cannot be imported.
        sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]  (None: cannot be imported)
        import openvino

        self.openvino: Any = openvino
        # Before release 2025.0 it was elsewhere.
        self.opset: Any = self.openvino.opset13 if hasattr(openvino, "opset13") else self.openvino.runtime.opset13
        self.core: Any = openvino.Core()
        self.constant_weights = settings.get("weights", "constant") == "constant"
        self.properties = {name: value for name, value in settings.items() if name != "weights"}
        self.core.set_property(self.device, self.properties)
        self.compiled: Any = None
        self._linked = ""

    def report(self) -> InForce:
        precision, threads = (self._property(n) for n in ("INFERENCE_PRECISION_HINT", "INFERENCE_NUM_THREADS"))
        in_force = {
            "INFERENCE_PRECISION_HINT": precision,
            "EXECUTION_MODE_HINT": self._property("EXECUTION_MODE_HINT"),
            "INFERENCE_NUM_THREADS": "all cores" if threads == "0" else threads,
            "CPU_DENORMALS_OPTIMIZATION": self._property("CPU_DENORMALS_OPTIMIZATION"),
            "weights": "constant" if self.constant_weights else "runtime",
        }
        notes: tuple[str, ...] = ()
        if precision not in ("f32", "dynamic") and "INFERENCE_PRECISION_HINT" not in self.properties:
            notes = (
                f"openvino computes in {precision} by default on this processor; "
                "openvino:INFERENCE_PRECISION_HINT=f32 asks for float32",
            )
        if {"EXECUTION_MODE_HINT", "INFERENCE_PRECISION_HINT"} <= set(self.properties):
            notes += (f"EXECUTION_MODE_HINT and INFERENCE_PRECISION_HINT compete; read back, {precision} won",)
        version = self.openvino.__version__.partition("-")[0]
        return InForce(version, self.device, in_force, notes)

    def _property(self, name: str) -> str:
        """A property as text: 'bf16' rather than "<Type: 'bfloat16'>", 'PERFORMANCE' rather than its enumeration."""
        value = self.core.get_property(self.device, name)
        if isinstance(value, self.openvino.Type):
            return "dynamic" if value == self.openvino.Type.dynamic else value.to_string()
        return str(value).rpartition(".")[2]

    def explain_unsupported(self, problem: Problem) -> str | None:
        if problem.direction != "forward":
            return "openvino has no gradients"
        if problem.out != problem.dtype:
            return "openvino's convolutions and products return their operands' dtype"
        if problem.dtype not in _TYPES:
            return f"openvino's CPU plugin computes no {problem.dtype}"
        return None

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        parameters: dict[str, Any] = {}
        nodes = {}
        for name, array in operands.items():
            constant = self.constant_weights and name != "x"
            node = self._constant(array, problem) if constant else self._parameter(array, problem)
            nodes[name] = node
            if not constant:
                parameters[name] = node
        result = self._graph(problem, nodes)
        model = self.openvino.Model([result], list(parameters.values()), "samebits")
        request = self.core.compile_model(model, self.device).create_infer_request()
        for name, node in parameters.items():
            tensor = self.openvino.Tensor(node.get_element_type(), self.openvino.Shape(operands[name].shape))
            tensor.data.view(np.uint8)[...] = operands[name].view(np.uint8)
            request.set_tensor(node.output(0), tensor)

        def read(_: Any) -> np.ndarray:
            output = request.get_output_tensor(0)
            return np.array(output.data).view(operands["x"].dtype).reshape(output.shape)

        return Prepared(request.infer, read)

    def explain_no_attention(self, problem: Attention) -> str | None:
        if problem.dtype not in _TYPES:
            return f"openvino's CPU plugin computes no {problem.dtype}"
        return explain_no_cap(problem, "openvino")

    def attend(self, problem: Attention, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        opset, element = self.opset, _TYPES[problem.dtype]
        feeds = [operands["q"], *(np.ascontiguousarray(repeat_heads(problem, operands[name])) for name in ("k", "v"))]
        is_causal = problem.causal == "upper_left" and problem.mask is None and problem.window is None
        mask = None if is_causal else merge_mask(problem, operands)
        parameters = [opset.parameter(list(array.shape), getattr(self.openvino.Type, element)) for array in feeds]
        if mask is not None:
            kind = "boolean" if mask.dtype == bool else element
            feeds.append(np.ascontiguousarray(mask))
            parameters.append(opset.parameter(list(mask.shape), getattr(self.openvino.Type, kind)))
        given: dict[str, Any] = {"causal": is_causal}
        if mask is not None or problem.scale is not None:
            given["attention_mask"] = parameters[3] if mask is not None else opset.constant(np.zeros(1, np.float32))
        if problem.scale is not None:
            given["scale"] = opset.constant(np.array(problem.scale, np.float32))
        node = opset.scaled_dot_product_attention(*parameters[:3], **given)
        request = self.core.compile_model(
            self.openvino.Model([node], parameters, "samebits"), self.device
        ).create_infer_request()
        for parameter, array in zip(parameters, feeds, strict=True):
            tensor = self.openvino.Tensor(parameter.get_element_type(), self.openvino.Shape(array.shape))
            tensor.data.view(np.uint8)[...] = array.view(np.uint8)
            request.set_tensor(parameter.output(0), tensor)
        request.infer()
        output = request.get_output_tensor(0)
        return np.array(output.data).view(operands["q"].dtype).reshape(problem.out_shape)

    def load_onnx(self, model: bytes, observed: Sequence[str]) -> None:
        self.compiled = None
        read = self.core.read_model(self._put_beside_data(model) if self.data_files[1] else model)
        ports = [port for port in read.outputs if port.get_element_type() == self.openvino.Type.bf16]
        self.narrow = {name for port in ports for name in port.get_names()}
        precision = self._property("INFERENCE_PRECISION_HINT")
        if precision in ("bf16", "f16") and observed:
            # Observed in float32, a value would be passed on unrounded, which does not happen unobserved. Values that
            # are computed in float32 anyway (some operators have no narrow kernel) must not be rounded here.
            wide = self._list_wide(read, observed)
            prepared = self.openvino.preprocess.PrePostProcessor(read)
            for port in read.outputs:
                if port.get_node().input_value(0).get_node().get_friendly_name() in wide:
                    continue
                if port.get_names() & set(observed) and port.get_element_type() == self.openvino.Type.f32:
                    wanted = getattr(self.openvino.Type, precision)
                    prepared.output(port.get_any_name()).tensor().set_element_type(wanted)
            read = prepared.build()
        self.compiled = self.core.compile_model(read, self.device)

    def _put_beside_data(self, model: bytes) -> str:
        """The model in a file, in a folder of its own that the files with its data are linked into, or copied."""
        folder, names = self.data_files
        for name in names if folder != self._linked else ():
            target = Path(self.scratch, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.unlink(missing_ok=True)
            try:
                os.link(Path(folder, name), target)
            except OSError:
                shutil.copyfile(Path(folder, name), target)
        self._linked = folder
        path = Path(self.scratch, "#samebits.onnx")
        path.write_bytes(model)
        return str(path)

    def _list_wide(self, read: Any, observed: Sequence[str]) -> set[str]:
        """The layers whose results the plugin keeps in float32 when nothing is observed, as its own model reports."""
        plain = read.clone()
        for result in plain.get_results():
            if result.input_value(0).get_names() & set(observed):
                plain.remove_result(result)
        found: set[str] = set()
        for node in self.core.compile_model(plain, self.device).get_runtime_model().get_ops():
            said = node.get_rt_info()
            if "outputPrecisions" in said and str(said["outputPrecisions"].astype(str)).upper() in ("FP32", "F32"):
                found.update(str(said["originalLayersNames"].astype(str)).split(","))
        return found

    def run_onnx(self, inputs: Mapping[str, np.ndarray], wanted: Sequence[str]) -> dict[str, np.ndarray]:
        request = self.compiled.create_infer_request()
        # Inputs that nothing reads are gone from the compiled model.
        taken = {name for port in self.compiled.inputs for name in port.get_names()}
        request.infer({name: self._feed(array) for name, array in inputs.items() if name in taken})
        return {name: self._read(request.get_tensor(name), name in self.narrow) for name in wanted}

    def _feed(self, array: np.ndarray) -> Any:
        """An array as what a request takes; bfloat16 is none of NumPy's own dtypes."""
        if array.dtype.name != "bfloat16":
            return array
        tensor = self.openvino.Tensor(self.openvino.Type.bf16, self.openvino.Shape(array.shape))
        tensor.data.view(np.uint8)[...] = np.ascontiguousarray(array).view(np.uint8)
        return tensor

    def _read(self, tensor: Any, is_narrow: bool) -> np.ndarray:
        """A tensor as an array: observed in a narrow format it becomes float32, if the network declares that."""
        element = tensor.get_element_type()
        if element == self.openvino.Type.bf16 and is_narrow:
            return np.array(tensor.data).view(numpy_dtype("bfloat16")).reshape(tensor.shape)
        if element == self.openvino.Type.bf16:
            codes = np.array(tensor.data).view(np.uint16).astype(np.uint32) << 16
            return codes.view(np.float32).reshape(tensor.shape)
        return np.array(tensor.data)

    def _type(self, problem: Problem) -> Any:
        return getattr(self.openvino.Type, _TYPES[problem.dtype])

    def _parameter(self, array: np.ndarray, problem: Problem) -> Any:
        return self.opset.parameter(list(array.shape), self._type(problem))

    def _constant(self, array: np.ndarray, problem: Problem) -> Any:
        tensor = self.openvino.Tensor(self._type(problem), self.openvino.Shape(array.shape))
        tensor.data.view(np.uint8)[...] = np.ascontiguousarray(array).view(np.uint8)
        return self.opset.constant(tensor)

    def _graph(self, problem: Problem, nodes: Mapping[str, Any]) -> Any:
        opset = self.opset
        y = self._multiply(problem, nodes) if problem.product else self._convolve(problem, nodes)
        if problem.then:
            y = opset.relu(y) if problem.then.name == "relu" else opset.clamp(y, problem.then.low, problem.then.high)
        return y

    def _multiply(self, problem: Problem, nodes: Mapping[str, Any]) -> Any:
        opset = self.opset
        y = opset.matmul(nodes["x"], nodes["w"], False, problem.kind == "linear")
        return opset.add(y, nodes["bias"]) if "bias" in nodes else y

    def _convolve(self, problem: Problem, nodes: Mapping[str, Any]) -> Any:
        opset = self.opset
        begin, end = [a.pad_begin for a in problem.axes], [a.pad_end for a in problem.axes]
        stride, dilation = list(problem.stride), list(problem.dilation)
        x, w = nodes["x"], nodes["w"]
        if problem.groups > 1:
            shape = [problem.groups, problem.w[0] // problem.groups, *problem.w[1:]]
            w = opset.reshape(w, np.array(shape, np.int64), False)
        if problem.is_transposed:
            operator = opset.convolution_backprop_data if problem.groups == 1 else opset.group_convolution_backprop_data
            extra = [a.extra for a in problem.axes]
            y = operator(
                x, w, stride, pads_begin=begin, pads_end=end, dilations=dilation, auto_pad="explicit",
                output_padding=extra,
            )  # fmt: skip
        else:
            operator = opset.convolution if problem.groups == 1 else opset.group_convolution
            y = operator(x, w, stride, begin, end, dilation)
        if "bias" in nodes:
            shape = np.array([1, -1] + [1] * problem.rank, np.int64)
            y = opset.add(y, opset.reshape(nodes["bias"], shape, False))
        return y
