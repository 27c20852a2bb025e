"""PyTorch on an NVIDIA GPU: the settings that choose kernels there, and what computes."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from samebits.engines.adapters.engine import ON_OFF, Setting
from samebits.errors import EngineUnsupported
from samebits.problems import Problem

CUDA_SETTINGS: dict[str, Setting] = {
    "device": Setting("where it computes", "cpu", ("cpu", "cuda")),
    "benchmark": Setting("cuDNN's kernels are timed and the fastest is taken (cudnn.benchmark)", "off", ON_OFF),
    "tf32": Setting("float32 operands may be rounded to TF32; of convolutions alone if not given", "", ON_OFF),
    "fp16_accumulation": Setting("float16 products may be added in float16 (allow_fp16_accumulation)", "off", ON_OFF),
    "reduced_precision": Setting("partial sums of 16-bit products may be added in 16 bits", "on", ON_OFF),
    "cudnn": Setting("use cuDNN; off: torch's own convolutions", "on", ON_OFF),
    "blas": Setting("the library for products", "", ("cublas", "cublaslt")),
    "fast_accum": Setting("float8 products are added with fewer bits (use_fast_accum)", "off", ON_OFF),
}  # fmt: skip
_ON_CPU_ALONE = ("mkldnn", "flush_denormal", "fp32_precision")
# Whether convolutions, and products, may round to it; torch itself lets convolutions alone.
_TF32 = {(True, True): "on", (False, False): "off", (True, False): "convolutions", (False, True): "products"}
# Results of float8 products that torch can return.
_SCALED_RESULTS = ("float32", "bfloat16", "float16")
# cuBLAS takes float8 matrices whose sides are multiples of it.
_SIDE_OF_FLOAT8 = 16


def prepare_environment(settings: Mapping[str, str]) -> None:
    """Sets what must be set before torch is imported: deterministic cuBLAS needs a workspace of its own."""
    if settings.get("device") == "cuda" and settings.get("deterministic") == "on":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


def apply_cuda_settings(torch: Any, settings: Mapping[str, str]) -> None:
    """Applies the settings of a GPU. Raises EngineUnsupported where there is none, or for settings of the CPU."""
    on_gpu = settings.get("device") == "cuda"
    other = _ON_CPU_ALONE if on_gpu else [name for name in CUDA_SETTINGS if name != "device"]
    for name in other:
        if name in settings:
            raise EngineUnsupported(f"{name} is a setting of {'the CPU' if on_gpu else 'a GPU: add device=cuda'}")
    if not on_gpu:
        return
    if not torch.cuda.is_available():
        build = "" if torch.version.cuda else f" (torch {torch.__version__} is built without CUDA)"
        raise EngineUnsupported(f"device=cuda: torch sees no GPU{build}")
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    convolutions.benchmark = settings.get("benchmark") == "on"
    convolutions.deterministic = settings.get("deterministic") == "on"
    convolutions.enabled = settings.get("cudnn", "on") == "on"
    if "tf32" in settings:
        products.allow_tf32 = convolutions.allow_tf32 = settings["tf32"] == "on"
    if "fp16_accumulation" in settings:
        if not hasattr(products, "allow_fp16_accumulation"):
            raise EngineUnsupported(f"torch {torch.__version__} does not have fp16_accumulation yet")
        products.allow_fp16_accumulation = settings["fp16_accumulation"] == "on"
    if "reduced_precision" in settings:
        allowed = settings["reduced_precision"] == "on"
        products.allow_fp16_reduced_precision_reduction = allowed
        products.allow_bf16_reduced_precision_reduction = allowed
    if "blas" in settings:
        torch.backends.cuda.preferred_blas_library(settings["blas"])


def read_cuda_settings(torch: Any, settings: Mapping[str, str]) -> dict[str, str]:
    """The GPU's settings in effect, read back from torch where it tells."""
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    blas = torch.backends.cuda.preferred_blas_library()
    return {
        "device": "cuda",
        "benchmark": _say(convolutions.benchmark),
        "cudnn": _say(convolutions.enabled and convolutions.is_available()),
        "tf32": _TF32[bool(convolutions.allow_tf32), bool(products.allow_tf32)],
        "fp16_accumulation": _say(getattr(products, "allow_fp16_accumulation", False)),
        "reduced_precision": _say(bool(products.allow_fp16_reduced_precision_reduction)),
        "blas": str(blas).rpartition(".")[2].lower(),
        "fast_accum": settings.get("fast_accum", "off"),
    }


def name_gpu(torch: Any) -> str:
    """The GPU with the libraries that choose its kernels: their versions belong to the bits."""
    properties = torch.cuda.get_device_properties(0)
    cudnn = torch.backends.cudnn.version() or 0
    # 9.x.y is given as 9xxyy, 8.x.y as 8xyy.
    major, rest = (cudnn // 10_000, cudnn % 10_000) if cudnn >= 90_000 else (cudnn // 1000, cudnn % 1000)
    named = f"cuDNN {major}.{rest // 100}.{rest % 100}"
    capability = f"compute capability {properties.major}.{properties.minor}"
    return f"{properties.name} ({capability}, CUDA {torch.version.cuda}, {named})"


def explain_no_float8(problem: Problem) -> str | None:
    """Why a float8 problem cannot be computed on a GPU; None where it can: cuBLAS has products x w^T alone."""
    if problem.kind != "linear" or problem.bias:
        return "torch computes float8 products as linear without a bias alone"
    if problem.out not in _SCALED_RESULTS:
        return f"torch's float8 products return {', '.join(_SCALED_RESULTS)}"
    if problem.w[0] % _SIDE_OF_FLOAT8 or problem.w[1] % _SIDE_OF_FLOAT8:
        return f"cuBLAS takes float8 matrices whose sides are multiples of {_SIDE_OF_FLOAT8}"
    return None


def multiply_float8(torch: Any, problem: Problem, x: Any, w: Any, *, fast: bool) -> Any:
    """x w^T of float8 matrices by cuBLAS, with scales of one."""
    one = torch.ones((), device=x.device)
    out = getattr(torch, problem.out)
    flat = x.reshape(-1, x.shape[-1])
    return torch._scaled_mm(flat, w.t(), one, one, out_dtype=out, use_fast_accum=fast).reshape(problem.y_shape)


def _say(value: bool) -> str:
    return "on" if value else "off"
