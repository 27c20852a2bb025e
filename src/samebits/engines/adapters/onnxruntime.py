"""ONNX Runtime on the CPU: each problem as a model of one convolution or product and its epilogue."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import ON_OFF, THREADS, Engine, InForce, Prepared, Setting
from samebits.engines.adapters.onnx_attention import WAYS, build_attention, explain_no_attention_model
from samebits.engines.adapters.onnx_problem import build_model, explain_no_model, import_onnx
from samebits.errors import EngineUnsupported
from samebits.problems import Problem
from samebits.problems.attention import Attention

_CPU = "CPUExecutionProvider"
_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "layout": "ORT_ENABLE_LAYOUT",
    "all": "ORT_ENABLE_ALL",
}


class OnnxruntimeEngine(Engine):
    """An inference session of Conv, ConvTranspose, Gemm or MatMul on the CPU execution provider.

    `linear` is what torch's exporter makes of it: Gemm where x has two axes, else MatMul with transposed weights, Add.
    """

    name = "onnxruntime"
    runs_onnx = True
    reads_data_files = True
    computes_attention = True
    has_new_operators = True
    settings: ClassVar[dict[str, Setting]] = {
        "threads": THREADS,
        "optimization": Setting("graph optimization level", "all", tuple(_LEVELS)),
        "weights": Setting(
            "weights stand in the model or arrive with each run", "constant", ("constant", "runtime"), of_problems=True
        ),
        "flush_denormal": Setting("session.set_denormal_as_zero", "off", ON_OFF),
        "x64quantprecision": Setting(
            "session.x64quantprecision: products of codes without pairs in 16 bits", "off", ON_OFF
        ),
        "conv1d_as": Setting(
            "run 1-D problems as they are, or as tf2onnx exports them: in 2-D with a first axis of size 1",
            "conv1d",
            ("conv1d", "conv2d"),
            of_problems=True,
        ),
        "linear_as": Setting("the operator that computes linear", "", ("gemm", "matmul"), of_problems=True),
        "attention_as": Setting(
            "the operator that computes attention: ONNX's, onnxruntime's own, or MatMul, Softmax, MatMul",
            "attention",
            WAYS,
            of_problems=True,
        ),
        "provider": Setting("the execution provider, by its name", _CPU),
        "library": Setting("a file that brings that provider, which is registered first", loads_code=True),
    }
    variables: ClassVar[dict[str, str]] = {
        "OMP_NUM_THREADS": "threads, in builds with OpenMP",
        "ORT_MLAS_DISABLE_KLEIDIAI": "forbids KleidiAI kernels on Arm",
        "NVIDIA_TF32_OVERRIDE": "0 forbids TF32 in every NVIDIA library",
    }

    def load(self, settings: Mapping[str, str]) -> None:
        onnx = import_onnx(self.name)
        # Without this it keeps a file in the home folder and sends telemetry to its vendor.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime

        self.onnx: Any = onnx
        self.runtime: Any = onnxruntime
        self.given = dict(settings)
        self.session: Any = None
        onnxruntime.set_default_logger_severity(3)
        self.provider = self.given.get("provider", _CPU)
        self.devices = self._find_devices() if "library" in self.given else None
        if self.devices is None and self.provider not in onnxruntime.get_available_providers():
            known = ", ".join(onnxruntime.get_available_providers())
            raise EngineUnsupported(f"onnxruntime has no {self.provider} here; it has: {known}")

    def _find_devices(self) -> Any:
        """The devices that the library's provider computes on."""
        if "provider" not in self.given:
            raise ValueError("library= brings a provider: name it with provider=")
        register = getattr(self.runtime, "register_execution_provider_library", None)
        if register is None:
            raise EngineUnsupported(f"onnxruntime {self.runtime.__version__} takes no library of a provider")
        register(self.provider, os.path.abspath(self.given["library"]))
        found = [one for one in self.runtime.get_ep_devices() if one.ep_name == self.provider]
        if not found:
            known = ", ".join(sorted({one.ep_name for one in self.runtime.get_ep_devices()}))
            raise EngineUnsupported(f"{self.given['library']} brings no {self.provider}; there are now: {known}")
        return found

    def _open(self, model: bytes) -> Any:
        """A session on the requested provider; what that one does not compute runs on the CPU's."""
        options = self._options()
        if self.devices is not None:
            options.add_provider_for_devices(self.devices, {})
            return self.runtime.InferenceSession(model, options)
        return self.runtime.InferenceSession(model, options, providers=[self.provider])

    def report(self) -> InForce:
        options = self._options()
        in_force = {
            "threads": str(options.intra_op_num_threads or "all cores"),
            "optimization": self.given.get("optimization", "all"),
            "weights": self.given.get("weights", "constant"),
            "flush_denormal": self.given.get("flush_denormal", "off"),
            "x64quantprecision": self.given.get("x64quantprecision", "off"),
            "conv1d_as": self.given.get("conv1d_as", "conv1d"),
            "linear_as": self.given.get("linear_as", "gemm where x has two axes, else matmul"),
            "provider": self.provider,
        }
        if "x64quantprecision" in self.given:
            in_force["x64quantprecision"] = self.given["x64quantprecision"]
        return InForce(self.runtime.__version__, self.device, in_force)

    def explain_unsupported(self, problem: Problem) -> str | None:
        if problem.direction != "forward":
            return "onnxruntime's inference package has no gradients"
        if reason := explain_no_model(problem):
            return reason
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
        model = build_model(self.onnx, problem, constants, linear_as=self.given.get("linear_as", ""))
        session = self._open(model.SerializeToString())
        feeds = {name: array for name, array in operands.items() if name not in constants}
        return Prepared(lambda: session.run(["y"], feeds), lambda results: results[0].reshape(shape))

    def explain_no_attention(self, problem: Attention) -> str | None:
        if problem.dtype not in ("float32", "float16"):
            return f"onnxruntime's attention takes no {problem.dtype} on the CPU"
        return explain_no_attention_model(problem, self.given.get("attention_as", WAYS[0]))

    def attend(self, problem: Attention, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        model, feeds, read = build_attention(self.onnx, problem, operands, self.given.get("attention_as", WAYS[0]))
        return read(self._open(model.SerializeToString()).run(["y"], feeds)[0])

    def load_onnx(self, model: bytes, observed: Sequence[str]) -> None:
        self.session = None
        self.session = self._open(model)

    def run_onnx(self, inputs: Mapping[str, np.ndarray], wanted: Sequence[str]) -> dict[str, np.ndarray]:
        # Asking for fewer outputs leaves the session's graph as it is.
        return dict(zip(wanted, self.session.run(list(wanted), dict(inputs)), strict=True))

    def _options(self) -> Any:
        options = self.runtime.SessionOptions()
        level = _LEVELS[self.given.get("optimization", "all")]
        options.graph_optimization_level = getattr(self.runtime.GraphOptimizationLevel, level)
        if "threads" in self.given:
            options.intra_op_num_threads = int(self.given["threads"])
        if self.data_files[1]:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", self.data_files[0])
        if self.given.get("flush_denormal") == "on":
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        if self.given.get("x64quantprecision") == "on":
            options.add_session_config_entry("session.x64quantprecision", "1")
        return options


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
