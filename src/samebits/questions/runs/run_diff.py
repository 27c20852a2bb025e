"""The first operation whose bits differ between two runs, what kind of difference that is, and what followed."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path

import msgspec

from samebits.errors import ArgumentError, TraceError
from samebits.findings import Evidence
from samebits.progress import Progress, ignore_progress
from samebits.questions.runs.capturing import capture_operation
from samebits.questions.runs.debug_mode_log import is_debug_mode_log, read_debug_mode_log
from samebits.questions.runs.diff_schema import FirstDifference, InputReason, RunDiff
from samebits.questions.runs.run_reading import Operation, Process, Trace, read_trace, takes_generator
from samebits.questions.runs.run_sentences import (
    say_alone,
    say_cut_off,
    say_drawn,
    say_followed,
    say_inputs_unknown,
    say_same,
    say_states,
    say_weak_hashes,
    say_where,
    summarize_difference,
)
from samebits.questions.runs.setting_differences import is_unseeded, list_differences, list_unordered, list_unseeded
from samebits.questions.runs.settings import LOADER_WORKERS
from samebits.regular_files import check_target
from samebits.version import VERSION

Pair = tuple[int | None, int | None]
_Key = tuple[str, str, str]
# Where two runs go different ways, so many operations are searched for where they meet again.
_WINDOW = 4000
_TENSOR = re.compile(r"[a-z]+\d*(?:_[a-z0-9]+)?\[[\d, ]*\]")
_FORMAT = re.compile(r"[a-z]+\d*(?:_[a-z0-9]+)?\[")
# What puts numbers into another format, as autocast does before an operation.
_CASTS = ("aten._to_copy.default", "aten.to.dtype")


def align(a: Sequence[Operation], b: Sequence[Operation]) -> Iterator[Pair]:
    """Pairs of the operations of both runs in sequence, by their places; None where one run lacks the operation.

    Steps are compared with steps. Runs of the same program agree over long stretches, which are walked; only where they
    part are they searched. What makes memory that nobody has written yet is no operation here.
    """
    steps_a, steps_b = _divide(a), _divide(b)
    for step in sorted({*steps_a, *steps_b}):
        yield from _align_places(a, steps_a.get(step, []), b, steps_b.get(step, []))


def _divide(operations: Sequence[Operation]) -> dict[int, list[int]]:
    """The places of the operations of every step, those of memory alone left out."""
    places = (i for i, o in enumerate(operations) if o.is_view or any(f is not None for f in o.outputs))
    return {step: list(own) for step, own in itertools.groupby(places, lambda i: operations[i].step)}


def _align_places(
    a: Sequence[Operation], own_a: Sequence[int], b: Sequence[Operation], own_b: Sequence[int]
) -> Iterator[Pair]:
    keys_a, keys_b = [_key(a[i]) for i in own_a], [_key(b[j]) for j in own_b]
    i = j = 0
    while i < len(keys_a) and j < len(keys_b):
        if keys_a[i] == keys_b[j]:
            yield own_a[i], own_b[j]
            i, j = i + 1, j + 1
            continue
        start, other = _find_meeting(keys_a[i : i + _WINDOW], keys_b[j : j + _WINDOW])
        yield from ((own_a[n], None) for n in range(i, i + start))
        yield from ((None, own_b[n]) for n in range(j, j + other))
        i, j = i + start, j + other
    yield from ((own_a[n], None) for n in range(i, len(keys_a)))
    yield from ((None, own_b[n]) for n in range(j, len(keys_b)))


def _find_meeting(a: Sequence[_Key], b: Sequence[_Key]) -> tuple[int, int]:
    """The number of operations of each run before the same ones follow again; all where that never happens."""
    blocks = SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    return blocks[0].a, blocks[0].b


def _key(operation: Operation) -> _Key:
    return strip_numbers(operation.what), operation.module, operation.direction


@functools.lru_cache(maxsize=65536)
def strip_numbers(what: str) -> str:
    """An operation with the shapes of its tensors and without its numbers: which sample, which factor."""
    name, _, rest = what.partition("(")
    return f"{name}({', '.join(_TENSOR.findall(rest))})"


def strip_formats(what: str) -> str:
    """An operation with the shapes of its tensors alone: neither their number formats nor numbers."""
    return _FORMAT.sub("[", strip_numbers(what))


# What a script recorded by hand; its name follows.
_NOTE = "note "
# What numbers that Python or NumPy drew may have decided.
_DATA = ("order of the data", "order within a batch", "data")
_DECIDED = (*_DATA, "arguments", "noted values")
_TAKES = (["select"], ["slice"], ["index_select"], ["narrow"])


@dataclass
class _Compared:
    """One process of both runs, compared."""

    a: Process
    b: Process
    first: FirstDifference | None = None
    structure: FirstDifference | None = None
    compared: int = 0
    differing: int = 0
    only_a: int = 0
    only_b: int = 0
    # Operations of one run alone, by place: what they make explains what follows.
    alone: tuple[set[int], set[int]] = field(default_factory=lambda: (set[int](), set[int]()))
    # What one run alone draws before they part: the first of it, and how many.
    drawn: FirstDifference | None = None
    draws: int = 0
    # Draws of both runs that were paired, but stand in other lines.
    moved_draws: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])


def diff(
    a: str | Path,
    b: str | Path,
    *,
    capture: str | Path | None = None,
    run: bool | Callable[[Sequence[str]], bool] = False,
    progress: Progress = ignore_progress,
) -> RunDiff:
    """Compares two traces; raises TraceError for a file that is none.

    Traces may be of different lengths and machines, and have operations that the other one lacks; both may be what
    torch's DebugMode printed of its runs under `log_tensor_hashes`. With `capture`, where
    an operation gave other bits to the same inputs, both commands are run again up to it, and it is written as a
    case file with both results; where that cannot be done the finding says why. The commands stand in the traces, and
    whoever wrote these chose them: they are run only with `run=True`, or where a function given as `run`, which is
    called with the two commands as texts, returns True.

    >>> import samebits, torch
    >>> for name, x in (("a", 1.0), ("b", 2.0)):
    ...     with samebits.trace(f"{name}.trace"):
    ...         _ = torch.tensor([x]) * 3
    >>> samebits.diff("a.trace", "b.trace").first.operation
    'aten.mul.Tensor'
    """
    if capture is not None:
        _check_target(capture, (a, b))
    progress(f"reading {Path(a).name[:40]}", 0.0)
    first = _read(a)
    progress(f"reading {Path(b).name[:40]}", 0.3)
    second = _read(b)
    if first.has_weak_hashes != second.has_weak_hashes:
        raise TraceError(f"{a} and {b}: a trace of samebits and a log of DebugMode have no hashes in common")
    progress("holding operations against each other", 0.6)
    found = [_compare(p, second.processes[name]) for name, p in first.processes.items() if name in second.processes]
    if not found:
        # Of another program the first processes are meant.
        found = [_compare(next(iter(first.processes.values())), next(iter(second.processes.values())))]
    # More workers share the batches otherwise: then one's do not stand beside those of the other run's.
    one, other = ({name.partition(" #")[0] for name in trace.processes} for trace in (first, second))
    chosen = _choose(found) if one == other else found[0]
    concluded = _conclude(first, second, found, chosen)
    if capture is None or concluded.first is None:
        return concluded
    captured: str | None = str(capture)
    try:
        remarks = capture_operation(chosen.a, chosen.b, concluded.first, capture, run, progress)
    except TraceError as error:
        captured, remarks = None, [f"not captured: {error}"]
    evidence = [*concluded.evidence, *(Evidence("replay", says) for says in remarks)]
    return msgspec.structs.replace(concluded, captured=captured, evidence=evidence)


def _check_target(capture: str | Path, traces: Sequence[str | Path]) -> None:
    """Raises ArgumentError for a file that is one of the traces, or that cannot be written."""
    target = Path(capture)
    if target.exists() and any(Path(t).exists() and target.samefile(t) for t in traces):
        raise ArgumentError(f"{capture}: is one of the recordings; the case needs another name")
    try:
        check_target(target)
    except OSError as error:
        raise ArgumentError(f"{capture}: no file that can be written ({error.strerror or error})") from None
    if not target.absolute().parent.is_dir():
        raise ArgumentError(f"{capture}: no file that can be written")


def _read(path: str | Path) -> Trace:
    return read_debug_mode_log(Path(path)) if is_debug_mode_log(Path(path)) else read_trace(path)


def _choose(found: list[_Compared]) -> _Compared:
    """The process whose first difference counts as the whole run's."""
    main = found[0]
    chosen = main
    is_given = main.first is not None and main.first.kind == "inputs" and main.first.reason != "random state"
    if is_given:
        # What a worker made differently came into the main process as its data.
        chosen = next((f for f in found[1:] if f.first is not None and f.first.kind != "structure"), main)
    elif main.first is None:
        # Ranks and programs of their own count for themselves; what a worker did otherwise had no effect.
        chosen = next((f for f in found[1:] if f.first is not None and "/" not in f.a.name), main)
    return chosen


