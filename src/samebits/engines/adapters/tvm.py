"""Apache TVM on the CPU: ONNX models, through Relax and LLVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import InForce, Setting
from samebits.engines.adapters.onnx_reader import Arrays, Compiled, OnnxReader, list_fed, list_made

_TARGETS = ("generic", "native")


class TvmEngine(OnnxReader):
    """relax.frontend.onnx.from_onnx, relax.build and the Relax virtual machine; kernels are not tuned."""

    name = "tvm"
    formats = ("float32", "float64", "float16")
    settings: ClassVar[dict[str, Setting]] = {
        "target": Setting("what LLVM compiles for: any x86-64 or this processor", "generic", _TARGETS, compiles=True),
    }
    variables: ClassVar[dict[str, str]] = {"TVM_NUM_THREADS": "threads of its pool"}

    def load(self, settings: Mapping[str, str]) -> None:
        import tvm

        self.tvm: Any = tvm
        self.target = settings.get("target", "generic")

    def report(self) -> InForce:
        return InForce(self.tvm.__version__, self.device, {"target": self._say_target()})

    def _say_target(self) -> str:
        if self.target == "generic":
            return "llvm"
        return f"llvm -mcpu={self.tvm.target.codegen.llvm_get_system_cpu()}"

    def compile_onnx(self, model: Any) -> Compiled:
        from tvm import relax
        from tvm.relax.frontend.onnx import from_onnx

        module = from_onnx(model, keep_params_in_input=False)
        target: Any = "llvm"
        if self.target == "native":
            target = {"kind": "llvm", "mcpu": self.tvm.target.codegen.llvm_get_system_cpu()}
        machine = relax.VirtualMachine(relax.build(module, target=self.tvm.target.Target(target)), self.tvm.cpu())
        fed, made = list_fed(model), list_made(model)

        def run(inputs: Arrays, wanted: Sequence[str]) -> dict[str, np.ndarray]:
            found = machine["main"](*(self.tvm.runtime.tensor(inputs[name]) for name in fed))
            several = [found] if len(made) == 1 else list(found)
            named = dict(zip(made, several, strict=True))
            return {name: np.array(named[name].numpy()) for name in wanted}

        return run
