"""The script of a fault, for any engine; whether it shows the fault is found out by running it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from samebits.engines.registry.known_engines import is_file_engine
from samebits.engines.registry.runner_text import RunnerText
from samebits.engines.runner import Identity
from samebits.problems import Problem, format_problem
from samebits.questions.reduce.scripts.given_script import write_given
from samebits.questions.reduce.scripts.jax_script import write_jax
from samebits.questions.reduce.scripts.onnx_script import write_onnxruntime, write_openvino
from samebits.questions.reduce.scripts.script_parts import (
    FAILURES,
    RESULT_MARK,
    repeat_call,
    write_assertion,
    write_count,
    write_exact_sums,
    write_operands,
)
from samebits.questions.reduce.scripts.tensorflow_script import write_tensorflow
from samebits.questions.reduce.scripts.torch_script import write_torch
from samebits.regular_files import open_folder

_Writer = Callable[[Problem, Mapping[str, str]], tuple[list[str], list[str]]]


def _write_numpy(problem: Problem, settings: Mapping[str, str]) -> tuple[list[str], list[str]]:
    turned = 'operands["w"].T' if problem.kind == "linear" else 'operands["w"]'
    call = {"dot": "np.dot", "einsum": "np.einsum"}.get(settings.get("call", ""), "np.matmul")
    lines = [f"{name} = operands['{name}'].astype('{problem.dtype}')" for name in problem.operand_shapes]
    turned = turned.replace('operands["w"]', "w")
    product = f"{call}(x, {turned})" if call != "np.einsum" else f"np.einsum('...k,kn->...n', x, {turned})"
    lines.append(f"result = {product}{' + bias' if problem.bias else ''}")
    if problem.then:
        low, high = float(problem.then.low), float(problem.then.high)
        clip = f'result = np.clip(result, float("{low}"), float("{high}"))'
        lines.append("result = np.maximum(result, 0)" if problem.then.name == "relu" else clip)
    return [], lines


_WRITERS: dict[str, _Writer] = {
    "torch": write_torch,
    "onnxruntime": write_onnxruntime,
    "openvino": write_openvino,
    "tensorflow": write_tensorflow,
    "jax": write_jax,
    "numpy": _write_numpy,
}


def write_script(
    problem: Problem,
    operands: Mapping[str, np.ndarray],
    runner: RunnerText,
    identity: Identity,
    fault: str,
    *,
    data: str,
    calls: int = 1,
) -> str | None:
    """A script that fails where the fault is; None for an engine without a writer.

    It calls the engine `calls` times: more often than once where the fault comes and goes.

    Nothing of samebits is in it, except for a kernel of one's own, which is called as samebits calls it.
    """
    if is_file_engine(runner.name):
        imports, call = write_given(problem, runner.settings, runner.name)
    elif runner.name not in _WRITERS or (runner.name == "numpy" and problem.direction != "forward"):
        return None
    else:
        imports, call = _WRITERS[runner.name](problem, runner.settings)
    whole = data == "integers"
    is_repeated = calls > 1 and fault not in FAILURES
    environment = [f"os.environ[{name!r}] = {value!r}" for name, value in runner.environment.items()]
    title = f"{f'{runner.name} {identity.version}'.rstrip()}: {fault} at {format_problem(problem)}".encode(
        "unicode_escape"
    ).decode()
    names = ", ".join(f'"{name}": {name}' for name in problem.operand_shapes)
    lines = [
        f"# {title}",
        "",
        *(["import os", "", *environment, ""] if environment else []),
        "import numpy as np",
        *imports,
        "",
        *write_operands(problem, operands, drawn=data == "normal"),
        f"operands = {{{names}}}",
        "",
        "",
        *write_exact_sums(problem, whole=whole),
        "",
        *(repeat_call(problem, call, calls, whole=whole) if is_repeated else call),
        "",
        *(write_count() if is_repeated else write_assertion(problem, fault, whole=whole)),
    ]
    return "\n".join(lines) + "\n"


def run_script(script: str, fault: str, python: str | None, most_s: float) -> tuple[bool | None, str]:
    """Runs the script: whether it fails as the fault does (None: unknown), and its last line."""
    with open_folder() as folder:
        path = Path(folder) / "reproducer.py"
        path.write_text(script, encoding="utf-8")
        try:
            done = subprocess.run(
                [python or sys.executable, str(path)],
                cwd=folder, capture_output=True, text=True, errors="replace", timeout=most_s, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return True if fault == "timeout" else None, f"it did not end in {most_s:.0f} s"
        except OSError as error:
            return None, str(error)
    said = [line for line in done.stderr.strip().splitlines() if line.strip()]
    last = said[-1].strip()[:300] if said else f"it ended with status {done.returncode}"
    if done.returncode == 0:
        return False, "the script found nothing wrong"
    if fault in ("crash", "error"):
        return (done.returncode < 0) == (fault == "crash"), last
    # The result's mark is printed before the result is checked.
    return done.returncode > 0 and RESULT_MARK in done.stdout and last.startswith("AssertionError"), last
