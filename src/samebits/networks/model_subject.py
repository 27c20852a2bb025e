"""Which subjects name a whole network, and which engines run it by themselves."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from samebits.engines.adapters.model_function import mentions_keras
from samebits.engines.registry.known_engines import ENGINES, list_installed
from samebits.networks.network import Network
from samebits.problems.integer_problem import is_integer_problem

# file.py:function
_FUNCTION = re.compile(r".+\.py:[A-Za-z_]\w*")


def is_module(text: str) -> bool:
    """Whether a text names a module: a .pt2 exported program, or `file.py:function`."""
    return text.endswith(".pt2") or bool(_FUNCTION.fullmatch(text))


def is_lite(text: str) -> bool:
    """Whether a text names a LiteRT file."""
    return text.endswith(".tflite")


def is_model(subject: Any) -> bool:
    """Whether a subject names a whole network: an .onnx, .tflite or .pt2 file, or `file.py:function`."""
    if isinstance(subject, Network):
        return True
    if not isinstance(subject, (str, Path)):
        return False
    text = str(subject)
    return text.endswith(".onnx") or is_lite(text) or is_module(text)


def list_engines_for(subject: str | Path) -> list[str]:
    """The installed engines that run a whole network of this kind by themselves, in the table's sequence.

    Problems on integers are operators of ONNX.
    """
    file = Path(str(subject).rpartition(":")[0])
    kinds = {"torch"} if is_module(str(subject)) else {"tflite"} if is_lite(str(subject)) else set[str]()
    if kinds and file.is_file() and mentions_keras(file):
        kinds.add("keras")
    classes = {name: ENGINES[name].load_class() for name in list_installed()}
    codes = is_integer_problem(subject)
    whole = (n for n, own in classes.items() if own.runs_onnx or kinds & {*own.runs_programs})
    return [*whole, *(n for n, own in classes.items() if codes and own.runs_codes)]
