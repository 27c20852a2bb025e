"""The one sentence of a comparison that a person can repeat."""

from __future__ import annotations

import math

import msgspec

from samebits.display.visible_text import say_of_bound
from samebits.findings import Side, Verdict
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import shorten_names
from samebits.judging.judging_sentences import say_beyond_likely

# Beyond this a count of representable numbers says that the sum is small, not that the error is large.
MANY_ULPS = 1000


def summarize_comparison(verdict: Verdict, sides: list[Side]) -> str:
    """The answer: who is wrong and where; else what is open; else how close to the truth all are."""
    short = shorten_names(sides)
    sides = [msgspec.structs.replace(s, name=short[s.name]) for s in sides]
    ran = [s for s in sides if s.failure is None or s.verdict == "wrong"]
    if not ran:
        return (
            f"No side returned a result: {sides[0].failure.says if sides and sides[0].failure else 'none was asked'}."
        )
    wrong = [s for s in ran if s.verdict == "wrong"]
    if wrong:
        said = (_say_by_chance(s) or _summarize_wrong(s) + _say_unrepeated([s]) for s in wrong)
        return " ".join(said)
    unclear = [s for s in ran if s.verdict == "undecided"]
    if unclear:
        return " ".join(_say_by_chance(s) or _summarize_unclear(s) + _say_unrepeated([s]) for s in unclear)
    broken = [s.name for s in sides if s.failure and s.failure.kind != "unsupported"]
    said = _summarize_agreement(verdict, ran)
    return f"{' and '.join(broken)} returned no result. Of the others: {said}" if broken else said


def _say_unrepeated(sides: list[Side]) -> str:
    """A sentence of its own for each side whose results differ from call to call, behind another."""
    said = ""
    for side in sides:
        if side.varying is not None:
            other, calls = side.varying.other, side.varying.calls
            said += f" {side.name} gives other bits in {other:,} of {calls:,} calls on the same operands"
            said += f", {side.varying.where}" if side.varying.where else ""
            said += f"; {side.varying.faulty:,} calls are at fault." if side.varying.faulty else "."
    return said


def _say_by_chance(side: Side) -> str:
    """The answer where some calls on the same operands are at fault, and others are not; else nothing."""
    varying = side.varying
    if varying is None or not 0 < varying.faulty < varying.calls:
        return ""
    often = f"{varying.faulty:,} of {varying.calls:,} calls on the same operands"
    which = f"{varying.outputs:,} of {varying.elements:,} outputs vary, {varying.where}"
    if side.verdict == "wrong":
        return f"{side.name} is wrong in {often}, and right in the others: {which}."
    return f"{side.name} is beyond its error bound in {often}, and within it in the others: {which}."


def _summarize_agreement(verdict: Verdict, ran: list[Side]) -> str:
    lost = [s for s in ran if s.verdict == "downgrade"]
    if lost:
        return " ".join(_summarize_downgrade(s) for s in lost) + _say_unrepeated(ran)
    right = [s.name for s in ran if s.verdict == "identical"]
    if len(right) == len(ran):
        return f"{_all_of(right)} correctly rounded: the same bits as the truth."
    if verdict == "identical":
        return f"The same bits from every side; {_say_largest(ran)}."
    # That the declared products were added is shown where every side that rounds was replayed.
    shown = len(ran) > 1 and {s.cause for s in ran if s.verdict == "rounding"} == {CauseCode.SUMMATION_ORDER}
    said = "They add the same products in different orders or with different roundings. " if shown else ""
    said += _say_transforms(ran)
    said = f"{_say_unrepeated(ran)[1:]} {said}".lstrip()
    said += f"{'None' if len(ran) > 1 else 'Nothing'} is wrong: {_say_largest(ran)}."
    return f"{said} {_all_of(right)} correctly rounded." if right else said


