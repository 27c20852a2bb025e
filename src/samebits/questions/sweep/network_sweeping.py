"""A network over the sizes of its batch: do an item's bits depend on how many others come with it, and where it begins.

The same items go in at every size, the first ones of the largest. What an item gives is looked at wherever a value has
an axis of just the batch. A unit whose shared items were fed the same bits and returned others depends on the batch
itself; what only passes on a difference is not named.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import numpy as np

from samebits.engines.runner import Identity
from samebits.errors import ArgumentError, EngineFailure, ModelError
from samebits.findings import Evidence
from samebits.findings.comparison_schema import Failure
from samebits.networks.control_flow import settle_control_flow
from samebits.networks.model_inputs import make_inputs
from samebits.networks.model_runners import ModelRunner, open_model_runner
from samebits.networks.model_sentences import say_unit_name
from samebits.networks.model_subject import is_module
from samebits.networks.module_export import export_module
from samebits.networks.network import Network
from samebits.networks.observing import Observer, divide_observably, list_ends
from samebits.networks.onnx_reading import make_network, read_onnx
from samebits.networks.open_sizes import list_open_sizes
from samebits.networks.turned_units import state_problem
from samebits.networks.units import Unit, fold_constants
from samebits.numbers.float_environment import default_float_environment
from samebits.progress import Progress, ignore_progress
from samebits.questions.sweep.remedies import Swept, add_remedies
from samebits.questions.sweep.sweep_schema import (
    SizeOrSetting,
    Sweep,
    SweepAxis,
    SweepClass,
    SweepFailure,
    SweepUnit,
)
from samebits.questions.sweep.sweep_sentences import say_cells, say_later, summarize_sweep
from samebits.questions.sweep.sweep_text import Range, list_intervals
from samebits.regular_files import open_folder
from samebits.version import VERSION

_BATCH = "batch"
Arrays = Mapping[str, np.ndarray]


@default_float_environment()
def sweep_network(
    model: str | Path | Network,
    on: Sequence[str],
    batch: Range,
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = 0,
    fix: bool = False,
    time_limit_s: float = 300.0,
    progress: Progress = ignore_progress,
) -> Sweep:
    """At which sizes of its batch do the same items get the same bits from a network, on each engine.

    `batch` is the size by the network's own name for it (`batch` where its inputs' first axes have none) and its
    values; `sizes`, `ranges` and `seed` are as `compare_model` takes them. Of a module the first axis of every input is
    its batch. With `fix`, where bits change, the engine's settings and then the other engines are tried, each at all
    sizes, until one setting and one engine give the same bits. The finding is that of the first engine, the others are
    in its `more`. Raises SamebitsError for a network or a size that cannot be dealt with; an engine that fails at a
    size is a finding there.
    """
    if not on:
        raise ArgumentError("a sweep needs an engine to run: --on ENGINE")
    if not batch.values or not all(isinstance(v, int) and v > 0 for v in batch.values):
        raise ArgumentError(f"a batch has sizes from 1 on: --size {batch.name}={{1..8}}")
    with contextlib.ExitStack() as opened:
        network = take_network(model, opened, time_limit_s, progress)
        inputs = _make_all_inputs(network, batch, ranges, sizes, seed)
        found: list[Sweep] = []
        for text in on:
            runner = open_model_runner(text, time_limit_s=time_limit_s, program=network.program)
            opened.callback(runner.close)
            own = _NetworkSweep(network, runner, batch, inputs, progress).find()
            if fix and own.invariant is False:
                own = _add_remedies(own, _NetworkSweep(network, runner, batch, inputs, progress), time_limit_s)
            found.append(own)
    return msgspec.structs.replace(found[0], more=found[1:])


def _add_remedies(found: Sweep, sweep: _NetworkSweep, time_limit_s: float) -> Sweep:
    """The finding with what gives the same bits at all sizes, tried."""

    # Sizes that are known to differ come first: where they do again, the others are not run.
    apart = [c.sizes[0][0] for c in found.classes if c.sizes]
    first = [n for n in sweep.inputs if n in apart]
    inputs = {n: sweep.inputs[n] for n in (*first, *(n for n in sweep.inputs if n not in first))}

    def ask(text: str, share: float) -> Sweep:
        sweep.progress(f"trying {text[:60]}", share)
        runner = open_model_runner(text, time_limit_s=time_limit_s, program=sweep.network.program)
        try:
            return replace(sweep, runner=runner, inputs=inputs, progress=ignore_progress, looks_inside=False).find()
        finally:
            runner.close()

    text = sweep.runner.text
    return add_remedies(found, Swept(text, text), None, sweep.runner.identify().settings, ask)


def take_network(
    model: str | Path | Network, opened: contextlib.ExitStack, time_limit_s: float, progress: Progress
) -> Network:
    """A network, read or exported."""
    if isinstance(model, Network):
        return model
    if not is_module(str(model)):
        return read_onnx(model, time_limit_s=time_limit_s)
    progress(f"exporting {str(model)[:60]}", 0.0)
    folder = opened.enter_context(open_folder())
    return export_module(str(model), folder, time_limit_s=time_limit_s, opens_batch=True).network


def _make_all_inputs(
    network: Network,
    batch: Range,
    ranges: Mapping[str, tuple[float, float]] | None,
    sizes: Mapping[str, tuple[int, ...]] | None,
    seed: int,
) -> dict[int, dict[str, np.ndarray]]:
    """The inputs by size of the batch: the first items of those of the largest. Raises ModelError without a batch."""
    open_sizes = list_open_sizes(network)
    axes = {one.input: one.axis for one in open_sizes if one.name == batch.name}
    if not axes and batch.name == _BATCH:
        axes = {one.input: 0 for one in open_sizes if one.axis == 0}
    if not axes:
        names = [*dict.fromkeys(one.name for one in open_sizes if one.name)]
        known = "every size of its inputs is given in the file: export it with an open batch, or sweep FILE.py:FUNCTION"
        if open_sizes:
            known = f"those that are open have the names {', '.join(names)}" if names else "no size with a name is open"
        raise ModelError(f"{network.name}: no size of an input is called {batch.name[:60]!r}; {known}")
    # Drawn item by item, so that a size which the network does not name needs no other way.
    drawn = [make_inputs(network, seed + i, ranges, sizes) for i in range(max(int(v) for v in batch.values))]
    items = {name: [one[name].take([0], axis) for one in drawn] for name, axis in axes.items()}
    return {
        int(n): {
            name: np.concatenate(items[name][: int(n)], axes[name]) if name in axes else array
            for name, array in drawn[0].items()
        }
        for n in batch.values
    }


@dataclass(frozen=True)
class _Run:
    """One size of the batch: the network as it runs there, its units, the values at their ends and its outputs."""

    network: Network
    folded: Arrays
    units: Sequence[Unit]
    values: Arrays
    repeats: bool | None


@dataclass(frozen=True)
class _Items:
    """The first `count` items of every value with an axis of just the batch; `axes` has None for what has no batch."""

    axes: Mapping[str, int | None]
    count: int

    def take(self, value: str, values: Arrays, *, needs_batch: bool) -> bytes | None:
        """The bits of a value's shared items, or of all of it where it has no batch; None where nobody can tell."""
        if value not in self.axes or (needs_batch and self.axes[value] is None):
            return None
        axis, array = self.axes[value], values[value]
        return (array if axis is None else array.take(range(self.count), axis)).tobytes()

    def take_all(self, names: Iterable[str], values: Arrays, *, needs_batch: bool) -> bytes | None:
        """The bits of several values; None where nobody can tell those of one."""
        taken = [self.take(name, values, needs_batch=needs_batch) for name in names]
        return None if None in taken else b"".join(t for t in taken if t is not None)


