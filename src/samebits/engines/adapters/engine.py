"""What every engine declares and does; engine files know nothing of each other."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from samebits.engines.adapters.onnx_functions import build_function
from samebits.errors import EngineUnsupported, RunnerTextError
from samebits.problems import Problem
from samebits.problems.attention import Attention
from samebits.problems.row_functions import RowFunction

# More threads than this take the machine down with the engine.
LARGEST_NUMBER = 1024


@dataclass(frozen=True)
class Setting:
    """One setting of an engine. `choices` empty means any whole number where `is_number`, else any text.

    `of_problems`: it says how the engine is asked for one problem, and means nothing for a network. `loads_code`: it
    names a program, which only a person may choose. `compiles`: a compiler of this machine makes its kernels.
    """

    says: str
    default: str = ""
    choices: tuple[str, ...] = ()
    is_number: bool = False
    of_problems: bool = False
    loads_code: bool = False
    compiles: bool = False

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


@dataclass(frozen=True)
class Prepared:
    """A problem made ready on its operands: `call` computes it, as often as one likes; `read` makes an array of it."""

    call: Callable[[], Any]
    read: Callable[[Any], np.ndarray]


class Engine(ABC):
    """A library that computes convolutions. Lives in a worker; its class attributes are read without loading it."""

    name: ClassVar[str]
    settings: ClassVar[dict[str, Setting]]
    # Environment variables known to change bits or kernels, with what they do; for doctor.
    variables: ClassVar[dict[str, str]]
    # What it computes on, as its own calls name it.
    device: ClassVar[str] = "CPU"
    # Where the ONNX model that is loaded next has data of its own: a folder, and names of files there.
    data_files: tuple[str, Sequence[str]] = ("", ())
    # A folder for its own files, which whoever started the engine removes.
    scratch: str = ""
    # Whether it computes products only; such an engine is left out when all are asked about a convolution.
    only_products: ClassVar[bool] = False

    # Whether it is asked for attention; the others say that they have no operator for it.
    computes_attention: ClassVar[bool] = False
    # Whether it is asked for functions of rows, if it runs no ONNX models, which all have operators for them.
    computes_functions: ClassVar[bool] = False
    # Whether it knows ONNX's newest operators for them; others get those that exporters write.
    has_new_operators: ClassVar[bool] = False

    @abstractmethod
    def load(self, settings: Mapping[str, str]) -> None:
        """Imports the framework and applies the settings; the environment is already set."""

    @abstractmethod
    def report(self) -> InForce:
        """Version, device and the effective settings, read back where the library lets one read them."""

    @abstractmethod
    def explain_unsupported(self, problem: Problem) -> str | None:
        """Why this engine cannot run the problem, or None if it can."""

    # Whether it runs ONNX models; the others compute their convolutions and products one at a time.
    runs_onnx: ClassVar[bool] = False
    # Whether it runs one of them alone: a product of 8-bit codes.
    runs_codes: ClassVar[bool] = False
    # Whether it reads such a model's weights from the files in `data_files`.
    reads_data_files: ClassVar[bool] = False
    # Which exported programs it runs whole, by what they were made from: "torch", "keras".
    runs_programs: ClassVar[tuple[str, ...]] = ()

    # Each engine overrides one of these two: `prepare` where there is something to make ready, else `run`.

    def run(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """The engine's result, of `problem.out_shape` and dtype `problem.out`; may raise anything."""
        prepared = self.prepare(problem, operands)
        return prepared.read(prepared.call())

    def prepare(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> Prepared:
        """Prepares a problem once: builds the model and puts the operands where the engine wants them."""
        return Prepared(lambda: self.run(problem, operands), np.asarray)

    def explain_no_attention(self, problem: Attention) -> str | None:
        """Why this engine cannot compute an attention, or None if it can."""
        return f"{self.name} has no operator for attention here"

    def attend(self, problem: Attention, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """The engine's result of an attention, of `problem.out_shape` in the operands' dtype; may raise anything."""
        raise EngineUnsupported(f"{self.name} has no operator for attention here")

    def explain_no_function(self, problem: RowFunction) -> str | None:
        """Why this engine cannot compute a function of rows, or None if it can."""
        return None if self.runs_onnx else f"{self.name} is asked for no {problem.kind} here"

    def map_rows(self, problem: RowFunction, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        """The engine's result of a function of rows, of x's shape and dtype; of an ONNX model, where it runs these."""
        if not self.runs_onnx:
            raise EngineUnsupported(f"{self.name} is asked for no {problem.kind} here")
        onnx = importlib.import_module("onnx")
        model = build_function(onnx, problem, plain=not self.has_new_operators)
        self.load_onnx(model.SerializeToString(), [])
        return self.run_onnx(operands, ["y"])["y"]

    def load_onnx(self, model: bytes, observed: Sequence[str]) -> None:
        """Loads an ONNX model in place of the one before. `observed` are outputs added only to be observed."""
        raise EngineUnsupported(f"{self.name} runs no ONNX models")

    def run_onnx(self, inputs: Mapping[str, np.ndarray], wanted: Sequence[str]) -> dict[str, np.ndarray]:
        """The wanted outputs of the model that was made ready last; the others are computed too."""
        raise EngineUnsupported(f"{self.name} runs no ONNX models")

    def export_program(
        self, text: str, folder: str, *, opens_batch: bool = False
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Exports a module (`file.py:function`, .pt2) into a folder as program.pt2 and model.onnx; example inputs.

        With `opens_batch` the first axis of its inputs may have any size.
        """
        raise EngineUnsupported(f"{self.name} exports no modules")

    def list_program_values(self, path: str) -> list[str]:
        """The names of values that an exported program lets one observe."""
        raise EngineUnsupported(f"{self.name} runs no exported programs")

    def run_program(
        self,
        path: str,
        inputs: Mapping[str, np.ndarray],
        outputs: Sequence[str],
        observed: Sequence[str],
        given: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """An exported program's outputs, and values of it that are observed; `given` ones take the place of its own."""
        raise EngineUnsupported(f"{self.name} runs no exported programs")


_WAYS = ("contiguous", "transposed", "strided")
OPERAND_MEMORY = {
    "x_memory": Setting(
        "how x of a product lies: its rows, its columns, or every second element", "contiguous", _WAYS, of_problems=True
    ),
    "w_memory": Setting(
        "how w of a product lies: its rows, its columns, or every second element", "contiguous", _WAYS, of_problems=True
    ),
}


def lay_out(array: np.ndarray, way: str) -> np.ndarray:
    """The same array with other strides; an array of one axis cannot be transposed and stays as it is."""
    if way == "transposed" and array.ndim > 1:
        return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)
    if way == "strided" and array.ndim:
        wide = np.zeros((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        wide[..., ::2] = array
        return wide[..., ::2]
    return np.ascontiguousarray(array)
