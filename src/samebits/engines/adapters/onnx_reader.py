"""What engines that read ONNX models share: a problem goes to them as a model of one operation, a network as it is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samebits.engines.adapters.engine import Engine, Prepared
from samebits.engines.adapters.onnx_problem import build_model, explain_no_model, import_onnx
from samebits.problems import Problem

Arrays = Mapping[str, np.ndarray]
# Takes the inputs by name, and returns what is wanted by name.
Compiled = Callable[[Arrays, Sequence[str]], dict[str, np.ndarray]]


class OnnxReader(Engine):
    """An engine that makes something to call of an ONNX model; a subclass says how, and what it cannot compute."""

    runs_onnx = True
    compiled: Compiled | None = None
    # The formats in which it computes products and convolutions.
    formats: tuple[str, ...] = ("float32",)

    @abstractmethod
    def compile_onnx(self, model: Any) -> Compiled:
        """What runs this model (an onnx.ModelProto), whose inputs and outputs it names."""

    def explain_unsupported(self, problem: Problem) -> str | None:
        reason = explain_no_model(problem)
        if reason is None and problem.dtype not in self.formats:
            return f"{self.name} is asked in {' and '.join(self.formats)} here"
        return reason

    def prepare(self, problem: Problem, operands: Arrays) -> Prepared:
        constants = {name: array for name, array in operands.items() if name != "x"}
        compiled = self.compile_onnx(build_model(import_onnx(self.name), problem, constants))
        feeds = {"x": np.ascontiguousarray(operands["x"])}
        return Prepared(lambda: compiled(feeds, ["y"]), lambda found: found["y"].reshape(problem.out_shape))

    def load_onnx(self, model: bytes, observed: Sequence[str]) -> None:
        self.compiled = None
        onnx = import_onnx(self.name)
        self.compiled = self.compile_onnx(_add_shapes(onnx, onnx.load_model_from_string(model)))

    def run_onnx(self, inputs: Arrays, wanted: Sequence[str]) -> dict[str, np.ndarray]:
        assert self.compiled is not None
        return self.compiled({name: np.ascontiguousarray(array) for name, array in inputs.items()}, wanted)


def _add_shapes(onnx: Any, model: Any) -> Any:
    """The model with the shapes of its outputs, where they follow from its nodes: some readers refuse it without."""
    bare = {v.name for v in model.graph.output if not v.type.tensor_type.HasField("shape")}
    if bare:
        # Declared in place of what is to be inferred, a type without a shape would stay.
        copy = type(model)()
        copy.CopyFrom(model)
        del copy.graph.output[:]
        inferred = {v.name: v for v in onnx.shape_inference.infer_shapes(copy).graph.value_info}
        for value in model.graph.output:
            if value.name in bare and value.name in inferred:
                value.CopyFrom(inferred[value.name])
    return model


def write_model(folder: str | Path, model: Any) -> str:
    """The path of the model in this folder, for engines that read files alone."""
    path = Path(folder, "model.onnx")
    path.write_bytes(model.SerializeToString())
    return str(path)


def list_fed(model: Any) -> list[str]:
    """The inputs that a model must be fed, in its sequence."""
    held = {tensor.name for tensor in model.graph.initializer}
    return [value.name for value in model.graph.input if value.name not in held]


def list_made(model: Any) -> list[str]:
    """The outputs of a model, in its sequence."""
    return [value.name for value in model.graph.output]
