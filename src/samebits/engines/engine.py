"""What every engine declares and does; engine files know nothing of each other."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from samebits.errors import RunnerTextError
from samebits.problems import Problem

# More threads than this take the machine down with the engine.
LARGEST_NUMBER = 1024


@dataclass(frozen=True)
class Setting:
    """One setting of an engine. `choices` empty means any whole number where `is_number`, else any text."""

    says: str
    default: str = ""
    choices: tuple[str, ...] = ()
    is_number: bool = False

    def check(self, name: str, value: str) -> None:
        """Raises RunnerTextError if `value` is none that this setting takes."""
        if self.choices and value not in self.choices:
            raise RunnerTextError(f"setting {name} takes {' or '.join(self.choices)}, not {value!r}")
        if self.is_number and not (value.isascii() and value.isdigit() and 1 <= int(value[:9]) <= LARGEST_NUMBER):
            raise RunnerTextError(f"setting {name} takes a whole number from 1 to {LARGEST_NUMBER}, not {value!r}")


ON_OFF = ("on", "off")
THREADS = Setting("threads of the engine's own pool", is_number=True)


@dataclass(frozen=True)
class InForce:
    """What a loaded engine reports: version, device, settings as read back from it, and remarks a person should see."""

    version: str
    device: str
    settings: dict[str, str]
    notes: tuple[str, ...] = ()


class Engine(ABC):
    """A library that computes convolutions. Lives in a worker; its class attributes are read without loading it."""

    name: ClassVar[str]
    settings: ClassVar[dict[str, Setting]]
    # Environment variables known to change bits or kernels, with what they do; for doctor.
    variables: ClassVar[dict[str, str]]
    # Whether it computes products only; who asks all engines about a convolution leaves it out.
    only_products: ClassVar[bool] = False

    @abstractmethod
    def load(self, settings: Mapping[str, str]) -> None:
        """Imports the framework and applies the settings; the environment is already set."""

    @abstractmethod
    def report(self) -> InForce:
        """Version, device and the effective settings, read back where the library lets one read them."""

    @abstractmethod
    def explain_unsupported(self, problem: Problem) -> str | None:
        """Why this engine cannot run the problem, or None if it can."""

    @abstractmethod
    def run(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """The engine's result, of `problem.out_shape` and dtype `problem.out`; may raise anything."""
