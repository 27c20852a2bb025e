"""What runs a whole network: engines that read ONNX, and everything else one convolution or product at a time."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from samebits.engines.registry.known_engines import ENGINES, find_class
from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Identity, Runner
from samebits.engines.workers.process import WorkerRunner
from samebits.errors import ArgumentError, EngineRaised, EngineUnsupported
from samebits.limits import VALUE_BYTES
from samebits.networks.channel_orders import Order
from samebits.networks.network import Network, Node, Program, ValueType
from samebits.networks.pooling import evaluate_plainly, pool_plainly
from samebits.networks.product_nodes import PRODUCTS, find_product
from samebits.numbers.format import FORMATS, numpy_dtype
from samebits.problems import Problem

_OVERRULED = "#overruled"
# So many bytes of weights, sent with each change of what is observed, take longer than a run does. In a file beside the
# model, tensors of so many bytes begin at whole pages.
_MOST_SENT, _SMALLEST_BESIDE, _ALIGNED = 2**24, 2**16, 4096


def rewire(
    network: Network, outputs: Sequence[str], given: Mapping[str, np.ndarray] | None = None, stored: Any = None
) -> bytes:
    """The model as bytes, returning `outputs` in their sequence; values in `given` are inputs instead of computed.

    `stored` is what the network is stored as, if its weights lie in another place than the network's own.

    Nodes stay as they are, so that what an engine fuses stays as it is as far as outputs and inputs allow.
    """
    import onnx

    given = given or {}
    model = onnx.ModelProto()
    model.CopyFrom(network.stored if stored is None else stored)
    graph = model.graph
    declared = {v.name: v for v in (*graph.output, *graph.value_info)}
    kept = [_declare(value, declared, network) for value in outputs]
    del graph.output[:]
    graph.output.extend(kept)
    for node in graph.node:
        for i, value in enumerate(node.output):
            if value in given:
                node.output[i] = value + _OVERRULED
    if folder := find_data_files(model)[0]:
        for tensor in graph.initializer:
            for entry in tensor.external_data if tensor.data_location == onnx.TensorProto.EXTERNAL else ():
                if entry.key == "location":
                    entry.value = os.path.relpath(entry.value, folder)
    for value, array in given.items():
        element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
        graph.input.append(onnx.helper.make_tensor_value_info(value, element, array.shape))
    return model.SerializeToString()


def find_data_files(model: Any) -> tuple[str, list[str]]:
    """The folder of the files that hold weights which a model does not, and the files' names there."""
    import onnx

    paths = {
        entry.value
        for tensor in model.graph.initializer
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    if not paths:
        return "", []
    folder = os.path.commonpath([os.path.dirname(path) for path in paths])
    return folder, sorted(os.path.relpath(path, folder) for path in paths)


def _declare(value: str, declared: Mapping[str, Any], network: Network) -> Any:
    """Declares a value with what is known of its type; engines infer the rest."""
    import onnx

    if value in declared:
        return declared[value]
    known = network.types.get(value)
    if known and known.dtype:
        element = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(known.dtype))
        return onnx.helper.make_tensor_value_info(value, element, None)
    return onnx.ValueInfoProto(name=value)


Arrays = dict[str, np.ndarray]


