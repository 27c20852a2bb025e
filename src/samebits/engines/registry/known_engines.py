"""Which engines there are, where their files lie and which distributions bring them; nothing is imported to know it."""

from __future__ import annotations

import importlib
import re
from dataclasses import dataclass
from importlib import metadata

from samebits.engines.adapters.engine import Engine
from samebits.problems import Problem


@dataclass(frozen=True)
class EngineSpec:
    """One engine: the class in its file, the distributions that provide it, and how to install it."""

    name: str
    module: str
    class_name: str
    distributions: tuple[str, ...]
    install: str

    def load_class(self) -> type[Engine]:
        """The engine's class; imports our file, not the framework."""
        return getattr(importlib.import_module(self.module), self.class_name)

    def find_version(self) -> str | None:
        """The installed version, from the package's metadata alone, or None."""
        for distribution in self.distributions:
            try:
                return metadata.version(distribution)
            except metadata.PackageNotFoundError:
                continue
        return None


def _spec(name: str, class_name: str, *distributions: str) -> EngineSpec:
    install = f"pip install {distributions[0]}"
    return EngineSpec(name, f"samebits.engines.adapters.{name}", class_name, distributions, install)


ENGINES: dict[str, EngineSpec] = {
    spec.name: spec
    for spec in (
        _spec("onnxruntime", "OnnxruntimeEngine", "onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino"),
        _spec("torch", "TorchEngine", "torch"),
        _spec("tensorflow", "TensorflowEngine", "tensorflow-cpu", "tensorflow", "tensorflow-intel"),
        _spec("jax", "JaxEngine", "jax"),
        _spec("openvino", "OpenvinoEngine", "openvino"),
        _spec("numpy", "NumpyEngine", "numpy"),
    )
}


# `./mine.py:MyEngine`: a file of a person's own and what in it computes.
_FILE = re.compile(r"[^\0]*?\.py:[A-Za-z_]\w*")


def match_file_engine(text: str) -> tuple[str, str] | None:
    """Of an engine's text that begins with a file's class or function: that, and what follows; None for other texts.

    >>> match_file_engine("./mine.py:MyEngine:threads=2")
    ('./mine.py:MyEngine', 'threads=2')
    >>> match_file_engine("torch:threads=2")
    """
    found = _FILE.match(text)
    if found is None:
        return None
    rest = text[found.end() :]
    return (found.group(), rest[1:]) if not rest or rest.startswith(":") else None


def is_file_engine(name: str) -> bool:
    """Whether a runner's name is that of a file's class or function."""
    return _FILE.fullmatch(name) is not None


def list_installed() -> list[str]:
    """The engines that are here, in the table's sequence; nothing is loaded."""
    return [name for name, spec in ENGINES.items() if spec.find_version() is not None]


def list_installed_for(problem: Problem) -> list[str]:
    """The engines that are here and compute problems of this kind."""
    return [n for n in list_installed() if problem.product or not ENGINES[n].load_class().only_products]
