"""What a seal promises, and what came of checking it, in sentences."""

from __future__ import annotations

from collections.abc import Sequence

from samebits.findings.words.number_words import say_count
from samebits.questions.seal.seal_schema import (
    CheckedOutput,
    CheckedUnit,
    RanOutput,
    RanStep,
    Seal,
    SealedModel,
    SealedStep,
    SealedUnit,
)


def summarize_seal(engine: str, units: Sequence[SealedUnit], model: SealedModel | None) -> str:
    """How much was sealed, and how."""
    whole = sum(unit.is_whole for unit in units)
    said = f"{engine}: {say_count(len(units), 'problem')} sealed, {whole:,} by recipe, for every input"
    if whole < len(units):
        said += f", and {len(units) - whole:,} by bits on seeded operands only"
    if model is not None and model.outputs:
        said += f"; {say_count(len(model.outputs), 'output')} of {model.name} by bits on seeded inputs"
    if model is not None and model.steps:
        exact = sum(step.is_exact for step in model.steps)
        said += f"; {exact:,} of {say_count(len(model.steps), 'unit')} can be executed bit for bit without the engine"
    return f"{said}."


def say_same_for_all() -> str:
    """The promise of equal recipes."""
    same = "the recipe found here is the sealed one, and reproduces every output compared"
    return f"the same bits for every input: {same}"


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
    odd, lost = ([o.name for o in outputs if o.outcome == outcome] for outcome in ("different", "failed"))
    missed = f"did not compute {say_count(len(failed), 'sealed problem')} here: {failed[0].says}" if failed else ""
    if different:
        first = different[0].used_by[0] if different[0].used_by else different[0].problem
        more = f" and {len(different) - 1:,} more" if len(different) > 1 else ""
        of = say_count(len(units), "problem")
        return f"{engine} computes other bits here: in {first}{more}, of {of}."
    if odd:
        before = missed.rstrip(".") or "computes every problem as sealed"
        return f"{engine} {before}; the model's {', '.join(odd)[:80]} has other bits here."
    if failed:
        return f"{engine} {missed}"
    whole = sum(unit.outcome == "same" for unit in units)
    said = f"{engine} computes the same bits here: {whole:,} of {say_count(len(units), 'problem')} for every input"
    if whole < len(units):
        said += f", {len(units) - whole:,} on what was tried"
    if outputs and all(output.outcome == "same-tried" for output in outputs):
        said += f"; the model's {say_count(len(outputs), 'output')} on seeded inputs"
    if lost:
        return f"{said}; it did not compute the model's {', '.join(lost)[:80]}."
    return f"{said}." if holds else f"{said}; the model was not given, and its outputs were not tried."


def say_step(step: SealedStep) -> str:
    """How one unit was executed."""
    parts = [step.recipe or step.rescales or "node by node"]
    if not step.is_followed:
        parts.append("products correctly rounded, as no recipe was found")
    if step.form not in ("nodes", "whole", "product", "codes"):
        parts.append(f"as {step.form}")
    if step.functions:
        parts.append(f"functions of {step.functions}")
    if step.means:
        parts.append(f"means {step.means}")
    if step.alternatives:
        parts.append(f"{say_count(step.alternatives, 'other way')} gave as many")
    if not step.replay.is_whole:
        parts.append(f"gave {step.replay.count:,} of {step.replay.elements:,} outputs where it was sealed")
    return ", ".join(parts)


def summarize_run(seal: Seal, steps: Sequence[RanStep], outputs: Sequence[RanOutput], holds: bool | None) -> str:
    """Whether what was computed has the engine's bits, and what keeps it from having them."""
    engine = f"{seal.engine} {seal.version}".strip()
    exact = [output for output in outputs if output.is_exact]
    left = [unit.problem for unit in seal.units if unit.recipe is None] if seal.model is None else []
    if left and holds is None and len(steps) + len(left) == len(seal.units):
        done = f"{len(steps):,} of {say_count(len(seal.units), 'problem')} computed as {engine} computes them"
        return f"{done}; {left[0]} has no recipe to execute."
    open_steps = [step.name for step in steps if not step.is_exact]
    if holds:
        return f"The sealed bits of {engine}: {say_count(len(outputs), 'output')} on the seal's own inputs."
    if holds is False:
        first = f": {open_steps[0]} was not reproduced where it was sealed" if open_steps else ""
        return f"Not the sealed bits of {engine} on the seal's own inputs{first}."
    if len(exact) == len(outputs):
        return f"Computed as {engine} computes it: every unit gave every bit where it was sealed."
    if not open_steps:
        where = "its units together did not give every output where it was sealed"
        return f"Close to {engine}, perhaps not its bits: {where}."
    many = "one unit" if len(open_steps) == 1 else f"{len(open_steps):,} units"
    some = f"; {len(exact):,} of {say_count(len(outputs), 'output')} has them all the same" if exact else ""
    return (
        f"Close to {engine}, not its bits: {many} did not give every bit where it was sealed ({open_steps[0]}){some}."
    )
