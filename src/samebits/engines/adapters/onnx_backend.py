"""Whatever speaks ONNX's backend interface: a module with `prepare(model, device)`, whose answer has `run(inputs)`."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import Engine, InForce, Prepared, Setting
from samebits.engines.adapters.given_code import call_there
from samebits.engines.adapters.given_engine import SOURCE
from samebits.engines.adapters.onnx_attention import build_attention
from samebits.engines.adapters.onnx_problem import build_model, explain_no_model
from samebits.errors import EngineUnsupported
from samebits.problems import Problem
from samebits.problems.attention import Attention


class OnnxBackendEngine(Engine):
    """A module as `onnx.backend.base.Backend` describes it; each problem goes to it as a model of one operation."""

    name = "onnx-backend"
    runs_onnx = True
    computes_attention = True
    has_new_operators = True
    settings: ClassVar[dict[str, Setting]] = {"device": Setting("the device, as the backend calls it", "CPU")}
    variables: ClassVar[dict[str, str]] = {}

    def load(self, settings: Mapping[str, str]) -> None:
        import onnx

        self.onnx: Any = onnx
        # An error is said with the module's line that it came through.
        self._module, self._where = settings[SOURCE], f"{settings[SOURCE]}:prepare"
        self._device = settings.get("device", "CPU")
        self._backend: Any = call_there(self._where, importlib.import_module, self._module)
        if not callable(getattr(self._backend, "prepare", None)):
            raise ValueError(f"{self._module} has no prepare(model, device) as ONNX's backend interface asks for it")
        supports = getattr(self._backend, "supports_device", None)
        if callable(supports) and not call_there(self._where, supports, self._device):
            raise EngineUnsupported(f"{self._module} does not support the device {self._device}")
        self._prepared: Any = None
        self._inputs: list[str] = []
        self._outputs: list[str] = []

    def report(self) -> InForce:
        return InForce(_find_version(self._module), self._device, {"device": self._device})

    def explain_unsupported(self, problem: Problem) -> str | None:
        return explain_no_model(problem)

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        constants = {n: a for n, a in operands.items() if n != "x"}
        prepared = self._prepare(build_model(self.onnx, problem, constants))
        return Prepared(
            lambda: call_there(self._where, prepared.run, [operands["x"]]),
            lambda found: np.asarray(found[0]).reshape(problem.out_shape),
        )

    def explain_no_attention(self, problem: Attention) -> str | None:
        return None if problem.dtype in ("float32", "float64", "float16") else f"it is asked in no {problem.dtype} here"

    def attend(self, problem: Attention, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        model, feeds, read = build_attention(self.onnx, problem, operands, "attention")
        prepared = self._prepare(model)
        return read(np.asarray(call_there(self._where, prepared.run, list(feeds.values()))[0]))

    def load_onnx(self, model: bytes, observed: Sequence[str]) -> None:
        read = self.onnx.load_model_from_string(model)
        constants = {one.name for one in read.graph.initializer}
        self._inputs = [one.name for one in read.graph.input if one.name not in constants]
        self._outputs = [one.name for one in read.graph.output]
        self._prepared = None
        self._prepared = self._prepare(read)

    def run_onnx(self, inputs: Mapping[str, np.ndarray], wanted: Sequence[str]) -> dict[str, np.ndarray]:
        found = call_there(self._where, self._prepared.run, [inputs[name] for name in self._inputs])
        named = dict(zip(self._outputs, found, strict=True))
        return {name: np.asarray(named[name]) for name in wanted}

    def _prepare(self, model: Any) -> Any:
        return call_there(self._where, self._backend.prepare, model, self._device)


def _find_version(module: str) -> str:
    """The version of the distribution that brings the module; empty where none says so."""
    brought = metadata.packages_distributions().get(module.partition(".")[0], [])
    return metadata.version(brought[0]) if brought else ""
