"""The one sentence of an explanation that a person can repeat."""

from __future__ import annotations

from samebits.findings import Side, Verdict


def summarize_explained(verdict: Verdict, sides: list[Side]) -> str:
    """Who is guilty of what, who is right; or why nothing can be told."""
    if verdict == "identical":
        several = "The same bits on every side" if len(sides) > 1 else f"{sides[0].name} is right"
        right = all(s.verdict == "identical" for s in sides)
        return f"{several}: {'the correctly rounded result' if right else _within(sides)}."
    said: list[str] = []
    for side in sides:
        if side.verdict in ("downgrade", "wrong"):
            does = side.says or f"computes another function, {side.where}"
            said.append(f"{side.name} {does}{_why(side) if side.says else ''}.")
        elif side.verdict == "undecided":
            said.append(f"{side.name} is beyond its error bound, {side.where}, and no suspect explains it.")
    right = [s.name for s in sides if s.verdict in ("identical", "rounding")]
    if said:
        return " ".join(
            [*said, *([f"{' and '.join(right)} {'is' if len(right) == 1 else 'are'} right."] if right else [])]
        )
    exact = [s.name for s in sides if s.verdict == "identical"]
    closing = f"; {' and '.join(exact)} {'is' if len(exact) == 1 else 'are'} correctly rounded" if exact else ""
    start = "They add the same products in different orders" if len(sides) > 1 else f"{sides[0].name} is right"
    return f"{start}: {_within(sides)}{closing}."


def _within(sides: list[Side]) -> str:
    share = max((s.error.max_over_bound or 0.0) for s in sides if s.error)
    return f"every output is within its error bound (the largest error is {share:.2g} of it)"


def _why(side: Side) -> str:
    if side.verdict == "downgrade":
        return ", which loses precision or range but computes the declared function"
    return f", which is another function; outputs beyond their bound: {side.where}" if side.where else ""
