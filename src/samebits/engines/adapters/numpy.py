"""NumPy's products, computed by the BLAS it was built with."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.attention_operands import attend_in_parts
from samebits.engines.adapters.engine import OPERAND_MEMORY, THREADS, Engine, InForce, Setting, lay_out
from samebits.engines.adapters.plain_functions import compute_plainly
from samebits.errors import EngineUnsupported
from samebits.problems import Problem
from samebits.problems.attention import Attention
from samebits.problems.row_functions import RowFunction

_BY_BLAS = ("float32", "float64")


class NumpyEngine(Engine):
    """numpy.matmul, dot or einsum; `linear` and its gradients as people write them with those."""

    name = "numpy"
    only_products = True
    computes_attention = True
    computes_functions = True
    settings: ClassVar[dict[str, Setting]] = {
        "threads": THREADS,
        "call": Setting("the function that multiplies", "matmul", ("matmul", "dot", "einsum"), of_problems=True),
        **OPERAND_MEMORY,
    }
    variables: ClassVar[dict[str, str]] = {
        "OPENBLAS_CORETYPE": "which of OpenBLAS's kernels NumPy uses",
        "OPENBLAS_NUM_THREADS": "threads of OpenBLAS",
        "OMP_NUM_THREADS": "threads of OpenMP pools",
        "MKL_NUM_THREADS": "threads of MKL",
        "MKL_CBWR": "conditional numerical reproducibility of MKL",
    }

    def load(self, settings: Mapping[str, str]) -> None:
        # An environment elsewhere may have NumPy alone.
        self.pools: Any = None
        with contextlib.suppress(ModuleNotFoundError):
            self.pools = importlib.import_module("threadpoolctl")
        if "threads" in settings:
            if self.pools is None:
                raise EngineUnsupported("threads= needs threadpoolctl there")
            self.pools.threadpool_limits(int(settings["threads"]), "blas")
        self.call = settings.get("call", "matmul")
        self.memory = {name: settings.get(f"{name}_memory", "contiguous") for name in ("x", "w")}

    def report(self) -> InForce:
        pools = self.pools.threadpool_info() if self.pools else []
        blas = next((pool for pool in pools if pool["user_api"] == "blas"), None)
        in_force = {"call": self.call, **{f"{name}_memory": way for name, way in self.memory.items()}}
        if blas is not None:
            in_force["threads"] = str(blas["num_threads"])
            in_force["blas"] = f"{blas['internal_api']} {blas['version'] or ''}".strip()
            # The family of kernels that was chosen for this processor.
            in_force["core_type"] = str(blas.get("architecture") or "unknown")
        notes = () if self.pools else ("which BLAS it has, and its threads, are not known: no threadpoolctl there",)
        return InForce(np.__version__, self.device, in_force, notes)

    def explain_unsupported(self, problem: Problem) -> str | None:
        if problem.product is None:
            return "numpy has no convolutions, only linear and matmul"
        if problem.out != problem.dtype:
            return "numpy's products return their operands' dtype"
        if problem.dtype not in (*_BY_BLAS, "float16"):
            return f"numpy multiplies no {problem.dtype}"
        return None

    def run(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        given = {name: lay_out(array, self.memory.get(name, "contiguous")) for name, array in operands.items()}
        with np.errstate(all="ignore"):
            return np.asarray(self._compute(problem, given)).reshape(problem.out_shape)

    def explain_no_attention(self, problem: Attention) -> str | None:
        return None if problem.dtype in (*_BY_BLAS, "float16") else f"numpy multiplies no {problem.dtype}"

    def attend(self, problem: Attention, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        with np.errstate(all="ignore"):
            return attend_in_parts(np, problem, operands)

    def explain_no_function(self, problem: RowFunction) -> str | None:
        if problem.dtype not in (*_BY_BLAS, "float16"):
            return f"numpy computes no {problem.dtype}"
        return "numpy has no erf" if problem.kind == "gelu" and problem.approximate == "none" else None

    def map_rows(self, problem: RowFunction, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        with np.errstate(all="ignore"):
            return compute_plainly(np, problem, operands)

    def _compute(self, problem: Problem, given: Mapping[str, np.ndarray]) -> Any:
        if problem.direction == "grad_input":
            return self._multiply(given["dy"], given["w"])
        if problem.direction == "grad_weight":
            dy, x = (given[name].reshape(-1, given[name].shape[-1]) for name in ("dy", "x"))
            return self._multiply(dy.T, x)
        y = self._multiply(given["x"], given["w"].T if problem.kind == "linear" else given["w"])
        y = y + given["bias"] if problem.bias else y
        if problem.then is None:
            return y
        low, high = (np.asarray(bound, y.dtype) for bound in (problem.then.low, problem.then.high))
        return np.minimum(np.maximum(y, low), high)

    def _multiply(self, x: np.ndarray, w: np.ndarray) -> Any:
        if self.call == "einsum":
            rows, columns = ("m",)[: x.ndim - 1], ("n",)[: w.ndim - 1]
            return np.einsum(f"...{''.join(rows)}k,...k{''.join(columns)}->...{''.join((*rows, *columns))}", x, w)
        # numpy.dot pairs every batch of x with every one of w: it is another function there.
        return np.dot(x, w) if self.call == "dot" and w.ndim <= 2 else np.matmul(x, w)
