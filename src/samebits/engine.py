"""What an engine of your own derives from: one class, one method; `--on ./mine.py:MyEngine` runs it.

>>> import numpy as np
>>> from samebits.engine import Engine
>>> class MyEngine(Engine):
...     def run(self, problem, operands):
...         return operands["x"] @ operands["w"]
>>> MyEngine().explain_unsupported(None) is None
True

A bare function `kernel(problem, operands) -> array` is enough where there is nothing to load or to set.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

from samebits.engines.adapters.engine import Engine as _Engine
from samebits.engines.adapters.engine import InForce, Prepared, Setting
from samebits.errors import EngineUnsupported
from samebits.problems import Problem

# What this module promises: within one number, names may come and none goes.
api = 1
__all__ = ["Engine", "EngineUnsupported", "InForce", "Prepared", "Setting", "api"]


class Engine(_Engine):
    """An engine that says only what differs from the usual: `run` is all that it must have.

    `run(problem, operands)` returns an array of `problem.out_shape` in the problem's format; operands are NumPy arrays
    in torch's layouts by the names of `problem.operand_shapes`. Raise `EngineUnsupported` where a problem cannot be
    run; whatever else is raised becomes a finding of this engine alone, with the file and line.
    """

    name: ClassVar[str] = ""
    settings: ClassVar[dict[str, Setting]] = {}
    variables: ClassVar[dict[str, str]] = {}
    # What `report` says unless it is overridden.
    version: ClassVar[str] = ""
    # The settings it was given; `load` keeps them.
    given: Mapping[str, str] = MappingProxyType({})

    def load(self, settings: Mapping[str, str]) -> None:
        """Keeps the settings; import your framework here and apply them."""
        self.given = dict(settings)

    def report(self) -> InForce:
        """Version, device and the effective settings, read back where the library lets one."""
        return InForce(self.version, self.device, dict(self.given))

    def explain_unsupported(self, problem: Problem) -> str | None:
        """Why it cannot run a problem; None, as here, where it can."""
        return None
