"""JAX, compiled by XLA, on the CPU or on an NVIDIA GPU."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.attention_operands import explain_no_cap, merge_mask, put_length_first
from samebits.engines.adapters.engine import Engine, InForce, Prepared, Setting
from samebits.engines.adapters.keras_program import KerasProgram
from samebits.engines.adapters.plain_functions import compute_plainly, scale
from samebits.errors import EngineUnsupported
from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem
from samebits.problems.attention import Attention
from samebits.problems.row_functions import RowFunction

Program = Callable[[dict[str, Any]], Any]
_MOST_PROGRAMS = 32


class JaxEngine(Engine):
    """lax.conv_general_dilated and dot_general under jit; gradients through vjp, transposed ones with a dilated input.

    Products of vectors and broadcast batches go through numpy.matmul, which makes dot_general of them.
    """

    name = "jax"
    runs_programs = ("keras",)
    computes_attention = True
    computes_functions = True
    settings: ClassVar[dict[str, Setting]] = {
        "precision": Setting("jax_default_matmul_precision", "", ("default", "high", "highest")),
        "jit": Setting("compile the call as one program", "on", ("on", "off")),
        "device": Setting("where it computes", "cpu", ("cpu", "cuda")),
    }
    variables: ClassVar[dict[str, str]] = {
        "XLA_FLAGS": "options of the compiler, fast-math and the kernel library among them",
        "JAX_PLATFORMS": "which devices are tried, in order",
        "JAX_ENABLE_X64": "lets float64 arrays exist",
        "JAX_DEFAULT_MATMUL_PRECISION": "precision of products on accelerators",
        "NVIDIA_TF32_OVERRIDE": "0 forbids TF32 in every NVIDIA library",
    }

    def load(self, settings: Mapping[str, str]) -> None:
        self.place = settings.get("device", "cpu")
        if self.place == "cuda":
            # It would take most of the GPU's memory for itself.
            os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax

        self.jax: Any = jax
        jax.config.update("jax_enable_x64", True)
        jax.config.update("jax_platforms", self.place)
        try:
            self.device_kind = str(jax.devices()[0].device_kind)
        except (RuntimeError, AssertionError) as error:
            # A build for the CPU alone raises either, the second without a word.
            raise EngineUnsupported(f"device={self.place}: jax sees no such device. {error}".strip()) from None
        if "precision" in settings:
            jax.config.update("jax_default_matmul_precision", settings["precision"])
        self.compiles = settings.get("jit", "on") == "on"
        self.programs: dict[Problem, Program] = {}
        self.keras = KerasProgram("jax", jax.jit if self.compiles else lambda f: f, keeps_state=False)

    def report(self) -> InForce:
        config = self.jax.config
        in_force = {
            "precision": str(config.jax_default_matmul_precision or "default"),
            "jit": "on" if self.compiles else "off",
            "x64": "on" if config.jax_enable_x64 else "off",
            "device": self.place,
        }
        return InForce(self.jax.__version__, "CPU" if self.place == "cpu" else self.device_kind, in_force)

    def explain_unsupported(self, problem: Problem) -> str | None:
        if numpy_dtype(problem.out).itemsize < numpy_dtype(problem.dtype).itemsize:
            return "jax's preferred_element_type may not be narrower than the operands"
        if problem.direction != "forward" and problem.out != problem.dtype:
            return "jax's gradients have their operands' dtype"
        return None

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        arrays = {name: self.jax.numpy.asarray(array) for name, array in operands.items()}
        program = self._find_program(problem)
        return Prepared(lambda: program(arrays).block_until_ready(), np.asarray)

    def explain_no_attention(self, problem: Attention) -> str | None:
        if problem.v[3] != problem.k[3]:
            return "jax.nn.dot_product_attention has values as wide as keys"
        return explain_no_cap(problem, "jax")

    def attend(self, problem: Attention, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        jnp = self.jax.numpy
        q, k, v = (jnp.asarray(put_length_first(operands[name])) for name in ("q", "k", "v"))
        is_causal = problem.causal == "upper_left"
        mask = merge_mask(problem, operands, has_causal=is_causal)
        given = None if mask is None else jnp.asarray(mask)
        hides = given is not None and given.dtype == bool

        def compute(q: Any, k: Any, v: Any, given: Any) -> Any:
            return self.jax.nn.dot_product_attention(
                q, k, v, bias=None if hides else given, mask=given if hides else None, scale=problem.scale,
                is_causal=is_causal,
            )  # fmt: skip

        y = (self.jax.jit(compute) if self.compiles else compute)(q, k, v, given)
        return put_length_first(np.asarray(y))

    def explain_no_function(self, problem: RowFunction) -> str | None:
        return f"jax is asked for no {problem.kind} in float8" if problem.dtype.startswith("float8") else None

    def map_rows(self, problem: RowFunction, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        given = {name: self.jax.numpy.asarray(array) for name, array in operands.items()}
        functions = self.jax.nn

        def compute(given: Mapping[str, Any]) -> Any:
            if problem.kind == "softmax":
                return functions.softmax(given["x"], problem.axis)
            if problem.kind == "gelu":
                return functions.gelu(given["x"], approximate=problem.approximate == "tanh")
            if problem.kind == "layernorm":
                axes = tuple(range(-problem.axes, 0))
                return scale(problem, functions.standardize(given["x"], axes, epsilon=problem.eps), given)
            return compute_plainly(self.jax.numpy, problem, given)

        return np.asarray((self.jax.jit(compute) if self.compiles else compute)(given))

    def list_program_values(self, path: str) -> list[str]:
        with self._in_32_bits():
            return self.keras.list_values(path)

    def run_program(
        self,
        path: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        observed: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        with self._in_32_bits():
            return self.keras.run(path, inputs, outputs, observed, given)

    def _in_32_bits(self) -> Any:
        """A context without 64-bit types, as is JAX's default: Keras does not enable them."""
        return self.jax.enable_x64(False) if hasattr(self.jax, "enable_x64") else self.jax.experimental.disable_x64()

    def _find_program(self, problem: Problem) -> Program:
        """The problem's function, compiled by the first call; the latest ones are kept."""
        program = self.programs.pop(problem, None) or self._build(problem)
        self.programs[problem] = program
        if len(self.programs) > _MOST_PROGRAMS:
            del self.programs[next(iter(self.programs))]
        return program

    def _build(self, problem: Problem) -> Program:
        jax = self.jax

        def compute(given: dict[str, Any]) -> Any:
            if problem.direction == "forward":
                return self._forward(problem, given["x"], given["w"], given.get("bias"))
            zeros = {n: jax.numpy.zeros(s, given["dy"].dtype) for n, s in (("x", problem.x), ("w", problem.w))}
            inputs = {**zeros, **given}
            if problem.direction == "grad_input":
                _, pull = jax.vjp(lambda x: self._forward(problem, x, inputs["w"], None), inputs["x"])
            else:
                _, pull = jax.vjp(lambda w: self._forward(problem, inputs["x"], w, None), inputs["w"])
            return pull(given["dy"])[0]

        return jax.jit(compute) if self.compiles else compute

    def _forward(self, problem: Problem, x: Any, w: Any, bias: Any) -> Any:
        jax = self.jax
        y = self._multiply(problem, x, w) if problem.product else self._convolve(problem, x, w)
        if bias is not None:
            y = y + bias.astype(y.dtype).reshape(problem.bias_shape)
        if problem.then:
            low, high = problem.then.low, problem.then.high
            y = jax.nn.relu(y) if problem.then.name == "relu" else jax.numpy.clip(y, low, high)
        return y

    def _multiply(self, problem: Problem, x: Any, w: Any) -> Any:
        out = numpy_dtype(problem.out)
        if problem.kind == "matmul":
            return self.jax.numpy.matmul(x, w, preferred_element_type=out)
        summed = (((x.ndim - 1,), (1,)), ((), ()))
        return self.jax.lax.dot_general(x, w, summed, preferred_element_type=out)

    def _convolve(self, problem: Problem, x: Any, w: Any) -> Any:
        jax = self.jax
        pads = [(a.pad_begin, a.pad_end) for a in problem.axes]
        strides, inner = problem.stride, (1,) * problem.rank
        if problem.is_transposed:
            w = self._turn_weights(problem, w)
            pads = [self._transposed_pads(a) for a in problem.axes]
            strides, inner = inner, strides
        spatial = "DHW"[-problem.rank :]
        return jax.lax.conv_general_dilated(
            x, w, strides, pads, lhs_dilation=inner, rhs_dilation=problem.dilation, feature_group_count=problem.groups,
            dimension_numbers=(f"NC{spatial}", f"OI{spatial}", f"NC{spatial}"),
            preferred_element_type=numpy_dtype(problem.out),
        )  # fmt: skip

    def _turn_weights(self, problem: Problem, w: Any) -> Any:
        """(C_in, C_out/g, taps) as the flipped (C_out, C_in/g, taps) of the equivalent convolution."""
        g, rest = problem.groups, w.shape[1:]
        grouped = w.reshape(g, w.shape[0] // g, *rest)
        swapped = self.jax.numpy.swapaxes(grouped, 1, 2)
        flat = swapped.reshape(g * rest[0], w.shape[0] // g, *rest[1:])
        return self.jax.numpy.flip(flat, tuple(range(2, 2 + problem.rank)))

    @staticmethod
    def _transposed_pads(axis: Any) -> tuple[int, int]:
        reach = (axis.kernel - 1) * axis.dilation
        before = reach - axis.pad_begin
        dilated = (axis.size_small - 1) * axis.stride + 1
        return before, axis.size_large + reach - dilated - before