def _say_transforms(ran: list[Side]) -> str:
    """A sentence for each side that computes otherwise than by the declared products."""
    transforms = [s for s in ran if s.cause in (CauseCode.WINOGRAD, CauseCode.FFT) and s.says]
    levels = ["" if s.cause_certainty == "bits" else " (inferred)" for s in transforms]
    return "".join(f"{s.name} {s.says}{level}. " for s, level in zip(transforms, levels, strict=True))


def _say_largest(sides: list[Side]) -> str:
    """The largest share of a bound that any side uses; in ulp too, unless cancellation makes them many."""
    shares = [s.error.max_over_bound for s in sides if s.error]
    share = max((x for x in shares if x is not None), default=0.0)
    if None in shares or not share <= 1.0:
        return "partial sums may leave the range of the declared formats, so that no finite error bound holds"
    ulps = max((s.error.max_ulp or 0.0) for s in sides if s.error)
    counted = f", {ulps:,.0f} ulp" if ulps < MANY_ULPS else ""
    largest = f"{share:.2g} of it{counted}{say_beyond_likely(sides)}"
    return f"every output is within its error bound (the largest error is {largest})"


def _summarize_downgrade(side: Side) -> str:
    does = side.says or "computes in less precision than declared"
    replay = side.replay
    proof = f"; replaying that gives {replay.count:,} of {replay.elements:,} of its bits" if replay else ""
    return f"{side.name} {does}{proof}."


def _summarize_wrong(side: Side) -> str:
    exact = side.exact_data
    does, inferred = side.says or "computes another function", ""
    if side.says and side.cause_certainty != "bits":
        does, inferred = "computes another function", f" Inferred: it {side.says}."
    if exact and exact.differing:
        return (
            f"{side.name} {does}: {exact.differing:,} of {exact.elements:,} outputs differ on"
            f" integers that leave no room for rounding, {exact.where}.{inferred}"
        )
    if side.says and side.certainty != "bounds":
        share = side.error.max_over_bound if side.error else None
        far = f"is up to {say_of_bound(share)} from the truth"
        if share is None or not math.isfinite(share):
            far = "is not finite where the truth is, or the reverse"
        proof = "replayed bit for bit" if side.cause_certainty == "bits" else "inferred"
        return f"{side.name} {far}, {side.where}: it {side.says} ({proof})."
    far = "farther from the truth than even bfloat16 arithmetic could be"
    if side.error and math.isinf(side.error.max_abs or 0.0):
        far = "not finite where the truth is"
    return f"{side.name} {does}: it is {far}, {side.where}.{inferred}"


def _summarize_inexact(side: Side) -> str:
    share = side.error.max_over_bound if side.error else None
    if share is None or not 1.0 < share < math.inf:
        return f"{side.name} rounds even on exact integers: it does not add the products one by one."
    return (
        f"{side.name} is up to {say_of_bound(share)} from the truth, {side.where}; it also differs on exact integers,"
        " where a sum of products does not round."
    )


def _summarize_unclear(side: Side) -> str:
    if side.exact_data and side.exact_data.differing:
        return _summarize_inexact(side)
    share = side.error.max_over_bound if side.error else None
    if share is not None and math.isinf(share) and side.error and math.isfinite(side.error.max_abs or 0.0):
        return f"{side.name} differs from the truth where no finite error bound exists, {side.where}."
    if share is None or not math.isfinite(share):
        return f"{side.name} and the truth are not finite in the same places: they differ {side.where}."
    beyond = f"up to {share:.3g} times its error bound from the truth, {side.where}"
    if side.exact_data:
        note = next((f" {e.says}." for e in side.evidence if e.kind == "setting"), "")
        return (
            f"{side.name} is right on exact integers but {beyond}: it computes in less precision than declared, or by"
            f" another algorithm.{note}"
        )
    if side.engine is not None:
        return f"{side.name} is {beyond}. Whether that is less precision or another function is open."
    return (
        f"{side.name} is {beyond}. One recorded result does not show whether that is less precision or another"
        " function: run the engine itself (--on ENGINE), which is then tried on exact integers."
    )


def _all_of(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"
