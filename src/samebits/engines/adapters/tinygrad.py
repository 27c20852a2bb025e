"""tinygrad on the CPU: ONNX models, whose kernels clang or LLVM compiles."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import metadata
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import ON_OFF, InForce, Setting
from samebits.engines.adapters.onnx_reader import Arrays, Compiled, OnnxReader, write_model
from samebits.regular_files import open_folder


class TinygradEngine(OnnxReader):
    """tinygrad.nn.onnx.OnnxRunner on the device CPU; it needs clang, or LLVM's library."""

    name = "tinygrad"
    formats = ("float32", "float64", "float16")
    settings: ClassVar[dict[str, Setting]] = {
        "optimize": Setting("its kernels' optimisations; off is NOOPT=1", "on", ON_OFF, compiles=True),
    }
    variables: ClassVar[dict[str, str]] = {
        "NOOPT": "1: no optimisation of kernels",
        "BEAM": "how many candidates of each kernel are timed; the fastest is kept",
    }

    def load(self, settings: Mapping[str, str]) -> None:
        if settings.get("optimize") == "off":
            os.environ["NOOPT"] = "1"
        import tinygrad
        from tinygrad.nn.onnx import OnnxRunner

        self.tinygrad: Any = tinygrad
        self.reader: Any = OnnxRunner

    def report(self) -> InForce:
        in_force = {"optimize": "off" if os.environ.get("NOOPT") == "1" else "on"}
        return InForce(metadata.version("tinygrad"), self.device, in_force)

    def compile_onnx(self, model: Any) -> Compiled:
        with open_folder() as folder:
            runner = self.reader(write_model(folder, model))

        def run(inputs: Arrays, wanted: Sequence[str]) -> dict[str, np.ndarray]:
            found = runner({name: self.tinygrad.Tensor(array) for name, array in inputs.items()})
            return {name: found[name].numpy() for name in wanted}

        return run
