"""Sentences about two runs that were compared."""

from __future__ import annotations

import re
from collections.abc import Sequence

from samebits.questions.runs.diff_schema import FirstDifference, SettingDifference
from samebits.questions.runs.run_reading import takes_generator
from samebits.questions.runs.setting_differences import SETS

_MOST_NAMED = 3
_FORMATS = re.compile(r"\b([a-z]+\d*(?:_[a-z0-9]+)?)\[")
_REASONS = {
    "random state": "the random state is another one",
    "order of the data": "the data come in another order",
    "order within a batch": "the same samples stand in another order within the batch",
    "data": "other values come in from outside",
    "initial values": "what it starts from has other values",
    "arguments": "it is called with other arguments",
    "noted values": "what the script noted there has other values",
}


_FROM_OUTSIDE = "a generator made without a seed (numpy.random.default_rng()), files, the time"
_SEED_LOADER = (
    "seed what draws the order: a loader by a seeded generator, DataLoader(...,"
    " generator=torch.Generator().manual_seed(N)); else numpy.random.default_rng(N) or random.seed(N)"
)
_OWN_GENERATOR = (
    "give what one run draws more a generator of its own: for a validation's loader, which draws a number each"
    " time it is walked through, DataLoader(..., generator=torch.Generator())"
)
_SEED_ALL = "set the seed in both runs alike, and draw as often before: torch.manual_seed(N)"
_SEED_GENERATOR = (
    "seed the generator where it is made: torch.Generator().manual_seed(N); draw from it alike in both runs"
)
_DETERMINISTIC = "torch.use_deterministic_algorithms(True); the same processor, versions and number of threads"
_WHAT_TO_DO = {
    "order of the data": _SEED_LOADER,
    "order within a batch": _SEED_LOADER,
    "number format": "torch.autocast, or .to(dtype), in both runs alike or in neither",
}


def say_same(compared: int, alone: int, *, of_hashes: bool = False) -> str:
    """No difference in bits; some operations may stand in one run alone."""
    what = "hashes" if of_hashes else "bits"
    if not alone:
        return f"Both runs did the same {compared:,} operations with the same {what}."
    return f"All {compared:,} operations that both runs did have the same {what}; {alone:,} stand in one run alone."


def say_alone(first: FirstDifference, only_a: int, only_b: int) -> str:
    """Operations that one run has and the other has not, without effect on the others."""
    counts = " and ".join(f"{n:,} in the {which}" for n, which in ((only_a, "first"), (only_b, "second")) if n)
    return f"one run alone: {counts}; the first is {name_operation(first)}"


def name_operation(first: FirstDifference) -> str:
    """The operation as a person finds it: name, direction, step, module."""
    where = f" in {first.module}" if first.module else ""
    process = f", process {first.process}" if "/" in first.process or first.process.startswith("rank") else ""
    return f"{first.operation} ({first.direction}, step {first.step}{process}){where}"


def summarize_difference(
    first: FirstDifference, settings: Sequence[SettingDifference] | None, drawn: FirstDifference | None = None
) -> str:
    """One sentence: where the runs part first, and why as far as that is known. No settings: none were recorded.

    `drawn` is what one run alone drew random numbers with before.
    """
    named = name_operation(first)
    line = f", {first.line}" if first.line else ""
    if first.kind == "structure":
        return f"The runs part at {named}{line}: only the {_name_run(first)} run does it."
    if first.kind == "operation":
        said = f"The runs part at {named}{line}: the same inputs gave other bits"
        if settings is None:
            return f"{said}."
        return f"{said}; the runs' settings differ." if settings else f"{said}, under the same settings."
    reason = _REASONS.get(first.reason or "", "its inputs differed already")
    if first.reason == "random state" and takes_generator(first.what):
        reason = "the generator that it is given stands elsewhere"
    if drawn is not None:
        reason += f", moved on by what the {_name_run(drawn)} run alone drew before{_say_at(drawn)}"
    if first.reason == "number format":
        reason = _say_formats(first)
    return f"The runs part at {named}{line}: {reason}."


def _name_run(alone: FirstDifference) -> str:
    """Which run does what one of them does alone."""
    return "first" if alone.index_b is None else "second"


def _say_at(alone: FirstDifference) -> str:
    return f" at {alone.line}" if alone.line else ""


def _say_formats(first: FirstDifference) -> str:
    """The number formats in which both runs compute an operation."""
    one, other = (dict.fromkeys(_FORMATS.findall(what or "")) for what in (first.what, first.other))
    new, old = [name for name in other if name not in one], [name for name in one if name not in other]
    if not new or not old:
        return "the runs compute it in other number formats"
    return f"the second run computes in {' and '.join(new)} what the first computes in {' and '.join(old)}"


def say_drawn(drawn: FirstDifference, count: int) -> str:
    """What one run alone drew from the random state that both share."""
    many = f"{count:,} times, first" if count > 1 else "once,"
    by = f"{name_operation(drawn)}{_say_at(drawn)}"
    return f"the {_name_run(drawn)} run alone drew from the random state {many} by {by}: all drawn after it is other"


