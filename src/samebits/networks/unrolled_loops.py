"""`Loop` and `Scan` as their rounds one after the other: nodes that are judged like all others.

Sources: ONNX operators Loop (from opset 11 on) and Scan (from opset 9 on).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from samebits.networks.graph_names import list_made, rename_node

LOOPS = ("Loop", "Scan")
# More rounds, or more nodes in all, are left as they are: one operation, which is not judged.
MOST_ROUNDS = 64
_MOST_NODES = 5000
_OPSET_OF_SCAN, _OPSET_OF_AXES = 9, 13


class Unrolled:
    """The nodes and the constants that take the place of a loop of so many rounds."""

    def __init__(self, node: Any, rounds: int, opset: int):
        self.node, self.rounds, self.opset = node, rounds, opset
        self.body = next(one.g for one in node.attribute if one.name == "body")
        self.given = {one.name: one for one in node.attribute if one.name != "body"}
        self.prefix = next(v for v in node.output if v)
        self.nodes: list[Any] = []
        self.constants: dict[str, np.ndarray] = {}
        self.tensors: list[Any] = []
        for tensor in self.body.initializer:
            kept = type(tensor)()
            kept.CopyFrom(tensor)
            kept.name = f"{self.prefix}/{tensor.name}"
            self.tensors.append(kept)

    def unroll_loop(self) -> None:
        """A Loop: a counter and a condition, what is carried on, and what is collected."""
        states = list(self.node.input[2:])
        collected: list[list[str]] = [[] for _ in self.body.output[1 + len(states) :]]
        for number in range(self.rounds):
            counter = self._keep(number, np.full(self._find_shape(0), number, np.int64), "number")
            goes_on = self._keep(number, np.full(self._find_shape(1), True), "condition")
            made = self._run_round(number, [counter, goes_on, *states])[1:]
            states = made[: len(states)]
            for values, value in zip(collected, made[len(states) :], strict=True):
                values.append(value)
        self._end(states, [(values, 0) for values in collected])

    def unroll_scan(self) -> None:
        """A Scan: what is carried on, arrays that are taken apart, and arrays that are put together."""
        count = self.given["num_scan_inputs"].i
        states, arrays = list(self.node.input[:-count]), list(self.node.input[-count:])
        axes, turned = self._list("scan_input_axes", count), self._list("scan_input_directions", count)
        collected: list[list[str]] = [[] for _ in self.body.output[len(states) :]]
        for number in range(self.rounds):
            taken = [
                self._take(array, axis, self.rounds - 1 - number if turn else number, f"{number}/{i}")
                for i, (array, axis, turn) in enumerate(zip(arrays, axes, turned, strict=True))
            ]
            made = self._run_round(number, [*states, *taken])
            states = made[: len(states)]
            for values, value in zip(collected, made[len(states) :], strict=True):
                values.append(value)
        placed, back = (
            self._list("scan_output_axes", len(collected)),
            self._list("scan_output_directions", len(collected)),
        )
        ordered = [values[::-1] if turn else values for values, turn in zip(collected, back, strict=True)]
        self._end(states, list(zip(ordered, placed, strict=True)))

    def _find_shape(self, place: int) -> tuple[int, ...]:
        """The counter and the condition are declared as single numbers, or as arrays of one."""
        return (1,) * len(self.body.input[place].type.tensor_type.shape.dim)

    def _list(self, name: str, count: int) -> list[int]:
        return list(self.given[name].ints) if name in self.given else [0] * count

    def _keep(self, number: int, array: np.ndarray, name: str) -> str:
        made = f"{self.prefix}/{number}/{name}"
        self.constants[made] = array
        return made

    def _take(self, array: str, axis: int, index: int, name: str) -> str:
        import onnx

        made = f"{self.prefix}/{name}/part"
        self.constants[f"{made}.place"] = np.array(index, np.int64)
        self.nodes.append(onnx.helper.make_node("Gather", [array, f"{made}.place"], [made], name=made, axis=axis))
        return made

    def _run_round(self, number: int, fed: Sequence[str]) -> list[str]:
        """One round on these values; the names of what it makes."""
        names: dict[str, str] = {t.name: f"{self.prefix}/{t.name}" for t in self.body.initializer}
        names |= {v: f"{self.prefix}/{number}/{v}" for v in list_made(self.body)}
        names |= {value.name: given for value, given in zip(self.body.input, fed, strict=True)}
        for i, inner in enumerate(self.body.node):
            copy = rename_node(inner, names)
            copy.name = f"{self.prefix}/{number}/{inner.name or f'{inner.op_type}_{i}'}"
            self.nodes.append(copy)
        outputs: list[str] = [value.name for value in self.body.output]
        return [names.get(name, name) for name in outputs]

    def _end(self, states: Sequence[str], collected: Sequence[tuple[Sequence[str], int]]) -> None:
        import onnx

        for value, output in zip(states, self.node.output, strict=False):
            if output:
                self.nodes.append(onnx.helper.make_node("Identity", [value], [output], name=f"{output}/last"))
        for (values, axis), output in zip(collected, self.node.output[len(states) :], strict=False):
            if output:
                parts = [self._widen(value, axis, f"{output}/{i}/wide") for i, value in enumerate(values)]
                self.nodes.append(onnx.helper.make_node("Concat", parts, [output], name=f"{output}/all", axis=axis))

    def _widen(self, value: str, axis: int, made: str) -> str:
        import onnx

        if self.opset < _OPSET_OF_AXES:
            self.nodes.append(onnx.helper.make_node("Unsqueeze", [value], [made], name=made, axes=[axis]))
        else:
            self.constants[f"{made}.axis"] = np.array([axis], np.int64)
            self.nodes.append(onnx.helper.make_node("Unsqueeze", [value, f"{made}.axis"], [made], name=made))
        return made


def unroll(node: Any, rounds: int, opset: int) -> Unrolled | None:
    """A loop of so many rounds, unrolled; None for one that is left as it is."""
    collects = len(node.output) > (len(node.input) - 2 if node.op_type == "Loop" else 0)
    body = next(one.g for one in node.attribute if one.name == "body")
    if rounds > MOST_ROUNDS or rounds * len(body.node) > _MOST_NODES:
        return None
    if (rounds == 0 and collects) or (node.op_type == "Scan" and opset < _OPSET_OF_SCAN):
        return None
    found = Unrolled(node, rounds, opset)
    if node.op_type == "Loop":
        found.unroll_loop()
    else:
        found.unroll_scan()
    return found


def goes_on_by_itself(body: Any) -> bool:
    """Whether a Loop's body never ends it: its condition is handed on, or is a constant that is true."""
    wanted, given = body.output[0].name, body.input[1].name
    constants = {t.name: t for t in body.initializer}
    makers = {v: node for node in body.node for v in node.output}
    for _ in body.node:
        node = makers.get(wanted)
        if node is None or node.op_type != "Identity":
            break
        wanted = node.input[0]
    if wanted == given:
        return True
    import onnx

    node = makers.get(wanted)
    tensor = constants.get(wanted)
    if node is not None and node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
        tensor = node.attribute[0].t
    return tensor is not None and bool(onnx.numpy_helper.to_array(tensor).all())
