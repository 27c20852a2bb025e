"""LiteRT (TensorFlow Lite) on the CPU: each problem as a model of one operator, and its own files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import THREADS, Engine, InForce, Prepared, Setting
from samebits.engines.adapters.litert_graph import LitertGraph
from samebits.problems import Axis, Problem

_RESOLVERS = {"xnnpack": "AUTO", "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "reference": "BUILTIN_REF"}
# Of a convolution along one axis the other one.
_ONE = Axis(1, 1, 1, 1, 1, 0, 0)


class LitertEngine(Engine):
    """CONV_2D, DEPTHWISE_CONV_2D, CONV_3D, their transposes, FULLY_CONNECTED and BATCH_MATMUL of float32.

    Convolutions along one axis are two-dimensional ones, as LiteRT's converter writes them; weights stand in the model.
    Padding that is not LiteRT's SAME is an operator of its own. XNNPACK takes what it knows; the rest falls to LiteRT's
    own kernels, which a note says. Products of 8-bit codes are those of ONNX (`litert_codes`).
    """

    name = "litert"
    runs_codes = True
    runs_programs = ("tflite",)
    settings: ClassVar[dict[str, Setting]] = {
        "kernels": Setting("whose kernels compute", "xnnpack", tuple(_RESOLVERS)),
        "threads": THREADS,
    }
    variables: ClassVar[dict[str, str]] = {}

    def load(self, settings: Mapping[str, str]) -> None:
        import os

        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        from ai_edge_litert import interpreter

        self.litert: Any = interpreter
        self.kernels = settings.get("kernels", "xnnpack")
        self.threads = int(settings["threads"]) if "threads" in settings else None
        self.is_left_out = False
        self.interpreter: Any = None
        self._opened: Any = None
        self._file: Any = None
        self._path = ""

    def report(self) -> InForce:
        from importlib import metadata

        in_force = {"kernels": self.kernels, "threads": str(self.threads or "1")}
        notes = ("XNNPACK does not take this problem: LiteRT's own kernels ran",) if self.is_left_out else ()
        return InForce(metadata.version("ai-edge-litert"), self.device, in_force, notes)

    def explain_unsupported(self, problem: Problem) -> str | None:
        if problem.direction != "forward":
            return "LiteRT has no gradients"
        if (problem.dtype, problem.out) != ("float32", "float32"):
            return "LiteRT's operators compute float32 here, and 8-bit integers (dtype=int8 out=int8)"
        if problem.product:
            return None
        if problem.is_transposed and (problem.groups > 1 or max(problem.dilation) > 1):
            return "LiteRT's transposed convolutions have neither groups nor dilation"
        if problem.rank == 3 and problem.groups > 1:
            return "LiteRT's CONV_3D has no groups"
        return None

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        graph = LitertGraph()
        write = _write_product if problem.product else _write_transposed if problem.is_transposed else _write_plain
        inputs, output, arrays = write(graph, problem, operands)
        interpreter = self._open(graph.finish(inputs, [output]))
        for detail, array in zip(interpreter.get_input_details(), arrays, strict=True):
            interpreter.set_tensor(detail["index"], np.ascontiguousarray(array))
        index = interpreter.get_output_details()[0]["index"]

        def read(_: Any) -> np.ndarray:
            result = interpreter.get_tensor(index)
            if not problem.product:
                result = np.moveaxis(result, -1, 1)
            return np.ascontiguousarray(result).reshape(problem.y_shape)

        return Prepared(interpreter.invoke, read)

    def export_program(
        self, text: str, folder: str, *, opens_batch: bool = False
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        import json

        import onnx

        read = self._read(text)
        onnx.save(read.model, str(Path(folder, "model.onnx")))
        Path(folder, "coarse.json").write_text(json.dumps(read.coarse), encoding="utf-8")
        return {"inputs": [], "notes": [], "kind": "tflite", "layers": []}, {}

    def list_program_values(self, path: str) -> list[str]:
        return list(self._read(path).shown)

    def run_program(
        self,
        path: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        observed: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        file, shown = self._read(path).file, self._read(path).shown
        asked = (*outputs, *observed)
        fed = {shown[name].tensor: shown[name].undress(file, array) for name, array in {**inputs, **given}.items()}
        made = list(dict.fromkeys(shown[name].tensor for name in asked))
        key = (path, tuple(fed), tuple(made))
        if key != self._opened:
            self.interpreter, self._opened = self._open(file.pack(list(fed), made)), key
        for detail, array in zip(self.interpreter.get_input_details(), fed.values(), strict=True):
            self.interpreter.set_tensor(detail["index"], np.ascontiguousarray(array))
        self.interpreter.invoke()
        results = zip(made, self.interpreter.get_output_details(), strict=True)
        values = {tensor: np.array(self.interpreter.get_tensor(detail["index"])) for tensor, detail in results}
        return {name: shown[name].dress(file, values[shown[name].tensor]) for name in asked}

    def _read(self, path: str) -> Any:
        import onnx

        from samebits.engines.adapters.litert_reading import read_file

        if path != self._path:
            self._file, self._path = read_file(onnx, Path(path).read_bytes()), path
        return self._file

    def load_onnx(self, model: bytes, observed: Sequence[str]) -> None:
        import onnx

        from samebits.engines.adapters.litert_codes import write_codes

        self.interpreter, self._opened = self._open(write_codes(onnx, model)), None

    def run_onnx(self, inputs: Mapping[str, np.ndarray], wanted: Sequence[str]) -> dict[str, np.ndarray]:
        fed, made = self.interpreter.get_input_details()[0], self.interpreter.get_output_details()[0]
        (array,) = inputs.values()
        self.interpreter.set_tensor(fed["index"], np.ascontiguousarray(array).reshape(fed["shape"]))
        self.interpreter.invoke()
        result = self.interpreter.get_tensor(made["index"])
        return {name: result.reshape(result.shape[1:] if array.ndim == 1 else result.shape) for name in wanted}

    def _open(self, model: bytes) -> Any:
        kinds = self.litert.OpResolverType
        interpreter = self.litert.Interpreter(
            model_content=model,
            num_threads=self.threads,
            experimental_op_resolver_type=getattr(kinds, _RESOLVERS[self.kernels]),
        )
        interpreter.allocate_tensors()
        # The interpreter's list of what it runs, as its own tools read it; XNNPACK's part of it is one entry.
        ran = {one["op_name"] for one in interpreter._get_ops_details()}
        self.is_left_out = self.kernels == "xnnpack" and "DELEGATE" not in ran
        return interpreter


# What a writer returns: the inputs, the result, and the inputs' arrays.
_Written = tuple[list[int], int, list[np.ndarray]]


def _write_plain(graph: LitertGraph, problem: Problem, operands: Mapping[str, np.ndarray]) -> _Written:
    x = np.moveaxis(operands["x"], 1, -1)
    w, axes = operands["w"], problem.axes
    bias = operands.get("bias", np.zeros(problem.w[0], np.float32))
    if problem.rank == 1:
        x, w, axes = x[:, None], w[:, :, None], (_ONE, *axes)
    fed = graph.add_tensor(x.shape, "float32")
    fused = _find_fused(graph, problem)
    if problem.rank < 3:
        y = graph.convolve(fed, w, bias, axes, problem.groups, fused=fused)
        return [fed], _clip(graph, problem, y), [x]
    padded = graph.pad(fed, [(0, 0), *((a.pad_begin, a.pad_end) for a in axes), (0, 0)])
    shape = (x.shape[0], *problem.y_shape[2:], problem.w[0])
    constants = [graph.add_constant(w.transpose(2, 3, 4, 1, 0)), graph.add_constant(bias)]
    y = graph.add_operator(
        "CONV_3D", [padded, *constants], shape, "float32", options="Conv3DOptions",
        padding=graph.schema.Padding.VALID, fusedActivationFunction=fused, **_describe_window(axes),
    )  # fmt: skip
    return [fed], _clip(graph, problem, y), [x]


def _write_transposed(graph: LitertGraph, problem: Problem, operands: Mapping[str, np.ndarray]) -> _Written:
    """The whole result, of which the padding is cut off."""
    x = np.moveaxis(operands["x"], 1, -1)
    w, axes = operands["w"], problem.axes
    bias = operands.get("bias", np.zeros(problem.w[1], np.float32))
    if problem.rank == 1:
        x, w, axes = x[:, None], w[:, :, None], (_ONE, *axes)
    fed = graph.add_tensor(x.shape, "float32")
    # What no product reaches is part of it.
    sizes = [max((a.size_small - 1) * a.stride + a.kernel, a.pad_begin + a.size_large) for a in axes]
    whole = (x.shape[0], *sizes, problem.w[1])
    window: dict[str, Any]
    if problem.rank == 3:
        code, options, window = "CONV_3D_TRANSPOSE", "Conv3DOptions", _describe_window(axes)
        arranged = w.transpose(2, 3, 4, 1, 0)
    else:
        code, options = "TRANSPOSE_CONV", "TransposeConvOptions"
        window = {"strideH": axes[0].stride, "strideW": axes[1].stride}
        arranged = w.transpose(1, 2, 3, 0)
    constants = [graph.add_constant(np.array(whole, np.int32)), graph.add_constant(arranged)]
    y = graph.add_operator(
        code, [*constants, fed, graph.add_constant(bias)], whole, "float32", options=options,
        padding=graph.schema.Padding.VALID, fusedActivationFunction=_find_fused(graph, problem), **window,
    )  # fmt: skip
    kept = (x.shape[0], *(a.size_large for a in axes), problem.w[1])
    if kept != whole:
        begins = graph.add_constant(np.array([0, *(a.pad_begin for a in axes), 0], np.int32))
        lengths = graph.add_constant(np.array(kept, np.int32))
        y = graph.add_operator("SLICE", [y, begins, lengths], kept, "float32", options="SliceOptions")
    return [fed], _clip(graph, problem, y), [x]


def _describe_window(axes: Sequence[Axis]) -> dict[str, Any]:
    """Strides and dilations along three axes."""
    window: dict[str, Any] = {}
    for name, axis in zip(("D", "H", "W"), axes, strict=True):
        window |= {f"stride{name}": axis.stride, f"dilation{name}Factor": axis.dilation}
    return window


def _write_product(graph: LitertGraph, problem: Problem, operands: Mapping[str, np.ndarray]) -> _Written:
    x, w = operands["x"], operands["w"]
    x = x[None] if x.ndim == 1 else x
    if problem.kind == "linear":
        fed = graph.add_tensor(x.shape, "float32")
        constants = [graph.add_constant(w)]
        if "bias" in operands:
            constants.append(graph.add_constant(operands["bias"]))
        y = graph.add_operator(
            "FULLY_CONNECTED", [fed, *constants], (*x.shape[:-1], w.shape[0]), "float32",
            options="FullyConnectedOptions", keepNumDims=True, fusedActivationFunction=_find_fused(graph, problem),
        )  # fmt: skip
        return [fed], _clip(graph, problem, y), [x]
    w = w[:, None] if w.ndim == 1 else w
    batch = np.broadcast_shapes(x.shape[:-2], w.shape[:-2])
    inputs = [graph.add_tensor(array.shape, "float32") for array in (x, w)]
    y = graph.add_operator(
        "BATCH_MATMUL", inputs, (*batch, x.shape[-2], w.shape[-1]), "float32", options="BatchMatMulOptions"
    )
    low, high = _read_limits(problem)
    return inputs, graph.add_clip(y, low, high), [x, w]


def _read_limits(problem: Problem) -> tuple[float, float]:
    """What the epilogue lets through."""
    if problem.then is None:
        return -np.inf, np.inf
    return (0.0, np.inf) if problem.then.name == "relu" else (problem.then.low, problem.then.high)


def _find_fused(graph: LitertGraph, problem: Problem) -> int:
    """The activation that the operator applies itself; none where operators behind it do."""
    fused = graph.find_fused(*_read_limits(problem))
    return graph.schema.ActivationFunctionType.NONE if fused is None else fused


def _clip(graph: LitertGraph, problem: Problem, value: int) -> int:
    limits = _read_limits(problem)
    return value if graph.find_fused(*limits) is not None else graph.add_clip(value, *limits)
