"""What a guard saw, in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence

from samebits.questions.guard.guard_schema import Breach, Direction, GuardedResult

_WORDS: dict[Direction, str] = {
    "forward": "output",
    "grad_input": "gradient of the input",
    "grad_weight": "gradient of the weights",
}
# Detection is said for faults in this share of a result's outputs.
_FAULTY_SHARE = 0.01


def name_result(layer: str, direction: Direction) -> str:
    """A layer's result in words."""
    return f"{_WORDS[direction]} of {layer or 'the module'}"


def say_impossible(index: Sequence[int], value: float, limit: float) -> str:
    """An output that its terms cannot add up to."""
    what = "NaN, from finite numbers" if math.isnan(value) else f"{value:.4g}"
    return (
        f"the number at {list(index)} is {what}, where its terms add up to {limit:.4g} at most: bounds prove it wrong"
    )


def say_beyond_bound(beyond: int, checked: int, over_bound: float) -> str:
    """Outputs beyond their worst-case bound."""
    times = f", by up to {over_bound:.3g} times" if math.isfinite(over_bound) else ""
    return f"{beyond:,} of {checked:,} outputs are beyond their error bound{times}"


def say_beyond_likely(beyond: int, checked: int, over_likely: float | None) -> str:
    """Outputs that independent roundings do not explain, within their worst-case bound."""
    times = f" ({over_likely:.3g} times)" if over_likely is not None else ""
    return (
        f"{beyond:,} of {checked:,} outputs are farther off than independent roundings take one in 10^9 results{times}"
    )


def summarize_guard(breaches: Sequence[Breach], results: Sequence[GuardedResult], outputs: int, odd: int = 0) -> str:
    """The answer in one sentence; `breaches` are those that were looked into, if any were."""
    checked = sum(r.checks > 0 for r in results)
    if breaches:
        broken, first = sum(r.breaches > 0 for r in results), breaches[0]
        return (
            f"{broken:,} of {checked:,} results of layers are not what they should be, such as the"
            f" {name_result(first.layer, first.direction)} at call {first.call:,}: {first.says}"
        )
    if not outputs and odd:
        return f"NaN or infinities are among the terms of all {odd:,} outputs that were checked: nothing can be said"
    if not outputs:
        return (
            "nothing was checked: no convolution or Linear of the module was heard while the guard stood (one that was"
            " compiled before does not call it)"
        )
    said = f"{outputs:,} outputs of {checked:,} results of layers were compared with the truth: each is within its"
    also = f"; of {odd:,} more nothing can be said, as NaN or infinities are among their terms" if odd else ""
    return f"{said} error bound{also}"


def say_odd(odd: int, first: str) -> str:
    """Outputs of which nothing can be said, and where they came up first."""
    return f"{odd:,} outputs that were checked have NaN or infinities among their terms, first {first}"


def say_dismissed(count: int) -> str:
    """Checks beyond a bound in which nothing was found that does not round soundly."""
    return (
        f"{count:,} checks went beyond what independent roundings, or sums of products, reach, but not beyond what"
        " sound kernels do: no fault was found in them"
    )


def say_unlisted(count: int) -> str:
    """Breaches that are counted only."""
    return f"{count:,} more breaches are counted and not listed"


def say_detection(results: Sequence[GuardedResult]) -> str | None:
    """How likely a fault in a hundredth of the outputs of the result that was looked at least would have been seen."""
    draws = [r.draws for r in results if r.checks]
    if not draws:
        return None
    missed = (1 - _FAULTY_SHARE) ** min(draws)
    return (
        f"a fault in {_FAULTY_SHARE:.0%} of the outputs of any of the {len(draws):,} results, there all the time, would"
        f" have been seen with a probability of at least {1 - missed:.3g}"
    )
