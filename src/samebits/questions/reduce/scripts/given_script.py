"""The call of a kernel or engine in a file of the user's own, as a script has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem, format_problem


def write_given(problem: Problem, settings: Mapping[str, str], name: str) -> tuple[list[str], list[str]]:
    """Lines that import, and those that make `result` of `operands`; `name` is the engine's, `path.py:name`.

    The file is loaded from where it lies now. A kernel's first argument is a problem, for which samebits is imported.
    """
    file, _, found = name.rpartition(":")
    path, dtype = Path(file).resolve(), numpy_dtype(problem.dtype)
    is_plain = hasattr(np, dtype.name)
    imports = [
        "import importlib.util",
        "import sys",
        "import samebits",
        *([] if is_plain else ["import ml_dtypes"]),
    ]
    lines = [
        f"sys.path.append({str(path.parent)!r})",
        f'spec = importlib.util.spec_from_file_location("own", {str(path)!r})',
        "own = importlib.util.module_from_spec(spec)",
        "spec.loader.exec_module(own)",
        f"kernel = own.{found}",
        "if isinstance(kernel, type):",
        "    engine = kernel()",
        '    if hasattr(engine, "load"):',
        f"        engine.load({dict(settings)!r})",
        "    kernel = engine.run",
        f'problem = samebits.parse_problem_text("{format_problem(problem)}")',
        f"dtype = {f'np.{dtype.name}' if is_plain else f'ml_dtypes.{dtype.name}'}",
        "given = {name: array.astype(dtype) for name, array in operands.items()}",
        "result = np.asarray(kernel(problem, given)).astype(np.float64)",
    ]
    return imports, lines
