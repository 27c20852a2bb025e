"""PyTorch, on the CPU or on an NVIDIA GPU."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.attention_operands import explain_no_cap, merge_mask
from samebits.engines.adapters.engine import (
    ON_OFF,
    OPERAND_MEMORY,
    THREADS,
    Engine,
    InForce,
    Prepared,
    Setting,
    lay_out,
)
from samebits.engines.adapters.keras_program import KerasProgram, is_of_other_python
from samebits.engines.adapters.plain_functions import rotate
from samebits.engines.adapters.torch_cuda import (
    CUDA_SETTINGS,
    apply_cuda_settings,
    explain_no_float8,
    multiply_float8,
    name_gpu,
    prepare_environment,
    read_cuda_settings,
)
from samebits.engines.adapters.torch_program import TorchProgram, as_array, as_tensor
from samebits.errors import EngineUnsupported
from samebits.problems import Problem
from samebits.problems.attention import Attention
from samebits.problems.row_functions import RowFunction

_MOST_PROGRAMS = 32


class TorchEngine(Engine):
    """torch.nn.functional's convolutions and linear, torch.matmul; gradients through autograd.

    Padding that differs between begin and end is what its users write: F.pad before the convolution, or a crop after
    the transposed one.
    """

    name = "torch"
    runs_programs = ("torch", "keras")
    computes_attention = True
    computes_functions = True
    settings: ClassVar[dict[str, Setting]] = {
        "threads": THREADS,
        "mkldnn": Setting("use oneDNN's kernels", "on", ON_OFF),
        "layout": Setting("memory format of x and w", "contiguous", ("contiguous", "channels_last"), of_problems=True),
        "deterministic": Setting("torch.use_deterministic_algorithms", "off", ON_OFF),
        "flush_denormal": Setting("torch.set_flush_denormal", "off", ON_OFF),
        "fp32_precision": Setting("precision oneDNN may compute float32 in", "", ("ieee", "tf32", "bf16")),
        "compile": Setting("torch.compile, with inductor", "off", ON_OFF, compiles=True),
        "linear_as": Setting(
            "the call that computes linear", "linear", ("linear", "addmm", "matmul"), of_problems=True
        ),
        "attention_as": Setting(
            "the kernel of scaled_dot_product_attention that is allowed",
            "any",
            ("any", "math", "flash", "efficient", "cudnn"),
            of_problems=True,
        ),
        **OPERAND_MEMORY,
        **CUDA_SETTINGS,
    }
    variables: ClassVar[dict[str, str]] = {
        "ONEDNN_MAX_CPU_ISA": "caps the instruction set of oneDNN's kernels",
        "DNNL_MAX_CPU_ISA": "older name of ONEDNN_MAX_CPU_ISA",
        "ONEDNN_DEFAULT_FPMATH_MODE": "lets oneDNN compute float32 in a narrower format",
        "ATEN_CPU_CAPABILITY": "caps the instruction set of torch's own kernels",
        "OMP_NUM_THREADS": "threads of torch's pool",
        "MKL_NUM_THREADS": "threads of MKL",
        "MKL_CBWR": "conditional numerical reproducibility of MKL",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "forces TF32 in cuBLAS",
        "NVIDIA_TF32_OVERRIDE": "0 forbids TF32 in every NVIDIA library",
        "CUBLAS_WORKSPACE_CONFIG": "needed for deterministic cuBLAS",
    }

    def load(self, settings: Mapping[str, str]) -> None:
        prepare_environment(settings)
        import torch as imported

        torch: Any = imported
        self.torch: Any = torch
        self.given = dict(settings)
        self.place = settings.get("device", "cpu")
        apply_cuda_settings(torch, settings)
        if "threads" in settings:
            torch.set_num_threads(int(settings["threads"]))
        torch.backends.mkldnn.enabled = settings.get("mkldnn", "on") == "on"
        # Saying what holds anyway would import torch's compiler, for as long as torch itself takes.
        if torch.are_deterministic_algorithms_enabled() != (is_deterministic := settings.get("deterministic") == "on"):
            torch.use_deterministic_algorithms(is_deterministic)
        torch.set_flush_denormal(settings.get("flush_denormal") == "on")
        if "fp32_precision" in settings:
            for name in ("conv", "matmul"):
                if (kind := getattr(torch.backends.mkldnn, name, None)) is None:
                    raise EngineUnsupported(f"torch {torch.__version__} does not have fp32_precision yet")
                kind.fp32_precision = settings["fp32_precision"]
        self.channels_last = settings.get("layout") == "channels_last"
        self.flushes = settings.get("flush_denormal") == "on"
        self.memory = {name: settings.get(f"{name}_memory", "contiguous") for name in ("x", "w")}
        self.linear_as = settings.get("linear_as", "linear")
        self.attention_as = settings.get("attention_as", "any")
        self.asks_precision = "fp32_precision" in settings
        self.compiles = settings.get("compile") == "on"
        self.programs: dict[Problem, Any] = {}
        self.exported = TorchProgram(torch, compiles=self.compiles, place=self.place)
        self.keras = KerasProgram("torch", self._compile_layers, keeps_state=True)

    def report(self) -> InForce:
        torch = self.torch
        if self.place == "cuda":
            own = {
                "layout": "channels_last" if self.channels_last else "contiguous",
                "deterministic": "on" if torch.are_deterministic_algorithms_enabled() else "off",
                "compile": "on" if self.compiles else "off",
                "linear_as": self.linear_as,
                **{f"{name}_memory": way for name, way in self.memory.items()},
            }
            return InForce(torch.__version__, name_gpu(torch), own | read_cuda_settings(torch, self.given))
        mkldnn = torch.backends.mkldnn
        in_force = {
            "threads": str(torch.get_num_threads()),
            "mkldnn": "on" if mkldnn.is_available() and mkldnn.enabled else "off",
            "layout": "channels_last" if self.channels_last else "contiguous",
            "deterministic": "on" if torch.are_deterministic_algorithms_enabled() else "off",
            "flush_denormal": "on" if self.flushes else "off",
            "compile": "on" if self.compiles else "off",
            "linear_as": self.linear_as,
            **{f"{name}_memory": way for name, way in self.memory.items()},
            "isa": _find_capability(torch),
        }
        precision = getattr(getattr(mkldnn, "conv", None), "fp32_precision", None)
        if precision:
            in_force["fp32_precision"] = str(precision)
        notes: tuple[str, ...] = ()
        if self.asks_precision and in_force["mkldnn"] == "off":
            notes = ("mkldnn=off wins over fp32_precision, which only oneDNN heeds: float32 is computed as it is",)
        return InForce(torch.__version__, self.device, in_force, notes)

    def explain_unsupported(self, problem: Problem) -> str | None:
        if problem.dtype.startswith("float8"):
            return (
                explain_no_float8(problem)
                if self.place == "cuda"
                else "torch's CPU convolutions and products take no float8"
            )
        if problem.out != problem.dtype:
            return "torch's convolutions and products return their operands' dtype"
        return None

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        torch = self.torch
        tensors = {name: self._tensor(problem, name, array) for name, array in operands.items()}
        program = self._find_program(problem)
        if problem.direction == "forward":

            def compute() -> Any:
                with torch.no_grad():
                    return program(tensors["x"], tensors["w"], tensors.get("bias"))

            return Prepared(self._finish(compute), self._array)
        wanted = "x" if problem.direction == "grad_input" else "w"
        shapes = {"x": problem.x, "w": problem.w}
        inputs = {
            n: tensors.get(n, torch.zeros(shapes[n], dtype=tensors["dy"].dtype, device=self.place)) for n in shapes
        }
        inputs[wanted].requires_grad_()
        # What inductor compiled gives its gradient once.
        result = None if self.compiles else program(inputs["x"], inputs["w"], None)

        def differentiate() -> Any:
            y = program(inputs["x"], inputs["w"], None) if result is None else result
            return torch.autograd.grad(y, inputs[wanted], tensors["dy"], retain_graph=result is not None)[0]

        return Prepared(self._finish(differentiate), self._array)

    def explain_no_attention(self, problem: Attention) -> str | None:
        if problem.dtype.startswith("float8"):
            return "torch's scaled_dot_product_attention takes no float8"
        return explain_no_cap(problem, "torch")

    def attend(self, problem: Attention, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        torch = self.torch
        is_bare = problem.mask is None and problem.window is None
        is_causal = is_bare and problem.causal == "upper_left"
        mask = None if is_causal else merge_mask(problem, operands)
        if is_bare and problem.causal == "lower_right":
            # What its users write.
            biases = importlib.import_module("torch.nn.attention.bias")
            given: Any = biases.causal_lower_right(problem.q[2], problem.k[2])
        else:
            given = None if mask is None else as_tensor(torch, np.ascontiguousarray(mask)).to(self.place)
        q, k, v = (as_tensor(torch, operands[name]).to(self.place) for name in ("q", "k", "v"))

        def compute(q: Any, k: Any, v: Any) -> Any:
            return torch.nn.functional.scaled_dot_product_attention(
                q, k, v, attn_mask=given, is_causal=is_causal, scale=problem.scale, enable_gqa=problem.group > 1
            )

        program = torch.compile(compute) if self.compiles else compute
        with torch.no_grad(), self._allow_kernels():
            return self._array(program(q, k, v))

    def explain_no_function(self, problem: RowFunction) -> str | None:
        return f"torch computes no {problem.kind} in float8" if problem.dtype.startswith("float8") else None

    def map_rows(self, problem: RowFunction, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        given = {name: as_tensor(self.torch, array).to(self.place) for name, array in operands.items()}
        functions = self.torch.nn.functional

        def compute(given: Mapping[str, Any]) -> Any:
            x = given["x"]
            if problem.kind == "softmax":
                return functions.softmax(x, problem.axis)
            if problem.kind == "gelu":
                return functions.gelu(x, approximate=problem.approximate)
            if problem.kind == "rope":
                return rotate(self.torch, problem, given)
            shape, weight = list(problem.normalized_shape), given.get("weight")
            if problem.kind == "rmsnorm":
                return functions.rms_norm(x, shape, weight, problem.eps)
            return functions.layer_norm(x, shape, weight, given.get("bias"), problem.eps)

        with self.torch.no_grad():
            return self._array((self.torch.compile(compute) if self.compiles else compute)(given))

    def _allow_kernels(self) -> Any:
        if self.attention_as == "any":
            return contextlib.nullcontext()
        attention = importlib.import_module("torch.nn.attention")
        kinds = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "cudnn": "CUDNN_ATTENTION"}
        kind = getattr(attention.SDPBackend, kinds.get(self.attention_as, "MATH"))
        return attention.sdpa_kernel(kind)

    def _finish(self, compute: Callable[[], Any]) -> Callable[[], Any]:
        """The call that returns when its result is there: a GPU computes while the program goes on."""
        if self.place != "cuda":
            return compute

        def finish() -> Any:
            result = compute()
            self.torch.cuda.synchronize()
            return result

        return finish

    def export_program(
        self, text: str, folder: str, *, opens_batch: bool = False
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        return self.exported.export(text, folder, opens_batch=opens_batch)

    def list_program_values(self, path: str) -> list[str]:
        return (self.keras if is_of_other_python(path) else self.exported).list_values(path)

    def _compile_layers(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        return self.torch.no_grad()(self.torch.compile(compute) if self.compiles else compute)

    def run_program(
        self,
        path: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        observed: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        program = self.keras if is_of_other_python(path) else self.exported
        return program.run(path, inputs, outputs, observed, given)

    def _find_program(self, problem: Problem) -> Callable[..., Any]:
        """The problem's function of x, w and bias; compiled by the first call where that is asked for."""
        if problem not in self.programs:

            def compute(x: Any, w: Any, bias: Any) -> Any:
                if problem.dtype.startswith("float8"):
                    return multiply_float8(self.torch, problem, x, w, fast=self.given.get("fast_accum") == "on")
                y = compute_plain(self.torch, problem, x, w, bias, linear_as=self.linear_as)
                if problem.then is None:
                    return y
                relu = self.torch.nn.functional.relu
                return relu(y) if problem.then.name == "relu" else y.clamp(problem.then.low, problem.then.high)

            program: Any = self.torch.compile(compute, dynamic=False) if self.compiles else compute
            self.programs = dict([*self.programs.items()][-_MOST_PROGRAMS:]) | {problem: program}
        return self.programs[problem]

    def _tensor(self, problem: Problem, name: str, array: np.ndarray) -> Any:
        torch = self.torch
        array = lay_out(array, self.memory.get(name, "contiguous") if problem.product else "contiguous")
        tensor = as_tensor(torch, array).to(self.place)
        if self.channels_last and problem.product is None and tensor.dim() in (4, 5):
            formats = {4: torch.channels_last, 5: torch.channels_last_3d}
            tensor = tensor.contiguous(memory_format=formats[tensor.dim()])
        return tensor

    def _array(self, tensor: Any) -> np.ndarray:
        return as_array(self.torch, tensor)


