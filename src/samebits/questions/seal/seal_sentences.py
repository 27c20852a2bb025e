"""What a seal promises, and what came of checking it, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.questions.seal.seal_schema import CheckedOutput, CheckedUnit, SealedModel, SealedUnit

_SAME_FOR_ALL = (
    "the same bits for every input: the recipe found here is the sealed one, and reproduces every output compared"
)


def count_things(count: int, thing: str) -> str:
    """1 problem, 2 problems."""
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def summarize_seal(engine: str, units: Sequence[SealedUnit], model: SealedModel | None) -> str:
    """How much was sealed, and how."""
    whole = sum(unit.is_whole for unit in units)
    said = f"{engine}: {count_things(len(units), 'problem')} sealed, {whole:,} by recipe, for every input"
    if whole < len(units):
        said += f", and {len(units) - whole:,} by bits on seeded operands only"
    if model is not None and model.outputs:
        said += f"; {count_things(len(model.outputs), 'output')} of {model.name} by bits on seeded inputs"
    return f"{said}."


def say_same_for_all() -> str:
    """The promise of equal recipes."""
    return _SAME_FOR_ALL


def say_tried(why: str) -> str:
    """Equal bits without equal recipes."""
    return f"the same bits on what was tried; {why}"


def say_different(there: str | None, here: str | None) -> str:
    """Other bits, with how each side adds, as far as that is known."""
    if there and here and there != here:
        return f"other bits: sealed was {there}; here it is {here}"
    if there and not here:
        return f"other bits: sealed was {there}; here no recipe was found"
    return "other bits on the same operands"


def summarize_check(
    engine: str, units: Sequence[CheckedUnit], outputs: Sequence[CheckedOutput], holds: bool | None
) -> str:
    """Whether the seal holds here, for which inputs, and what does not."""
    different = [unit for unit in units if unit.outcome == "different"]
    failed = [unit for unit in units if unit.outcome == "failed"]
    odd = [output.name for output in outputs if output.outcome == "different"]
    if different:
        first = different[0].used_by[0] if different[0].used_by else different[0].problem
        more = f" and {len(different) - 1:,} more" if len(different) > 1 else ""
        of = count_things(len(units), "problem")
        return f"{engine} computes other bits here: in {first}{more}, of {of}."
    if odd:
        return f"{engine} computes every problem as sealed, but the model's {', '.join(odd)[:80]} has other bits here."
    if failed:
        return f"{engine} did not compute {count_things(len(failed), 'sealed problem')} here: {failed[0].says}"
    whole = sum(unit.outcome == "same" for unit in units)
    said = f"{engine} computes the same bits here: {whole:,} of {count_things(len(units), 'problem')} for every input"
    if whole < len(units):
        said += f", {len(units) - whole:,} on what was tried"
    if outputs and all(output.outcome == "same-tried" for output in outputs):
        said += f"; the model's {count_things(len(outputs), 'output')} on seeded inputs"
    return f"{said}." if holds else f"{said}; the model was not given, and its outputs were not tried."