def _write_values(values: Sequence[int]) -> str:
    """Sizes as a range has them: 1..8, or one by one."""
    first, last = values[0], values[-1]
    is_run = len(values) > 2 and list(values) == list(range(first, last + 1))
    return f"{first}..{last}" if is_run else ",".join(map(str, values))


def _find_items(runs: Mapping[int, _Run]) -> _Items:
    """Where the items of values are: what changes along one axis only, which has the batch's size in every run."""
    axes: dict[str, int | None] = {}
    for value in next(iter(runs.values())).values:
        shapes = {n: run.values[value].shape for n, run in runs.items() if value in run.values}
        first = next(iter(shapes.values()))
        if len(shapes) < len(runs) or any(len(shape) != len(first) for shape in shapes.values()):
            continue
        changing = [i for i in range(len(first)) if len({shape[i] for shape in shapes.values()}) > 1]
        if not changing:
            axes[value] = None
        elif len(changing) == 1 and all(shape[changing[0]] == n for n, shape in shapes.items()):
            axes[value] = changing[0]
    return _Items(axes, min(runs))


@dataclass
class _NetworkSweep:
    """One engine over all sizes."""

    network: Network
    runner: ModelRunner
    batch: Range
    inputs: Mapping[int, Arrays]
    progress: Progress
    # Without it only the outputs are looked at, which says whether sizes differ, and not where that begins.
    looks_inside: bool = True

    def _list_told(self, items: _Items) -> list[str]:
        """The outputs that have the batch as an axis of its own."""
        return [v for v in self.network.outputs if items.axes.get(v) is not None]

    def _differ(self, runs: Mapping[int, _Run]) -> bool:
        """Whether the outputs of two sizes differ already."""
        items = _find_items(runs) if len(runs) > 1 else _Items({}, 0)
        told = self._list_told(items)
        return bool(told) and len(self._make_classes(runs, items, told)) > 1

    def find(self) -> Sweep:
        """The finding: classes of sizes, and the units that make them."""
        began = time.monotonic()
        identity: Identity | None = None
        runs: dict[int, _Run] = {}
        failures: list[SweepFailure] = []
        for i, n in enumerate(self.inputs):
            self.progress(f"running {self.runner.text[:40]} at batch {n}", i / len(self.inputs))
            try:
                identity = identity or self.runner.identify()
                runs[n] = self._run(n)
            except EngineFailure as error:
                failure = Failure(error.kind, str(error))  # type: ignore[arg-type]  (one of the kinds)
                failures.append(SweepFailure({self.batch.name: n}, failure))
            if not self.looks_inside and self._differ(runs):
                break
        items = _find_items(runs) if runs else _Items({}, 0)
        told = self._list_told(items)
        classes = self._make_classes(runs, items, told) if told else []
        later = self._find_later(runs, items, told) if told else []
        units = self._find_units(runs, items) if len(classes) > 1 else []
        repeats = all(run.repeats for run in runs.values()) if runs else None
        engine_s = time.monotonic() - began
        said = summarize_sweep(["the size of the batch"], classes, len(failures), uneven=False, repeats=repeats)
        if later and len(classes) == 1 and repeats:
            said = say_later(items.count, later)
        if units:
            said += f"; it begins in {say_unit_name(units[0].name, units[0].operators)}, at {say_cells(units[0].cells)}"
        elif len(classes) > 1:
            said += "; in which unit it begins cannot be seen"
        if len(runs) == 1:
            said = "one size gave a result, so that there is nothing to compare"
        elif runs and not told:
            said = "no output has the batch as an axis of its own, so that nothing was compared"
        outputs = [runs[items.count].values[v] for v in told]
        return Sweep(
            sweep=f"{self.network.name} {self.batch.name}={{{_write_values(list(self.inputs))}}}",
            engine=self.runner.text,
            version=identity.version if identity else None,
            device=identity.device if identity else None,
            invariant=len(classes) == 1 and not later if told and repeats else None,
            axes=[SweepAxis(self.batch.name, "the size of the batch", list(self.inputs))],
            points=len(self.inputs),
            outputs=sum(array.size for array in outputs),
            classes=classes,
            uneven=later,
            units=units,
            repeats=repeats,
            failures=failures,
            summary=said,
            evidence=[Evidence("structure", note) for note in (identity.notes if identity else ())],
            time_s=time.monotonic() - began,
            engine_time_s=engine_s,
            samebits_version=VERSION,
        )

    def _run(self, n: int) -> _Run:
        network = settle_control_flow(self.network, dict(self.inputs[n]), make_network)
        observer = Observer(self.runner, network, self.inputs[n])
        observer.begin()
        if not self.looks_inside:
            return _Run(network, {}, (), observer.plain, observer.repeats)
        folded = fold_constants(network)
        units = divide_observably(network, folded, {self.runner.text: observer}, self.progress)
        own = units[self.runner.text]
        wanted = list(dict.fromkeys(v for u in own for v in (*u.inputs, *u.outputs)))
        values = observer.observe(list_ends(network, own), wanted)
        return _Run(network, folded, own, {**values, **observer.plain}, observer.repeats)

    def _make_classes(self, runs: Mapping[int, _Run], items: _Items, told: Sequence[str]) -> list[SweepClass]:
        by_bits: dict[bytes | None, list[int]] = {}
        for n, run in runs.items():
            by_bits.setdefault(items.take_all(told, run.values, needs_batch=True), []).append(n)
        return [
            SweepClass(
                sizes=[[int(a), int(b)] for a, b in list_intervals(tuple(self.inputs), set(sizes))],
                cells=self._list_cells(sizes),
                points=len(sizes),
                example=f"{self.network.name} {self.batch.name}={sizes[0]}",
            )
            for sizes in by_bits.values()
        ]

    def _find_later(
        self, runs: Mapping[int, _Run], items: _Items, told: Sequence[str]
    ) -> list[dict[str, list[SizeOrSetting]]]:
        """Where an item behind those that all sizes have got other bits than the same item in the largest batch."""
        moved: set[int] = set()
        for n, run in runs.items():
            for value in told:
                axis = items.axes[value]
                assert axis is not None
                places = range(items.count, n)
                own, other = (one.values[value].take(places, axis) for one in (run, runs[max(runs)]))
                if own.tobytes() != other.tobytes():
                    moved.add(n)
        return self._list_cells(moved)

    def _list_cells(self, sizes: Collection[int]) -> list[dict[str, list[SizeOrSetting]]]:
        return [{self.batch.name: [first, end]} for first, end in list_intervals(tuple(self.inputs), set(sizes))]

    def _find_units(self, runs: Mapping[int, _Run], items: _Items) -> list[SweepUnit]:
        """The units that return other bits at some sizes than at the largest, of the same bits, in sequence."""
        largest = runs[max(runs)]
        places = {n: {unit.places for unit in run.units} for n, run in runs.items()}
        found: list[SweepUnit] = []
        for unit in largest.units:
            fed = items.take_all(unit.inputs, largest.values, needs_batch=False)
            made = items.take_all(unit.outputs, largest.values, needs_batch=True)
            if fed is None or made is None:
                continue
            own = [
                n
                for n, run in runs.items()
                if unit.places in places[n]
                and items.take_all(unit.inputs, run.values, needs_batch=False) == fed
                and items.take_all(unit.outputs, run.values, needs_batch=True) != made
            ]
            if own:
                problem = state_problem(largest.network, largest.folded, unit, largest.values)
                found.append(SweepUnit(unit.name, list(unit.operators), problem, self._list_cells(own)))
        return found
