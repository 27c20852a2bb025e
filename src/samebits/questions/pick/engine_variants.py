"""Which texts of engines are worth timing for a problem: each engine's settings that change speed, in all combinations.

Numbers of threads are stated (jax has no setting of its own), so that a choice means the same wherever it is used.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runner_text import RunnerText, format_runner_text, parse_runner_text
from samebits.errors import ArgumentError
from samebits.machine import count_cores
from samebits.problems import Problem

_CORES = "cores"


@dataclass(frozen=True)
class _Axis:
    """One setting and the values tried, the usual one first; None leaves it out. `takes` says for which problems."""

    key: str
    values: tuple[str | None, ...]
    takes: Callable[[Problem], bool] = lambda _: True


def _is_convolution(problem: Problem) -> bool:
    return problem.product is None


_LINEAR = _Axis("linear_as", (None, "matmul"), lambda p: p.kind == "linear" and p.direction == "forward")
_AXES: dict[str, tuple[_Axis, ...]] = {
    "torch": (
        _Axis("mkldnn", (None, "off")),
        _Axis("layout", (None, "channels_last"), lambda p: _is_convolution(p) and p.rank > 1),
        _LINEAR,
        _Axis("threads", (_CORES, "1")),
    ),
    "onnxruntime": (
        _Axis("conv1d_as", (None, "conv2d"), lambda p: _is_convolution(p) and p.rank == 1),
        _LINEAR,
        _Axis("threads", (_CORES, "1")),
    ),
    "openvino": (
        _Axis("INFERENCE_PRECISION_HINT", (None, "f32"), lambda p: p.dtype == "float32"),
        _Axis("INFERENCE_NUM_THREADS", (_CORES, "1")),
    ),
    "tensorflow": (_Axis("threads", (_CORES, "1")),),
    "numpy": (_Axis("call", (None, "dot")), _Axis("threads", (_CORES, "1"))),
}  # fmt: skip


def list_candidates(problem: Problem, on: Sequence[str]) -> list[str]:
    """The texts to try: of an engine named without settings all of its variants, any other text as it stands.

    Raises RunnerTextError for a text that names nothing, ArgumentError for an engine of another place, whose version
    or times only running it there tells.
    """
    found: dict[str, None] = {}
    for text in on:
        runner = parse_runner_text(text)
        if not runner.place.is_here:
            raise ArgumentError(
                f"{text[:80]}: pick chooses among the engines here; leave python=, version=, ssh=, docker= and cpu= out"
            )
        bare = runner.name in ENGINES and not runner.settings and not runner.environment
        found |= dict.fromkeys(_list_variants(runner.name, problem) if bare else [text])
    return list(found)


def _list_variants(engine: str, problem: Problem) -> list[str]:
    axes = [axis for axis in _AXES.get(engine, ()) if axis.takes(problem)]
    cores = str(count_cores())
    texts: list[str] = []
    for values in itertools.product(*(axis.values for axis in axes)):
        chosen = [(a.key, cores if v == _CORES else v) for a, v in zip(axes, values, strict=True)]
        texts.append(format_runner_text(RunnerText(engine, {k: v for k, v in chosen if v is not None})))
    return texts
