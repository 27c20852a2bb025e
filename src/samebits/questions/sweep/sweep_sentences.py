"""What a sweep found, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.questions.sweep.sweep_schema import SizeOrSetting, SweepClass
from samebits.questions.sweep.sweep_text import PROCESSOR

_WORDS = {
    "rows": "the number of rows",
    "n": "the size of the batch",
    "columns": "the number of columns",
    "c_out": "the number of output channels",
    "d": "the depth of the input",
    "h": "the height of the input",
    "w": "the width of the input",
    "c_in": "the number of channels of zeros behind its own",
    "c_per_group": "the number of channels of zeros behind its own",
    "k": "the number of zeros behind its terms",
}
_ATTENTION_WORDS = {
    "items": "the size of the batch",
    "heads": "the number of heads",
    "queries": "the number of queries",
    "keys": "the number of keys that are hidden from it",
}
_LENGTH = "the length of the input"
_PLACES = {PROCESSOR: "the processor", "version": "the release", "python": "the Python"}
_MOST_RUNS, _MOST_WORDS = 4, 12


def say_axis(name: str, kind: str, *, of_engine: bool) -> str:
    """What changes along a range."""
    if of_engine:
        return _PLACES.get(name, f"the setting {name}")
    if name == "w" and kind.partition(".")[0] in ("conv1d", "conv_transpose1d"):
        return _LENGTH
    words = _ATTENTION_WORDS if kind == "attention" else _WORDS
    return words.get(name, f"the size {name}")


def say_cell(cell: dict[str, list[SizeOrSetting]]) -> str:
    """The points of a cell: `4 to 256`, or with names where there are several axes."""
    if len(cell) == 1:
        return _say_run(next(iter(cell.values())))
    return ", ".join(f"{name} {_say_run(run)}" for name, run in cell.items())


def say_cells(cells: Sequence[dict[str, list[SizeOrSetting]]]) -> str:
    """The points of a class."""
    # Names make a list; sizes, which may be runs, are separated by semicolons.
    are_words = all(len(cell) == 1 and isinstance(next(iter(cell.values()))[0], str) for cell in cells)
    most = _MOST_WORDS if are_words else _MOST_RUNS
    shown = (", " if are_words else "; ").join(map(say_cell, cells[:most]))
    return shown + (f" and {len(cells) - most:,} more" if len(cells) > most else "")


def _say_run(run: Sequence[SizeOrSetting]) -> str:
    first, last = run[0], run[-1]
    return f"{first}" if first == last else f"{first} to {last}"


def summarize_sweep(
    axes: Sequence[str], classes: Sequence[SweepClass], failed: int, *, uneven: bool, repeats: bool | None
) -> str:
    """The answer in one sentence or two."""
    along = " and ".join(axes)
    if not classes:
        return "the engine gave no result at any of these points"
    if repeats is False:
        return "the same operands give other bits when they are asked again: the classes are those of one run"
    lost = f"; {failed:,} point{'s' if failed > 1 else ''} gave no result" if failed else ""
    if len(classes) == 1 and not uneven:
        return f"the bits of an output do not depend on {along}{lost}"
    if len(classes) == 1:
        return f"the first item's bits do not depend on {along}, but {say_places()}{lost}"
    named = " | ".join(say_cells(c.cells) for c in classes[:_MOST_RUNS])
    rest = f" | and {len(classes) - _MOST_RUNS:,} more" if len(classes) > _MOST_RUNS else ""
    also = f"; {say_places()}" if uneven else ""
    return f"the bits of an output depend on {along}: {len(classes):,} classes, {named}{rest}{also}{lost}"


def say_places() -> str:
    """That items are not computed alike: equal ones differ, or one differs from itself in a larger batch."""
    return "other items get other bits by where they stand in the batch"


def say_later(shared: int, cells: Sequence[dict[str, list[SizeOrSetting]]]) -> str:
    """The answer where only items that not all batches have get other bits."""
    which = "the first item's bits do" if shared == 1 else f"the bits of the first {shared:,} items do"
    return f"{which} not depend on the size of the batch, those of later items do: {say_cells(cells)}"


def say_advice(name: str, classes: Sequence[SweepClass], last: SizeOrSetting) -> str | None:
    """What to pad a batch to: where a run of sizes goes to the end of the range, to its begin; else to the end."""
    if len(classes) < 2 or name not in ("rows", "n"):
        return None
    runs = [run for c in classes for run in c.sizes]
    ending = next((run for run in runs if run[-1] == last), None)
    if ending is None:
        return None
    if ending[0] != ending[-1] and ending[-1] - ending[0] >= max(run[-1] - run[0] for run in runs):
        return f"from {ending[0]:,} on the bits stay, as far as {ending[-1]:,}: pad to at least {ending[0]:,}"
    items = "rows" if name == "rows" else "items"
    return f"pad every call to {ending[-1]:,} {items}: calls of one size are computed one way, whatever they hold"


def say_draws(draws: int, outputs: int) -> str:
    """On how much equal bits were seen where the points share few outputs."""
    return f"{draws} sets of operands were compared, {outputs:,} outputs at each point"


def say_tried(count: int, *, any_helps: bool) -> str:
    """How much was tried for the same bits at every point."""
    rest = "" if any_helps else ": none gives the same bits at all points"
    return f"{count} other settings and engines tried on these points{rest}"


def say_boundaries(confirmed: int, changed: int) -> str:
    """How boundaries were confirmed."""
    if changed:
        return f"{changed:,} of {confirmed + changed:,} boundaries were not there with other operands: chance, or rare"
    if confirmed == 1:
        return "the boundary was there again with other operands"
    return f"all {confirmed:,} boundaries were there again with other operands"
