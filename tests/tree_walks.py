"""Summation trees walked by hand: which terms they hold, and which are in a sum when two of them have met."""

from samebits.sums.recipes.tree import Fused


def terms_of(item):
    if isinstance(item, Fused):
        return set(item.terms)
    return {item} if isinstance(item, int) else set().union(*(terms_of(p) for p in item.items))


def under_junction(item, a, b):
    """The terms in the running sum right after a and b are both in it."""
    if isinstance(item, Fused):
        return set(item.terms)
    held = set()
    for part in item.items:
        inside = terms_of(part)
        if {a, b} <= inside and not (isinstance(part, Fused) and held):
            return under_junction(part, a, b)
        held |= inside
        if {a, b} <= held:
            return held
    raise AssertionError("the tree lacks a term")