def _conclude(a: Trace, b: Trace, found: list[_Compared], chosen: _Compared) -> RunDiff:
    main, first = found[0], chosen.first
    settings = list_differences(_list_settings(a, main.a), _list_settings(b, main.b), first)
    are_drawn_alike = all(s.name != "workers" for s in settings)
    if are_drawn_alike and first is not None and (first.kind == "structure" or first.reason in _DECIDED):
        # What workers draw in one run the process itself draws in the other: its state then says nothing of seeds.
        settings += list_unseeded(main.a.states, main.b.states)
    if first is not None and first.reason in _DATA and not settings:
        settings = list_unordered(main.a.settings, main.b.settings)
    drawn = _find_drawn(chosen, first) if first is not None else None
    evidence = [Evidence("structure", s) for s in _list_remarks(a, b, chosen, first, drawn)]
    compared, differing, only_a, only_b = (
        sum(getattr(f, name) for f in found) for name in ("compared", "differing", "only_a", "only_b")
    )
    if first is None:
        summary = say_same(compared, only_a + only_b, of_hashes=a.has_weak_hashes)
    else:
        summary = summarize_difference(first, settings if main.a.settings else None, drawn)
    return RunDiff(
        a=a.path,
        b=b.path,
        same=first is None,
        summary=summary,
        first=first,
        drawn=drawn,
        settings=settings,
        compared=compared,
        differing=differing,
        only_a=only_a,
        only_b=only_b,
        evidence=evidence,
        samebits_version=VERSION,
    )


