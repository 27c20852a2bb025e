"""A LiteRT file (.tflite) as its schema has it: tensors, what they hold and how their codes are read, operators."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from samebits.errors import EngineUnsupported


class LitertFile:
    """A file's first graph. Raises EngineUnsupported for what cannot be read."""

    def __init__(self, content: bytes) -> None:
        from ai_edge_litert import schema_py_generated

        self.schema: Any = schema_py_generated
        try:
            if content[4:8] != b"TFL3":
                raise ValueError("it is no LiteRT file")
            self.model: Any = self._unpack(content)
            count = len(self.model.subgraphs or ())
            if count != 1:
                raise ValueError(f"this one has {count}")
            self.graph: Any = self.model.subgraphs[0]
            if any(tensor.sparsity is not None for tensor in self.graph.tensors):
                raise EngineUnsupported("it holds sparse weights, which are not read")
            self.names = self._name_tensors()
            self._makers = {tensor: one for one in self.graph.operators for tensor in one.outputs}
        except (ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
            raise EngineUnsupported(f"a LiteRT file of one graph is needed: {str(error)[:120]}") from None
        self._codes = {number: name for name, number in vars(self.schema.BuiltinOperator).items() if name[0] != "_"}
        self._types = {number: name for name, number in vars(self.schema.TensorType).items() if name[0] != "_"}

    def _unpack(self, content: bytes) -> Any:
        try:
            return self.schema.ModelT.InitFromPackedBuf(content, 0)
        except struct.error:
            raise ValueError("it ends too early, or is damaged") from None

    def _name_tensors(self) -> list[str]:
        """Each tensor's name, with its number where another has it, too."""
        names = [(t.name or b"").decode("utf-8", "replace") for t in self.graph.tensors]
        return [name if name and names.count(name) == 1 else f"{name}#{i}" for i, name in enumerate(names)]

    def name_operator(self, operator: Any) -> str:
        """The name of what an operator computes."""
        code = self.model.operatorCodes[operator.opcodeIndex]
        number = max(code.builtinCode, code.deprecatedBuiltinCode)
        return self._codes.get(number, f"operator {number}")

    def read_dtype(self, tensor: int) -> str:
        """A tensor's format as NumPy names it."""
        return self._types.get(self.graph.tensors[tensor].type, "?").lower()

    def read_shape(self, tensor: int) -> tuple[int, ...]:
        """A tensor's sizes."""
        shape = self.graph.tensors[tensor].shape
        return () if shape is None else tuple(int(size) for size in shape)

    def read_constant(self, tensor: int) -> np.ndarray | None:
        """What a tensor holds from the beginning; None for what is computed."""
        data = self.model.buffers[self.graph.tensors[tensor].buffer].data
        if data is not None and len(data) > 0:
            array = np.frombuffer(bytes(data), np.dtype(self.read_dtype(tensor)))
            return array.reshape(self.read_shape(tensor))
        maker = self._makers.get(tensor)
        if maker is None or self.name_operator(maker) != "DEQUANTIZE":
            return None
        held = self.read_constant(maker.inputs[0])
        if held is None or held.dtype != np.float16:
            return None
        # Weights that are stored in float16 are read as float32.
        return held.astype(np.float32)

    def read_scaling(self, tensor: int) -> tuple[np.ndarray, np.ndarray, int] | None:
        """Scales, zero points and their axis of a quantised tensor; None for any other."""
        found = self.graph.tensors[tensor].quantization
        if found is None or found.scale is None or len(found.scale) == 0 or self.read_dtype(tensor) == "float32":
            return None
        scale = np.asarray(found.scale, np.float32)
        zero = np.zeros(len(scale), np.int64) if found.zeroPoint is None else np.asarray(found.zeroPoint)
        return scale, np.broadcast_to(zero, scale.shape), int(found.quantizedDimension)

    def pack(self, inputs: Sequence[int], outputs: Sequence[int]) -> bytes:
        """The file with other inputs, which nothing computes then, and other outputs."""
        import copy

        import flatbuffers

        model = copy.copy(self.model)
        graph = copy.copy(self.graph)
        graph.inputs, graph.outputs = list(inputs), list(outputs)
        graph.operators = [o for o in graph.operators if not set(o.outputs) & set(inputs)]
        model.subgraphs, model.signatureDefs = [graph], None
        builder: Any = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


@dataclass(frozen=True)
class Shown:
    """A value of the ONNX model that is a tensor of the file, dequantised or with its axes in another order."""

    tensor: int
    is_real: bool = False
    order: tuple[int, ...] = ()

    def dress(self, file: LitertFile, array: np.ndarray) -> np.ndarray:
        """The value, of the tensor's."""
        if self.is_real and (scaling := file.read_scaling(self.tensor)) is not None:
            scale, zero, axis = scaling
            shape = [-1 if i == axis and len(scale) > 1 else 1 for i in range(array.ndim)]
            codes = array.astype(np.int32) - zero.astype(np.int32).reshape(shape)
            array = codes.astype(np.float32) * scale.reshape(shape)
        return array.transpose(self.order) if self.order else array

    def undress(self, file: LitertFile, array: np.ndarray) -> np.ndarray:
        """The tensor, of the value; raises EngineUnsupported where it is dequantised."""
        if self.is_real and file.read_scaling(self.tensor) is not None:
            raise EngineUnsupported("a quantised value is not replaced by a real one")
        return array.transpose(np.argsort(self.order)) if self.order else array
