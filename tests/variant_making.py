"""What a variant is, and what its maker works with; `variants` lists them all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

import plain_sums as plain
from plain_sums import Laid
from samebits.problems import Problem

FAULT_FREE, LOST, WRONG = ("rounding", "identical"), ("downgrade",), ("wrong",)
# No result can be judged by operands that were not multiplied; inside the bound it need not be.
OPEN = ("undecided", "rounding")
DTYPES = {
    "float32": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float64": np.float64
}  # fmt: skip
# Transforms and truncated sums: inside the bound of any order nobody need tell them from it.
EITHER = ("rounding", "downgrade")


Change = Callable[[np.ndarray], np.ndarray]


class NotHere(Exception):
    """The variant makes no sense, or leaves no trace, in this problem with these data."""


def needs(condition: object) -> None:
    if not condition:
        raise NotHere


@dataclass(frozen=True)
class Making:
    """One problem with its operands laid out, and helpers; a maker returns a result of the problem's shape."""

    problem: Problem
    operands: Mapping[str, np.ndarray]
    rng: np.random.Generator

    @property
    def laid(self) -> Laid:
        return plain.lay_out(self.problem, self.operands)

    @property
    def is_forward(self) -> bool:
        return self.problem.direction == "forward"

    @property
    def is_conv(self) -> bool:
        """Whether it is a convolution that gathers, forward."""
        return self.is_forward and not self.problem.product and not self.problem.is_transposed

    def using(self, **changed: np.ndarray) -> Making:
        """The same with other operands."""
        return replace(self, operands={**self.operands, **changed})

    def rounded(
        self, x: Callable[[np.ndarray], np.ndarray] | None, w: Callable[[np.ndarray], np.ndarray] | None
    ) -> Making:
        """The same with operands changed: what is no weight by x, weights by w; in float64."""
        changed = {}
        for name, array in self.operands.items():
            change = {"x": x, "w": w, "dy": w if "x" in self.operands else x}.get(name)
            if change is not None:
                changed[name] = change(array.astype(np.float64))
        return self.using(**changed)

    def exactly(self) -> np.ndarray:
        """The sums in float64, in the problem's shape, without bias and epilogue."""
        return plain.put_back(self.problem, plain.sum_exactly(self.laid))

    def in_float32(self) -> np.ndarray:
        return plain.put_back(self.problem, plain.sum_in_float32(self.laid))

    def store(self, sums: np.ndarray, bias: np.ndarray | None = None) -> np.ndarray:
        """float32 sums finished in float32 and stored in the problem's format."""
        own = self.operands.get("bias") if bias is None else bias
        done = plain.finish(self.problem, sums.astype(np.float32), own)
        with np.errstate(over="ignore"):
            return done.astype(DTYPES[self.problem.out])

    def store_as(self, done: np.ndarray) -> np.ndarray:
        """A finished result in the problem's format, of which it has no more digits."""
        return done.astype(np.float32).astype(DTYPES[self.problem.out])


@dataclass(frozen=True)
class Variant:
    """What an engine may have done: how it is made, which verdicts and causes are right.

    `item` is the class of faults it stands for. `make` may return the operands that are on record beside the result.
    """

    name: str
    item: str
    verdicts: tuple[str, ...]
    causes: tuple[str | None, ...]
    make: Callable[[Making], np.ndarray | tuple[dict[str, np.ndarray], np.ndarray]]