def _list_settings(trace: Trace, process: Process) -> list[dict[str, str]]:
    """A process's settings as they were one after the other, with how many workers its loaders had at once."""
    own = [{name: value for name, value in s.items() if name != LOADER_WORKERS} for s in process.settings]
    if not own:
        return []
    children = [p for name, p in trace.processes.items() if name.startswith(f"{process.name}/")]
    told = [s[LOADER_WORKERS] for p in children for s in p.settings if s.get(LOADER_WORKERS, "unknown") != "unknown"]
    # Children of a later pass have other names, or a number: only they themselves know how many are one pass's.
    workers = ", then ".join(dict.fromkeys(told)) or str(sum(" #" not in p.name for p in children))
    return [{**own[0], "workers": workers}, *own[1:]]


def _list_remarks(
    a: Trace, b: Trace, chosen: _Compared, first: FirstDifference | None, drawn: FirstDifference | None
) -> Iterator[str]:
    if first is not None:
        yield say_where(first)
        if drawn is not None:
            yield say_drawn(drawn, chosen.draws)
        if chosen.first is not None:
            yield say_followed(chosen.differing, chosen.compared)
        changed = [
            name
            for (step, name), state in chosen.a.states.items()
            if step == first.step
            and chosen.b.states.get((step, name), state) != state
            and is_unseeded(chosen.a.states, chosen.b.states, name)
        ]
        if changed and first.reason not in ("random state", None):
            yield say_states(changed, first.step)
        if first.kind == "operation" and a.has_weak_hashes and not chosen.a.operations[first.index_a or 0].inputs:
            yield say_inputs_unknown()
    elif chosen.structure is not None:
        yield say_alone(chosen.structure, chosen.only_a, chosen.only_b)
    if a.has_weak_hashes:
        yield say_weak_hashes()
    for trace in (a, b):
        cut = [p.name for p in trace.processes.values() if not p.is_whole]
        if cut:
            yield say_cut_off(trace.path, cut)


