"""A sweep of attention: do the bits of a query's result depend on how many others there are, or on hidden keys?

All points read the same operands, smaller ones a part of them, so that certain queries see the same numbers everywhere:
the first items and heads; the first queries, or with `causal=lower_right` the last ones, as a decoder computes them
behind a cache; and of more keys the first, where a mask or `causal` hides the others.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.engines.registry.runners import open_runner
from samebits.engines.runner import Identity, Kernel, Runner, check_result
from samebits.engines.runner.guarded_runner import guard_runner
from samebits.errors import EngineFailure, EngineMissingError, ProblemShapeError, ResourceLimitError
from samebits.findings import Evidence
from samebits.findings.comparison_schema import Failure
from samebits.numbers.ulps import digest_bits
from samebits.problems.attention import Attention, format_attention, make_normal_attention
from samebits.progress import Progress
from samebits.questions.formula_comparing import MOST_PRODUCTS
from samebits.questions.sweep.sweep_cells import list_cells
from samebits.questions.sweep.sweep_schema import Sweep, SweepAxis, SweepClass, SweepFailure
from samebits.questions.sweep.sweep_sentences import say_axis, say_draws, summarize_sweep
from samebits.questions.sweep.sweep_text import Point, SweepText
from samebits.sums.truth.attention import check_scores_fit
from samebits.version import VERSION

_SEEDS = (0, 1)
# Fewer shared outputs than this may agree by chance: more sets of operands are asked.
_FEWEST_TELLING, _MORE_SEEDS = 256, 6


@dataclass(frozen=True)
class _Shared:
    """The largest attention, and the part of every result that is the same at all points."""

    largest: Attention
    outputs: tuple[int, int, int, int]
    from_the_end: bool

    def slice_operands(self, asked: Attention, operands: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What a point reads of the largest one's operands."""
        queries = slice(-asked.q[2], None) if self.from_the_end else slice(asked.q[2])
        found = {"q": operands["q"][: asked.q[0], : asked.q[1], queries]}
        for name, shape in (("k", asked.k), ("v", asked.v)):
            found[name] = operands[name][: shape[0], : shape[1], : shape[2], : shape[3]]
        if asked.mask:
            mask = operands["mask"]
            found["mask"] = mask[: asked.q[0], :, queries if mask.shape[2] > 1 else slice(None), : asked.k[2]]
        return {name: np.ascontiguousarray(array) for name, array in found.items()}

    def slice_result(self, result: np.ndarray) -> np.ndarray:
        """The shared outputs of a point's result."""
        items, heads, queries, columns = self.outputs
        rows = slice(result.shape[2] - queries, None) if self.from_the_end else slice(queries)
        return np.ascontiguousarray(result[:items, :heads, rows, :columns])


def sweep_attention(
    said: str, text: SweepText, engine: str | Runner | Kernel, time_limit_s: float, progress: Progress
) -> Sweep:
    """One engine over the points of a sweep of attention; raises ProblemShapeError where no output is shared."""
    started = time.perf_counter()
    points = text.list_points()
    problems = [text.find_attention(point) for point in points]
    shared = _share(problems)
    asker = _Asker(text, points, problems, shared, engine, time_limit_s, progress)
    outputs = int(np.prod(shared.outputs))
    with contextlib.closing(asker):
        seeds = list(_SEEDS) if outputs >= _FEWEST_TELLING else list(range(_MORE_SEEDS))
        for seed in seeds:
            asker.ask(seed, range(len(points)))
        keys = {i: tuple(found) for i, found in asker.bits.items() if i not in asker.failures}
        repeats = asker.repeats(keys, seeds[0])
    groups: dict[tuple[str, ...], list[int]] = {}
    for i, key in keys.items():
        groups.setdefault(key, []).append(i)
    classes = [_describe(text, points, problems, members) for members in groups.values()]
    axes = [
        SweepAxis(r.name, say_axis(r.name, "attention", of_engine=r.of_engine), list(r.values)) for r in text.ranges
    ]
    failures = [
        SweepFailure(dict(points[i]), Failure(kind, says))  # type: ignore[arg-type]  (one of the kinds)
        for i, (kind, says) in sorted(asker.failures.items())
    ]
    evidence = [Evidence("structure", say_draws(len(seeds), len(seeds) * outputs))]
    if classes and repeats is not False:
        evidence += _answer(shared, [r.name for r in text.ranges], problems, groups)
    invariant = None if not classes else len(classes) == 1 and repeats is not False and not failures
    identities = asker.identities
    return Sweep(
        sweep=said,
        engine=asker.named,
        version=", ".join(dict.fromkeys(one.version for one in identities)) or None,
        device=", ".join(dict.fromkeys(one.device for one in identities)) or None,
        invariant=invariant,
        axes=axes,
        points=len(points),
        outputs=outputs,
        classes=classes,
        repeats=repeats,
        failures=failures,
        summary=summarize_sweep([a.says for a in axes], classes, len(failures), uneven=False, repeats=repeats),
        evidence=evidence,
        time_s=time.perf_counter() - started,
        engine_time_s=asker.engine_time_s,
        samebits_version=VERSION,
    )


