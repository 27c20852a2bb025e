"""MNN, Alibaba's mobile engine, on the CPU: ONNX models, converted by its own converter."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import THREADS, InForce, Setting
from samebits.engines.adapters.onnx_reader import Arrays, Compiled, OnnxReader, list_fed, list_made, write_model
from samebits.errors import EngineUnsupported
from samebits.regular_files import open_folder

_PRECISIONS = ("normal", "high", "low", "low_bf16")
_CPU = 0


class MnnEngine(OnnxReader):
    """A module of MNN.nn on the CPU backend, float32; `precision` is a session's, as programs set it.

    The converter is called in its own library: MNN.tools installs packages and sends telemetry when it is imported.
    """

    name = "mnn"
    settings: ClassVar[dict[str, Setting]] = {
        "precision": Setting("BackendConfig.precision", "normal", _PRECISIONS),
        "threads": THREADS,
        "optimize": Setting("the converter's --optimizeLevel", "1", ("0", "1", "2")),
        "rnn": Setting("recurrent layers as loops, or MNN's own (--useOriginRNNImpl)", "loop", ("loop", "own")),
    }
    variables: ClassVar[dict[str, str]] = {}

    def load(self, settings: Mapping[str, str]) -> None:
        self.mnn: Any = import_module("MNN")
        self.given = dict(settings)

    def report(self) -> InForce:
        in_force = {
            "precision": self.given.get("precision", "normal"),
            "threads": self.given.get("threads", "1"),
            "optimize": self.given.get("optimize", "1"),
            "rnn": self.given.get("rnn", "loop"),
        }
        return InForce(self.mnn.version(), self.device, in_force)

    def compile_onnx(self, model: Any) -> Compiled:
        tools, expr, nn = (import_module(name) for name in ("_tools", "MNN.expr", "MNN.nn"))
        config = {
            "backend": _CPU,
            "precision": self.given.get("precision", "normal"),
            "numThread": int(self.given.get("threads", "1")),
        }
        fed, made = list_fed(model), list_made(model)
        runtime = nn.create_runtime_manager((config,))
        with open_folder() as folder:
            target = str(Path(folder, "model.mnn"))
            words = ["--modelFile", write_model(folder, model), "--MNNModel", target, "--bizCode", "samebits"]
            words += ["--keepInputFormat", "1", "--optimizeLevel", self.given.get("optimize", "1")]
            if self.given.get("rnn") == "own":
                words += ["--useOriginRNNImpl", "1"]
            with contextlib.suppress(SystemExit):
                tools.mnnconvert(["MNNConvert", "--framework", "ONNX", *words])
            if not Path(target).is_file():
                raise EngineUnsupported("MNN's converter made no model of it")
            try:
                module = nn.load_module_from_file(target, fed, made, runtime_manager=runtime)
            except SystemError as error:
                # It raises what is no exception, and says why on standard output.
                raise ValueError("MNN does not load what its converter made") from error

        def run(inputs: Arrays, wanted: Sequence[str]) -> dict[str, np.ndarray]:
            kinds = {"float32": expr.float, "int32": expr.int, "int64": expr.int64, "uint8": expr.uint8}
            given = [expr.const(a, list(a.shape), expr.NCHW, kinds[a.dtype.name]) for a in (inputs[n] for n in fed)]
            named = dict(zip(made, module.forward(given), strict=True))
            return {name: np.array(expr.convert(named[name], expr.NCHW).read()) for name in wanted}

        return run
