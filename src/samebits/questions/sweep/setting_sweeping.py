"""A network, or a problem on integers, over settings and processors of an engine: which of them give the same bits.

The same inputs go in at every point. A unit that was fed the same bits as at the first point and returned others
depends on the setting itself; what only passes on a difference is not named.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import numpy as np

from samebits.engines.runner import Identity
from samebits.errors import ArgumentError, EngineFailure, EngineMissingError
from samebits.findings import Evidence
from samebits.findings.comparison_schema import Failure
from samebits.networks.control_flow import settle_control_flow
from samebits.networks.integer_problems import make_integer_network
from samebits.networks.model_inputs import make_inputs
from samebits.networks.model_runners import open_model_runner
from samebits.networks.model_sentences import say_unit_name
from samebits.networks.network import Network
from samebits.networks.observing import Observer, divide_observably, list_ends
from samebits.networks.onnx_reading import make_network
from samebits.networks.turned_units import state_problem
from samebits.networks.units import Unit, fold_constants
from samebits.numbers.float_environment import default_float_environment
from samebits.problems.integer_problem import is_integer_problem
from samebits.progress import Progress, ignore_progress
from samebits.questions.sweep.network_sweeping import take_network
from samebits.questions.sweep.remedies import Swept, add_remedies
from samebits.questions.sweep.sweep_schema import SizeOrSetting, Sweep, SweepAxis, SweepClass, SweepFailure, SweepUnit
from samebits.questions.sweep.sweep_sentences import say_axis, say_cells, summarize_sweep
from samebits.questions.sweep.sweep_text import Point, SweepText, parse_sweep
from samebits.version import VERSION

Arrays = Mapping[str, np.ndarray]
Cell = dict[str, list[SizeOrSetting]]


@default_float_environment()
def sweep_settings(
    model: str | Path,
    on: Sequence[str],
    *,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
    seed: int = 0,
    fix: bool = False,
    time_limit_s: float = 300.0,
    progress: Progress = ignore_progress,
) -> Sweep:
    """Which settings of an engine give a network the same bits: `onnxruntime:cpu={Haswell,native}`, for each in `on`.

    `model` is a network's file or a problem on integers; `ranges`, `sizes` and `seed` are as `compare_model` takes
    them. With `fix`, where bits change, other settings are tried at all points until one makes the bits the same. The
    finding is that of the first engine, the others are in its `more`. Raises SamebitsError for what cannot be dealt
    with; an engine that fails at a point is a finding there.
    """
    texts = [parse_sweep("", text) for text in on]
    if not texts or any(not one.ranges for one in texts):
        raise ArgumentError("a sweep of a network has a range in its engine's settings, or with --size in its batch")
    with contextlib.ExitStack() as opened:
        codes = is_integer_problem(str(model))
        if codes:
            network, own = make_integer_network(str(model), seed)
            ranges = ranges or own
        else:
            network = take_network(model, opened, time_limit_s, progress)
        inputs = make_inputs(network, seed, ranges, sizes)
        network = settle_control_flow(network, inputs, make_network)
        found: list[Sweep] = []
        for text, one in zip(on, texts, strict=True):
            sweep = _SettingSweep(network, str(model), text, one, inputs, codes, time_limit_s, progress)
            own_finding = sweep.find()
            if fix and own_finding.invariant is False:
                own_finding = _add_remedies(own_finding, sweep)
            found.append(own_finding)
    return msgspec.structs.replace(found[0], more=found[1:])


def _add_remedies(found: Sweep, sweep: _SettingSweep) -> Sweep:
    """The finding with the settings that give the same bits at all points, tried."""

    def ask(text: str, share: float) -> Sweep:
        sweep.progress(f"trying {text[:60]}", share)
        own = replace(sweep, engine=text, text=parse_sweep("", text), progress=ignore_progress, looks_inside=False)
        return replace(own, identities=[]).find()

    at_point = sweep.text.find_engine(sweep.text.list_points()[0])
    in_force = sweep.identities[0].settings if sweep.identities else {}
    return add_remedies(found, Swept(sweep.engine, at_point), None, in_force, ask)


@dataclass(frozen=True)
class _Run:
    """The network at one point: its units, and the values at their ends and its outputs."""

    units: Sequence[Unit]
    values: Arrays
    repeats: bool | None


@dataclass
class _SettingSweep:
    """One engine over all points."""

    network: Network
    subject: str
    engine: str
    text: SweepText
    inputs: Arrays
    codes: bool
    time_limit_s: float
    progress: Progress
    # Without it only the outputs are looked at, and no longer than until two points differ.
    looks_inside: bool = True
    identities: list[Identity] = field(default_factory=list[Identity])

    def find(self) -> Sweep:
        """The finding: classes of points, and the units that make them."""
        began = time.monotonic()
        points = self.text.list_points()
        runs: dict[int, _Run] = {}
        failures: list[SweepFailure] = []
        for i, point in enumerate(points):
            text = self.text.find_engine(point)
            self.progress(f"running {text[:40]}", i / len(points))
            try:
                runs[i] = self._run(text)
            except (EngineFailure, EngineMissingError) as error:
                kind = error.kind if isinstance(error, EngineFailure) else "error"
                failures.append(SweepFailure(dict(point), Failure(kind, str(error))))  # type: ignore[arg-type]  (a kind)
            if not self.looks_inside and len(self._make_classes(points, runs)) > 1:
                break
        engine_s = time.monotonic() - began
        classes = self._make_classes(points, runs)
        units = self._find_units(points, runs) if len(classes) > 1 and self.looks_inside else []
        repeats = all(run.repeats for run in runs.values()) if runs else None
        axes = [SweepAxis(r.name, say_axis(r.name, "", of_engine=True), list(r.values)) for r in self.text.ranges]
        said = summarize_sweep([a.says for a in axes], classes, len(failures), uneven=False, repeats=repeats)
        if units:
            said += f"; it begins in {say_unit_name(units[0].name, units[0].operators)}, at {say_cells(units[0].cells)}"
        first = runs[min(runs)] if runs else None
        outputs = 0 if first is None else sum(first.values[v].size for v in self.network.outputs)
        return Sweep(
            sweep=self.subject,
            engine=self.engine,
            version=", ".join(dict.fromkeys(one.version for one in self.identities)) or None,
            device=", ".join(dict.fromkeys(one.device for one in self.identities)) or None,
            invariant=len(classes) == 1 if repeats and len(runs) > 1 else None,
            axes=axes,
            points=len(points),
            outputs=outputs,
            classes=classes,
            units=units,
            repeats=repeats,
            failures=failures,
            summary=said,
            evidence=[Evidence("structure", note) for one in self.identities[:1] for note in one.notes],
            time_s=time.monotonic() - began,
            engine_time_s=engine_s,
            samebits_version=VERSION,
        )

    def _run(self, text: str) -> _Run:
        runner = open_model_runner(text, time_limit_s=self.time_limit_s, program=self.network.program, codes=self.codes)
        with contextlib.closing(runner):
            self.identities.append(runner.identify())
            observer = Observer(runner, self.network, self.inputs)
            observer.begin()
            if not self.looks_inside:
                return _Run((), observer.plain, observer.repeats)
            units = divide_observably(self.network, fold_constants(self.network), {text: observer}, self.progress)[text]
            wanted = list(dict.fromkeys(v for u in units for v in (*u.inputs, *u.outputs)))
            values = observer.observe(list_ends(self.network, units), wanted)
            return _Run(units, {**values, **observer.plain}, observer.repeats)

    def _make_classes(self, points: Sequence[Point], runs: Mapping[int, _Run]) -> list[SweepClass]:
        by_bits: dict[bytes, list[int]] = {}
        for i, run in runs.items():
            by_bits.setdefault(b"".join(run.values[v].tobytes() for v in self.network.outputs), []).append(i)
        return [
            SweepClass(cells=[_make_cell(points[i]) for i in members], points=len(members), example=self.subject)
            for members in by_bits.values()
        ]

    def _find_units(self, points: Sequence[Point], runs: Mapping[int, _Run]) -> list[SweepUnit]:
        """The units that return other bits at some points than at the first, of the same bits, in sequence."""
        first = runs[min(runs)]
        folded = fold_constants(self.network)
        found: list[SweepUnit] = []
        for unit in first.units:
            own = [i for i, run in runs.items() if _depends(unit, first, run)]
            if own:
                problem = state_problem(self.network, folded, unit, first.values)
                cells = [_make_cell(points[i]) for i in own]
                found.append(SweepUnit(unit.name, list(unit.operators), problem, cells))
        return found


def _make_cell(point: Point) -> Cell:
    return {name: [value, value] for name, value in point.items()}


def _depends(unit: Unit, first: _Run, run: _Run) -> bool:
    """Whether a unit that both runs have was fed the same bits and returned others."""
    if unit.places not in {own.places for own in run.units}:
        return False
    fed, made = (
        all(first.values[v].tobytes() == run.values[v].tobytes() for v in names)
        for names in (unit.inputs, unit.outputs)
    )
    return fed and not made
