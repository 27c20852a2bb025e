"""TensorFlow on the CPU, eagerly, with its own layout: channels last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.attention_operands import explain_no_cap, merge_mask, put_length_first, repeat_heads
from samebits.engines.adapters.engine import ON_OFF, THREADS, Engine, InForce, Prepared, Setting
from samebits.engines.adapters.keras_program import KerasProgram
from samebits.errors import EngineUnsupported
from samebits.problems import Axis, Problem
from samebits.problems.attention import Attention
from samebits.problems.row_functions import RowFunction


class TensorflowEngine(Engine):
    """tf.nn.conv2d and conv3d and their transposes; one-dimensional problems as tf.nn.conv1d makes them, in 2-D.

    Uneven padding is an argument in 2-D and tf.pad before a VALID convolution in 3-D; gradients come from the tape.
    `linear` is what Keras's Dense does, with a kernel of K x N: tf.matmul, tf.tensordot where x has more axes. Keras
    models run as graphs (tf.function), as `predict` runs them.
    """

    name = "tensorflow"
    runs_programs = ("keras",)
    computes_attention = True
    computes_functions = True
    settings: ClassVar[dict[str, Setting]] = {
        "threads": THREADS,
        "deterministic": Setting("tf.config.experimental.enable_op_determinism", "off", ON_OFF),
        "linear_as": Setting(
            "weights K x N, or N x K with transpose_b", "dense", ("dense", "transpose_b"), of_problems=True
        ),
    }
    variables: ClassVar[dict[str, str]] = {
        "TF_ENABLE_ONEDNN_OPTS": "0 takes Eigen's kernels instead of oneDNN's",
        "ONEDNN_MAX_CPU_ISA": "caps the instruction set of oneDNN's kernels",
        "ONEDNN_DEFAULT_FPMATH_MODE": "lets oneDNN compute float32 in a narrower format",
        "TF_DETERMINISTIC_OPS": "asks for deterministic kernels",
        "TF_CUDNN_USE_AUTOTUNE": "whether cuDNN's algorithms are timed and chosen",
        "TF_FP16_CONV_USE_FP32_COMPUTE": "0 lets cuDNN add float16 convolutions in float16",
        "NVIDIA_TF32_OVERRIDE": "0 forbids TF32 in every NVIDIA library",
    }

    def load(self, settings: Mapping[str, str]) -> None:
        import os

        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
        import tensorflow

        self.tf: Any = tensorflow
        tensorflow.config.set_visible_devices([], "GPU")
        if "threads" in settings:
            tensorflow.config.threading.set_intra_op_parallelism_threads(int(settings["threads"]))
        self.linear_as = settings.get("linear_as", "dense")
        self.deterministic = settings.get("deterministic") == "on"
        if self.deterministic:
            tensorflow.keras.utils.set_random_seed(0)
            tensorflow.config.experimental.enable_op_determinism()

        self.keras = KerasProgram("tensorflow", tensorflow.function, keeps_state=True)

    def report(self) -> InForce:
        in_force = {
            "threads": str(self.tf.config.threading.get_intra_op_parallelism_threads() or "all cores"),
            "deterministic": "on" if self.deterministic else "off",
            "linear_as": self.linear_as,
            "onednn": self._onednn(),
        }
        return InForce(self.tf.__version__, self.device, in_force)

    def _onednn(self) -> str:
        try:
            from tensorflow.python.util import _pywrap_util_port
        except ImportError:
            return "unknown"
        return "on" if _pywrap_util_port.IsMklEnabled() else "off"

    def explain_unsupported(self, problem: Problem) -> str | None:
        if problem.out != problem.dtype:
            return "tensorflow's convolutions and products return their operands' dtype"
        if problem.dtype.startswith("float8"):
            return "tensorflow's convolutions and products take no float8"
        if problem.rank == 3 and problem.groups > 1:
            return "tensorflow's 3-D convolutions have no groups"
        return None

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        if problem.product:
            return Prepared(lambda: self._multiply(problem, operands), np.asarray)
        tf = self.tf
        given = {name: self._tensor(problem, name, array) for name, array in operands.items()}
        if problem.direction == "forward":
            return Prepared(
                lambda: self._forward(problem, given["x"], given["w"], given.get("bias")),
                lambda y: self._result(problem, y),
            )
        shapes = {"x": self._activation_shape(problem, problem.x), "w": self._weight_shape(problem)}
        inputs = {n: given.get(n, tf.zeros(shape, given["dy"].dtype)) for n, shape in shapes.items()}
        wanted = "x" if problem.direction == "grad_input" else "w"
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(inputs[wanted])
            y = self._forward(problem, inputs["x"], inputs["w"], None)
        return Prepared(
            lambda: tape.gradient(y, inputs[wanted], given["dy"]), lambda gradient: self._result(problem, gradient)
        )

    def explain_no_attention(self, problem: Attention) -> str | None:
        if problem.dtype.startswith("float8"):
            return "tensorflow's products take no float8"
        return explain_no_cap(problem, "Keras")

    def attend(self, problem: Attention, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """Keras's own operation; TensorFlow has none."""
        tf = self.tf
        repeated = {"q": operands["q"], **{n: repeat_heads(problem, operands[n]) for n in ("k", "v")}}
        q, k, v = (tf.convert_to_tensor(put_length_first(array)) for array in repeated.values())
        is_causal = problem.causal == "upper_left"
        mask = merge_mask(problem, operands, has_causal=is_causal)
        given: dict[str, Any] = {"is_causal": is_causal}
        if mask is not None:
            given["mask" if mask.dtype == bool else "bias"] = tf.convert_to_tensor(mask)
        if problem.scale is not None:
            given["scale"] = problem.scale
        y = tf.keras.ops.dot_product_attention(q, k, v, **given)
        return put_length_first(y.numpy())

    def explain_no_function(self, problem: RowFunction) -> str | None:
        if problem.dtype.startswith("float8"):
            return f"Keras is asked for no {problem.kind} in float8"
        return None if problem.kind in ("softmax", "gelu") else f"Keras is asked for no {problem.kind} here"

    def map_rows(self, problem: RowFunction, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """TensorFlow's own operations."""
        x = self.tf.convert_to_tensor(operands["x"])
        if problem.kind == "softmax":
            return self.tf.nn.softmax(x, axis=problem.axis).numpy()
        return self.tf.nn.gelu(x, approximate=problem.approximate == "tanh").numpy()

    def list_program_values(self, path: str) -> list[str]:
        return self.keras.list_values(path)

    def run_program(
        self,
        path: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        observed: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        return self.keras.run(path, inputs, outputs, observed, given)

    def _forward(self, problem: Problem, x: Any, w: Any, bias: Any) -> Any:
        tf = self.tf
        axes = _flat_axes(problem)
        pads = [[0, 0], *([a.pad_begin, a.pad_end] for a in axes), [0, 0]]
        strides = [1, *(a.stride for a in axes), 1]
        dilations = [1, *(a.dilation for a in axes), 1]
        if problem.is_transposed:
            y = self._transposed(problem, x, w, strides, pads, dilations)
        elif problem.rank == 3:
            x = tf.pad(x, pads) if any(map(any, pads)) else x
            y = tf.nn.conv3d(x, w, strides, "VALID", dilations=dilations)
        else:
            y = tf.nn.conv2d(x, w, strides, pads if any(map(any, pads)) else "VALID", dilations=dilations)
        if bias is not None:
            y = tf.nn.bias_add(y, bias)
        return self._finish(problem, y)

    def _finish(self, problem: Problem, y: Any) -> Any:
        if problem.then is None:
            return y
        low, high = problem.then.low, problem.then.high
        return self.tf.nn.relu(y) if problem.then.name == "relu" else self.tf.clip_by_value(y, low, high)

    def _multiply(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        tf = self.tf
        given = {name: tf.constant(array) for name, array in operands.items()}
        if problem.direction == "forward":
            y = self._product(problem, given["x"], given["w"])
            y = y if "bias" not in given else y + given["bias"]
            return self._finish(problem, y).numpy().reshape(problem.out_shape)
        inputs = {n: given.get(n, tf.zeros(s, given["dy"].dtype)) for n, s in (("x", problem.x), ("w", problem.w))}
        wanted = "x" if problem.direction == "grad_input" else "w"
        with tf.GradientTape() as tape:
            tape.watch(inputs[wanted])
            y = self._product(problem, inputs["x"], inputs["w"])
        return tape.gradient(y, inputs[wanted], given["dy"]).numpy()

    def _product(self, problem: Problem, x: Any, w: Any) -> Any:
        tf = self.tf
        if problem.kind == "linear":
            x = x[None] if len(problem.x) == 1 else x
            if self.linear_as == "transpose_b":
                y = tf.matmul(tf.reshape(x, [-1, problem.x[-1]]), w, transpose_b=True)
                return tf.reshape(y, problem.y_shape)
            kernel = tf.transpose(w)
            y = tf.matmul(x, kernel) if len(x.shape) == 2 else tf.tensordot(x, kernel, 1)
            return tf.reshape(y, problem.y_shape)
        x = x[None] if len(problem.x) == 1 else x
        w = w[:, None] if len(problem.w) == 1 else w
        return tf.reshape(tf.matmul(x, w), problem.y_shape)

    def _transposed(
        self, problem: Problem, x: Any, w: Any, strides: list[int], pads: list[list[int]], dilations: list[int]
    ) -> Any:
        tf = self.tf
        shape = self._activation_shape(problem, problem.y_shape)
        if problem.rank < 3:
            padding = pads if any(map(any, pads)) else "VALID"
            return tf.nn.conv2d_transpose(x, w, shape, strides, padding, dilations=dilations)
        padded = [size + begin + end for size, (begin, end) in zip(shape, pads, strict=True)]
        y = tf.nn.conv3d_transpose(x, w, padded, strides, "VALID", dilations=dilations)
        return tf.slice(y, [begin for begin, _ in pads], shape)

    def _tensor(self, problem: Problem, name: str, array: np.ndarray) -> Any:
        if name == "bias":
            return self.tf.constant(array)
        if problem.rank == 1:
            array = array[:, :, None, :]
        order = (*range(2, array.ndim), 1, 0) if name == "w" else (0, *range(2, array.ndim), 1)
        return self.tf.constant(np.ascontiguousarray(array.transpose(order)))

    def _result(self, problem: Problem, tensor: Any) -> np.ndarray:
        if tensor is None:
            raise EngineUnsupported("tensorflow has no gradient here")
        array = tensor.numpy()
        last = array.ndim - 1
        if problem.direction == "grad_weight":
            array = array.transpose(last, last - 1, *range(last - 1))
        else:
            array = array.transpose(0, last, *range(1, last))
        return np.ascontiguousarray(array).reshape(problem.out_shape)

    def _activation_shape(self, problem: Problem, shape: tuple[int, ...]) -> list[int]:
        spatial = [1, *shape[2:]] if problem.rank == 1 else list(shape[2:])
        return [shape[0], *spatial, shape[1]]

    def _weight_shape(self, problem: Problem) -> list[int]:
        spatial = [1, *problem.w[2:]] if problem.rank == 1 else list(problem.w[2:])
        return [*spatial, problem.w[1], problem.w[0]]


def _flat_axes(problem: Problem) -> tuple[Axis, ...]:
    """The problem's axes, with one of size 1 before the only one of a 1-D problem."""
    return (Axis(1, 1, 1, 1, 1, 0, 0), *problem.axes) if problem.rank == 1 else problem.axes
