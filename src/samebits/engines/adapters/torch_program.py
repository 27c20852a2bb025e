"""A torch module as a program: exported once, run whole, with values between its operations observed or given.

What is exported is decomposed as for ONNX, so that a value has one name in the program and in the ONNX model.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from samebits.engines.adapters.keras_program import is_recorded, make_exportable, write_record
from samebits.engines.adapters.model_function import is_keras_model, load_function
from samebits.engines.adapters.program_file import copy_cleanly
from samebits.numbers.format import numpy_dtype

# What a module may return beside tensors, and is told that ONNX does not have it.
_PLAIN = (str, bytes, int, float, complex, type(None))
# The operation that an exporter's error names.
_TARGET = re.compile(r"target=([\w.]+)")
# torch.load then reads with its own reader of tensors, whatever its caller asks for (torch/serialization.py).
_TENSORS_ONLY = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"


@dataclass
class _Taken:
    """A module or program with its example inputs; for a Keras model, that model too."""

    inputs: tuple[Any, ...]
    module: Any = None
    program: Any = None
    keras_model: Any = None
    # Inputs that go in by name.
    named: dict[str, Any] = field(default_factory=dict[str, Any])
    notes: list[str] = field(default_factory=list[str])


class TorchProgram:
    """One exported program, run on the device `place`. `torch` is the module, which the engine has imported."""

    def __init__(self, torch: Any, *, compiles: bool, place: str = "cpu"):
        self.torch = torch
        self.compiles = compiles
        self.place = place
        self.path = ""
        self.module: Any = None
        self.examples: Any = None
        self.built: dict[tuple[str, ...], Any] = {}

    def export(
        self, text: str, folder: str, *, opens_batch: bool = False
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Exports `file.py:function` or a .pt2 into `folder`: program.pt2 and model.onnx, and what Keras needs.

        With `opens_batch` the first axis of every input, as long as that of the first one, may have any size. Returns
        the facts about it (names of inputs, notes, kind, values that its layers make) and the example inputs
        by name.
        """
        export = importlib.import_module("torch.export")
        with warnings.catch_warnings(), self.torch.no_grad():
            warnings.simplefilter("ignore")
            taken = self._take(text, folder)
            if taken.program is None and taken.keras_model is None:
                self._leave_out_unknown(taken)
            shapes = self._open_batch(taken) if opens_batch and taken.program is None else None
            program = taken.program or export.export(taken.module, taken.inputs, taken.named, dynamic_shapes=shapes)
            # Batch norms stay: folded into weights they would be other values than the module's own.
            written = self._write(program, taken)
            if taken.keras_model is not None:
                # The results of layers are needed by name only.
                del written.model.graph.outputs[taken.module.count :]
            optimizer = importlib.import_module("onnxscript.optimizer")
            optimizer.fold_constants(written.model)
            optimizer.remove_unused_nodes(written.model)
        decomposed = written.exported_program
        _return_plainly(decomposed)
        path = Path(folder) / "model.onnx"
        written.save(str(path), external_data=False)
        _drop_made_biases(path)
        export.save(decomposed, str(Path(folder) / "program.pt2"))
        layers: list[str] = []
        if taken.keras_model is not None:
            layers = list(decomposed.graph_signature.user_outputs)[taken.module.count :]
            write_record(Path(folder), text, taken.keras_model, layers, taken.module.keys)
        names = [value.name for value in written.model.graph.inputs]
        tensors = [t for t in _list_leaves((taken.inputs, taken.named)) if isinstance(t, self.torch.Tensor)]
        arrays = {n: as_array(self.torch, t) for n, t in zip(names, tensors, strict=True)}
        kind = "torch" if taken.keras_model is None else "keras"
        return {"inputs": names, "notes": taken.notes, "kind": kind, "layers": layers}, arrays

    def _take(self, text: str, folder: str) -> _Taken:
        """What a text names, ready to be exported."""
        if text.endswith(".pt2"):
            program = self._load_strange(text, folder)
            inputs, named = program.example_inputs or ((), {})
            if not inputs and not named:
                raise ValueError(f"{text} was exported without example inputs")
            return _Taken(tuple(inputs), program=program, named=named)
        # It may train the module before it returns it.
        with self.torch.enable_grad():
            model, given = load_function(text, "torch")
        if is_keras_model(model):
            module, inputs = make_exportable(self.torch, model, given)
            said = "the model is exported from Keras's torch backend; all backends take its weights"
            return _Taken(inputs, module, keras_model=model, notes=[said])
        if not isinstance(model, self.torch.nn.Module):
            raise ValueError(f"{text} returns neither a torch module nor a Keras model")
        named = {name: self._as_tensor(i) for name, i in given.items()} if isinstance(given, dict) else {}
        inputs = given if isinstance(given, (tuple, list)) else () if named else (given,)
        tensors = tuple(self._as_tensor(i) for i in inputs)
        if not model.training:
            return _Taken(tensors, model, named=named)
        model.eval()
        said = "the module was in training mode; it runs in evaluation mode here"
        return _Taken(tensors, model, named=named, notes=[said])

    def _leave_out_unknown(self, taken: _Taken) -> None:
        """Leaves out results of classes that nothing exports, such as a cache of keys and values, beside tensors."""
        known = (self.torch.Tensor, *_PLAIN)
        results = _list_leaves(taken.module(*taken.inputs, **taken.named))
        unknown = [v for v in results if not isinstance(v, known)]
        if not unknown or not any(isinstance(v, self.torch.Tensor) for v in results):
            return
        forward = taken.module.forward

        @functools.wraps(forward)
        def return_known(*inputs: Any, **named: Any) -> tuple[Any, ...]:
            return tuple(v for v in _list_leaves(forward(*inputs, **named)) if isinstance(v, known))

        taken.module.forward = return_known
        names = ", ".join(dict.fromkeys(type(v).__name__[:60] for v in unknown))
        taken.notes.append(f"what the module returns as {names} is left out: only tensors are compared")

    def _open_batch(self, taken: _Taken) -> Any:
        """What is open, as torch.export takes it; the inputs get two items, as one would be taken for the only size."""
        pytree = importlib.import_module("torch.utils._pytree")
        batch = importlib.import_module("torch.export").Dim("batch", min=1)
        tensors = [t for t in _list_leaves((taken.inputs, taken.named)) if isinstance(t, self.torch.Tensor) and t.dim()]
        if not tensors:
            raise ValueError("it takes no tensor with a batch")
        first = len(tensors[0])

        def is_batched(leaf: Any) -> bool:
            return isinstance(leaf, self.torch.Tensor) and leaf.dim() > 0 and len(leaf) == first

        def take_two(leaf: Any) -> Any:
            return self.torch.cat([leaf, leaf]) if is_batched(leaf) and first == 1 else leaf

        shapes = pytree.tree_map(lambda leaf: {0: batch} if is_batched(leaf) else None, (taken.inputs, taken.named))
        taken.inputs, taken.named = pytree.tree_map(take_two, (taken.inputs, taken.named))
        # What takes a Keras model's inputs takes any number of them: they count as one argument.
        return (shapes[0],) if taken.keras_model is not None else shapes[1] or shapes[0]

    def _load_strange(self, path: str, folder: str) -> Any:
        """The program in a stranger's file: torch sees a clean copy of it, and unpickles nothing but tensors."""
        copy = Path(folder) / "given.pt2"
        copy_cleanly(path, copy)
        before = os.environ.get(_TENSORS_ONLY)
        os.environ[_TENSORS_ONLY] = "1"
        try:
            return importlib.import_module("torch.export").load(str(copy))
        finally:
            copy.unlink()
            if before is None:
                del os.environ[_TENSORS_ONLY]
            else:
                os.environ[_TENSORS_ONLY] = before

    def _as_tensor(self, given: Any) -> Any:
        return as_tensor(self.torch, given) if isinstance(given, np.ndarray) else given

    def _write(self, program: Any, taken: _Taken) -> Any:
        """The program as an ONNX model. Raises ValueError for results that ONNX does not have."""
        made = _list_results(program.module()(*taken.inputs, **taken.named))
        odd = next((type(v).__name__ for v in made if not isinstance(v, self.torch.Tensor)), None)
        if odd is None and any(v.is_complex() for v in made):
            odd = "complex numbers"
        if odd is not None:
            raise ValueError(f"the module returns {odd} in addition to, or in place of, tensors of real numbers")
        try:
            return self.torch.onnx.export(
                program, taken.inputs, kwargs=taken.named, dynamo=True, verbose=False, optimize=False
            )
        except RuntimeError as error:
            # What it raises is advice for torch's developers; what cannot be translated, and why, its causes say.
            raise ValueError(_find_root(error)) from error

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
        tensors = iter([as_tensor(torch, np.array(a)).to(self.place) for a in inputs.values()])
        pytree = importlib.import_module("torch.utils._pytree")
        leaves, shape = pytree.tree_flatten(self.examples)
        leaves = [next(tensors) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        with torch.no_grad():
            # A Keras model's program returns the results of its layers behind its outputs.
            if observed or given or is_recorded(path):
                found = self._run_observed(leaves, [*outputs, *observed], given)
            else:
                positional, named = pytree.tree_unflatten(leaves, shape)
                results = (self._compiled(()) if self.compiles else self.module)(*positional, **named)
                found = dict(zip(outputs, _list_results(results), strict=True))
        return {name: as_array(torch, value) for name, value in found.items()}

    def _load(self, path: str) -> None:
        if path != self.path:
            export = importlib.import_module("torch.export")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                program = export.load(path)
                if self.place != "cpu":
                    program = importlib.import_module("torch.export.passes").move_to_device_pass(program, self.place)
                self.module, self.examples = program.module(), program.example_inputs
                self.path, self.built = path, {}

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
        place = self.place

        class Observing(fx.Interpreter):
            def run_node(self, n: Any) -> Any:
                own = as_tensor(torch, np.array(given[n.name])).to(place) if n.name in given else None
                value = super().run_node(n) if own is None else own
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


def _list_leaves(results: Any) -> list[Any]:
    """What a module returns or takes, however nested, one after the other."""
    return importlib.import_module("torch.utils._pytree").tree_leaves(results)


def _find_root(error: BaseException) -> str:
    """What an exporter's error comes from, with the operation that it stopped at."""
    causes = [error]
    while causes[-1].__cause__ is not None:
        causes.append(causes[-1].__cause__)
    target = next((m[1] for cause in causes if (m := _TARGET.search(str(cause)))), None)
    says = str(causes[-1]).strip().split("\n", 1)[0].rstrip(".")
    where = f" at {target.removeprefix('torch.ops.')}" if target and target not in says else ""
    return f"torch.onnx.export stops{where}: {says or type(causes[-1]).__name__}"


def _list_results(results: Any) -> list[Any]:
    """What a module returns, one after the other, without the places where it returns nothing."""
    return [value for value in _list_leaves(results) if value is not None]


def _return_plainly(program: Any) -> None:
    """Makes a program return a tuple: classes of results are another library's, which whoever loads it may not have."""
    pytree = importlib.import_module("torch.utils._pytree")
    signature = program.module_call_graph[0].signature
    count = signature.out_spec.num_leaves
    signature.out_spec = pytree.tree_flatten((0,) * count)[1]


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


def as_tensor(torch: Any, array: np.ndarray) -> Any:
    """An array as a tensor; bfloat16 and float8 are none of NumPy's own dtypes."""
    if array.dtype == numpy_dtype("bfloat16"):
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    if array.dtype.name.startswith("float8"):
        return torch.from_numpy(array.view(np.uint8)).view(getattr(torch, array.dtype.name))
    return torch.from_numpy(array)


def as_array(torch: Any, tensor: Any) -> np.ndarray:
    """A tensor as an array."""
    tensor = tensor.detach().cpu().contiguous()
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(numpy_dtype("bfloat16"))
    return tensor.numpy()