def _describe(
    text: SweepText, points: Sequence[Point], problems: Sequence[Attention], members: list[int]
) -> SweepClass:
    cells = list_cells(text.ranges, [points[i] for i in members])
    only = text.ranges[0] if len(text.ranges) == 1 else None
    sizes = [] if only is None or only.of_engine else [[int(v) for v in cell[only.name]] for cell in cells]
    least = min(members, key=lambda i: problems[i].multiply_adds)
    return SweepClass(sizes=sizes, cells=cells, points=len(members), example=format_attention(problems[least]))


def _share(problems: Sequence[Attention]) -> _Shared:
    first = problems[0]
    most = {name: _fold(max, [getattr(p, name) for p in problems]) for name in ("q", "k", "v")}
    least = {name: _fold(min, [getattr(p, name) for p in problems]) for name in ("q", "k", "v")}
    largest = replace(first, q=most["q"], k=most["k"], v=most["v"])
    if largest.multiply_adds > MOST_PRODUCTS:
        raise ResourceLimitError("the largest attention of this sweep has more than 2^36 products")
    check_scores_fit(largest)
    if most["q"][3] != least["q"][3]:
        raise ProblemShapeError("other features are another product: sweep the items, heads, queries, keys or columns")
    if len({p.group for p in problems}) > 1:
        raise ProblemShapeError(
            "other numbers of heads read other heads of k: sweep both together, q=1x{h:1..8}x... k=1x{h}x..."
        )
    has_more_keys, from_the_end = most["k"][2] != least["k"][2], first.causal == "lower_right"
    if has_more_keys and (from_the_end or (first.causal is None and first.mask is None)):
        raise ProblemShapeError(
            "more keys that are seen give another result: with causal, mask=bool or mask=add those behind are hidden"
        )
    queries = least["q"][2]
    if has_more_keys and first.mask is None:
        # With causal from the upper left a query sees as many keys as its number.
        queries = min(queries, least["k"][2])
    return _Shared(largest, (least["q"][0], least["q"][1], queries, least["v"][3]), from_the_end)


