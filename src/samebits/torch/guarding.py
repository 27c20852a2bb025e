"""A guard over a module: while it runs or trains, its convolutions and Linears are compared with the truth."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from samebits.errors import ArgumentError, GuardBreachError
from samebits.findings.json_text import json_from_finding
from samebits.questions.guard.guard_report import render_guard
from samebits.questions.guard.guard_schema import Breach, Direction, GuardReport
from samebits.questions.guard.guard_sentences import name_result
from samebits.questions.report.rendering import show_everywhere
from samebits.regular_files import write_text
from samebits.torch.guard_book import GuardBook
from samebits.torch.layer_calls import GUARDED, LayerResult, find_node, read_backward, read_forward, say_unguarded

OnBreach = Callable[[Breach], None] | Literal["raise"] | None
_LONGEST_WHY = 160


class Guard:
    """What `guard` returns: a context manager that checks until it is closed, and its report."""

    def __init__(self, module: nn.Module, book: GuardBook, on_breach: OnBreach) -> None:
        self._book, self._on_breach = book, on_breach
        self._lock = threading.RLock()
        self._started, self._ended, self._spent = time.perf_counter(), None, 0.0
        self._handles: list[Any] = []
        show_everywhere()
        for name, layer in module.named_modules():
            if isinstance(layer, GUARDED):
                why = say_unguarded(layer)
                if why is None:
                    # Before other hooks, which may change what the layer returned.
                    hook = _Hook(self._hear_forward, name)
                    self._handles.append(layer.register_forward_hook(hook, with_kwargs=True, prepend=True))
                else:
                    book.leave_out(_name(name), why)

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the checking; the report stays."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        if self._ended is None:
            self._ended = time.perf_counter()

    @property
    def is_closed(self) -> bool:
        """Whether nothing is checked any more."""
        return self._ended is not None

    @property
    def breaches(self) -> tuple[Breach, ...]:
        """What was found so far."""
        with self._lock:
            return tuple(self._book.breaches)

    def report(self) -> GuardReport:
        """What was seen so far, as a finding; `samebits report` makes a page of its JSON."""
        with self._lock:
            return self._book.report(self._spent, (self._ended or time.perf_counter()) - self._started)

    def save(self, path: str | Path) -> None:
        """Writes the report as JSON. Raises ArgumentError where the file cannot be written."""
        try:
            write_text(path, json_from_finding(self.report()) + "\n")
        except OSError as error:
            raise ArgumentError(f"{path} could not be written: {error.strerror}") from None

    def __str__(self) -> str:
        return render_guard(self.report())

    def _hear_forward(self, name: str, layer: Any, given: Any, named: Any, result: Any) -> None:
        if self.is_closed or torch.compiler.is_compiling():
            return
        trains = torch.is_grad_enabled() and isinstance(result, Tensor) and result.requires_grad
        x = given[0] if given else named.get("input")
        by_input, by_weight = isinstance(x, Tensor) and x.requires_grad, layer.weight.requires_grad
        asked: list[Direction] = []
        if trains and by_input:
            asked.append("grad_input")
        if trains and by_weight:
            asked.append("grad_weight")
        with self._lock:
            forward = self._book.draw(name, "forward")
            drawn: set[Direction] = {direction for direction in asked if self._book.draw(name, direction)}
        if not forward and not drawn:
            return
        call = self._try(name, lambda: say_unguarded(layer) or read_forward(layer, given, named, result))
        if not isinstance(call, LayerResult):
            self._book.leave_out(_name(name), call or "it was called with something else than a tensor")
            return
        if forward:
            self._check(name, call)
        if drawn:
            self._try(name, lambda: self._await_backward(name, drawn, call, result))

    def _await_backward(self, name: str, drawn: set[Direction], call: LayerResult, result: Tensor) -> None:
        node = find_node(result)
        if node is None:
            self._book.leave_out(f"gradients of {_name(name)}", "they are not computed by a kernel of torch's")
            return
        # Only the hook refers to it, and only the node to the hook; it is released as soon as the gradients are there.
        kept: list[LayerResult] = [replace(call, result=call.factors.new_empty(0), bias=None)]

        def hook(made: Any, given: Any) -> None:
            if not kept or given[0] is None or self.is_closed:
                return
            for direction in list(drawn):
                found = self._try(name, lambda direction=direction: read_backward(kept[0], direction, made, given[0]))
                if isinstance(found, str):
                    self._book.leave_out(f"{direction} of {_name(name)}", found)
                if found is not None:
                    drawn.discard(direction)
                if isinstance(found, LayerResult):
                    self._check(name, found)
            if not drawn:
                kept.clear()

        node.register_hook(hook)

    def _check(self, name: str, found: LayerResult) -> None:
        """Checks a result; reports a breach after releasing the lock, so that the next check may begin."""
        with self._lock, torch.no_grad():
            start = time.perf_counter()
            breach = self._try(name, lambda: self._book.check(name, found))
            self._spent += time.perf_counter() - start
        if isinstance(breach, Breach):
            self._tell(breach)

    def _try(self, name: str, act: Callable[[], Any]) -> Any:
        """Calls `act` and returns its result; an exception is noted and gives None, so that it does not end the run."""
        try:
            return act()
        except Exception as error:
            says = " ".join(str(error).split())[:_LONGEST_WHY]
            self._book.leave_out(_name(name), f"it could not be checked ({type(error).__name__}: {says})")
            return None

    def _tell(self, breach: Breach) -> None:
        if self._on_breach == "raise":
            what = name_result(breach.layer, breach.direction)
            raise GuardBreachError(f"the {what} at call {breach.call:,} is not what it should be: {breach.says}")
        if callable(self._on_breach):
            self._on_breach(breach)


class _Hook:
    """A forward hook; where its module is copied or pickled, a hook that does nothing takes its place."""

    def __init__(self, hear: Callable[..., None], name: str) -> None:
        # torch.compile leaves it to Python, with the layer's own kernel around it as it is.
        self._hear: Callable[..., None] = torch.compiler.disable(hear)  # type: ignore[assignment]  (torch types it as a decorator)
        self._name = name

    def __call__(self, layer: Any, given: Any, named: Any, result: Any) -> None:
        self._hear(self._name, layer, given, named, result)

    def __reduce__(self) -> tuple[Callable[[], Any], tuple[()]]:
        return _find_no_hook, ()


def _find_no_hook() -> Any:
    return _ignore_call


def _ignore_call(layer: Any, given: Any, named: Any, result: Any) -> None:
    """The hook of a copied or pickled module: does nothing."""


def _name(name: str) -> str:
    return name or "the module"


def guard(
    module: nn.Module,
    *,
    share: float = 0.03125,
    seed: int = 0,
    on_breach: OnBreach = None,
    cases: str | Path | None = None,
) -> Guard:
    """Checks results of every convolution and Linear of a module while it runs or trains, until it is closed.

    Of each layer's output, gradient of its input and gradient of its weights the `share` (0 to 1) is checked, drawn by
    `seed` and not by torch's generators: some outputs (256 where sums are short, fewer of long ones) against the
    correctly rounded result, within the error bound and the one that independent roundings keep; all of them against
    the largest number that they could be. No bit of the run changes, and nothing of the guard's own ends it. A fault in
    a fraction f of a result's outputs that takes them beyond their bound is seen in one check with a probability of at
    least 1 - (1 - f)^d, d the outputs that were drawn independently (16 where sums are short and nothing is grouped).
    `on_breach` is called with each breach, or "raise" raises GuardBreachError where it is found; otherwise breaches
    stand in `report()`. `cases` is a folder for case files of what was found. Works on any device of torch, under
    autocast and gradient checkpointing; what is drawn keeps the layer's input until its gradients are there. Layers of
    other classes than torch's own, and parametrized ones, are left out and named in the report. Raises ArgumentError
    for arguments that are none of these.

    >>> import torch
    >>> layer = torch.nn.Linear(3, 2)
    >>> with guard(layer, share=1) as watch:
    ...     _ = layer(torch.randn(4, 3))
    >>> watch.report().checks
    1
    """
    if not isinstance(module, nn.Module):
        raise ArgumentError(f"a guard stands over a torch module, not over {type(module).__name__}")
    if isinstance(share, bool) or not isinstance(share, (int, float)) or not 0 < share <= 1:
        raise ArgumentError(f"share is a number above 0 and at most 1, not {share!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ArgumentError(f"seed is a whole number from 0 on, not {seed!r}")
    if cases is not None and not isinstance(cases, (str, Path)):
        raise ArgumentError(f"cases is the path of a folder, not {cases!r}")
    if on_breach is not None and on_breach != "raise" and not callable(on_breach):
        raise ArgumentError(f"on_breach is a function or 'raise', not {on_breach!r}")
    book = GuardBook(type(module).__name__, share, seed, None if cases is None else Path(cases))
    return Guard(module, book, on_breach)