def say_where(first: FirstDifference) -> str:
    """The operation with its shapes and settings."""
    other = f"; the second run: {first.other}" if first.other else ""
    return f"it computes {first.what}{other}"


def say_followed(differing: int, compared: int) -> str:
    """What came of it."""
    return f"{differing:,} of {compared:,} operations that both runs have differ from there on"


def say_states(names: Sequence[str], step: int) -> str:
    """Random states of other libraries that had parted already."""
    return f"at the beginning of step {step} the random state of {' and '.join(names)} differed already"


def say_cut_off(path: str, processes: Sequence[str]) -> str:
    """A run that did not come to its end."""
    return f"{path} ends early: {', '.join(processes[:4])} did not come to the end"


def say_weak_hashes() -> str:
    """What another tool's hashes cannot tell."""
    return "DebugMode's hashes are sums of elements: bits may differ where they are equal; samebits trace tells all"


def say_inputs_unknown() -> str:
    """What a log without hashes of inputs leaves open."""
    return "no hashes of inputs were logged (hash_inputs=True logs them): that they were the same is inferred"


def say_next(
    first: FirstDifference | None,
    settings: Sequence[SettingDifference],
    captured: str | None = None,
    drawn: FirstDifference | None = None,
) -> list[str]:
    """What to do about it; `drawn` is what one run alone drew before."""
    if first is None:
        return []
    sets = [f"where the order of a set of texts decides it: {s.set}" for s in settings if s.name == SETS]
    known = [s.set for s in settings if s.set and s.name != SETS]
    alike = _say_alike(known)
    if first.reason == "noted values":
        return alike or ["note what it is made from, too: run.note(...)"]
    if first.kind == "structure":
        return _say_decision(first, settings, known, drawn)
    if first.reason == "random state":
        return [_seed(first, known, drawn)]
    if first.reason == "data":
        where = f"look where the values at {first.line or 'this line'} come from"
        return [*alike, where if alike else f"{where}: {_FROM_OUTSIDE}", *sets]
    if first.reason == "arguments":
        seeds = _join_seeds(known)
        needs = f"; a number drawn for it needs a seed{seeds}" if seeds else ""
        return [f"compare what the script passes at {first.line or 'this line'}{needs}"]
    if first.reason in _WHAT_TO_DO:
        return [*_list_needs(first, known), _WHAT_TO_DO[first.reason], *sets]
    if captured is not None:
        return [f"samebits explain {captured}", *alike]
    return (alike or [_DETERMINISTIC]) if first.kind == "operation" else []


def _seed(first: FirstDifference, known: Sequence[str], drawn: FirstDifference | None) -> str:
    """What makes a random state the same in both runs."""
    seeds = [s for s in known if "seed" in s.lower()]
    if seeds or drawn is not None:
        return seeds[0] if seeds else _OWN_GENERATOR
    return _SEED_GENERATOR if takes_generator(first.what) else _SEED_ALL


def _say_decision(
    first: FirstDifference, settings: Sequence[SettingDifference], known: Sequence[str], drawn: FirstDifference | None
) -> list[str]:
    """What decides whether one run alone does something: other workers, a seed, a loader of its own."""
    workers = [s.set for s in settings if s.name == "workers" and s.set]
    seeds = _join_seeds(known)
    line = first.line or "the line that only one run came to"
    decides = f"look what decides at {line}{f'; numbers drawn for it need a seed{seeds}' if seeds else ''}"
    if workers:
        # What workers draw in one run the process itself draws in the other.
        return [*workers, f"where they still part then: {decides}"]
    return [decides, *([_OWN_GENERATOR] if drawn is not None else [])]


def _list_needs(first: FirstDifference, known: Sequence[str]) -> list[str]:
    """Settings to be set alike, and seeds: a script may draw the order itself, without a loader."""
    seeds = _join_seeds(known) if first.reason != "number format" else ""
    needs = [f"numbers drawn for it need a seed{seeds}"] if seeds else []
    return [*_say_alike([s for s in known if "seed" not in s]), *needs]


def _say_alike(known: Sequence[str]) -> list[str]:
    return [f"set in both runs alike: {'; '.join(known[:_MOST_NAMED])}"] if known else []


def _join_seeds(known: Sequence[str]) -> str:
    seeds = [how for how in known if "seed" in how]
    return f": {', '.join(seeds)}" if seeds else ""


def say_command(which: str, command: str) -> str:
    """What a trace says that its run was started with."""
    return f"the {which} trace names this command: {command}"


def say_captured(which: str, *, same_as_recorded: bool, otherwise: Sequence[str] = ()) -> str:
    """How the operation came out when a run was repeated up to it."""
    if same_as_recorded:
        return f"captured: run again, the {which} run had the recorded bits"
    if otherwise:
        return (
            f"captured: run again, the {which} run had other bits than recorded, and other settings:"
            f" {'; '.join(otherwise[:_MOST_NAMED])}. Set what the script was given then, such as its own variables, and"
            " capture again"
        )
    return f"captured: run again, the {which} run had other bits than recorded: other runs or machines change them"