def _compare(a: Process, b: Process) -> _Compared:
    found = _Compared(a, b)
    for i, j in align(a.operations, b.operations):
        if i is None or j is None:
            _note_alone(found, i, j)
            continue
        one, other = a.operations[i], b.operations[j]
        found.compared += 1
        if found.first is None and _draws(one) and one.line != other.line:
            found.moved_draws.append((i, j))
        if not _differ(one.outputs, other.outputs):
            continue
        found.differing += 1
        if found.first is None:
            found.first = _classify(found, i, j)
    if found.first is not None and found.first is found.structure:
        found.first = _find_other_format(found) or found.first
    return found


def _find_other_format(found: _Compared) -> FirstDifference | None:
    """The operation that both runs do, in other number formats, where casts alone make their paths two."""
    places = [
        next((n for n in sorted(alone) if not own[n].is_view and own[n].name not in _CASTS), None)
        for own, alone in zip((found.a.operations, found.b.operations), found.alone, strict=True)
    ]
    i, j = places
    if i is None or j is None:
        return None
    one, other = found.a.operations[i], found.b.operations[j]
    in_place = one.step == other.step and _key(one)[1:] == _key(other)[1:]
    if not in_place or strip_formats(one.what) != strip_formats(other.what) or _key(one) == _key(other):
        # The same operation in the same formats, elsewhere: what decides whether it is done differs.
        return None
    return _describe(found, one, "inputs", reason="number format", i=i, j=j)


def _draws(operation: Operation) -> bool:
    """Whether an operation draws from the random state that all share, not from a generator of the script's own."""
    return operation.random is not None and not takes_generator(operation.what)


def _find_drawn(found: _Compared, first: FirstDifference) -> FirstDifference | None:
    """What one run alone drew before they part, where it was drawn, if what follows is other for it.

    That is so where the random state differs first. Where one run does what the other leaves out, a loader that it
    alone walks through draws, too; what a layer draws there belongs to what is done.
    """
    if first.reason == "random state":
        return _find_line_drawn(found)
    drawn = _find_line_drawn(found) if first.kind == "structure" else None
    return drawn if drawn is not None and not drawn.module and drawn.direction == "forward" else None


def _find_line_drawn(found: _Compared) -> FirstDifference | None:
    """What one run alone drew, where it stands.

    Of draws that are alike, one that the other run lacks may stand beside the other's next one: then the line says so.
    """
    drawn = found.drawn
    if drawn is None:
        return None
    only_b = drawn.index_a is None
    here, there = (found.b, found.a) if only_b else (found.a, found.b)
    own, others = ({o.line for o in of.operations if _draws(o)} for of in (here, there))
    for i, j in found.moved_draws:
        operation, other = here.operations[j if only_b else i], there.operations[i if only_b else j]
        if operation.line not in others and other.line in own:
            return _describe(found, operation, "structure", i=None if only_b else i, j=j if only_b else None)
    return drawn


def _note_alone(found: _Compared, i: int | None, j: int | None) -> None:
    operation = found.a.operations[i] if i is not None else found.b.operations[j or 0]
    found.only_a += i is not None
    found.only_b += j is not None
    found.alone[0 if i is not None else 1].add(i if i is not None else j or 0)
    if found.first is None and _draws(operation):
        found.draws += 1
        found.drawn = found.drawn or _describe(found, operation, "structure", i=i, j=j)
    if found.structure is None and not operation.is_view:
        found.structure = _describe(found, operation, "structure", i=i, j=j)


def _differ(a: tuple[bytes | None, ...], b: tuple[bytes | None, ...]) -> bool:
    return len(a) != len(b) or any(x is not None and y is not None and x != y for x, y in zip(a, b, strict=True))


