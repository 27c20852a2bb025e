"""The one sentence of a comparison that a person can repeat."""

from __future__ import annotations

import math

from samebits.findings import Side, Verdict
from samebits.recipes import parse_recipe
from samebits.recipes.order import list_carried_formats


def summarize(verdict: Verdict, sides: list[Side]) -> str:
    """The answer: who is wrong and where; else what is open; else how close to the truth all are."""
    ran = [s for s in sides if s.failure is None or s.verdict == "wrong"]
    if not ran:
        return (
            f"No side returned a result: {sides[0].failure.says if sides and sides[0].failure else 'none was asked'}."
        )
    wrong = [s for s in ran if s.verdict == "wrong"]
    if wrong:
        return " ".join(_summarize_wrong(s) for s in wrong)
    unclear = [s for s in ran if s.verdict == "undecided"]
    if unclear:
        return " ".join(_summarize_unclear(s) for s in unclear)
    return _summarize_agreement(verdict, ran)


def _summarize_agreement(verdict: Verdict, ran: list[Side]) -> str:
    lost = [s for s in ran if s.verdict == "downgrade"]
    if lost:
        return " ".join(_summarize_downgrade(s) for s in lost)
    worst = max(s.error.max_ulp or 0.0 for s in ran if s.error)
    right = [s.name for s in ran if s.verdict == "identical"]
    if len(right) == len(ran):
        return f"{_all_of(right)} correctly rounded: the same bits as the truth."
    if verdict == "identical":
        return f"The same bits from every side; within {worst:,.0f} ulp of the truth."
    causes = {s.cause for s in ran if s.verdict == "rounding"}
    orders = len(ran) > 1 and causes == {"summation-order"}
    how = "in different orders or with different roundings" if orders else "with different roundings"
    said = f"They add the same products {how}. None is wrong; all are"
    said = f"{said} within {worst:,.0f} ulp of the truth." if len(ran) > 1 else f"Within {worst:,.0f} ulp of the truth."
    return f"{said} {_all_of(right)} correctly rounded." if right else said


def _summarize_downgrade(side: Side) -> str:
    recipe = parse_recipe(side.recipe) if side.recipe else None
    how = "computes in less precision than declared"
    if recipe and side.cause == "reduced-precision-operands":
        rounded = [f"{n} to {r.format}" for n, r in (("x", recipe.x), ("w", recipe.w)) if r]
        how = f"rounds {' and '.join(rounded)} before it multiplies"
    elif recipe and side.cause == "low-precision-accumulator":
        how = f"keeps its sums in {recipe.accumulator.format}"
        carried = sorted({name for order in recipe.orders for name in list_carried_formats(order)})
        how = f"carries its sums in {' and '.join(carried)}" if carried else how
    elif side.cause in ("winograd", "fft"):
        how = f"transforms its operands ({side.cause}) and loses precision by it"
    replay = side.replay
    proof = (
        f"; replaying that gives {round(replay.matched * replay.elements):,} of {replay.elements:,} of its bits"
        if replay
        else ""
    )
    return f"{side.name} computes the same function but {how}{proof}."


def _summarize_wrong(side: Side) -> str:
    exact = side.exact_data
    if exact and exact.differing:
        return (
            f"{side.name} computes another function: {exact.differing:,} of {exact.elements:,} outputs differ on"
            f" integers that leave no room for rounding, {exact.where}."
        )
    return (
        f"{side.name} computes another function: it is farther from the truth than even bfloat16 arithmetic could be,"
        f" {side.where}."
    )


def _summarize_unclear(side: Side) -> str:
    if side.exact_data and side.exact_data.differing:
        return f"{side.name} rounds even on exact integers: it does not add the products one by one."
    share = side.error.max_over_bound if side.error else None
    if share is None or not math.isfinite(share):
        return f"{side.name} and the truth are not finite in the same places: they differ {side.where}."
    beyond = f"up to {share:.3g} times its error bound from the truth, {side.where}"
    if side.exact_data:
        note = next((f" {e.says}." for e in side.evidence if e.kind == "setting"), "")
        return (
            f"{side.name} is right on exact integers but {beyond}: it computes in less precision than declared, or by"
            f" another algorithm.{note}"
        )
    return (
        f"{side.name} is {beyond}. Whether that is less precision or another function cannot be told from one recorded"
        " result: put the engine itself to it, which is then tried on exact integers."
    )


def _all_of(names: list[str]) -> str:
    if len(names) == 1:
        return f"{names[0]} is"
    return f"{', '.join(names[:-1])} and {names[-1]} are"
