"""Which engines there are, where their files lie and which distributions bring them; nothing is imported to know it.

Engines not in the table: those that installed packages bring (entry points of the group `samebits.engines`), a class
or a function of a file, and modules with ONNX's backend interface.
"""

from __future__ import annotations

import functools
import importlib
import re
from dataclasses import dataclass
from importlib import metadata

from samebits.engines.adapters.engine import Engine
from samebits.engines.workers.releases import Release
from samebits.errors import RunnerTextError
from samebits.problems import Problem


@dataclass(frozen=True)
class EngineSpec:
    """One engine: the class in its file, the distributions that provide it, and how to install it."""

    name: str
    module: str
    class_name: str
    distributions: tuple[str, ...]
    install: str
    # What else an environment with one release of it needs, `{version}` standing for that of the release.
    also: tuple[str, ...] = ()
    # Where its makers say what is new in a release.
    notes: str = ""

    def load_class(self) -> type[Engine]:
        """The engine's class; imports our file, not the framework."""
        return getattr(importlib.import_module(self.module), self.class_name)

    def find_version(self) -> str | None:
        """The installed version, from the package's metadata alone, or None."""
        return next((found for one in self.distributions if (found := _find_version(one))), None)

    def find_notes(self, version: str) -> str | None:
        """The address at which its makers say what is new in a release; None where each has none of its own."""
        return self.notes.format(version=version) or None

    def find_release(self, version: str) -> Release:
        """A release of the distribution that is here, or of the usual one."""
        here = next((one for one in self.distributions if _find_version(one)), self.distributions[0])
        return Release(here, version, tuple(one.format(version=version) for one in self.also))


def _find_version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _spec(
    name: str, class_name: str, *distributions: str, also: tuple[str, ...] = (), releases: str = ""
) -> EngineSpec:
    """`releases`: the repository and how it marks a release, of those that have a page for each."""
    module, install = f"samebits.engines.adapters.{name}", f"pip install {distributions[0]}"
    repository, _, mark = releases.partition(" ")
    notes = f"https://github.com/{repository}/releases/tag/{mark}{{version}}" if repository else ""
    return EngineSpec(name, module, class_name, distributions, install, also, notes)


# Engines that read ONNX have their problems written as such in their own environment.
_ONNX = ("onnx",)


ENGINES: dict[str, EngineSpec] = {
    spec.name: spec
    for spec in (
        _spec(
            "onnxruntime",
            "OnnxruntimeEngine",
            "onnxruntime",
            "onnxruntime-gpu",
            "onnxruntime-openvino",
            also=_ONNX,
            releases="microsoft/onnxruntime v",
        ),
        _spec("torch", "TorchEngine", "torch", releases="pytorch/pytorch v"),
        _spec(
            "tensorflow",
            "TensorflowEngine",
            "tensorflow-cpu",
            "tensorflow",
            "tensorflow-intel",
            releases="tensorflow/tensorflow v",
        ),
        _spec("jax", "JaxEngine", "jax", releases="jax-ml/jax jax-v"),
        _spec("openvino", "OpenvinoEngine", "openvino", also=_ONNX, releases="openvinotoolkit/openvino"),
        _spec("litert", "LitertEngine", "ai-edge-litert", also=_ONNX),
        _spec("ncnn", "NcnnEngine", "ncnn", also=_ONNX),
        _spec("mnn", "MnnEngine", "MNN", also=_ONNX, releases="alibaba/MNN"),
        _spec("opencv", "OpencvEngine", "opencv-python-headless", "opencv-python", "opencv-contrib-python", also=_ONNX),
        _spec("tract", "TractEngine", "tract", also=_ONNX),
        _spec("tvm", "TvmEngine", "apache-tvm", also=_ONNX, releases="apache/tvm v"),
        _spec(
            "iree",
            "IreeEngine",
            "iree-base-compiler",
            also=("iree-base-runtime=={version}", *_ONNX),
            releases="iree-org/iree v",
        ),
        _spec("mlx", "MlxEngine", "mlx", releases="ml-explore/mlx v"),
        _spec("tinygrad", "TinygradEngine", "tinygrad", also=_ONNX, releases="tinygrad/tinygrad v"),
        _spec("numpy", "NumpyEngine", "numpy", releases="numpy/numpy v"),
        _spec("cudnn", "CudnnEngine", "nvidia-cudnn-frontend"),
    )
}


