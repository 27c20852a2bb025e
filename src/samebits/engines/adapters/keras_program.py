"""A Keras model as a program: the same layers and weights on each of Keras's backends, layer by layer observed.

The model is exported once, on the torch backend, with the result of every layer; on the others its function is called
again and takes the exported weights. A value of the network is the n-th call of the i-th layer everywhere.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from samebits.engines.adapters.model_function import load_function

_RECORD = "keras.json"
_WEIGHTS = "weights.npz"
# Their inner layers are called in a loop, which one backend unrolls and another does not.
_LOOPS = ("RNN", "Bidirectional", "TimeDistributed")
# Activations that return their input unchanged, or that round nothing.
_PLAIN_ACTIVATIONS = ("linear", "relu", "relu6")

Calls = dict[str, Any]
# Makes a function of arrays, weights apart, into the one that the backend runs.
Compile = Callable[[Callable[..., Any]], Callable[..., Any]]


@contextlib.contextmanager
def watch_layers(model: Any, given: Mapping[str, Any]) -> Iterator[Calls]:
    """Yields the results of all layers called meanwhile, by "layer.call"; `given` results replace the layers' own.

    The input of a layer's own activation is recorded too, as "layer.call.before".
    """
    keras = importlib.import_module("keras")
    layers = list(model._flatten_layers(include_self=False))
    number = {id(layer): i for i, layer in enumerate(layers)}
    loops = tuple(getattr(keras.layers, name) for name in _LOOPS)
    seen: Calls = {}
    times: Counter[int] = Counter()
    inside: list[Any] = []
    plain = keras.layers.Layer.__call__

    def call(layer: Any, *args: Any, **kwargs: Any) -> Any:
        inside.append(layer)
        try:
            result = plain(layer, *args, **kwargs)
        finally:
            inside.pop()
        result = note(layer, result, "")
        times[number.get(id(_find_itself(layer)), -1)] += 1
        return result

    def note(layer: Any, result: Any, suffix: str) -> Any:
        place = number.get(id(_find_itself(layer)))
        outer = inside[:-1] if suffix else inside
        if place is None or not hasattr(result, "shape") or any(isinstance(o, loops) for o in outer):
            return result
        key = f"{place}.{times[place]}{suffix}"
        seen[key] = given.get(key, result)
        return seen[key]

    def watch_activation(layer: Any, activation: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda x: activation(note(layer, x, ".before"))

    activations = [(layer, layer.activation) for layer in layers if _has_activation(layer, loops)]
    keras.layers.Layer.__call__ = call
    for layer, activation in activations:
        layer.activation = watch_activation(layer, activation)
    try:
        yield seen
    finally:
        keras.layers.Layer.__call__ = plain
        for layer, activation in activations:
            layer.activation = activation


def _find_itself(layer: Any) -> Any:
    """The layer behind the proxy that torch's exporter substitutes for a layer with several owners."""
    find = getattr(layer, "get_base", None)
    return layer if find is None else find()


def _has_activation(layer: Any, loops: tuple[Any, ...]) -> bool:
    """Whether a layer applies an activation not in `_PLAIN_ACTIVATIONS`; one that is a layer is watched as a layer."""
    activation = getattr(layer, "activation", None)
    keras = importlib.import_module("keras")
    if not callable(activation) or isinstance(layer, loops) or isinstance(activation, keras.layers.Layer):
        return False
    return getattr(activation, "__name__", "") not in _PLAIN_ACTIVATIONS


def call_model(model: Any, inputs: Any, call: Callable[..., Any]) -> list[Any]:
    """A model's outputs as a flat list; `call` calls it, with a tuple of inputs passed as its kind of model expects."""
    keras = importlib.import_module("keras")
    if isinstance(inputs, tuple) and not isinstance(model, (keras.Sequential, keras.src.models.functional.Functional)):
        return keras.tree.flatten(call(*inputs, training=False))
    return keras.tree.flatten(call(list(inputs) if isinstance(inputs, tuple) else inputs, training=False))


