"""ncnn, Tencent's mobile engine, on the CPU: each problem as a network of one layer, in its own text and weights."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import ON_OFF, THREADS, Engine, InForce, Prepared, Setting
from samebits.problems import Problem
from samebits.regular_files import open_folder

_MAGIC = 7767517
_LARGEST = float(np.finfo(np.float32).max)
# What the settings are called in ncnn.Option.
_OPTIONS = {
    "winograd": "use_winograd_convolution", "sgemm": "use_sgemm_convolution", "packing": "use_packing_layout",
    "fp16_storage": "use_fp16_storage", "fp16_arithmetic": "use_fp16_arithmetic", "bf16_storage": "use_bf16_storage",
}  # fmt: skip
# The numbers of the parameters, for the innermost axis first. Source: ncnn, docs/developer-guide/operators.md.
_SIZES = {"kernel": (1, 11, 21), "dilation": (2, 12, 22), "stride": (3, 13, 23)}
# A layer's kind, its inputs and its numbered parameters.
Layer = tuple[str, tuple[str, ...], Mapping[int, object]]
_BEGINS, _ENDS, _EXTRA = (4, 14, 24), (15, 16, 17), (18, 19, 20)


class NcnnEngine(Engine):
    """Convolution, ConvolutionDepthWise, Deconvolution (each of one to three axes), InnerProduct and MatMul, float32.

    ncnn has no axis for a batch: its items run one after the other. A setting that is not given is as ncnn has it.
    """

    name = "ncnn"
    settings: ClassVar[dict[str, Setting]] = {
        "winograd": Setting("Winograd's algorithm for 3x3 kernels", "", ON_OFF),
        "sgemm": Setting("convolutions as matrix products", "", ON_OFF),
        "packing": Setting("channels in packs of 4, 8 or 16", "", ON_OFF),
        "fp16_storage": Setting("values and weights are stored in float16, where the processor has it", "", ON_OFF),
        "fp16_arithmetic": Setting("sums in float16, where the processor has it", "", ON_OFF),
        "bf16_storage": Setting("values and weights are stored in bfloat16", "", ON_OFF),
        "threads": THREADS,
    }
    variables: ClassVar[dict[str, str]] = {"OMP_NUM_THREADS": "threads, unless the setting says"}

    def load(self, settings: Mapping[str, str]) -> None:
        import ncnn

        self.ncnn: Any = ncnn
        self.given = dict(settings)

    def report(self) -> InForce:
        option = self._open().opt
        read = {name: "on" if getattr(option, own) else "off" for name, own in _OPTIONS.items()}
        return InForce(self.ncnn.__version__, self.device, {**read, "threads": str(option.num_threads)})

    def _open(self) -> Any:
        net = self.ncnn.Net()
        for name, own in _OPTIONS.items():
            if name in self.given:
                setattr(net.opt, own, self.given[name] == "on")
        if "threads" in self.given:
            net.opt.num_threads = int(self.given["threads"])
        net.opt.use_vulkan_compute = False
        return net

    def explain_unsupported(self, problem: Problem) -> str | None:
        if problem.direction != "forward":
            return "ncnn has no gradients"
        if (problem.dtype, problem.out) != ("float32", "float32"):
            return "ncnn takes and returns float32; narrower formats are settings of it"
        return None

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        if problem.kind == "matmul":
            return self._prepare_pair(problem, operands)
        layer, weights = _write_linear(problem, operands) if problem.product else _write_window(problem, operands)
        net = self._load([layer], weights, problem)
        x = operands["x"]
        items = [x.reshape(-1, x.shape[-1])] if problem.product else list(x)

        def call() -> list[Any]:
            return [self._run(net, {"x": item}) for item in items]

        return Prepared(call, lambda found: np.stack([np.array(f) for f in found]).reshape(problem.out_shape))

    def _prepare_pair(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        """Batches of two matrices, pair by pair; vectors are matrices of one row or column."""
        x, w = operands["x"], operands["w"]
        rows, columns = x[None] if x.ndim == 1 else x, w[:, None] if w.ndim == 1 else w
        batch = np.broadcast_shapes(rows.shape[:-2], columns.shape[:-2])
        left = np.broadcast_to(rows, (*batch, *rows.shape[-2:])).reshape(-1, *rows.shape[-2:])
        right = np.broadcast_to(columns, (*batch, *columns.shape[-2:])).reshape(-1, *columns.shape[-2:])
        net = self._load([("MatMul", ("x", "w"), {})], b"", problem)

        def call() -> list[Any]:
            return [self._run(net, {"x": a, "w": b}) for a, b in zip(left, right, strict=True)]

        return Prepared(call, lambda found: np.stack([np.array(f) for f in found]).reshape(problem.out_shape))

    def _load(self, layers: list[Layer], weights: bytes, problem: Problem) -> Any:
        if problem.then is not None:
            # Its text has no infinities.
            ends = [float(np.clip(end, -_LARGEST, _LARGEST)) for end in (problem.then.low, problem.then.high)]
            limits = {} if problem.then.name == "relu" else {0: ends[0], 1: ends[1]}
            layers = [*layers, ("Clip" if limits else "ReLU", ("v0",), limits)]
        fed = layers[0][1]
        lines = [f"Input {name} 0 1 {name}" for name in fed]
        for number, (kind, inputs, numbers) in enumerate(layers):
            output = "y" if number == len(layers) - 1 else f"v{number}"
            said = " ".join(f"{key}={value}" for key, value in numbers.items())
            lines.append(f"{kind} layer{number} {len(inputs)} 1 {' '.join(inputs)} {output} {said}")
        text = f"{_MAGIC}\n{len(lines)} {len(lines)}\n" + "\n".join(lines) + "\n"
        net = self._open()
        with open_folder() as folder:
            paths = Path(folder, "net.param"), Path(folder, "net.bin")
            paths[0].write_text(text, encoding="ascii")
            paths[1].write_bytes(weights)
            if net.load_param(str(paths[0])) or net.load_model(str(paths[1])):
                raise ValueError("ncnn does not read the network of this problem")
        return net

    def _run(self, net: Any, inputs: Mapping[str, np.ndarray]) -> Any:
        extractor = net.create_extractor()
        for name, array in inputs.items():
            extractor.input(name, self.ncnn.Mat(np.ascontiguousarray(array)).clone())
        status, found = extractor.extract("y")
        if status:
            raise ValueError(f"ncnn ended with status {status}")
        return found


def _pack(weights: np.ndarray, bias: np.ndarray | None) -> bytes:
    """Weights behind the mark of float32, and the bias behind them without one."""
    stored = struct.pack("<I", 0) + np.ascontiguousarray(weights, "<f4").tobytes()
    return stored if bias is None else stored + np.ascontiguousarray(bias, "<f4").tobytes()


def _write_linear(problem: Problem, operands: Mapping[str, np.ndarray]) -> tuple[Layer, bytes]:
    w = operands["w"]
    numbers: dict[int, object] = {0: w.shape[0], 1: int(problem.bias), 2: w.size}
    return ("InnerProduct", ("x",), numbers), _pack(w, operands.get("bias"))


def _write_window(problem: Problem, operands: Mapping[str, np.ndarray]) -> tuple[Layer, bytes]:
    axes, w = problem.axes[::-1], operands["w"]
    numbers: dict[int, object] = {0: problem.c_out}
    for name, places in _SIZES.items():
        numbers |= dict(zip(places, (getattr(a, name) for a in axes), strict=False))
    numbers |= dict(zip(_BEGINS, (a.pad_begin for a in axes), strict=False))
    numbers |= dict(zip(_ENDS, (a.pad_end for a in axes), strict=False))
    if problem.is_transposed:
        extra = [a.extra for a in axes]
        numbers |= dict(zip(_EXTRA, extra, strict=False))
        # Each group's outputs stand in front of its inputs.
        inside, outside, *window = w.shape
        w = w.reshape(problem.groups, inside // problem.groups, outside, *window).swapaxes(1, 2)
    numbers |= {5: int(problem.bias), 6: w.size}
    if problem.groups > 1:
        numbers[7] = problem.groups
    axes_said = {1: "1D", 2: "", 3: "3D"}[problem.rank]
    kind = (
        f"{'Deconvolution' if problem.is_transposed else 'Convolution'}{'DepthWise' * (problem.groups > 1)}{axes_said}"
    )
    return (kind, ("x",), numbers), _pack(w, operands.get("bias"))
