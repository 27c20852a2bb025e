"""tract, Sonos' inference engine in Rust: ONNX models, optimised as its own runtime does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import InForce, Setting
from samebits.engines.adapters.onnx_reader import Arrays, Compiled, OnnxReader, list_fed, list_made, write_model
from samebits.regular_files import open_folder


class TractEngine(OnnxReader):
    """tract.onnx().load of a file, made runnable; it computes on one thread."""

    name = "tract"
    formats = ("float32", "float16", "float64")
    settings: ClassVar[dict[str, Setting]] = {}
    variables: ClassVar[dict[str, str]] = {}

    def load(self, settings: Mapping[str, str]) -> None:
        import tract

        self.tract: Any = tract

    def report(self) -> InForce:
        return InForce(metadata.version("tract"), self.device, {"device": "cpu"})

    def compile_onnx(self, model: Any) -> Compiled:
        with open_folder() as folder:
            runnable = self._read(write_model(folder, model)).into_runnable()
        fed, made = list_fed(model), list_made(model)
        # Older releases call it a value.
        tensor = self.tract.Tensor if hasattr(self.tract, "Tensor") else self.tract.Value

        def run(inputs: Arrays, wanted: Sequence[str]) -> dict[str, np.ndarray]:
            found = runnable.run([tensor.from_numpy(inputs[name]) for name in fed])
            named = dict(zip(made, found, strict=True))
            return {name: np.array(named[name].to_numpy()) for name in wanted}

        return run

    def _read(self, path: str) -> Any:
        """A file as a model, optimised; releases call the same steps by other names."""
        reader = self.tract.onnx()
        read = reader.load(path) if hasattr(reader, "load") else reader.model_for_path(path)
        return read.into_model() if hasattr(read, "into_model") else read.into_optimized()