def make_exportable(torch: Any, model: Any, inputs: Any) -> tuple[Any, tuple[Any, ...]]:
    """A torch module that returns a Keras model's outputs, then its layers' results; and the inputs as tensors.

    After a call `module.count` is the number of the model's outputs, `module.keys` are the layer calls that follow.
    """
    keras = importlib.import_module("keras")
    flat = [keras.ops.convert_to_tensor(leaf) for leaf in keras.tree.flatten(inputs)]

    class Exportable(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.count = 0
            self.keys: list[str] = []

        def forward(self, *tensors: Any) -> tuple[Any, ...]:
            with watch_layers(model, {}) as seen:
                outputs = call_model(model, keras.tree.pack_sequence_as(inputs, tensors), model)
            known = {id(t) for t in (*outputs, *tensors)}
            kept = {}
            for key, value in seen.items():
                if id(value) not in known:
                    known.add(id(value))
                    kept[key] = value
            self.count, self.keys = len(outputs), list(kept)
            return (*outputs, *kept.values())

    module = Exportable()
    with torch.no_grad():
        # A model that is not built yet calls its layers in order to build them.
        call_model(model, inputs, model)
        module(*flat)
    return module, tuple(t.detach().cpu() for t in flat)


def write_record(folder: Path, text: str, model: Any, names: Sequence[str], keys: Sequence[str]) -> None:
    """Writes into the program's folder what the other backends need: the function, the weights, names of values."""
    np.savez(folder / _WEIGHTS, *model.get_weights())
    values = dict(zip(names, keys, strict=True))
    record = {"text": text, "values": values, "layers": list_layers(model), "python": sys.executable}
    (folder / _RECORD).write_text(json.dumps(record))


def list_layers(model: Any) -> list[str]:
    """All layers in sequence, by kind and weight shapes: the same on every backend of one model."""
    layers = model._flatten_layers(include_self=False)
    return [f"{type(layer).__name__} {[list(w.shape) for w in layer.weights]}" for layer in layers]


def is_recorded(program: str) -> bool:
    """Whether an exported program was a Keras model."""
    return Path(program).with_name(_RECORD).is_file()


def is_of_other_python(program: str) -> bool:
    """Whether a program is a Keras model that another environment exported: its layers may be other code here."""
    return is_recorded(program) and _read_record(program)["python"] != sys.executable


def _read_record(program: str) -> dict[str, Any]:
    return json.loads(Path(program).with_name(_RECORD).read_text())


class KerasProgram:
    """A Keras model on the backend of one engine, which says how a function is compiled."""

    def __init__(self, backend: str, compile_function: Compile, *, keeps_state: bool):
        self.backend = backend
        self.compile_function = compile_function
        # Whether variables are read as they are, or go in as arguments of the function.
        self.keeps_state = keeps_state
        self.path = ""
        self.model: Any = None
        self.inputs: Any = None
        self.values: dict[str, str] = {}
        self.built: dict[tuple[tuple[str, ...], tuple[str, ...]], Callable[..., Any]] = {}

    def list_values(self, path: str) -> list[str]:
        """The names of the values that are results of layers."""
        self._load(path)
        return list(self.values)

    def run(
        self,
        path: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        observed: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """The model's outputs by the names given for them, and the observed values."""
        self._load(path)
        keras = importlib.import_module("keras")
        wanted = tuple(dict.fromkeys(self.values[name] for name in observed))
        replaced = {self.values[name]: array for name, array in given.items()}
        key = (wanted, tuple(replaced))
        if key not in self.built:
            self.built = {**dict([*self.built.items()][-4:]), key: self._build(wanted)}
        state: tuple[list[Any], ...] = ()
        if not self.keeps_state:
            variables = (self.model.trainable_variables, self.model.non_trainable_variables)
            state = tuple([v.value for v in kind] for kind in variables)
        made, seen = self.built[key](state, list(inputs.values()), replaced)
        results = dict(zip(outputs, made, strict=True))
        results |= {name: seen[self.values[name]] for name in observed}
        return {name: keras.ops.convert_to_numpy(value) for name, value in results.items()}

    def _load(self, path: str) -> None:
        if path == self.path:
            return
        record = _read_record(path)
        self.model, self.inputs = load_function(record["text"], self.backend)
        call_model(self.model, self.inputs, self.model)
        own = list_layers(self.model)
        if own != record["layers"]:
            first = next((a for a, b in zip(own, record["layers"], strict=False) if a != b), "one more, or less")
            raise ValueError(
                f"its layers are not those that were exported: {len(own)} of {len(record['layers'])}, {first}"
            )
        with np.load(Path(path).with_name(_WEIGHTS)) as stored:
            self.model.set_weights([stored[name] for name in stored.files])
        self.values, self.path, self.built = record["values"], path, {}

    def _build(self, wanted: tuple[str, ...]) -> Callable[..., Any]:
        """The model as a function of its inputs and the values that are given, compiled as its backend does."""
        keras = importlib.import_module("keras")
        model, structure = self.model, self.inputs

        def compute(state: tuple[Any, ...], flat: list[Any], given: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
            def call(*args: Any, **kwargs: Any) -> Any:
                return model.stateless_call(*state, *args, **kwargs)[0] if state else model(*args, **kwargs)

            with watch_layers(model, given) as seen:
                made = call_model(model, keras.tree.pack_sequence_as(structure, flat), call)
            return made, {key: seen[key] for key in wanted}

        return self.compile_function(compute)
