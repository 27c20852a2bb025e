"""OpenCV's dnn module on the CPU: ONNX models, read by its classic engine or by the one that version 5 brought."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import ON_OFF, THREADS, InForce, Setting
from samebits.engines.adapters.onnx_reader import Arrays, Compiled, OnnxReader, list_made

_ENGINES = {"auto": "ENGINE_AUTO", "classic": "ENGINE_CLASSIC", "new": "ENGINE_NEW"}


class OpencvEngine(OnnxReader):
    """cv2.dnn.readNetFromONNX, float32. Before version 5 there is one engine alone, and `engine` says nothing."""

    name = "opencv"
    settings: ClassVar[dict[str, Setting]] = {
        "engine": Setting("which of its engines runs the model (OpenCV 5)", "auto", tuple(_ENGINES)),
        "winograd": Setting("Net.enableWinograd", "on", ON_OFF),
        "fusion": Setting("Net.enableFusion", "on", ON_OFF),
        "threads": THREADS,
    }
    variables: ClassVar[dict[str, str]] = {
        "OPENCV_CPU_DISABLE": "instruction sets whose kernels are not used, e.g. AVX512_SKX,AVX2",
        "OPENCV_FORCE_DNN_ENGINE": "1 classic, 2 new, 3 auto: overrules what a program asks for",
    }

    def load(self, settings: Mapping[str, str]) -> None:
        import cv2

        self.cv2: Any = cv2
        self.given = dict(settings)
        if "threads" in settings:
            cv2.setNumThreads(int(settings["threads"]))
        self.has_engines = hasattr(cv2.dnn, "ENGINE_AUTO")

    def report(self) -> InForce:
        chosen = self.given.get("engine", "auto") if self.has_engines else "classic"
        in_force = {
            "engine": chosen,
            "winograd": self.given.get("winograd", "on"),
            "fusion": self.given.get("fusion", "on"),
            "threads": str(self.cv2.getNumThreads()),
        }
        return InForce(self.cv2.__version__, self.device, in_force)

    def compile_onnx(self, model: Any) -> Compiled:
        stored = np.frombuffer(model.SerializeToString(), np.uint8)
        engine = getattr(self.cv2.dnn, _ENGINES[self.given.get("engine", "auto")], None)
        net = self.cv2.dnn.readNetFromONNX(stored, *([] if engine is None else [engine]))
        if "winograd" in self.given:
            net.enableWinograd(self.given["winograd"] == "on")
        if "fusion" in self.given:
            net.enableFusion(self.given["fusion"] == "on")

        made = list_made(model)

        def run(inputs: Arrays, wanted: Sequence[str]) -> dict[str, np.ndarray]:
            for name, array in inputs.items():
                net.setInput(array, name)
            # The newer engine returns all of them, or none.
            named = dict(zip(made, net.forward(made), strict=True))
            return {name: np.array(named[name]) for name in wanted}

        return run