def _classify(found: _Compared, i: int, j: int) -> FirstDifference:
    one, other = found.a.operations[i], found.b.operations[j]
    if one.name.startswith(_NOTE):
        return _describe(found, one, "inputs", reason="noted values", i=i, j=j)
    pairs = list(zip(one.inputs, other.inputs, one.sources, other.sources, strict=False))
    changed = [p for p in pairs if p[0] is not None and p[1] is not None and p[0] != p[1]]
    if not changed and one.random != other.random and one.random and other.random:
        return _describe(found, one, "inputs", reason="random state", i=i, j=j)
    if not changed and one.what != other.what:
        # Which sample is taken, outside of any module, is data; any other number is what the script passed.
        is_sample = one.name.split(".")[1:2] in _TAKES and one.direction == "forward" and not one.module
        return _describe(found, one, "inputs", reason="order of the data" if is_sample else "arguments", i=i, j=j)
    if not changed:
        return _describe(found, one, "operation", i=i, j=j)
    if any(s in found.alone[0] or t in found.alone[1] for _, _, s, t in changed) and found.structure is not None:
        return found.structure
    outside = [(x, y) for x, y, s, t in changed if s is None and t is None and x is not None and y is not None]
    if outside and not found.a.settings:
        # A log of another tool: it does not say where its tensors come from.
        return _describe(found, one, "inputs", i=i, j=j)
    if outside:
        return _describe(found, one, "inputs", reason=_find_reason(found, outside, i), i=i, j=j)
    return _describe(found, one, "inputs", i=i, j=j)


def _find_reason(found: _Compared, outside: list[tuple[bytes, bytes]], place: int) -> InputReason:
    """Why tensors from outside differ: their rows are in another order, elsewhere in the other run, or others.

    Where as many other rows are the same in this step, the samples are the same: then a label that stands elsewhere in
    the other run is another label.
    """
    batches = [(found.a.rows.get(x), found.b.rows.get(y)) for x, y in outside]
    for one, other in batches:
        if not one or not other:
            continue
        if 2 * len(set(one)) <= len(one):
            # Labels: few values, of which each stands somewhere in any batch.
            continue
        if _are_samples_same(found, place, len(one)):
            return "data"
        if Counter(one) == Counter(other):
            return "order within a batch"
        elsewhere = {row for rows in found.b.rows.values() for row in rows}
        if sum(row in elsewhere for row in one) * 2 > len(one):
            return "order of the data"
        return "data"
    return "data" if any(one and other for one, other in batches) else "initial values"


def _are_samples_same(found: _Compared, place: int, count: int) -> bool:
    """Whether the step, before this place, took so many rows from outside or stacked so many, the same in both runs."""
    step = found.a.operations[place].step
    before = list(itertools.takewhile(lambda o: o.step == step, reversed(found.a.operations[:place])))
    taken = [i for o in before for i, source in zip(o.inputs, o.sources, strict=True) if source is None and i]
    rows = [found.a.rows.get(i, []) for i in taken if i in found.b.rows]
    if any(len(own) == len(set(own)) == count for own in rows):
        return True
    made = {f for o in found.b.operations if o.step == step for f in o.outputs}
    stacked = [o for o in before if o.name.startswith("aten.stack.") and len(o.inputs) == count]
    return any(f is not None and f in made for o in stacked for f in o.outputs)


def _describe(
    found: _Compared,
    operation: Operation,
    kind: str,
    *,
    reason: InputReason | None = None,
    i: int | None = None,
    j: int | None = None,
) -> FirstDifference:
    other = found.b.operations[j] if j is not None and i is not None else None
    return FirstDifference(
        operation=operation.name,
        what=operation.what,
        other=other.what if other is not None and other.what != operation.what else None,
        step=operation.step,
        direction=operation.direction,
        module=operation.module,
        line=operation.line,
        process=found.a.name if i is not None else found.b.name,
        kind=kind,  # type: ignore[arg-type]  (one of the three)
        reason=reason,
        index_a=i,
        index_b=j,
    )
