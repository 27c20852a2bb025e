"""The settings and versions that may change a run's bits, as they are in this process."""

from __future__ import annotations

import functools
import os
import platform
import sys
from collections.abc import Callable
from typing import Any

# Environment variables that change results, or the sequence of anything.
VARIABLES = (
    "PYTHONHASHSEED", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_CBWR", "KMP_AFFINITY",
    "ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "ONEDNN_DEFAULT_FPMATH_MODE", "ATEN_CPU_CAPABILITY",
    "CUBLAS_WORKSPACE_CONFIG", "CUDNN_DETERMINISTIC",
    "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUDA_VISIBLE_DEVICES",
    "TF_DETERMINISTIC_OPS", "TF_CUDNN_DETERMINISTIC", "TF_ENABLE_ONEDNN_OPTS", "TF_CUDNN_USE_AUTOTUNE", "XLA_FLAGS",
    "JAX_ENABLE_X64", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_PLATFORMS", "KERAS_BACKEND", "NCCL_ALGO", "NCCL_PROTO",
)  # fmt: skip
# In a loader's worker: how many it is one of; "unknown" elsewhere.
LOADER_WORKERS = "torch loader's workers"
_PACKAGES = ("torch", "numpy", "tensorflow", "jax", "keras")


def list_settings() -> dict[str, str]:
    """Everything that is known, as text; nothing is imported for it."""
    found = {f"env {name}": os.environ.get(name, "not set") for name in VARIABLES}
    found |= {
        "python": platform.python_version(),
        "processor": _find_processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "hash randomisation": "on" if sys.flags.hash_randomization else "off",
    }
    for name in _PACKAGES:
        module = sys.modules.get(name)
        if module is not None:
            found[f"{name} version"] = str(getattr(module, "__version__", "unknown"))
    # What is still being imported has not all of it; then the module that is asked is not there yet.
    for module, name, settings in (
        ("torch", "torch", TORCH_SETTINGS),
        ("tensorflow.python.eager.context", "tensorflow", TENSORFLOW_SETTINGS),
        ("jax", "jax", JAX_SETTINGS),
    ):
        loaded = sys.modules.get(module)
        if loaded is not None and hasattr(loaded, _LOADED_WITH[name]):
            found |= {f"{name} {setting}": _ask(loaded, ask) for setting, ask in settings.items()}
    return found


def _ask(module: Any, ask: Callable[[Any], Any]) -> str:
    try:
        value = ask(module)
    except (AttributeError, RuntimeError, KeyError):
        return "unknown"
    return {True: "on", False: "off"}.get(value, str(value)) if isinstance(value, bool) else str(value)


TORCH_SETTINGS: dict[str, Callable[[Any], Any]] = {
    "seed": lambda t: t.initial_seed(),
    "threads": lambda t: t.get_num_threads(),
    "use_deterministic_algorithms": lambda t: t.are_deterministic_algorithms_enabled(),
    "float32_matmul_precision": lambda t: t.get_float32_matmul_precision(),
    "default_dtype": lambda t: t.get_default_dtype(),
    "backends.mkldnn.enabled": lambda t: t.backends.mkldnn.enabled,
    "backends.mkldnn.deterministic": lambda t: t.backends.mkldnn.deterministic,
    "backends.mkldnn.conv.fp32_precision": lambda t: t.backends.mkldnn.conv.fp32_precision,
    "backends.mkldnn.matmul.fp32_precision": lambda t: t.backends.mkldnn.matmul.fp32_precision,
    "backends.cudnn.benchmark": lambda t: t.backends.cudnn.benchmark,
    "backends.cudnn.deterministic": lambda t: t.backends.cudnn.deterministic,
    "backends.cudnn.allow_tf32": lambda t: t.backends.cudnn.allow_tf32,
    "backends.cuda.matmul.allow_tf32": lambda t: t.backends.cuda.matmul.allow_tf32,
    "cpu capability": lambda t: t.backends.cpu.get_cpu_capability(),
    LOADER_WORKERS.removeprefix("torch "): lambda t: t.utils.data.get_worker_info().num_workers,
}


TENSORFLOW_SETTINGS: dict[str, Callable[[Any], Any]] = {
    "seed": lambda context: context.global_seed(),
    "op determinism": lambda _: sys.modules["tensorflow.python.framework.config"].is_op_determinism_enabled(),
    "intra-op threads": lambda context: context.context().intra_op_parallelism_threads,
    "inter-op threads": lambda context: context.context().inter_op_parallelism_threads,
    "float32 may be TF32": lambda _: sys.modules[
        "tensorflow.python.framework.config"
    ].tensor_float_32_execution_enabled(),
}

JAX_SETTINGS: dict[str, Callable[[Any], Any]] = {
    name.removeprefix("jax_"): (lambda jax, name=name: getattr(jax.config, name))
    for name in (
        "jax_enable_x64", "jax_default_matmul_precision", "jax_default_prng_impl", "jax_threefry_partitionable",
        "jax_disable_jit", "jax_numpy_dtype_promotion",
    )
}  # fmt: skip

_LOADED_WITH = {"torch": "initial_seed", "tensorflow": "global_seed", "jax": "config"}


@functools.cache
def _find_processor() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            return next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or "unknown"