def _find_capability(torch: Any) -> str:
    """The instruction set of torch's own kernels; releases before 2.0 say it in a text only."""
    if hasattr(torch.backends, "cpu"):
        return torch.backends.cpu.get_cpu_capability()
    return torch.__config__.show().partition("CPU capability usage: ")[2].partition("\n")[0] or "unknown"


def compute_plain(torch: Any, problem: Problem, x: Any, w: Any, bias: Any, *, linear_as: str = "linear") -> Any:
    """A problem without its epilogue by torch's own function, on tensors."""
    if problem.kind == "matmul":
        return torch.matmul(x, w)
    if problem.kind == "linear":
        return _multiply(torch, problem, x, w, bias, linear_as)
    return _convolve(torch, problem, x, w, bias)


def _multiply(torch: Any, problem: Problem, x: Any, w: Any, bias: Any, linear_as: str) -> Any:
    if linear_as == "linear":
        return torch.nn.functional.linear(x, w, bias)
    if linear_as == "addmm" and bias is not None:
        return torch.addmm(bias, x.reshape(-1, x.shape[-1]), w.t()).reshape(problem.y_shape)
    y = torch.matmul(x, w.t())
    return y if bias is None else y + bias


def _convolve(torch: Any, problem: Problem, x: Any, w: Any, bias: Any) -> Any:
    functional = torch.nn.functional
    operation = getattr(functional, problem.kind)
    pads = [(a.pad_begin, a.pad_end) for a in problem.axes]
    even = [min(pair) for pair in pads]
    if problem.is_transposed:
        extra = [_find_extra(problem, i) for i in range(problem.rank)]
        y = operation(x, w, bias, problem.stride, even, extra, problem.groups, problem.dilation)
        crop = [slice(b - e, size) for (b, _), e, size in zip(pads, even, _list_ends(problem, even), strict=True)]
        y = y[(slice(None), slice(None), *crop)]
    else:
        if any(begin != end for begin, end in pads):
            x = functional.pad(x, [p for pair in reversed(pads) for p in pair])
            even = [0] * problem.rank
        y = operation(x, w, bias, problem.stride, even, problem.dilation, problem.groups)
    return y


def _find_extra(problem: Problem, i: int) -> int:
    """output_padding, with what SAME padding adds where the kernel is shorter than the stride."""
    return max(problem.axes[i].extra, 0)


def _list_ends(problem: Problem, even: list[int]) -> list[int]:
    """Where each axis of the evenly cropped result must end so that the size is the problem's."""
    return [a.pad_begin - e + a.size_large for a, e in zip(problem.axes, even, strict=True)]
