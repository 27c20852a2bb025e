"""A torch module as a program: exported once, run whole, with values between its operations observed or given.

What is exported is decomposed as for ONNX, so that a value has one name in the program and in the ONNX model.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

_BESIDE_ARRAYS = (
    "a function of a model returns the module and its inputs: `return module, x` or `return module, (x, y)`"
)


class TorchProgram:
    """One exported program. `torch` is the module, which the engine has imported."""

    def __init__(self, torch: Any, *, compiles: bool):
        self.torch = torch
        self.compiles = compiles
        self.path = ""
        self.module: Any = None
        self.built: dict[tuple[str, ...], Any] = {}

    def export(self, text: str, folder: str) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Exports `file.py:function` or a .pt2 into `folder`: program.pt2 and model.onnx.

        Returns what is to be known of it (names of inputs, notes) and the example inputs by name.
        """
        export = importlib.import_module("torch.export")
        notes: list[str] = []
        with warnings.catch_warnings(), self.torch.no_grad():
            warnings.simplefilter("ignore")
            if text.endswith(".pt2"):
                program = export.load(text)
                inputs = tuple((program.example_inputs or ((), {}))[0])
                if not inputs:
                    raise ValueError(f"{text} was exported without example inputs")
            else:
                module, inputs = _load_function(text, self.torch)
                if getattr(module, "training", False):
                    module.eval()
                    notes.append("the module was in training mode; it runs in evaluation mode here")
                program = export.export(module, inputs)
            # Batch norms stay: folded into weights they would be other values than the module's own.
            written = self.torch.onnx.export(program, inputs, dynamo=True, verbose=False, optimize=False)
            optimizer = importlib.import_module("onnxscript.optimizer")
            optimizer.fold_constants(written.model)
            optimizer.remove_unused_nodes(written.model)
        decomposed = written.exported_program
        path = Path(folder) / "model.onnx"
        written.save(str(path), external_data=False)
        _drop_made_biases(path)
        export.save(decomposed, str(Path(folder) / "program.pt2"))
        names = [value.name for value in written.model.graph.inputs]
        arrays = {n: _as_array(self.torch, t) for n, t in zip(names, inputs, strict=True)}
        return {"inputs": names, "notes": notes}, arrays

    def list_values(self, path: str) -> list[str]:
        """The names of all values that the program computes one by one."""
        self._load(path)
        return [
            node.name for node in self.module.graph.nodes if node.op in ("call_function", "call_module", "get_attr")
        ]

    def run(
        self,
        path: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        observed: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """The program's outputs by the names given for them, and the observed values."""
        self._load(path)
        torch = self.torch
        tensors = [torch.from_numpy(np.array(a)) for a in inputs.values()]
        with torch.no_grad():
            if observed or given:
                found = self._run_observed(tensors, [*outputs, *observed], given)
            else:
                results = self._compiled(())(*tensors) if self.compiles else self.module(*tensors)
                flat = list(results) if isinstance(results, (tuple, list)) else [results]
                found = dict(zip(outputs, flat, strict=True))
        return {name: _as_array(torch, value) for name, value in found.items()}

    def _load(self, path: str) -> None:
        if path != self.path:
            export = importlib.import_module("torch.export")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.module, self.path, self.built = export.load(path).module(), path, {}

    def _run_observed(
        self, tensors: list[Any], wanted: Sequence[str], given: Mapping[str, np.ndarray]
    ) -> dict[str, Any]:
        torch = self.torch
        if self.compiles:
            if given:
                raise ValueError("a compiled program takes no values in place of its own")
            names = tuple(dict.fromkeys(wanted))
            return dict(zip(names, self._compiled(names)(*tensors), strict=True))
        fx = importlib.import_module("torch.fx")
        kept: dict[str, Any] = {}

        class Observing(fx.Interpreter):
            def run_node(self, n: Any) -> Any:
                value = torch.from_numpy(np.array(given[n.name])) if n.name in given else super().run_node(n)
                if n.name in wanted:
                    kept[n.name] = value
                return value

        Observing(self.module).run(*tensors)
        return kept

    def _compiled(self, names: tuple[str, ...]) -> Any:
        """The program compiled; with names, one that returns these values."""
        if names not in self.built:
            module = self.module
            if names:
                fx = importlib.import_module("torch.fx")
                graph = fx.Graph()
                copied: dict[Any, Any] = {}
                graph.graph_copy(module.graph, copied)
                by_name = {node.name: new for node, new in copied.items()}
                graph.output(tuple(by_name[name] for name in names))
                module = fx.GraphModule(module, graph)
            self.built[names] = self.torch.compile(module, dynamic=False)
        return self.built[names]


def _drop_made_biases(path: Path) -> None:
    """Takes out biases of zeros that the exporter made; those of conv3d have two axes, which no engine takes."""
    onnx = importlib.import_module("onnx")
    model = onnx.load(path)
    made = {t.name: t for t in model.graph.initializer if t.name.startswith("val_")}
    for node in model.graph.node:
        bias = made.get(node.input[2]) if node.op_type in ("Conv", "ConvTranspose") and len(node.input) > 2 else None
        if bias is not None and not onnx.numpy_helper.to_array(bias).any():
            del node.input[2]
    onnx.save(model, path)


def _load_function(text: str, torch: Any) -> tuple[Any, tuple[Any, ...]]:
    """The module and inputs that `file.py:function` returns."""
    file, _, name = text.rpartition(":")
    path = Path(file).resolve()
    if not path.is_file():
        raise ValueError(f"{file} is not there")
    sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    function = getattr(loaded, name, None)
    if not callable(function):
        raise ValueError(f"{file} has no function {name}")
    returned = function()
    if not (isinstance(returned, tuple) and len(returned) == 2 and isinstance(returned[0], torch.nn.Module)):
        raise ValueError(_BESIDE_ARRAYS)
    module, inputs = returned
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    return module, tuple(torch.from_numpy(i) if isinstance(i, np.ndarray) else i for i in inputs)


def _as_array(torch: Any, tensor: Any) -> np.ndarray:
    tensor = tensor.detach().contiguous()
    if tensor.dtype == torch.bfloat16:
        from samebits.formats.format import numpy_dtype

        return tensor.view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
    return tensor.numpy()
