"""What a reduction found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.questions.reduce.reduction_schema import FaultyVersions

_FAULTS = {
    "wrong": "wrong",
    "downgrade": "less precise than its format",
    "undecided": "beyond its error bound, for a reason that a profile may tell,",
    "crash": "ended by a crash",
    "timeout": "stopped, as it gave no answer in time",
    "error": "refused with an error",
}
EVERYWHERE = "everywhere nearby"
_DATA = {"integers": "exact integers", "normal": "random operands", "given": "the case's own operands"}


def say_fault(fault: str) -> str:
    """A fault as a predicate."""
    return _FAULTS.get(fault, fault)


def say_data(data: str) -> str:
    """What operands a fault was seen on."""
    return _DATA[data]


def summarize_reduction(
    engine: str,
    fault: str,
    data: str,
    condition: str | None,
    *,
    exact: bool,
    right_neighbours: int,
    problem: str = "",
    calls: tuple[int, int] | None = None,
) -> str:
    """The answer in one sentence, with the smallest problem.

    `calls` are those at fault and all of them, where the fault comes and goes. The condition is "" where none that is
    simple fits, and None where none was looked for.
    """
    said = f"{engine} is {say_fault(fault)} on {say_data(data)}"
    if calls is not None:
        said += f" in {calls[0]} of {calls[1]} calls on the same operands (it comes and goes)"
    said += f": at {problem}" if problem else ""
    if condition is None:
        return said
    if condition == "":
        return f"{said}; no simple condition fits the problems nearby"
    if condition == EVERYWHERE:
        which = "most problems nearby that were" if right_neighbours else "every problem nearby that was"
        return f"{said}, and at {which} asked"
    return f"{said}, and {'wherever' if exact else 'only where'} {condition}"


def say_more_clauses(first: str, more: int) -> str:
    """A condition of which only the first clauses are said."""
    return f"{first}, and {more:,} more things are true of the problem"


def say_found_nearby(problem: str) -> str:
    """Where the fault was found, as it was not where it was looked for."""
    return f"nothing is wrong at the problem given; the fault was found at other sizes: {problem}"


def say_no_fault(engine: str, *, given: bool, varies: bool, calls: int, nearby: int) -> str:
    """The answer where nothing was found."""
    own = ", the case's operands" if given else ""
    said = f"{engine} is right on exact integers, and within its bounds on random operands{own}"
    said += f", in {calls:,} calls on the same ones" if calls > 1 else ""
    if nearby:
        said += f"; on exact integers at {nearby:,} problem{'s' if nearby > 1 else ''} of other sizes, too"
    return f"{said}, but does not return the same bits twice" if varies else said


def say_by_chance(calls_each: int) -> str:
    """How often every other problem was called; or why no other was asked."""
    if calls_each > 1:
        return f"every other problem was called {calls_each:,} times; one where the fault is much rarer counts as right"
    return (
        "neither smaller problems nor neighbours were asked: calling each often enough to see the fault takes too long"
    )


def say_varies() -> str:
    """What two calls on the same operands returned."""
    return "two calls on the same random operands return other bits: something adds in another order each time"


def say_neighbours(wrong: int, right: int, exceptions: int, *, by_chance: bool, doubtful: bool = False) -> str:
    """What speaks for a condition; one of many clauses, among others that fit as well, is `doubtful`."""
    asked = f"{wrong + right:,} problems nearby were asked: {wrong:,} show the fault, {right:,} do not"
    if exceptions and by_chance:
        return f"{asked}; on random operands roundings decide, too, and no simple condition fits"
    if doubtful:
        return f"{asked}; only conditions of many clauses fit, which further problems may refute"
    if not exceptions:
        return f"{asked}; the condition is true of all of the first, and of none of the second"
    return f"{asked}; the condition is true of all of the first, and of {exceptions:,} of the second as well"


def say_left_out(parts: Sequence[str]) -> str:
    """What no neighbour has, and why."""
    names = " or ".join({"bias": "a bias", "then": "an activation"}[part] for part in parts)
    return f"all were asked without {names}: with one it is not right where it is right without"


def say_failure(says: str) -> str:
    """What an engine said in place of a result."""
    return f"it says: {says}"


def say_smallest(*, is_smallest: bool, asked: int) -> str:
    """How small the problem is."""
    if is_smallest:
        return f"none of its numbers can be smaller while the others stay ({asked:,} problems asked)"
    return f"no smaller one was found among those tried ({asked:,} problems asked)"


def say_repeats(*, repeats: bool) -> str:
    """Whether the smallest problem gives the same wrong values again."""
    if repeats:
        return "asked again, it gives the same bits"
    return "asked again, it gives other values: memory that was never written may be read (inferred)"


def say_versions(versions: FaultyVersions) -> str:
    """Where in the sequence of versions the fault begins and ends."""
    parts: list[str] = []
    if versions.first:
        parts.append(f"{versions.first} is the first that has the fault, {versions.right_before} is right")
    else:
        parts.append(f"{versions.asked[0]}, the oldest, has the fault")
    if versions.right_again:
        parts.append(f"{versions.right_again} is right again" if versions.first else f"{versions.right_again} is right")
    return f"of the versions asked ({', '.join(versions.asked)}) {'; '.join(parts)}"


def say_untried(changes: Sequence[str]) -> str:
    """Settings that there was no time for."""
    return f"not tried for lack of time: {', '.join(changes)}"


def say_script(reproduced: bool | None, last: str) -> str:
    """Whether the script does what it is for."""
    if reproduced is None:
        return f"the script could not be run here: {last}"
    return f"the script was run and fails as it should: {last}" if reproduced else f"the script was run: {last}"
