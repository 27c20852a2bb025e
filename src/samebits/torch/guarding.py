"""A guard over a module: while it runs or trains, its convolutions and Linears are held against the truth."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import torch
from torch import nn

from samebits.errors import ArgumentError, GuardBreachError, OperandError, SamebitsError
from samebits.explanation import explain
from samebits.findings import Evidence
from samebits.findings.guard_schema import Breach, Direction, GuardedResult, GuardReport
from samebits.findings.json_text import json_from_finding
from samebits.findings.verdicts import worst_verdict
from samebits.problems.case_file import Case, save_case
from samebits.reports.guard_report import render_guard
from samebits.reports.notebook_frames import show_in_notebooks
from samebits.torch.guard_checks import BlockCheck, check_block, check_extremes
from samebits.torch.layer_calls import GUARDED, LayerResult, find_node, read_backward, read_forward, say_unguarded
from samebits.version import VERSION
from samebits.wording.guard_sentences import (
    name_result,
    say_beyond_bound,
    say_beyond_likely,
    say_detection,
    say_impossible,
    say_odd,
    summarize_guard,
)

OnBreach = Callable[[Breach], None] | Literal["raise"] | None
# Explaining takes seconds: so many breaches are explained, and so many kept at all.
_MOST_EXPLAINED, _MOST_OF_ONE, _MOST_KEPT = 16, 2, 256
_BACKWARD: tuple[Direction, ...] = ("grad_input", "grad_weight")


@dataclass
class _Tally:
    seen: int = 0
    checks: int = 0
    outputs: int = 0
    draws: int = 0
    breaches: int = 0
    explained: int = 0
    over_bound: float = 0.0
    over_likely: float = 0.0


class Guard:
    """What `guard` returns: a context manager that checks until it is closed, and its report."""

    def __init__(
        self, module: nn.Module, share: float, seed: int, on_breach: OnBreach, cases: str | Path | None
    ) -> None:
        self._module, self._share, self._on_breach = type(module).__name__, share, on_breach
        self._cases = None if cases is None else Path(cases)
        self._rng = np.random.default_rng(seed)
        self._tallies: dict[tuple[str, Direction], _Tally] = {}
        self._breaches: list[Breach] = []
        self._explained, self._within_worst, self._spent = 0, 0, 0.0
        self._left_out: dict[str, str] = {}
        # Outputs of which nothing can be said, as their terms are not finite, and where they were first.
        self._odd, self._first_odd = 0, ""
        self._lock = threading.RLock()
        self._started, self._ended = time.perf_counter(), None
        self._handles: list[Any] = []
        show_in_notebooks()
        for name, layer in module.named_modules():
            if isinstance(layer, GUARDED):
                why = say_unguarded(layer)
                if why is None:
                    self._handles.append(layer.register_forward_hook(self._hook(name), with_kwargs=True))
                else:
                    self._left_out[name] = why

    def _hook(self, name: str) -> Any:
        # torch.compile leaves it to Python, with the layer's own kernel around it as it is.
        hear: Callable[..., None] = torch.compiler.disable(self._hear_forward)  # type: ignore[assignment]  (torch types it as a decorator)

        def hook(layer: Any, given: Any, named: Any, result: Any) -> None:
            hear(name, layer, given, named, result)

        return hook

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
        return tuple(self._breaches)

    def report(self) -> GuardReport:
        """What was seen so far, as a finding; `samebits report` makes a page of its JSON."""
        with self._lock:
            results = [
                GuardedResult(
                    layer=layer,
                    direction=direction,
                    seen=t.seen,
                    checks=t.checks,
                    outputs=t.outputs,
                    draws=t.draws,
                    breaches=t.breaches,
                    max_over_bound=t.over_bound if t.checks else None,
                    max_over_likely=t.over_likely if t.checks else None,
                )
                for (layer, direction), t in self._tallies.items()
            ]
            outputs, detection = sum(r.outputs for r in results), say_detection(results)
            explained = [b for b in self._breaches if b.verdict != "undecided"] or self._breaches
            verdict = worst_verdict(b.verdict for b in explained) if explained else "rounding"
            evidence = [Evidence("statistic", detection)] if detection else []
            if self._odd:
                evidence.append(Evidence("statistic", say_odd(self._odd, self._first_odd)))
            if self._within_worst:
                says = (
                    f"{self._within_worst:,} checks went beyond what independent roundings reach, and explain no fault"
                )
                evidence.append(Evidence("statistic", says))
            return GuardReport(
                module=self._module,
                verdict=verdict if outputs or explained else "undecided",
                cause=next((b.cause for b in explained if b.verdict == verdict), None),
                summary=summarize_guard(explained, results, outputs, self._odd),
                share=self._share,
                checks=sum(r.checks for r in results),
                outputs=outputs,
                time_s=self._spent,
                running_s=(self._ended or time.perf_counter()) - self._started,
                results=results,
                breaches=list(self._breaches),
                left_out=dict(self._left_out),
                evidence=evidence,
                samebits_version=VERSION,
            )

    def save(self, path: str | Path) -> None:
        """Writes the report as JSON. Raises ArgumentError where the file cannot be written."""
        try:
            Path(path).write_text(json_from_finding(self.report()) + "\n", encoding="utf-8")
        except OSError as error:
            raise ArgumentError(f"{path} could not be written: {error.strerror}") from None

    def __str__(self) -> str:
        return render_guard(self.report())

    def _hear_forward(self, name: str, layer: Any, given: Any, named: Any, result: Any) -> None:
        if self.is_closed or torch.compiler.is_compiling():
            return
        start = time.perf_counter()
        with self._lock:
            try:
                if self._draws(name, "forward"):
                    found = read_forward(layer, given, named, result)
                    if isinstance(found, str):
                        self._left_out.setdefault(name, found)
                    else:
                        self._check(name, found)
                if torch.is_grad_enabled() and isinstance(result, torch.Tensor) and result.requires_grad:
                    self._await_backward(name, layer, given, named, result)
            finally:
                self._spent += time.perf_counter() - start

    def _await_backward(self, name: str, layer: Any, given: Any, named: Any, result: torch.Tensor) -> None:
        x = given[0] if given else named.get("input")
        wanted = (isinstance(x, torch.Tensor) and x.requires_grad, layer.weight.requires_grad)
        asked: list[Direction] = [
            direction for direction, is_wanted in zip(_BACKWARD, wanted, strict=True) if is_wanted
        ]
        drawn: list[Direction] = [direction for direction in asked if self._draws(name, direction)]
        if not drawn:
            return
        node, call = find_node(result), read_forward(layer, given, named, result)
        if node is None or isinstance(call, str):
            why = call if isinstance(call, str) else "they are not computed by a kernel of torch's"
            self._left_out.setdefault(f"gradients of {name}", why)
            return
        # Held by the hook alone, which the node holds, and let go as soon as the gradients are there.
        kept: list[LayerResult] = [call]

        def hook(made: Any, given: Any) -> None:
            if kept and given[0] is not None:
                self._hear_backward(name, drawn, kept.pop(), made, given[0].detach())

        node.register_hook(hook)

    def _hear_backward(self, name: str, drawn: list[Direction], call: LayerResult, made: Any, dy: torch.Tensor) -> None:
        if self.is_closed:
            return
        start = time.perf_counter()
        with self._lock, torch.no_grad():
            try:
                for direction in drawn:
                    found = read_backward(call, direction, made, dy)
                    if found is not None:
                        self._check(name, found)
            finally:
                self._spent += time.perf_counter() - start

    def _draws(self, name: str, direction: Direction) -> bool:
        self._tallies.setdefault((name, direction), _Tally()).seen += 1
        return self._rng.random() < self._share

    def _check(self, name: str, found: LayerResult) -> None:
        tally = self._tallies[name, found.direction]
        try:
            impossible, check = check_extremes(found), check_block(found, self._rng)
        except OperandError as error:
            self._left_out.setdefault(name, str(error))
            return
        if check is not None:
            tally.checks += 1
            tally.outputs += check.finite
            # Those of which nothing can be said were among them in proportion.
            tally.draws += check.block.draws * check.finite // check.block.result.size
            self._note_odd(name, found.direction, tally.seen, check.block.result.size - check.finite)
            tally.over_bound = max(tally.over_bound, check.over_bound)
            tally.over_likely = max(tally.over_likely, check.over_likely or 0.0)
        breach = None
        if impossible is not None:
            says = say_impossible(impossible.index, impossible.value, impossible.limit)
            breach = Breach(
                layer=name,
                direction=found.direction,
                call=tally.seen,
                verdict="wrong",
                cause=None,
                certainty="bounds",
                outputs=None,
                checked=None,
                max_over_bound=None,
                max_over_likely=None,
                says=says,
            )
        elif check is not None and (check.beyond_bound or check.beyond_likely):
            breach = self._judge(name, found.direction, tally, check)
        if breach is not None:
            tally.breaches += 1
            self._tell(breach)

    def _note_odd(self, name: str, direction: Direction, call: int, outputs: int) -> None:
        if outputs:
            self._odd += outputs
            self._first_odd = self._first_odd or f"the {name_result(name, direction)} at call {call:,}"

    def _judge(self, name: str, direction: Direction, tally: _Tally, check: BlockCheck) -> Breach | None:
        """A breach as a finding, explained where there is still time for it; None where rounding explains it."""
        call, size = tally.seen, check.finite
        proved = check.beyond_bound > 0
        says = (
            say_beyond_bound(check.beyond_bound, size, check.over_bound)
            if proved
            else say_beyond_likely(check.beyond_likely, size, check.over_likely)
        )
        breach = Breach(
            layer=name,
            direction=direction,
            call=call,
            verdict="undecided",
            cause=None,
            certainty="bounds" if proved else "statistics",
            outputs=check.beyond_bound if proved else check.beyond_likely,
            checked=size,
            max_over_bound=check.over_bound,
            max_over_likely=check.over_likely,
            says=says,
        )
        if self._explained >= _MOST_EXPLAINED or tally.explained >= _MOST_OF_ONE:
            return msgspec.structs.replace(breach, says=f"{says}; not looked into, as earlier ones were")
        self._explained, tally.explained = self._explained + 1, tally.explained + 1
        case = check.state_case(name_result(name, direction))
        side = explain(case).sides[0]
        if side.verdict in ("identical", "rounding") and not proved:
            self._within_worst += 1
            return None
        path = self._keep(case, f"{name or 'module'}-{direction}-{call}")
        said = f"{says}; {side.says}" if side.says else says
        return msgspec.structs.replace(
            breach,
            verdict=side.verdict,
            cause=side.cause,
            certainty=side.certainty or breach.certainty,
            says=said,
            case=path,
        )

    def _keep(self, case: Case, stem: str) -> str | None:
        if self._cases is None:
            return None
        path = self._cases / f"{stem}.npz"
        try:
            self._cases.mkdir(parents=True, exist_ok=True)
            save_case(path, case.problem, case.operands, case.results)
        except (OSError, SamebitsError) as error:
            self._left_out.setdefault(f"case {path}", f"it could not be written: {error}")
            return None
        return str(path)

    def _tell(self, breach: Breach) -> None:
        if len(self._breaches) < _MOST_KEPT:
            self._breaches.append(breach)
        if self._on_breach == "raise":
            what = name_result(breach.layer, breach.direction)
            raise GuardBreachError(f"the {what} at call {breach.call:,} is not what it should be: {breach.says}")
        if callable(self._on_breach):
            self._on_breach(breach)


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
    the largest number that they could be. No bit of the run changes. A fault in a fraction f of a result's outputs is
    seen in one check with a probability of at least 1 - (1 - f)^d, d the outputs that were drawn independently (16
    where sums are short). `on_breach` is called with each breach, or "raise" raises GuardBreachError where it is found;
    otherwise breaches stand in `report()`. `cases` is a folder for case files of what was found. Works on any device of
    torch, under autocast and gradient checkpointing; layers of other classes than torch's own, and parametrized ones,
    are left out and named in the report. Raises ArgumentError for arguments that are none of these.
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
    return Guard(module, share, seed, on_breach, cases)
