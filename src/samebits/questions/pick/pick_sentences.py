"""Sentences about choices: why a candidate is rejected, and what was chosen."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.findings import Side
from samebits.questions.pick.pick_schema import Choice, Contract, Timed

_VERDICTS = {
    "wrong": "computes another function",
    "downgrade": "is less precise than declared",
    "undecided": "is beyond its error bound",
}


def say_verdict(side: Side) -> str:
    """Why a result may not be picked."""
    said = side.says or _VERDICTS.get(side.verdict, side.verdict)
    exact = side.exact_data
    if exact is not None and exact.differing:
        said += f"; {exact.differing:,} of {exact.elements:,} outputs of exact integers differ"
    elif side.error is not None and side.error.max_over_bound is not None and side.error.max_over_bound > 1:
        said += f"; {side.error.max_over_bound:.3g} times its error bound"
    return said


def say_loses(says: str) -> str:
    """A recipe inside its bounds that loses precision all the same."""
    return f"{says}, replayed bit for bit"


def say_passed_over(why: str) -> str:
    """An entry of a lock that is not used."""
    return f"{why}. It stays in the file; what is picked in its place is not kept there (--again replaces it)"


def say_too_far(ulp: float, limit: float) -> str:
    """Farther from the truth than was asked for."""
    return f"{ulp:.3g} ulp from the correctly rounded result, {limit:g} asked for"


def say_many_results(results: int) -> str:
    """Bits that change from run to run."""
    return f"{results} different results of the same operands, run again and again"


def say_other_bits() -> str:
    """Bits that change after a while, or from process to process."""
    return "other bits of the same operands in later runs, or in a second process"


def say_memory_unknown() -> str:
    """Nobody knows what memory it takes."""
    return "what memory it takes cannot be seen here"


def say_too_large(taken: int, limit: int) -> str:
    """More memory than was asked for."""
    return f"memory grew by {say_bytes(taken)} in its first run, {say_bytes(limit)} asked for"


def say_batch_dependent(*, of_size: bool) -> str:
    """Other bits in another batch."""
    return "an item's bits depend on the size of its batch" if of_size else "equal items of a batch get other bits"


def say_bytes(count: int) -> str:
    """A size of memory as people write it."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


def say_time(seconds: float) -> str:
    """A time as people write it."""
    return (
        f"{seconds:.3g} s"
        if seconds >= 1
        else f"{seconds * 1e3:.3g} ms"
        if seconds >= 1e-3
        else f"{seconds * 1e6:.3g} us"
    )


def say_contract(contract: Contract) -> str:
    """What was asked for, in one line."""
    parts = ["within its error bound" if contract.within == "bound" else "no gross fault"]
    if contract.max_ulp is not None:
        parts.append(f"at most {contract.max_ulp:g} ulp")
    if contract.deterministic:
        parts.append("the same bits in every run")
    if contract.batch_invariant:
        parts.append("the same bits in every batch")
    if contract.workspace is not None:
        parts.append(f"at most {say_bytes(contract.workspace)} of memory")
    return ", ".join(parts)


def say_choice(choice: Choice) -> str:
    """What was chosen for one problem."""
    if choice.engine is None:
        return f"no candidate of {len(choice.rejected)} keeps the contract"
    took = f" {say_time(choice.time_s)}" if choice.time_s is not None else ""
    how = {"timing": "", "lock": ", from the lock", "checked lock": ", from the lock; its bits are the same here"}
    return f"{choice.engine}{took}{how[choice.picked_by]}"


def summarize_pick(choices: Sequence[Choice]) -> str:
    """One sentence on all choices."""
    without = [c for c in choices if c.engine is None]
    if without:
        of = f" ({len(choices) - len(without)} of {len(choices)} problems have one)" if len(choices) > 1 else ""
        return f"No candidate keeps the contract for {without[0].problem}{of}."
    if len(choices) == 1:
        return _summarize_one(choices[0])
    engines = {c.engine for c in choices}
    from_lock = sum(1 for c in choices if c.picked_by != "timing")
    said = f"{len(choices)} problems have a choice that keeps the contract, of {len(engines)} engine settings"
    return f"{said}; {from_lock} of them stood in the lock." if from_lock else f"{said}."


def _summarize_one(choice: Choice) -> str:
    if choice.picked_by == "lock":
        return f"{choice.engine}, as the lock says; nothing was timed."
    if choice.picked_by == "checked lock":
        return f"{choice.engine}, as the lock says: it was made elsewhere, and the bits are the same here."
    kept = len(choice.slower) + 1
    return f"{choice.engine} is the fastest of {kept} that keep the contract; {len(choice.rejected)} do not."


def say_slower(timed: Timed) -> str:
    """How a candidate compares with the choice."""
    return "as fast" if timed.as_fast else "slower"