# `onnx-backend:package.module`: a module that has ONNX's `prepare`.
_BACKEND = "onnx-backend"
ONNX_BACKEND = EngineSpec(
    _BACKEND, "samebits.engines.adapters.onnx_backend", "OnnxBackendEngine", ("onnx",), "pip install onnx"
)
_MODULE_TEXT = re.compile(rf"{_BACKEND}:[A-Za-z_][\w.]*")
# The group of entry points in which packages bring engines.
PLUGINS = "samebits.engines"


@dataclass(frozen=True)
class Plugin:
    """An engine that an installed package brings: `module:class` or `module:function`, and the distribution's name."""

    name: str
    source: str
    distribution: str


@functools.cache
def list_plugins() -> tuple[Plugin, ...]:
    """The engines that installed packages bring, by name; none of them is imported."""
    found = metadata.entry_points(group=PLUGINS)
    brought = {Plugin(e.name, e.value, f"{e.dist.name} {e.dist.version}" if e.dist else "?") for e in found}
    return tuple(sorted(brought, key=lambda one: (one.name, one.distribution)))


def find_plugin(name: str) -> Plugin:
    """The engine of this name that a package brings; raises RunnerTextError where none or more than one does."""
    brought = [one for one in list_plugins() if one.name == name]
    if not brought:
        raise RunnerTextError(f"unknown engine {name!r}")
    if len(brought) > 1:
        raise RunnerTextError(f"engine {name} is brought by {' and by '.join(one.distribution for one in brought)}")
    return brought[0]


# `./mine.py:MyEngine`: a file of a person's own and what in it computes.
_FILE = re.compile(r"[^\0]*?\.py:[A-Za-z_]\w*")


def match_given_engine(text: str) -> tuple[str, str] | None:
    """Splits an engine's text after a file's class or function, or after a backend of ONNX; None for other texts.

    >>> match_given_engine("./mine.py:MyEngine:threads=2")
    ('./mine.py:MyEngine', 'threads=2')
    >>> match_given_engine("onnx-backend:onnxruntime.backend")
    ('onnx-backend:onnxruntime.backend', '')
    >>> match_given_engine("torch:threads=2")
    """
    found = _MODULE_TEXT.match(text) or _FILE.match(text)
    if found is None:
        return None
    rest = text[found.end() :]
    return (found.group(), rest[1:]) if not rest or rest.startswith(":") else None


def is_file_engine(name: str) -> bool:
    """Whether a runner's name is that of a file's class or function."""
    return _FILE.fullmatch(name) is not None


def is_backend(name: str) -> bool:
    """Whether a runner's name is that of a module that speaks ONNX's backend interface."""
    return _MODULE_TEXT.fullmatch(name) is not None


def find_class(name: str) -> type[Engine] | None:
    """The class of one of our own engines; None for an engine of a file or of another package."""
    spec = ONNX_BACKEND if is_backend(name) else ENGINES.get(name)
    return spec.load_class() if spec else None


def list_installed() -> list[str]:
    """The engines that are here, in the table's sequence; nothing is loaded."""
    return [name for name, spec in ENGINES.items() if spec.find_version() is not None]


def list_installed_for(problem: Problem) -> list[str]:
    """The engines that are here and compute problems of this kind."""
    return [n for n in list_installed() if problem.product or not ENGINES[n].load_class().only_products]


def list_installed_for_formula(*, attention: bool) -> list[str]:
    """The engines that are here and are asked for attention, or for functions of rows."""
    classes = {name: ENGINES[name].load_class() for name in list_installed()}
    if attention:
        return [name for name, class_ in classes.items() if class_.computes_attention]
    return [name for name, class_ in classes.items() if class_.computes_functions or class_.runs_onnx]
