"""What a log says of a mismatch, in sentences; and what it cannot mean."""

from __future__ import annotations

import math
from collections.abc import Sequence

from samebits.problems import Problem
from samebits.questions.explain.logs import PROBLEM_LINE, Metrics, Mismatch
from samebits.questions.explain.logs.tensorrt import KNOWN, WEIGHTS

_MOST_LINES = 8
# A ratio below this, or above its inverse, is said in powers of ten.
_FAR = 1e-3
BEYOND = " by more than the tolerance"
# Beyond so much of every sum one speaks of times, not per cent.
_MANY = 10


def say_metrics(metrics: Metrics) -> str:
    """The statistics that a log prints."""
    parts: list[str] = []
    # Where none is given, everything that differs counts.
    beyond = "" if metrics.atol == metrics.rtol == 0 or metrics.atol is metrics.rtol is None else BEYOND
    if metrics.mismatched is not None and metrics.elements is not None:
        many = "element differs" if metrics.elements == 1 else "elements differ"
        parts.append(f"{metrics.mismatched:,} of {metrics.elements:,} {many}{beyond}")
    elif metrics.share is not None:
        parts.append(f"{100 * metrics.share:.3g} % of the elements differ{beyond}")
    if metrics.max_abs is not None and not math.isfinite(metrics.max_abs):
        parts.append("a side holds NaN or an infinity, so that the log gives no largest difference of the others")
    elif metrics.max_abs is not None:
        parts.append(f"the largest difference is {_say_number(metrics.max_abs)}")
    if metrics.max_rel == math.inf and (metrics.max_abs is None or math.isfinite(metrics.max_abs)):
        parts.append("relative infinite, as where the other value is 0")
    elif metrics.max_rel is not None and math.isfinite(metrics.max_rel):
        parts.append(f"relative {_say_number(metrics.max_rel)}, which says nothing where outputs are near zero")
    if metrics.max_ulp is not None:
        parts.append(f"the largest difference is {metrics.max_ulp:g} units in the last place")
    if metrics.rms_share is not None:
        parts.append(
            f"the root mean square of all differences is {_say_number(metrics.rms_share)} of the largest value"
        )
    return ", ".join(parts) or "the log gives no statistics"


def say_oddities(mismatch: Mismatch) -> list[str]:
    """Sentences on what is impossible in a mismatch, or does not fit the problem that it was given."""
    return [*_say_odd_counts(mismatch), *_say_odd_statistics(mismatch.metrics or Metrics())]


def say_allowed(mismatch: Mismatch) -> str:
    """What TensorRT's build allows its layers, and what it did to weights."""
    allowed = " and ".join(mismatch.computes_in)
    says = [f"may compute layers in {allowed}"] if allowed else []
    if KNOWN in mismatch.facts and not allowed:
        says.append("was built with no format below the declared ones")
    if weights := mismatch.facts.get(WEIGHTS):
        says.append(f"converted weights to {weights}")
    return " and ".join(says)


def say_repeats(lines: Sequence[int]) -> str:
    """Where else a log says the same."""
    more = f" and {len(lines) - _MOST_LINES:,} more" if len(lines) > _MOST_LINES else ""
    places = ", ".join(map(str, lines[:_MOST_LINES])) + more
    return f"the log says the same again from line{'s' if len(lines) > 1 else ''} {places} on: explained once"


def say_left_out(count: int, line: int, explained: int) -> str:
    """How much of a log was not explained."""
    many = "more mismatches of the log are" if count > 1 else "more mismatch of the log is"
    return (
        f"{count:,} {many} not explained, from line {line} on: only the first {explained} different ones are; keep the"
        " others in a file of their own"
    )


def say_ratio(ratio: float) -> str:
    """A ratio in three decimals, unless it is far from one."""
    return f"{ratio:.3f}" if _FAR < abs(ratio) < 1 / _FAR else f"{ratio:.3g}"


def say_share(share: float) -> str:
    """How much of every sum is lost or gained, in per cent, unless it is many times the sum."""
    return f"{abs(share):.0%}" if abs(share) < _MANY else f"{abs(share):.3g} times"


def say_one_signed_loss(share: float, problem: Problem) -> str:
    """What losing such a share of positive sums means for other data."""
    loses = "lose" if share > 0 else "gain"
    says = f"operands of one sign {loses} {say_share(share)} of every sum; data about zero would hide it"
    if share > 0 and problem.direction == "grad_weight":
        says += "; in training every weight gradient of such data is scaled down so, as by a smaller learning rate here"
    return says


def say_exact_values(exact: int, count: int, chance: float) -> str:
    """How many logged values are the correctly rounded ones of the rebuilt operands."""
    which = f"all {count}" if exact == count and count > 1 else f"{exact} of {count}"
    return (
        f"{which} logged values are the correctly rounded results of the operands that XLA makes, to the last digit;"
        f" other operands of this kind would come so near with a probability of {chance:.0e}"
    )


def say_replayed_values(same: int, count: int, distance: float, tried: int, next_best: float) -> str:
    """How well a hypothesis gives the logged values, and how far all others are from them."""
    return (
        f"on those operands this gives {same} of {count} logged values to the last digit and leaves"
        f" {distance:.2g} of the distance to the truth; of {tried} hypotheses tried the next one leaves {next_best:.2g}"
    )


def _say_number(value: float) -> str:
    # Adding zero makes a negative one positive.
    return "NaN" if math.isnan(value) else f"{value + 0.0:g}"


def _say_odd_counts(mismatch: Mismatch) -> list[str]:
    metrics, problem = mismatch.metrics or Metrics(), mismatch.problem
    mismatched, elements = metrics.mismatched, metrics.elements
    odd: list[str] = []
    if elements == 0:
        odd.append("the log compares no elements")
    elif mismatched is not None and elements is not None and mismatched > elements:
        odd.append(f"the log counts {mismatched:,} mismatches among {elements:,} elements, which cannot be")
    if problem is None:
        return odd
    line = mismatch.facts.get(PROBLEM_LINE)
    whose = f"the problem{f' in line {line}' if line else ''} has {math.prod(problem.out_shape):,} outputs"
    index = max((pair[0] for pair in mismatch.pairs), default=-1)
    if elements is not None and elements != math.prod(problem.out_shape):
        odd.append(f"the log compares {elements:,} elements, but {whose}: it may not be this mismatch's")
    if index >= math.prod(problem.out_shape):
        odd.append(f"the log compares an element {index:,}, but {whose}: it may not be this mismatch's")
    return odd


def _say_odd_statistics(metrics: Metrics) -> list[str]:
    named = {
        "largest difference": metrics.max_abs,
        "largest relative difference": metrics.max_rel,
        "mean difference": metrics.mean_abs,
    }
    odd = [
        f"the {name} is {value:g} in the log, but none is negative"
        for name, value in named.items()
        if value is not None and value < 0
    ]
    if metrics.max_abs is not None and metrics.mean_abs is not None and metrics.mean_abs > metrics.max_abs >= 0:
        odd.append(
            f"the mean difference {metrics.mean_abs:g} exceeds the largest, {metrics.max_abs:g}, which cannot be"
        )
    return odd
