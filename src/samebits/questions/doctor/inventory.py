"""What is on this machine, without importing any framework."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata

import msgspec

from samebits.engines.registry.known_engines import ENGINES, EngineSpec, list_plugins
from samebits.engines.registry.runner_text import EMULATE, TRUTH
from samebits.engines.workers.emulated_cpu import describe_emulator, list_models
from samebits.errors import EngineMissingError, LogError, RunnerTextError, SamebitsError
from samebits.machine import count_cores, find_processor_name, list_processor_features, read_lines
from samebits.progress import Progress, ignore_progress
from samebits.questions.doctor.inventory_schema import AskedEngine, EngineState, Inventory, LogReader, Variable
from samebits.questions.explain.logs.brought_readers import list_log_readers, load_reader, name_distribution
from samebits.version import VERSION

_SLOWEST_ANSWER_S = 10
_PACKAGES = ("numpy", "numba", "ml_dtypes", "onnx")
# How programs that are files of their own are known.
_PROGRAMS = {"tflite": ".tflite"}
_SHARED_VARIABLES = {
    "OMP_NUM_THREADS": "threads of OpenMP pools",
    "OPENBLAS_CORETYPE": "which of OpenBLAS's kernels NumPy uses",
    "NUMBA_CPU_NAME": "the processor that samebits' own kernels are compiled for",
    "CUDA_VISIBLE_DEVICES": "which GPUs the engines see",
}


def take_inventory() -> Inventory:
    """Engines, versions, processor features, threads, and the settings that decide bits, with where they come from."""
    features = list_processor_features()
    emulator, processors = _list_processors()
    return Inventory(
        samebits_version=VERSION,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        processor=find_processor_name(),
        features=features,
        cores=count_cores(),
        memory_gib=round(_memory_gib(), 1),
        gpus=_list_gpus(),
        packages={name: _version(name) for name in _PACKAGES},
        engines=[_engine_state(spec, features) for spec in ENGINES.values()],
        variables=_set_variables(_SHARED_VARIABLES),
        processors=processors,
        emulator=emulator,
    )


def _list_processors() -> tuple[str, list[str]]:
    """The emulator and the processors that it can be; why there is none, and no processor."""
    try:
        return describe_emulator(), list_models()
    except EngineMissingError as error:
        return str(error), []


def _engine_state(spec: EngineSpec, features: list[str]) -> EngineState:
    engine = spec.load_class()
    settings = [f"{n}={s.default}" if s.default else n for n, s in engine.settings.items()]
    variables = [*_set_variables(engine.variables), *_defaults(spec.name, features)]
    programs = [_PROGRAMS.get(kind, kind) for kind in engine.runs_programs]
    takes = ["problems", *(["ONNX"] if engine.runs_onnx else []), *programs]
    return EngineState(spec.name, spec.find_version(), spec.install, settings, variables, takes)


def _set_variables(known: dict[str, str]) -> list[Variable]:
    return [Variable(n, os.environ[n], "environment", says) for n, says in known.items() if n in os.environ]


def _defaults(engine: str, features: list[str]) -> list[Variable]:
    """Defaults that depend on the machine and surprise people."""
    if engine == "openvino" and not {"avx512_bf16", "amx_bf16"}.isdisjoint(features):
        says = "float32 models are computed in bfloat16 on this processor unless f32 is asked for"
        return [Variable("INFERENCE_PRECISION_HINT", "bf16", "default", says)]
    if engine == "openvino":
        return [Variable("INFERENCE_PRECISION_HINT", "f32", "default", "this processor multiplies no bfloat16")]
    if engine == "tensorflow" and "TF_ENABLE_ONEDNN_OPTS" not in os.environ and platform.machine() == "x86_64":
        return [Variable("TF_ENABLE_ONEDNN_OPTS", "1", "default", "oneDNN's kernels rather than Eigen's")]
    return []


def _list_gpus() -> list[str]:
    """NVIDIA's GPUs with their drivers, as nvidia-smi names them; none where it is missing or does not answer."""
    asked = ("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=_SLOWEST_ANSWER_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    pairs = [line.rpartition(",") for line in done.stdout.splitlines() if "," in line]
    return [f"{name.strip()}, driver {driver.strip()}" for name, _, driver in pairs]


def _memory_gib() -> float:
    for line in read_lines("/proc/meminfo"):
        if line.startswith("MemTotal"):
            return float(line.split()[1]) / 2**20
    return 0.0


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return f"missing from {sys.prefix}"


def ask_plugins(time_limit_s: float, progress: Progress = ignore_progress) -> list[AskedEngine]:
    """Opens each engine that an installed package brings: what it reports of itself, or why it cannot be used."""
    found: list[AskedEngine] = []
    for plugin in list_plugins():
        name, of = plugin.name, plugin.distribution
        others = [one.distribution for one in list_plugins() if one.name == name and one != plugin]
        if name in ENGINES or name in (TRUTH, EMULATE):
            clash = "samebits has an engine of that name, which is the one that is used"
            found.append(AskedEngine(text=name, failure=clash, brought_by=of))
        elif others:
            clash = f"{' and '.join(others)} brings an engine of that name, too: none of them is used"
            found.append(AskedEngine(text=name, failure=clash, brought_by=of))
        else:
            found.append(msgspec.structs.replace(_ask_plugin(name, time_limit_s, progress), brought_by=of))
    return found


def list_readers() -> list[LogReader]:
    """Each reader of logs that an installed package brings, and why it cannot be had if so."""
    return [
        LogReader(name=point.name, brought_by=name_distribution(point), failure=_try_reader(point))
        for point in list_log_readers()
    ]


def _try_reader(point: metadata.EntryPoint) -> str | None:
    try:
        load_reader(point)
    except LogError as error:
        return str(error)
    return None


def _ask_plugin(name: str, time_limit_s: float, progress: Progress) -> AskedEngine:
    try:
        (asked,) = ask_engines([name], time_limit_s, progress)
    except RunnerTextError as error:  # A name that no text can give costs its own line.
        return AskedEngine(text=name, failure=str(error))
    return asked


def ask_engines(texts: Sequence[str], time_limit_s: float, progress: Progress = ignore_progress) -> list[AskedEngine]:
    """Opens each engine: what it reports of itself, or why it does not. RunnerTextError for a text that names none."""
    # It brings what computes along, which takes longer than all the rest.
    from samebits.engines.registry.runners import open_runner

    found: list[AskedEngine] = []
    for i, text in enumerate(texts):
        progress(f"asking {text}", i / len(texts))
        try:
            runner = open_runner(text, time_limit_s=time_limit_s)
            try:
                identity = runner.identify()
            finally:
                runner.close()
        except RunnerTextError:
            raise
        except SamebitsError as error:
            found.append(AskedEngine(text=text, failure=str(error)))
        else:
            found.append(
                AskedEngine(text=text, version=identity.version, device=identity.device, settings=identity.settings)
            )
    return found
