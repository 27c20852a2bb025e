"""MLX, Apple's array library, on the CPU: convolutions and products of its core."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.engine import Engine, InForce, Prepared, Setting
from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem

_FORMATS = ("float32", "float16", "bfloat16")


class MlxEngine(Engine):
    """mx.conv_general, mx.conv_transpose1d to 3d, mx.addmm and mx.matmul on the device cpu; gradients by mx.vjp.

    `linear` is what mlx.nn.Linear computes: addmm with a bias, else a product with the transposed weights.
    """

    name = "mlx"
    settings: ClassVar[dict[str, Setting]] = {}
    variables: ClassVar[dict[str, str]] = {}

    def load(self, settings: Mapping[str, str]) -> None:
        import mlx.core as core

        self.core: Any = core
        core.set_default_device(core.cpu)

    def report(self) -> InForce:
        return InForce(metadata.version("mlx"), self.device, {"device": "cpu"})

    def explain_unsupported(self, problem: Problem) -> str | None:
        if problem.out != problem.dtype:
            return "mlx returns its operands' dtype"
        if problem.dtype not in _FORMATS:
            return f"mlx computes {', '.join(_FORMATS)} on the CPU"
        if problem.direction != "forward" and (problem.bias or problem.then):
            return "gradients are asked without a bias"
        if problem.rank == 3 and problem.groups > 1 and not problem.product:
            return "mlx has no groups in three dimensions"
        if problem.is_transposed and any(a.pad_begin != a.pad_end for a in problem.axes):
            return "mlx pads transposed convolutions alike on both sides"
        return None

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        core = self.core
        given = {name: self._give(problem, name, array) for name, array in operands.items()}
        core.eval(*given.values())

        def compute(x: Any, w: Any) -> Any:
            y = self._multiply(problem, x, w, given) if problem.product else self._convolve(problem, x, w, given)
            if problem.then is None:
                return y
            return (
                core.maximum(y, 0) if problem.then.name == "relu" else core.clip(y, problem.then.low, problem.then.high)
            )

        def call() -> Any:
            if problem.direction == "forward":
                result = compute(given["x"], given["w"])
            else:
                result = self._differentiate(problem, compute, given)
            core.eval(result)
            return result

        return Prepared(call, lambda result: self._take(problem, result))

    def _differentiate(self, problem: Problem, compute: Any, given: Mapping[str, Any]) -> Any:
        core, of_x = self.core, problem.direction == "grad_input"
        name, shape = ("x", problem.x) if of_x else ("w", problem.w)
        zeros = self._give(problem, name, np.zeros(shape, numpy_dtype(problem.dtype)))
        function = (lambda v: compute(v, given["w"])) if of_x else (lambda v: compute(given["x"], v))
        return core.vjp(function, [zeros], [given["dy"]])[1][0]

    def _give(self, problem: Problem, name: str, array: np.ndarray) -> Any:
        """An operand as mlx wants it: channels last. bfloat16 goes by way of float32, which holds it exactly."""
        moved = array
        if not problem.product and name in ("x", "dy"):
            moved = np.moveaxis(array, 1, -1)
        elif not problem.product and name == "w":
            turned = self._turn_weights(problem, array) if problem.is_transposed else array
            moved = np.moveaxis(turned, 1, -1)
        wide = np.ascontiguousarray(moved, np.float32 if problem.dtype == "bfloat16" else None)
        return self.core.array(wide, getattr(self.core, problem.dtype))

    def _turn_weights(self, problem: Problem, array: np.ndarray) -> np.ndarray:
        """Weights of a transposed convolution with their outputs in front, group by group."""
        inside, outside, *window = array.shape
        parts = array.reshape(problem.groups, inside // problem.groups, outside, *window).swapaxes(1, 2)
        return parts.reshape(problem.groups * outside, inside // problem.groups, *window)

    def _take(self, problem: Problem, result: Any) -> np.ndarray:
        wide = np.array(result.astype(self.core.float32) if problem.dtype == "bfloat16" else result)
        if not problem.product:
            wide = np.moveaxis(wide, -1, 1)
            if problem.is_transposed and problem.direction == "grad_weight":
                outside, inside, *window = wide.shape
                parts = wide.reshape(problem.groups, outside // problem.groups, inside, *window).swapaxes(1, 2)
                wide = parts.reshape(problem.w)
        return np.ascontiguousarray(wide).astype(numpy_dtype(problem.out)).reshape(problem.out_shape)

    def _multiply(self, problem: Problem, x: Any, w: Any, given: Mapping[str, Any]) -> Any:
        if problem.kind == "matmul":
            return self.core.matmul(x, w)
        if "bias" in given:
            return self.core.addmm(given["bias"], x, w.T)
        return self.core.matmul(x, w.T)

    def _convolve(self, problem: Problem, x: Any, w: Any, given: Mapping[str, Any]) -> Any:
        axes = problem.axes
        stride, dilation = [a.stride for a in axes], [a.dilation for a in axes]
        if problem.is_transposed:
            extra = [a.extra for a in axes]
            name = f"conv_transpose{problem.rank}d"
            sizes = (stride, [a.pad_begin for a in axes], dilation, extra)
            y = getattr(self.core, name)(
                x, w, *(s[0] if problem.rank == 1 else tuple(s) for s in sizes), problem.groups
            )
        else:
            pads = ([a.pad_begin for a in axes], [a.pad_end for a in axes])
            y = self.core.conv_general(x, w, stride, pads, dilation, groups=problem.groups)
        return y + given["bias"] if "bias" in given else y
