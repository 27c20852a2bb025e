"""IREE on the CPU: ONNX models, through MLIR and LLVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import InForce, Setting
from samebits.engines.adapters.onnx_reader import Arrays, Compiled, OnnxReader, list_fed, list_made, write_model
from samebits.regular_files import open_folder

_LEVELS = ("O0", "O1", "O2", "O3")


class IreeEngine(OnnxReader):
    """torch-mlir's importer, iree-compile for llvm-cpu, and a local device."""

    name = "iree"
    formats = ("float32", "float64", "float16")
    settings: ClassVar[dict[str, Setting]] = {
        "target": Setting("what LLVM compiles for", "host", ("host", "generic"), compiles=True),
        "optimize": Setting("--iree-opt-level", "O0", _LEVELS),
        "driver": Setting("one thread, or a pool of them", "local-task", ("local-task", "local-sync")),
    }
    variables: ClassVar[dict[str, str]] = {}

    def load(self, settings: Mapping[str, str]) -> None:
        import iree.compiler
        import iree.runtime

        self.compiler: Any = iree.compiler
        self.runtime: Any = iree.runtime
        self.given = dict(settings)

    def report(self) -> InForce:
        in_force = {name: self.given.get(name, known.default) for name, known in self.settings.items()}
        return InForce(metadata.version("iree-base-compiler"), self.device, in_force)

    def compile_onnx(self, model: Any) -> Compiled:
        from iree.compiler.tools.import_onnx import __main__ as importer

        copy = type(model)()
        copy.CopyFrom(model)
        copy.graph.name = "main"
        # Without it products of float64 are computed in float32, and returned as that.
        words = [
            "--iree-input-demote-f64-to-f32=false",
            f"--iree-llvmcpu-target-cpu={self.given.get('target', 'host')}",
        ]
        if "optimize" in self.given:
            words.append(f"--iree-opt-level={self.given['optimize']}")
        with open_folder() as folder:
            read = str(Path(folder, "model.mlir"))
            importer.main(importer.parse_arguments([write_model(folder, copy), "-o", read]))
            made = self.compiler.compile_file(read, input_type="onnx", target_backends=["llvm-cpu"], extra_args=words)
        config = self.runtime.Config(self.given.get("driver", "local-task"))
        context = self.runtime.SystemContext(config=config)
        context.add_vm_module(self.runtime.VmModule.copy_buffer(context.instance, made))
        main, fed, names = context.modules.module["main"], list_fed(model), list_made(model)

        def run(inputs: Arrays, wanted: Sequence[str]) -> dict[str, np.ndarray]:
            found = main(*(inputs[name] for name in fed))
            several = [found] if len(names) == 1 else list(found)
            named = dict(zip(names, several, strict=True))
            return {name: np.array(named[name].to_host()) for name in wanted}

        return run
