"""A sweep: every point run on the same operands, points with equal bits put together, a recipe found for each class."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from samebits.engines.probes.session import ProbeSession
from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Identity, Kernel, Runner
from samebits.engines.runner.guarded_runner import guard_runner, list_runners
from samebits.engines.runner.sliced_runs import Part, SlicedRun, run_slices, slice_operands
from samebits.engines.workers.process import DEFAULT_TIME_LIMIT_S
from samebits.errors import ArgumentError, EngineFailure, EngineMissingError, SamebitsError
from samebits.findings import Evidence
from samebits.findings.comparison_schema import Failure
from samebits.numbers.float_environment import default_float_environment
from samebits.problems import Problem, format_problem
from samebits.problems.attention import is_attention
from samebits.progress import Progress, ignore_progress
from samebits.questions.sweep.attention_sweeping import sweep_attention
from samebits.questions.sweep.remedies import Swept, add_remedies
from samebits.questions.sweep.shared_outputs import Shared, share_outputs
from samebits.questions.sweep.sweep_cells import list_cells
from samebits.questions.sweep.sweep_schema import Sweep, SweepAxis, SweepClass, SweepFailure
from samebits.questions.sweep.sweep_sentences import (
    say_advice,
    say_axis,
    say_boundaries,
    say_draws,
    summarize_sweep,
)
from samebits.questions.sweep.sweep_text import Point, SweepText, parse_sweep
from samebits.sums.emulators import emulate
from samebits.sums.recipes import Recipe, format_recipe
from samebits.version import VERSION

_SEED, _OTHER_SEED = 0, 1
_LARGEST_CHUNK, _QUICK_S = 64, 0.5
# Fewer shared outputs than this may agree by chance: all points are then asked with other operands, until they come to
# so many, or that takes so long.
_FEWEST_TELLING, _LONGEST_TELLING_S = 256, 10.0
_MOST_CONFIRMED, _MOST_ASKED_AGAIN, _MOST_RECIPES = 256, 4, 12
_MOST_ITEMS_COMPARED = 32
_MOST_PROBING_S, _MOST_EMULATED = 20.0, 2e9


@default_float_environment()
def sweep(
    text: str,
    on: str | Runner | Kernel | Sequence[str | Runner | Kernel],
    *,
    recipes: bool = True,
    fix: bool = False,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    progress: Progress = ignore_progress,
) -> Sweep:
    """Over which sizes and settings do the bits of the same outputs change, on each engine.

    `text` is a problem with ranges in its sizes (`linear x={1..256}x768 w=768x768`; of an attention see
    `attention_sweeping`), `on` engines, whose settings may have ranges, too, or runners and functions of your own.
    Every point is run, on operands that all points share; each
    boundary between classes is confirmed with other operands, and for each class a recipe is searched for (not with
    `recipes=False`). With `fix`, where bits change, the engine's settings are tried one by one, and, where only sizes
    have ranges, the other engines at hand. The finding is that of the first engine, with the others in its `more`.
    Raises ProblemTextError, RunnerTextError or ProblemShapeError, in one line, for ranges that cannot be read or share
    no output; an engine that fails at a point is a finding there.

    >>> import samebits
    >>> found = samebits.sweep("matmul x={1..3}x8 w=8x4", ["emulate:direct"])
    >>> len(found.classes)
    1
    """
    on = list_runners(on)
    if not on:
        raise ArgumentError("a sweep needs an engine to run: --on ENGINE")
    sweeps = [parse_sweep(text, engine if isinstance(engine, str) else "") for engine in on]
    for one in sweeps:
        if not one.ranges:
            raise ArgumentError(f"no range in {text[:80]!r}: write a size as {{1..64}}, {{1..64:2}} or {{1,2,8}}")
    if is_attention(text):
        if fix:
            raise ArgumentError("settings are not tried for attention yet: no `fix`")
        asked = [
            sweep_attention(text, one, engine, time_limit_s, progress) for one, engine in zip(sweeps, on, strict=True)
        ]
        return msgspec.structs.replace(asked[0], more=asked[1:])
    found: list[Sweep] = []
    for one, engine in zip(sweeps, on, strict=True):
        guarded = None if isinstance(engine, str) else guard_runner(engine)
        named = guarded.text if guarded is not None else str(engine)
        sweeper = _Sweeper(one, text, named, time_limit_s, progress, own=guarded)
        try:
            own = sweeper.find(recipes=recipes)
        finally:
            sweeper.close()
        may_fix = fix and own.invariant is False and isinstance(engine, str)
        found.append(_add_remedies(own, sweeper, text, named) if may_fix else own)
    return msgspec.structs.replace(found[0], more=found[1:])


def _add_remedies(found: Sweep, sweeper: _Sweeper, text: str, engine: str) -> Sweep:
    """The finding with what gives the same bits at all points, tried."""

    def ask(other: str, share: float) -> Sweep:
        sweeper.progress(f"trying {other[:60]}", share)
        trial = _Sweeper(parse_sweep(text, other), text, other, sweeper.time_limit_s, ignore_progress)
        try:
            return trial.find(recipes=False)
        finally:
            trial.close()

    problem = sweeper.text.find_problem(sweeper.points[0])
    in_force = sweeper.identities[0].settings if sweeper.identities else {}
    swept = Swept(engine, sweeper.text.find_engine(sweeper.points[0]))
    return add_remedies(found, swept, problem, in_force, ask)


@dataclass
class _Sweeper:
    """One engine, or one engine with several settings, over all points."""

    text: SweepText
    said: str
    engine: str
    time_limit_s: float
    progress: Progress
    engine_time_s: float = 0.0
    # What each engine says of itself, one version and one device after the other.
    identities: list[Identity] = field(default_factory=list[Identity])
    points: list[Point] = field(default_factory=list[Point])
    runs: dict[int, SlicedRun] = field(default_factory=dict[int, SlicedRun])
    runners: dict[str, Runner] = field(default_factory=dict[str, Runner])
    # A caller's runner in place of an engine; it stays open.
    own: Runner | None = None

    def close(self) -> None:
        """Ends the engine that is open."""
        for runner in self.runners.values():
            runner.close()
        self.runners.clear()

    def _open(self, engine: str) -> Runner:
        """An engine of the sweep, open from its first question to that of another."""
        if self.own is not None:
            return self.own
        if engine not in self.runners:
            self.close()
            self.runners[engine] = open_runner(engine, time_limit_s=self.time_limit_s)
        return self.runners[engine]

    def _identify(self, engine: str) -> None:
        """Asks an engine what it is; of several one that does not load is a failure of its points."""
        if any(one.text == engine for one in self.identities):
            return
        try:
            self.identities.append(self._open(engine).identify())
        except (EngineFailure, EngineMissingError):
            if not any(one.of_engine for one in self.text.ranges):
                raise

    def find(self, *, recipes: bool) -> Sweep:
        started = time.perf_counter()
        self.points = self.text.list_points()
        problems = [self.text.find_problem(p) for p in self.points]
        shared = share_outputs(problems)
        outputs = int(np.prod(shared.outputs))
        self.runs = self._ask(range(len(self.points)), problems, shared, "running")
        keys = {i: (r.digest,) for i, r in self.runs.items() if r.failure is None}
        evidence: list[Evidence] = []
        draws = [shared]
        if outputs < _FEWEST_TELLING:
            keys, draws = self._ask_more(keys, problems, shared)
            evidence.append(Evidence("structure", say_draws(len(draws), len(draws) * outputs)))
        groups: dict[tuple[str, ...], list[int]] = {}
        for i, key in keys.items():
            groups.setdefault(key, []).append(i)
        repeats = self._ask_again(keys, list(groups.values()), problems, draws)
        self._compare_items(list(groups.values()), problems)
        if len(groups) > 1 and outputs >= _FEWEST_TELLING:
            evidence.append(Evidence("structure", self._confirm(keys, problems)))
        classes = [self._describe(members, problems) for members in groups.values()]
        if recipes:
            classes = self._find_recipes(classes, list(groups.values()), problems, shared)
        return self._conclude(classes, problems, outputs, repeats, evidence, time.perf_counter() - started)

    def _ask_more(
        self, keys: dict[int, tuple[str, ...]], problems: Sequence[Problem], shared: Shared
    ) -> tuple[dict[int, tuple[str, ...]], list[Shared]]:
        """The bits at each point on further operands as well, and all sets of operands that makes."""
        began, draws, outputs = time.perf_counter(), [shared], int(np.prod(shared.outputs))
        while len(draws) * outputs < _FEWEST_TELLING:
            if len(draws) > 1 and time.perf_counter() - began > _LONGEST_TELLING_S:
                break
            draws.append(share_outputs(problems, _OTHER_SEED + len(draws) - 1))
            again = self._ask(list(keys), problems, draws[-1], "running on other operands")
            keys = {i: (*key, again[i].digest) for i, key in keys.items()}
        return keys, draws

    def _ask(
        self, chosen: Sequence[int] | range, problems: Sequence[Problem], shared: Shared, doing: str
    ) -> dict[int, SlicedRun]:
        """The runs at these points; a runner is opened for each engine text, and again where it is gone."""
        part, answers = Part(shared.outputs, shared.item_axis), dict[int, SlicedRun]()
        by_engine: dict[str, list[int]] = {}
        for i in chosen:
            by_engine.setdefault(self.text.find_engine(self.points[i]), []).append(i)
        for engine, members in by_engine.items():
            self._identify(engine)
            at, size = 0, 1
            while at < len(members):
                chunk, started = members[at : at + size], time.perf_counter()
                self.progress(f"{doing} {engine[:40]}", len(answers) / max(len(chosen), 1))
                try:
                    runs = run_slices(self._open(engine), [problems[i] for i in chunk], shared.operands, part)
                except EngineMissingError as error:
                    runs = [SlicedRun(failure=("error", str(error)))] * len(chunk)
                except EngineFailure as error:
                    # The process is gone: one point of the chunk did it, and is found by asking each alone.
                    self.close()
                    if len(chunk) > 1:
                        size = 1
                        continue
                    runs = [SlicedRun(failure=(error.kind, str(error)))]
                # So many together that a message takes about a second.
                quick = time.perf_counter() - started < _QUICK_S and runs[0].failure is None
                at, size = at + len(chunk), min(2 * size, _LARGEST_CHUNK) if quick else max(size // 2, 1)
                answers |= dict(zip(chunk, runs, strict=True))
                self.engine_time_s += sum(run.seconds for run in runs)
        return answers

    def _ask_again(
        self,
        keys: dict[int, tuple[str, ...]],
        groups: Sequence[list[int]],
        problems: Sequence[Problem],
        draws: Sequence[Shared],
    ) -> bool | None:
        """Whether points give the same bits when asked again among other points; None where nothing ran.

        What comes and goes looks like a boundary: the points beside each of them are asked, on all operands.
        """
        ran = list(keys)
        beside = [i for a, b in itertools.pairwise(ran) if keys[a] != keys[b] for i in (a, b)]
        chosen = list(dict.fromkeys([*(members[-1] for members in groups[:_MOST_ASKED_AGAIN]), *beside]))
        if not chosen:
            return None
        chosen = chosen[: 2 * _MOST_ASKED_AGAIN]
        again = [self._ask(chosen, problems, shared, "asking again") for shared in draws]
        return all(one[i].digest == keys[i][d] for d, one in enumerate(again) for i in chosen)

    def _compare_items(self, groups: Sequence[list[int]], problems: Sequence[Problem]) -> None:
        """Marks points where an item, or a row, has other bits than in the largest of its class: with different items.

        Where all items are equal, one that is computed of another does not show.
        """
        shared, find = share_outputs(problems, _OTHER_SEED, equal=False), self.text.find_engine
        if shared.item_axis is None:
            return
        began = time.perf_counter()
        for members in groups:
            sizes = {i: problems[i].out_shape[shared.item_axis] for i in members}
            largest = max(members, key=lambda i: sizes[i])
            alone = [i for i in members if i != largest and find(self.points[i]) == find(self.points[largest])]
            for i in alone[:_MOST_ITEMS_COMPARED]:
                if time.perf_counter() - began > _LONGEST_TELLING_S:
                    return
                outputs = list(shared.outputs)
                outputs[shared.item_axis] = sizes[i]
                part = replace(shared, outputs=tuple(outputs))
                runs = self._ask([i, largest], problems, part, "comparing items")
                if runs[i].failure is None and runs[largest].failure is None and runs[i].digest != runs[largest].digest:
                    self.runs[i] = replace(self.runs[i], even=False)

    def _confirm(self, keys: dict[int, tuple[str, ...]], problems: Sequence[Problem]) -> str:
        """Neighbours with other bits, asked with other operands: do they differ again?"""
        near = [(i, j) for i, j in zip(list(keys)[:-1], list(keys)[1:], strict=True) if keys[i] != keys[j]]
        near = near[:_MOST_CONFIRMED]
        other = share_outputs(problems, _OTHER_SEED)
        runs = self._ask(sorted({i for pair in near for i in pair}), problems, other, "confirming boundaries")
        differing = sum(runs[i].digest != runs[j].digest for i, j in near)
        return say_boundaries(differing, len(near) - differing)

    def _describe(self, members: list[int], problems: Sequence[Problem]) -> SweepClass:
        cells = list_cells(self.text.ranges, [self.points[i] for i in members])
        least = min(members, key=lambda i: problems[i].multiply_adds)
        only = self.text.ranges[0] if len(self.text.ranges) == 1 else None
        sizes = [] if only is None or only.of_engine else [[int(v) for v in cell[only.name]] for cell in cells]
        return SweepClass(sizes=sizes, cells=cells, points=len(members), example=format_problem(problems[least]))

    def _find_recipes(
        self, classes: list[SweepClass], groups: list[list[int]], problems: Sequence[Problem], shared: Shared
    ) -> list[SweepClass]:
        """Each class with the recipe that probing its cheapest point finds, checked against the bits of the sweep."""
        found: list[SweepClass] = []
        for one, members in zip(classes, groups, strict=True):
            least = min(members, key=lambda i: problems[i].multiply_adds)
            if len(found) >= _MOST_RECIPES:
                found.append(one)
                continue
            self.progress(f"finding the recipe of {one.example[:60]}", len(found) / len(classes))
            recipe = self._search(self._open(self.text.find_engine(self.points[least])), problems[least])
            replayed = None if recipe is None else self._replays(recipe, problems[least], shared, self.runs[least])
            text = None if recipe is None else format_recipe(recipe)
            found.append(msgspec.structs.replace(one, recipe=text, replayed=replayed))
        return found

    def _search(self, runner: Runner, problem: Problem) -> Recipe | None:
        try:
            return search_recipe(ProbeSession(runner, problem, most_time_s=_MOST_PROBING_S)).recipe
        except SamebitsError:
            return None

    def _replays(self, recipe: Recipe, problem: Problem, shared: Shared, run: SlicedRun) -> bool | None:
        """Whether the recipe gives the shared outputs' bits on the sweep's own operands."""
        if problem.multiply_adds > _MOST_EMULATED:
            return None
        try:
            result = emulate(problem, recipe, slice_operands(problem, shared.operands))
        except SamebitsError:
            return None
        return Part(shared.outputs, shared.item_axis).name_bits(result) == run.digest

    def _conclude(
        self,
        classes: list[SweepClass],
        problems: Sequence[Problem],
        outputs: int,
        repeats: bool | None,
        evidence: list[Evidence],
        took_s: float,
    ) -> Sweep:
        kind = format_problem(problems[0]).split()[0]
        axes = [
            SweepAxis(r.name, say_axis(r.name, kind, of_engine=r.of_engine), list(r.values)) for r in self.text.ranges
        ]
        failures = [
            SweepFailure(dict(self.points[i]), Failure(run.failure[0], run.failure[1]))  # type: ignore[arg-type]  (one of the kinds)
            for i, run in self.runs.items()
            if run.failure is not None
        ]
        uneven = list_cells(self.text.ranges, [self.points[i] for i, run in self.runs.items() if run.even is False])
        if repeats is False:
            # The classes are those of one run: neither their boundaries nor what to pad to mean anything.
            evidence = []
        elif len(axes) == 1 and not uneven and (advice := say_advice(axes[0].name, classes, axes[0].values[-1])):
            evidence.append(Evidence("setting", advice))
        invariant = None if not classes else len(classes) == 1 and not uneven and repeats is not False and not failures
        return Sweep(
            sweep=self.said,
            engine=self.engine,
            version=", ".join(dict.fromkeys(one.version for one in self.identities)) or None,
            device=", ".join(dict.fromkeys(one.device for one in self.identities)) or None,
            invariant=invariant,
            axes=axes,
            points=len(self.points),
            outputs=outputs,
            classes=classes,
            uneven=uneven,
            repeats=repeats,
            failures=failures,
            summary=summarize_sweep(
                [a.says for a in axes], classes, len(failures), uneven=bool(uneven), repeats=repeats
            ),
            evidence=evidence,
            time_s=took_s,
            engine_time_s=self.engine_time_s,
            samebits_version=VERSION,
        )
