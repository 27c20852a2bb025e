"""Layers pinned to a lock file: torch's own kernels, under the settings that were picked for each problem."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from samebits.engines.adapters.torch import compute_plain
from samebits.engines.registry.runner_text import list_reaching_parts, parse_runner_text
from samebits.errors import LockError
from samebits.problems import format_problem
from samebits.problems.problem import Problem
from samebits.questions.pick.lock_file import find_place, read_lock
from samebits.questions.pick.pick_schema import Choice
from samebits.torch.plain_arrays import compute_once

_ENGINE = "torch"
# The settings that can be changed for one call in a running process.
_SETTABLE = ("threads", "mkldnn", "layout", "linear_as")


class SettingsSource(Protocol):
    """Gives the settings of torch under which a problem is to be computed."""

    def find(self, problem: Problem) -> Mapping[str, str]:
        """The settings of a problem; raises LockError where there are none."""
        ...


@dataclass
class LayerLock:
    """The choices of a lock file, for layers of torch."""

    path: str
    choices: Mapping[str, Choice]
    found: dict[Problem, Mapping[str, str]] = field(default_factory=dict[Problem, Mapping[str, str]])

    def find(self, problem: Problem) -> Mapping[str, str]:
        """The settings that were picked for a problem; raises LockError where the lock has none that hold here."""
        if problem not in self.found:
            self.found[problem] = self._read(problem)
        return self.found[problem]

    def _read(self, problem: Problem) -> Mapping[str, str]:
        text = format_problem(problem)
        choice = self.choices.get(text)
        if choice is None or choice.engine is None:
            raise LockError(f"{self.path} has no choice for {text}; samebits pick '{text}' --on torch -o {self.path}")
        runner = parse_runner_text(choice.engine)
        other = [*(k for k in runner.settings if k not in _SETTABLE), *list_reaching_parts(runner)]
        if runner.name != _ENGINE or other:
            what = f"{other[0]} is no setting of one layer" if other else "layers are computed by torch"
            raise LockError(
                f"{self.path} has {choice.engine} for {text}: {what}; --on torch picks among what they take"
            )
        here = find_place(choice.engine)
        if here not in choice.places:
            raise LockError(
                f"{self.path} does not know the bits of {choice.engine} here ({here.version} on {here.device});"
                f" samebits pick '{text}' --on torch -o {self.path} checks them"
            )
        return runner.settings


def read_layer_lock(path: str | Path) -> LayerLock:
    """The choices of a lock file. Raises LockError where it cannot be read."""
    return LayerLock(str(path), {locked.choice.problem: locked.choice for locked in read_lock(path).choices})


class Pinned(torch.autograd.Function):
    """A problem and its gradients, each computed by torch under its own settings."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, w: Tensor, bias: Tensor | None, problem: Problem, source: SettingsSource
    ) -> Tensor:
        ctx.save_for_backward(x, w)
        ctx.problem, ctx.source = problem, source
        if x.device.type != "cpu":
            raise LockError(f"a lock holds on the CPU, where it was picked, not on {x.device}")
        settings = source.find(problem)
        with _under(settings):
            x, w = _lay_out(settings, x), _lay_out(settings, w)
            return compute_plain(torch, problem, x, w, bias, linear_as=settings.get("linear_as", "linear"))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (dy,) = grad_outputs
        x, w = ctx.saved_tensors
        plain = replace(ctx.problem, bias=False)
        grads: list[Tensor | None] = [None] * 5
        for i, direction in enumerate(("grad_input", "grad_weight")):
            if ctx.needs_input_grad[i]:
                wanted = replace(plain, direction=direction)  # type: ignore[arg-type]  (one of the directions)
                differentiate = functools.partial(_differentiate, wanted, ctx.source.find(wanted))
                grads[i] = compute_once(differentiate, x, w, dy)
        if ctx.needs_input_grad[2]:
            grads[2] = compute_once(functools.partial(_sum_bias, plain), dy)
        return tuple(grads)


def _differentiate(problem: Problem, settings: Mapping[str, str], x: Tensor, w: Tensor, dy: Tensor) -> Tensor:
    """One gradient as torch computes it: by its own backward of the convolution, or of the product."""
    by_input = problem.direction == "grad_input"
    with _under(settings):
        x, w, dy = (_lay_out(settings, t.detach()) for t in (x, w, dy))
        pads = [(a.pad_begin, a.pad_end) for a in problem.axes] if problem.product is None else []
        if problem.product is None and all(begin == end for begin, end in pads):
            extra = problem.output_padding if problem.is_transposed else (0,) * problem.rank
            found = torch.ops.aten.convolution_backward(
                dy, x, w, None, problem.stride, [begin for begin, _ in pads], problem.dilation,
                problem.is_transposed, extra, problem.groups, [by_input, not by_input, False],
            )  # fmt: skip
            return found[0 if by_input else 1]
        with torch.enable_grad():
            wanted = (x if by_input else w).requires_grad_()
            linear_as = settings.get("linear_as", "linear")
            y = compute_plain(torch, problem, x, w, None, linear_as=linear_as)
        return torch.autograd.grad(y, wanted, dy)[0]


def _sum_bias(problem: Problem, dy: Tensor) -> Tensor:
    """A bias's gradient: added up in float64, on one thread, so that neither threads nor layout change it."""
    axis = -1 if problem.product else 1
    rows = dy.detach().movedim(axis, -1).reshape(-1, dy.shape[axis]).contiguous()
    with _under({"threads": "1"}):
        return rows.sum(0, dtype=torch.float64).to(dy.dtype)


def _lay_out(settings: Mapping[str, str], tensor: Tensor) -> Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    if settings.get("layout") == "channels_last" and tensor.dim() in formats:
        return tensor.contiguous(memory_format=formats[tensor.dim()])
    return tensor.contiguous()


@contextlib.contextmanager
def _under(settings: Mapping[str, str]) -> Iterator[None]:
    """Sets threads, kernels and precision for one call, then restores them; they are global, so one call at a time."""
    threads, mkldnn = torch.get_num_threads(), torch.backends.mkldnn.enabled
    # Older versions have none.
    kinds: list[Any] = [k for n in ("conv", "matmul") if (k := getattr(torch.backends.mkldnn, n, None)) is not None]
    precisions = [kind.fp32_precision for kind in kinds]
    wanted = int(settings.get("threads", threads))
    try:
        if wanted != threads:
            torch.set_num_threads(wanted)
        torch.backends.mkldnn.enabled = settings.get("mkldnn", "on") == "on"
        for kind in kinds:
            kind.fp32_precision = "ieee"
        with torch.autocast("cpu", enabled=False):
            yield
    finally:
        for kind, precision in zip(kinds, precisions, strict=True):
            kind.fp32_precision = precision
        torch.backends.mkldnn.enabled = mkldnn
        if wanted != threads:
            torch.set_num_threads(threads)
