"""A row of the table: one engine, or one recorded result, at one subject; and what each column means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from samebits.findings import Comparison, Side
from samebits.findings.model_schema import ModelComparison, UnitSide
from samebits.questions.profile.profile_schema import Profile

UNREADABLE = "unreadable"
_DIGEST_LETTERS = 16
# A profile's failure begins with one of these; what stopped the asking itself is an error.
_FAILURE_KINDS = ("unsupported", "crash", "timeout", "out-of-memory")


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One row. What does not apply is null."""

    subject: str
    unit: str | None = None
    problem: str | None = None
    side: str | None = None
    version: str | None = None
    device: str | None = None
    verdict: str | None = None
    cause: str | None = None
    certainty: str | None = None
    recipe: str | None = None
    replayed: float | None = None
    max_abs: float | None = None
    max_ulp: float | None = None
    rel_l2: float | None = None
    max_over_bound: float | None = None
    exact_differing: int | None = None
    calls: int | None = None
    where: str | None = None
    bits: str | None = None
    failure: str | None = None
    says: str | None = None
    known: str | None = None


# What each column holds, as it stands in the file and in the documentation.
COLUMNS = {
    "subject": "the name of what was asked about: the catalog's, a line of a list, a file in a folder",
    "unit": "of a network the unit; null for a network as a whole, and for problems",
    "problem": "the problem's text",
    "side": "the engine's text, or the name of a recorded result; null where the subject could not be read",
    "version": "the engine's version",
    "device": "where the engine ran",
    "verdict": "identical, rounding, downgrade, wrong or undecided; null where there is no result",
    "cause": "a code of the table of causes",
    "certainty": "the evidence level of the verdict: bits, bounds, statistics or open",
    "recipe": "how it is computed, where that was looked for",
    "replayed": "the share of outputs that the recipe gives bit for bit",
    "max_abs": "the largest distance from the correctly rounded result",
    "max_ulp": "the same in representable numbers",
    "rel_l2": "the distance's norm over that of the correctly rounded result",
    "max_over_bound": "the largest distance as a share of its error bound",
    "exact_differing": "outputs that differ on exact integers",
    "calls": "what a recipe took: how often the engine was asked",
    "where": "where a result is beyond its bound, in words",
    "bits": "a name of the result's bits: equal where all bits are",
    "failure": "unsupported, crash, timeout, out-of-memory or error; unreadable for a subject that is none",
    "says": "what the engine, or whoever read the subject, said of the failure; what is open in a recipe",
    "known": "the link of the known deviation that this row is",
}


def list_comparison_rows(subject: str, found: Comparison) -> Iterator[Row]:
    """One row per side."""
    for side in found.sides:
        yield _make_side_row(subject, found.problem, side)


def _make_side_row(subject: str, problem: str, side: Side) -> Row:
    error, failed = side.error, side.failure is not None
    return Row(
        subject=subject,
        problem=problem,
        side=side.name,
        version=side.version,
        device=side.device,
        verdict=None if failed and side.verdict == "undecided" else side.verdict,
        cause=side.cause,
        certainty=side.certainty,
        recipe=side.recipe,
        replayed=side.replay.matched if side.replay else None,
        max_abs=_finite(error.max_abs) if error else None,
        max_ulp=_finite(error.max_ulp) if error else None,
        rel_l2=_finite(error.rel_l2) if error else None,
        max_over_bound=_finite(error.max_over_bound) if error else None,
        exact_differing=side.exact_data.differing if side.exact_data else None,
        where=side.where,
        bits=side.bits[:_DIGEST_LETTERS] if side.bits else None,
        failure=side.failure.kind if side.failure else None,
        says=side.failure.says if side.failure else None,
    )


def list_model_rows(subject: str, found: ModelComparison) -> Iterator[Row]:
    """One row per engine for the whole network, then one per unit and engine."""
    versions = {side.name: (side.version, side.device) for side in found.sides}
    for side in found.sides:
        yield Row(
            subject=subject,
            side=side.name,
            version=side.version,
            device=side.device,
            verdict=None if side.failure and side.verdict == "undecided" else side.verdict,
            cause=side.cause,
            where=side.first,
            failure=side.failure.kind if side.failure else None,
            says=side.failure.says if side.failure else None,
        )
    for unit in found.units:
        for side in unit.sides:
            version, device = versions.get(side.name, (None, None))
            yield _make_unit_row(subject, unit.name, unit.problem, side, version, device)


def _make_unit_row(
    subject: str, unit: str, problem: str | None, side: UnitSide, version: str | None, device: str | None
) -> Row:
    return Row(
        subject=subject,
        unit=unit,
        problem=problem,
        side=side.name,
        version=version,
        device=device,
        verdict=side.verdict,
        cause=side.cause,
        certainty=side.certainty,
        recipe=side.recipe,
        replayed=side.replay.matched if side.replay else None,
        max_abs=_finite(side.own.max_abs) if side.own else None,
        max_ulp=_finite(side.own.max_ulp) if side.own else None,
        max_over_bound=_finite(side.own.max_over_bound) if side.own else None,
    )


def make_profile_row(subject: str, found: Profile) -> Row:
    """The row of one engine's profile."""
    kind = next((kind for kind in _FAILURE_KINDS if found.failure and found.failure.startswith(f"{kind}: ")), "error")
    is_whole = found.replay is not None and found.replay.matched == 1.0
    return Row(
        subject=subject,
        problem=found.problem,
        side=found.engine,
        version=found.version,
        device=found.device,
        recipe=found.recipe,
        replayed=found.replay.matched if found.replay else None,
        calls=found.calls,
        failure=kind if found.failure else None,
        says=found.failure or (None if is_whole else _say_open(found)),
    )


def _say_open(found: Profile) -> str | None:
    """What stayed undetermined."""
    return "; ".join(dict.fromkeys(e.says for e in found.evidence if e.kind == "open")) or None


def _finite(value: float | None) -> float | None:
    """A value that JSON can hold; null for NaN and infinities."""
    return value if value is not None and math.isfinite(value) else None


def summarize_list(subjects: int, rows: int, deviating: int, known: int, unreadable: int = 0) -> str:
    """The answer in one sentence; what could not be read is among what deviates, and said by itself."""
    said = f"{subjects:,} subjects, {rows:,} rows: "
    if not deviating:
        return said + (f"nothing deviates but what is known ({known:,})" if known else "nothing deviates")
    parts = [f"{deviating - unreadable:,} deviate"] if deviating > unreadable else []
    parts += [f"{unreadable:,} could not be read"] if unreadable else []
    return said + " and ".join(parts) + (f", not counting {known:,} that are known" if known else "")


def say_damaged_lines(journal: str, lines: Sequence[int]) -> str:
    """What becomes of the lines of a journal that are not as they were written."""
    numbers = ", ".join(map(str, lines[:10])) + (", ..." if len(lines) > 10 else "")
    if len(lines) == 1:
        return f"line {numbers} of {journal} is damaged; its subject is asked again"
    return f"lines {numbers} of {journal} are damaged; their subjects are asked again"


def summarize_changes(counts: Mapping[str, int], added: int, lost: int, rows: int) -> str:
    """The answer in one sentence."""
    parts = [f"{count:,} in {name}" for name, count in counts.items() if count]
    if added:
        parts.append(f"{added:,} rows are new")
    if lost:
        parts.append(f"{lost:,} are gone")
    return f"nothing changed in {rows:,} rows" if not parts else f"of {rows:,} rows: {', '.join(parts)}"
