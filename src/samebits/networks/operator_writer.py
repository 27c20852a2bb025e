"""One node, written out as the ONNX nodes that compute the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

# From here on ReduceSum takes its axes as an input.
_OPSET_OF_AXES = 13
# An operator of our own, beside ONNX's: its first input, and no reference where the second is not true.
ONLY_IF = "OnlyIf"
# An attribute of our own: what a recurrent layer multiplies passes through codes of 8 bits, made of its own range.
CODES_OF_8_BITS = "codes_of_8_bits"


class UnwritableError(Exception):
    """A node in a form that nothing here writes out."""


class OperatorWriter:
    """The nodes and the constants that one node becomes.

    `types` are ONNX's types of the values before it, as far as they are known; `constants` the arrays in the file;
    `lists` the values that are lists of tensors, by what they hold.
    """

    def __init__(
        self,
        node: Any,
        types: Mapping[str, Any],
        constants: Mapping[str, np.ndarray],
        lists: dict[str, Sequence[str]],
        opset: int,
    ):
        import onnx

        self.node, self.types, self.constants, self.lists, self.opset = node, types, constants, lists, opset
        self.given: dict[str, Any] = {}
        for attribute in node.attribute:
            value = onnx.helper.get_attribute_value(attribute)
            self.given[attribute.name] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
        self.nodes: list[Any] = []
        self.made: dict[str, np.ndarray] = {}

    def take(self, place: int) -> str:
        """An input's name; "" where it is left out."""
        return self.node.input[place] if place < len(self.node.input) else ""

    def take_all(self, start: int, end: int) -> list[str]:
        """The names of the inputs from `start` to before `end`, without those that are left out at the end."""
        names = [self.take(place) for place in range(start, end)]
        while names and not names[-1]:
            names.pop()
        return names

    def has_output(self, place: int) -> bool:
        """Whether an output is asked for."""
        return place < len(self.node.output) and bool(self.node.output[place])

    def refuse_unless(self, is_writable: bool) -> None:
        """Raises UnwritableError."""
        if not is_writable:
            raise UnwritableError

    def keep(self, array: Any, dtype: Any = np.int64) -> str:
        """A constant of the node's own."""
        name = self._name()
        self.made[name] = np.asarray(array, dtype)
        return name

    def add(self, operator: str, *inputs: str, makes: str = "", **attributes: Any) -> str:
        """One more node; the name of what it makes."""
        made = makes or self._name()
        self.add_node(operator, inputs, [made], attributes)
        return made

    def add_several(self, operator: str, inputs: Sequence[str], count: int) -> list[str]:
        """One more node that makes several values."""
        made = [f"{self._name()}.{i}" for i in range(count)]
        self.add_node(operator, inputs, made, {})
        return made

    def add_same(self, operator: str, *, drop: Sequence[str] = ()) -> None:
        """The node itself as another operator, which takes and makes the same."""
        kept = {name: value for name, value in self.given.items() if name not in drop}
        self.add_node(operator, self.node.input, self.node.output, kept)

    def add_node(
        self, operator: str, inputs: Sequence[str], outputs: Sequence[str], attributes: dict[str, Any]
    ) -> None:
        """One more node, with all its names."""
        import onnx

        name = self.node.name or f"{self.node.op_type}_{self.node.output[0]}"
        self.nodes.append(onnx.helper.make_node(operator, list(inputs), list(outputs), name=name, **attributes))

    def _name(self) -> str:
        return f"{self.node.output[0]}#{len(self.nodes)}.{len(self.made)}"

    def find_rank(self, value: str) -> int:
        """How many axes a value has."""
        return len(self._find_shape(value))

    def find_size(self, value: str, axis: int = -1) -> int:
        """The size of one of a value's axes."""
        size = self._find_shape(value)[axis]
        self.refuse_unless(bool(size))
        return size

    def find_length(self, value: str, axis: int) -> int:
        """The size of an axis that may be empty."""
        size = self.types[value].tensor_type.shape.dim[axis]
        self.refuse_unless(size.HasField("dim_value"))
        return size.dim_value

    def _find_shape(self, value: str) -> tuple[int, ...]:
        if value in self.constants:
            return self.constants[value].shape
        type_ = self.types.get(value)
        if type_ is None or not type_.tensor_type.HasField("shape"):
            raise UnwritableError
        return tuple(d.dim_value for d in type_.tensor_type.shape.dim)

    def find_dtype(self, value: str) -> np.dtype[Any]:
        """The dtype of a value."""
        import onnx

        if value in self.constants:
            return self.constants[value].dtype
        type_ = self.types.get(value)
        if type_ is None or not type_.tensor_type.elem_type:
            raise UnwritableError
        return onnx.helper.tensor_dtype_to_np_dtype(type_.tensor_type.elem_type)

    def find_format(self) -> np.dtype[Any]:
        """The dtype of the node's first floating input."""
        dtypes = (self.find_dtype(value) for value in self.node.input if value)
        found = next((d for d in dtypes if d.kind == "f" or d.name == "bfloat16"), None)
        if found is None:
            raise UnwritableError
        return found

    def find_constant(self, value: str) -> np.ndarray:
        """The constant that a value is."""
        self.refuse_unless(value in self.constants)
        return self.constants[value]

    def is_list(self, value: str) -> bool:
        """Whether a value is a list of tensors that are known by name."""
        return value in self.lists

    def find_list(self, value: str) -> Sequence[str]:
        """The tensors of such a list."""
        self.refuse_unless(value in self.lists)
        return self.lists[value]

    def make_list(self, parts: Sequence[str]) -> None:
        """Makes the node's output a list; the node itself stays, for what may read it as it is."""
        self.lists[self.node.output[0]] = list(parts)
        self.nodes.append(self.node)

    # Steps that many operators take.

    def number(self, value: float) -> str:
        """A number in the floating format that the node computes in."""
        return self.keep(value, self.find_format())

    def scale(self, value: str, factor: float) -> str:
        """A value times a number."""
        return value if factor == 1.0 else self.add("Mul", value, self.number(factor))

    def cast(self, value: str, dtype: Any) -> str:
        """A value in another dtype."""
        import onnx

        made = self._name()
        target = int(onnx.helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))
        self.add_node("Cast", [value], [made], {"to": target})
        return made

    def turn(self, value: str, order: Sequence[int]) -> str:
        """A value with its axes in another sequence."""
        return value if list(order) == sorted(order) else self.add("Transpose", value, perm=list(order))

    def reshape(self, value: str, shape: Sequence[int], makes: str = "") -> str:
        """A value in another shape: 0 keeps a size, -1 takes what is left."""
        return self.add("Reshape", value, self.keep(shape), makes=makes)

    def slice(self, value: str, axis: int, start: int, end: int) -> str:
        """A part of a value along an axis."""
        return self.add("Slice", value, self.keep([start]), self.keep([end]), self.keep([axis]))

    def add_axis(self, value: str, axis: int) -> str:
        """A value with one more axis, of size 1."""
        if self.opset < _OPSET_OF_AXES:
            return self.add("Unsqueeze", value, axes=[axis])
        return self.add("Unsqueeze", value, self.keep([axis]))

    def drop_axis(self, value: str, axis: int) -> str:
        """A value without an axis, which has size 1."""
        if self.opset < _OPSET_OF_AXES:
            return self.add("Squeeze", value, axes=[axis])
        return self.add("Squeeze", value, self.keep([axis]))

    def only_if(self, value: str, condition: str, makes: str = "") -> str:
        """A value that means something only where a condition holds everywhere; else nothing is judged by it."""
        return self.add(ONLY_IF, value, condition, makes=makes)

    def sum_rows(self, value: str) -> str:
        """The sums of a table's rows."""
        if self.opset < _OPSET_OF_AXES:
            return self.add("ReduceSum", value, axes=[1], keepdims=0)
        return self.add("ReduceSum", value, self.keep([1]), keepdims=0)

    def end(self, value: str, place: int = 0) -> None:
        """Makes a value one of the node's outputs."""
        self.add("Identity", value, makes=self.node.output[place])


# Writes a node out, or raises UnwritableError for a form of it.
Write = Callable[[OperatorWriter], None]