@runtime_checkable
class ModelRunner(Protocol):
    """Anything that runs a network and shows values in between. Raises an EngineFailure where it cannot."""

    text: str

    def identify(self) -> Identity:
        """What the runner says of itself."""
        ...

    def run_network(
        self,
        network: Network,
        inputs: Mapping[str, np.ndarray],
        observed: Sequence[str],
        wanted: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> Arrays:
        """The `wanted` values of a run with `observed` ones as outputs and `given` ones in place of computed ones."""
        ...

    def close(self) -> None:
        """Frees what the runner holds."""
        ...


class OnnxRunner:
    """An engine that reads ONNX itself."""

    def __init__(self, worker: WorkerRunner):
        self.worker = worker
        self.text = worker.text
        # The network itself is kept, so that no other object can get its id.
        self._built: tuple[Network, object, bytes] | None = None
        self._beside: _Beside | None = None
        known = find_class(parse_runner_text(worker.text).name)
        self._puts_beside = worker.is_here and known is not None and known.reads_data_files

    def identify(self) -> Identity:
        return self.worker.identify()

    def run_network(
        self,
        network: Network,
        inputs: Mapping[str, np.ndarray],
        observed: Sequence[str],
        wanted: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> Arrays:
        outputs = list(dict.fromkeys([*network.outputs, *observed, *wanted]))
        key = (tuple(outputs), tuple((n, v.dtype.name, v.shape) for n, v in given.items()))
        stored = self._put_beside(network)
        if self._built is None or self._built[0] is not network or self._built[1] != key:
            self._built = (network, key, rewire(network, outputs, given, stored))
        added = [v for v in outputs if v not in network.outputs]
        found = self.worker.run_onnx(self._built[2], {**inputs, **given}, wanted, added, files=find_data_files(stored))
        return {name: found[name] for name in wanted}

    def _put_beside(self, network: Network) -> Any:
        """What the network is stored as: with many weights, a model that is small to send, and a file beside it."""
        if self._beside is not None and self._beside.network is network:
            return self._beside.model
        if not self._puts_beside or find_data_files(network.stored)[1]:
            return network.stored
        if sum(map(_count_raw, network.stored.graph.initializer)) < _MOST_SENT:
            return network.stored
        self._drop_beside()
        try:
            self._beside = _Beside(network)
        except OSError:  # No room for temporary files: the weights are sent.
            self._puts_beside = False
            return network.stored
        return self._beside.model

    def _drop_beside(self) -> None:
        if self._beside is not None:
            self._beside.folder.cleanup()
            self._beside = None

    def close(self) -> None:
        self.worker.close()
        self._drop_beside()


def _count_raw(tensor: Any) -> int:
    """The bytes of a tensor that could lie in a file as they are; none of a small one, which may decide sizes."""
    held = len(tensor.raw_data)
    return held if held >= _SMALLEST_BESIDE else 0


class _Beside:
    """A network's model whose weights lie in a file of a folder that is its own."""

    def __init__(self, network: Network):
        import onnx

        self.network = network
        self.folder = tempfile.TemporaryDirectory(prefix="samebits-weights-", ignore_cleanup_errors=True)
        path = os.path.join(self.folder.name, "weights")
        self.model = onnx.ModelProto()
        self.model.CopyFrom(network.stored)
        with open(path, "wb") as file:
            for tensor in self.model.graph.initializer:
                if not (count := _count_raw(tensor)):
                    continue
                offset = -(-file.tell() // _ALIGNED) * _ALIGNED
                file.seek(offset)
                file.write(tensor.raw_data)
                tensor.ClearField("raw_data")
                tensor.data_location = onnx.TensorProto.EXTERNAL
                for name, value in (("location", path), ("offset", str(offset)), ("length", str(count))):
                    tensor.external_data.add(key=name, value=value)


class OtherFileRunner:
    """A runner that runs another file of the network in place of the one it is asked about, names kept.

    Where that file has other floating formats, what goes in is rounded to them, and what comes out is given in those
    of the network. `orders` are those of its values that are the network's in another sequence.
    """

    def __init__(
        self, runner: ModelRunner, other: Network, network: Network, orders: Mapping[str, Order] | None = None
    ):
        self.runner = runner
        self.other = other
        self.network = network
        self.orders = orders or {}
        self.text = f"{runner.text} on {Path(other.name).name}"

    def identify(self) -> Identity:
        return self.runner.identify()

    def take_inputs(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Inputs of the network in the formats that the other file takes."""
        return {name: _take_format(array, self.other.inputs.get(name)) for name, array in inputs.items()}

    def list_observable(self, values: Sequence[str]) -> list[str]:
        """Which of these values the other file makes, too."""
        hidden = set(self.other.hidden)
        return [v for v in values if v in self.other.producers and v not in hidden]

    def run_network(
        self,
        network: Network,
        inputs: Mapping[str, np.ndarray],
        observed: Sequence[str],
        wanted: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> Arrays:
        missing = [v for v in (*observed, *wanted, *given) if v not in self.other.producers]
        if missing:
            raise EngineUnsupported(f"{self.other.name} has no value {missing[0][:60]}")
        fed = self.take_inputs(inputs)
        put = {name: _take_format(array, self.other.types.get(name)) for name, array in given.items()}
        put = {name: self.orders[name].apply(a) if name in self.orders else a for name, a in put.items()}
        found = self.runner.run_network(self.other, fed, observed, wanted, put)
        found = {name: self.orders[name].straighten(a) if name in self.orders else a for name, a in found.items()}
        return {name: _take_format(array, self.network.types.get(name)) for name, array in found.items()}

    def close(self) -> None:
        self.runner.close()


def _take_format(array: np.ndarray, type_: ValueType | None) -> np.ndarray:
    """An array in the floating format of a declared type; any other as it is."""
    if (
        type_ is None
        or type_.dtype not in FORMATS
        or array.dtype.name not in FORMATS
        or array.dtype.name == type_.dtype
    ):
        return array
    with np.errstate(over="ignore"):
        return array.astype(numpy_dtype(type_.dtype))


class ProgramRunner:
    """An engine that runs the exported program which a network was made from."""

    def __init__(self, worker: WorkerRunner, program: Program):
        self.worker = worker
        self.program = program
        self.text = worker.text
        self._values: frozenset[str] | None = None

    def identify(self) -> Identity:
        return self.worker.identify()

    def list_observable(self, values: Sequence[str]) -> list[str]:
        """Which of these values the program computes under the same name."""
        if self._values is None:
            self._values = frozenset(self.worker.list_program_values(self.program.path))
        return [v for v in values if v in self._values]

    def run_network(
        self,
        network: Network,
        inputs: Mapping[str, np.ndarray],
        observed: Sequence[str],
        wanted: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> Arrays:
        if network.program != self.program:
            raise EngineUnsupported(f"{self.text} runs exported programs, and this network is none")
        seen = [v for v in dict.fromkeys((*observed, *wanted)) if v not in network.outputs]
        known = {name: inputs[name] for name in network.inputs}
        found = self.worker.run_program(self.program.path, known, network.outputs, seen, given)
        return {name: found[name] for name in wanted}

    def close(self) -> None:
        self.worker.close()


class NodewiseRunner:
    """Any runner of problems: it computes the convolutions and products, ONNX's reference everything else."""

    def __init__(self, runner: Runner):
        self.runner = runner
        self.text = runner.text

    def identify(self) -> Identity:
        own = self.runner.identify()
        says = f"{own.name} reads no ONNX: it computed convolutions and products one by one, ONNX's reference the rest"
        return replace(own, notes=(*own.notes, says))

    def run_network(
        self,
        network: Network,
        inputs: Mapping[str, np.ndarray],
        observed: Sequence[str],
        wanted: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> Arrays:
        values = _run_nodes(network, inputs, given, self._run_node)
        return {name: values[name] for name in wanted}

    def _run_node(self, node: Node, inputs: list[np.ndarray | None], opset: int) -> list[np.ndarray]:
        if node.operator not in PRODUCTS:
            return run_node_by_reference(node, inputs, opset)
        return [run_product(node, inputs, self.runner.run)]

    def close(self) -> None:
        self.runner.close()


def run_by_reference(network: Network, inputs: Mapping[str, np.ndarray]) -> Arrays:
    """All values of a network without products, by ONNX's reference in the network's own dtypes."""
    return _run_nodes(network, inputs, {}, run_node_by_reference)


def run_product(
    node: Node,
    inputs: Sequence[np.ndarray | None],
    run: Callable[[Problem, Mapping[str, np.ndarray]], np.ndarray],
) -> np.ndarray:
    """What a product's node returns; `run` computes the problem in it."""
    product = find_product(node, inputs)
    result = run(product.problem, product.arrange(inputs))
    scaled = result if product.alpha == 1.0 else (result * product.alpha).astype(result.dtype)
    third = inputs[2] if product.adds_third else None
    return scaled if third is None else (scaled + third * product.beta).astype(result.dtype)


def _run_nodes(
    network: Network,
    inputs: Mapping[str, np.ndarray],
    given: Mapping[str, np.ndarray],
    run_node: Callable[[Node, list[np.ndarray | None], int], list[np.ndarray]],
) -> Arrays:
    values: Arrays = {**network.constants, **inputs, **given}
    held = 0
    for node in network.nodes:
        results = run_node(node, [values[v] if v else None for v in node.inputs], network.opset)
        names = [v for v in node.outputs if v]
        held += sum(result.nbytes for result in results)
        VALUE_BYTES.check(held, f"{network.name}, run node by node,")
        values |= {n: r for n, r in zip(names, results, strict=True) if n not in given}
    return values


def run_node_by_reference(node: Node, inputs: list[np.ndarray | None], opset: int) -> list[np.ndarray]:
    """ONNX's reference, with its slow pools replaced; a failure is the engine's."""
    try:
        if node.operator in ("MaxPool", "AveragePool") and inputs[0] is not None and len(node.outputs) == 1:
            return [pool_plainly(node, inputs[0])]
        return evaluate_plainly(node, inputs, opset)
    except Exception as error:  # ONNX's reference raises anything.
        raise EngineRaised(f"ONNX's reference cannot compute node {node.name} ({node.operator}): {error}") from None


def is_onnx_engine(text: str, *, codes: bool = False) -> bool:
    """Whether an engine's text names one that runs ONNX models whole; with `codes` those of one product of codes."""
    name = parse_runner_text(text).name
    known = find_class(name)
    return known is not None and (known.runs_onnx or (codes and known.runs_codes))


def find_problem_runner(runner: ModelRunner) -> Runner | None:
    """The engine behind a runner of networks, as a runner of single problems; None for a caller's own object."""
    found = getattr(runner, "worker", None) or getattr(runner, "runner", None)
    return found if isinstance(found, Runner) else None


def open_model_runner(
    on: str | ModelRunner | Runner, *, time_limit_s: float, program: Program | None = None, codes: bool = False
) -> ModelRunner:
    """The runner of networks that a text names, or that a caller's object is. `program`: what the network came from.

    `codes` says that the network is one product of codes, which engines may run that run no other.
    Raises what `registry.open_runner` raises, and ArgumentError for an object that runs neither.
    """
    if not isinstance(on, str):
        if isinstance(on, ModelRunner):
            return on
        if isinstance(on, Runner):
            return NodewiseRunner(on)
        raise ArgumentError(f"an engine's text or a runner is needed, not {type(on).__name__}")
    runner = open_runner(on, time_limit_s=time_limit_s)
    name = parse_runner_text(on).name
    if isinstance(runner, WorkerRunner) and is_onnx_engine(on, codes=codes):
        return OnnxRunner(runner)
    runs = ENGINES[name].load_class().runs_programs if name in ENGINES else ()
    if isinstance(runner, WorkerRunner) and program and program.kind in runs:
        return ProgramRunner(runner, program)
    return NodewiseRunner(runner)