def _fold(choose: Any, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(choose(sizes) for sizes in zip(*shapes, strict=True))


class _Asker:
    """One engine, or one with several settings, asked at every point."""

    def __init__(
        self,
        text: SweepText,
        points: Sequence[Point],
        problems: Sequence[Attention],
        shared: _Shared,
        engine: str | Runner | Kernel,
        time_limit_s: float,
        progress: Progress,
    ):
        self.text, self.points, self.problems, self.shared = text, points, problems, shared
        self.own = None if isinstance(engine, str) else guard_runner(engine)
        self.named = engine if isinstance(engine, str) else self.own.text if self.own else ""
        self.time_limit_s, self.progress = time_limit_s, progress
        self.identities: list[Identity] = []
        self.bits: dict[int, list[str]] = {}
        self.failures: dict[int, tuple[str, str]] = {}
        self.engine_time_s = 0.0
        self._opened: tuple[str, Runner] | None = None

    def close(self) -> None:
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None

    def ask(self, seed: int, chosen: Sequence[int] | range) -> None:
        """Adds the bits of the shared outputs at these points on the operands of a seed."""
        operands = self._draw(seed)
        # One engine after the other: each is opened once.
        for number, i in enumerate(sorted(chosen, key=lambda i: self.text.find_engine(self.points[i]))):
            self.progress(f"running {self.named[:60]}", number / max(len(chosen), 1))
            digest = self._run(i, operands)
            if digest is not None:
                self.bits.setdefault(i, []).append(digest)

    def _draw(self, seed: int) -> dict[str, np.ndarray]:
        """Operands of the largest point; behind the fewest keys a mask hides all."""
        operands = make_normal_attention(self.shared.largest, seed)
        least = min(p.k[2] for p in self.problems)
        if self.shared.largest.mask and least < self.shared.largest.k[2]:
            mask, hides = operands["mask"], self.shared.largest.mask == "bool"
            mask[..., least:] = False if hides else -np.inf
            # Each query sees the first key that `causal` and `window` leave it.
            first = self.shared.largest.sees().argmax(axis=-1)
            shown = np.where(first < least, first, 0)[:, None]
            shown = np.broadcast_to(shown, (*mask.shape[:-1], 1))
            np.put_along_axis(mask, shown, np.asarray(True if hides else 0, mask.dtype), axis=-1)
        return operands

    def _run(self, i: int, operands: dict[str, np.ndarray]) -> str | None:
        problem, engine = self.problems[i], self.text.find_engine(self.points[i])
        given = self.shared.slice_operands(problem, operands)
        try:
            runner = self._open(engine)
            began = time.perf_counter()
            result = check_result(problem, runner.run(problem, given))
            self.engine_time_s += time.perf_counter() - began
        except EngineMissingError as error:
            self.failures[i] = ("error", str(error))
        except EngineFailure as error:
            self.failures[i] = (error.kind, str(error))
            if error.kind in ("crash", "timeout", "out-of-memory"):
                self.close()
        else:
            return digest_bits(self.shared.slice_result(result))
        return None

    def _open(self, engine: str) -> Runner:
        if self.own is not None:
            return self.own
        if self._opened is None or self._opened[0] != engine:
            self.close()
            self._opened = (engine, open_runner(engine, time_limit_s=self.time_limit_s))
            if all(one.text != engine for one in self.identities):
                self.identities.append(self._opened[1].identify())
        return self._opened[1]

    def repeats(self, keys: dict[int, tuple[str, ...]], seed: int) -> bool | None:
        """Whether points beside a boundary, or the first, give the same bits again; None where nothing ran."""
        ran = list(keys)
        beside = [i for a, b in itertools.pairwise(ran) if keys[a] != keys[b] for i in (a, b)]
        chosen = list(dict.fromkeys([*ran[:1], *beside]))[:8]
        operands = self._draw(seed)
        again = {i: self._run(i, operands) for i in chosen}
        return all(again[i] == keys[i][0] for i in chosen) if chosen else None


def _answer(
    shared: _Shared, names: Sequence[str], problems: Sequence[Attention], groups: dict[tuple[str, ...], list[int]]
) -> list[Evidence]:
    """What people ask, with yes or no: is decoding the same as prefilling, and do hidden keys change the result?"""
    said: list[str] = []
    where = {i: number for number, members in enumerate(groups.values()) for i in members}
    if names == ["queries"] and len(where) > 1:
        fewest = min(where, key=lambda i: problems[i].q[2])
        most = max(where, key=lambda i: problems[i].q[2])
        if problems[fewest].q[2] == 1:
            last = "last query" if shared.from_the_end else "first query"
            same = "the same bits" if where[fewest] == where[most] else "other bits"
            said.append(
                f"one query alone and {problems[most].q[2]:,} together give {same} for the {last} (decode, prefill)"
            )
    if names == ["keys"] and len(where) > 1:
        same = "do not change" if len(groups) == 1 else "change"
        said.append(f"keys that no shared query sees {same} its bits (padding)")
    return [Evidence("structure", says) for says in said]
