"""The profile of an engine on a problem with integers: how it adds codes, and how it rescales the sums.

Codes that are asked: of the whole range, where sums of pairs overflow in 16 bits; small ones with scales that are
powers of two, where results lie at halves; with a quotient above a quarter, where a second rounding shows; and with
quotients a last bit or two beside an eighth, where the order of float32's roundings decides each half.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from samebits.errors import EngineFailure, ProblemTextError
from samebits.findings import Evidence, Replay
from samebits.mechanisms.quantised.integer_sums import (
    IntegerCase,
    PairOrder,
    Whole,
    list_orders_of,
    sum_exactly,
    sum_in_bits,
    sum_in_pairs,
)
from samebits.mechanisms.quantised.requantising import Way, clamp, find_steps, list_ways
from samebits.networks.integer_problems import write_integer_network
from samebits.networks.model_runners import ModelRunner
from samebits.problems.integer_problem import CODES, IntegerProblem, format_integer_problem
from samebits.progress import Progress
from samebits.questions.profile.profile_schema import Profile
from samebits.version import VERSION

_SMALL, _SETS_OF_HALVES, _SETS_BESIDE = 3, 3, 40
_ZEROS = {"uint8": 121, "int8": 3}


@dataclass(frozen=True)
class _Asked:
    """A case and what the engine returned of it."""

    case: IntegerCase
    codes: Whole


def profile_integers(runner: ModelRunner, problem: IntegerProblem, progress: Progress) -> Profile:
    """How the engine adds and rescales; raises ProblemTextError for results that are no codes."""
    if problem.out not in (*CODES, "int32") or problem.x not in CODES:
        raise ProblemTextError("out=uint8, int8 or int32 is profiled", format_integer_problem(problem))
    started = time.perf_counter()
    identity = runner.identify()
    common = {
        "problem": format_integer_problem(problem), "engine": runner.text, "version": identity.version,
        "device": identity.device, "settings": identity.settings, "samebits_version": VERSION,
    }  # fmt: skip
    asked: list[_Asked] = []
    try:
        for number, case in enumerate(_list_cases(problem)):
            progress("asking about sums and rescaling", number / (2 + _SETS_OF_HALVES + _SETS_BESIDE))
            network, inputs = write_integer_network(case)
            found = runner.run_network(network, inputs, (), ("y",), {})["y"]
            asked.append(_Asked(case, found.astype(np.int64)))
    except EngineFailure as error:
        took = time.perf_counter() - started
        failure = f"{error.kind}: {error}"
        return Profile(**common, summary=f"No result: {failure}.", calls=len(asked), time_s=took, failure=failure)
    total = sum(one.codes.size for one in asked)
    sums = next((name for name, add in _SUMS.items() if _fits(asked, add)), None)
    overflows = _overflows(asked[0].case)
    counts, ways = (0, []) if sums is None else _count_ways(asked, _SUMS[sums])
    evidence = list(_list_evidence(sums, ways, counts, total))
    if sums is not None and not overflows:
        evidence.append(Evidence("open", "no sum of this size overflows in 16 bits: narrower sums give the same codes"))
    return Profile(
        **common,
        summary=_summarize(sums, ways, counts, total),
        replay=Replay(counts / total, total) if sums is not None else None,
        accumulator=sums,
        calls=len(asked),
        time_s=time.perf_counter() - started,
        evidence=evidence,
    )


def _list_cases(problem: IntegerProblem) -> Iterator[IntegerCase]:
    rng = np.random.default_rng(0)
    wide = _draw(problem, rng, small=False)
    sums = sum_exactly(wide)
    # A few results are limited, most are not.
    yield replace(wide, x_scale=0.5, y_scale=_round(0.5 * float(wide.w_scale.max()) * np.abs(sums).max() / 150))
    if problem.out == "int32":
        return
    for _ in range(_SETS_OF_HALVES):
        small = _draw(problem, rng, small=True)
        exponents = rng.integers(-3, 0, small.w_scale.size)
        yield replace(small, x_scale=0.5, w_scale=2.0**exponents, y_scale=0.5)
    small = _draw(problem, rng, small=True)
    yield replace(small, x_scale=_round(0.3), w_scale=np.full_like(small.w_scale, _round(1.1)), y_scale=1.0)
    for _ in range(_SETS_BESIDE):
        small = _draw(problem, rng, small=True)
        x_scale, y_scale = (_round(scale) for scale in rng.uniform(0.25, 1, 2))
        beside = _round(y_scale / 8 / x_scale) * (1 + rng.integers(-1, 2, small.w_scale.size) * 2.0**-23)
        yield replace(small, x_scale=x_scale, w_scale=_round_all(beside), y_scale=y_scale)


def _draw(problem: IntegerProblem, rng: np.random.Generator, *, small: bool) -> IntegerCase:
    """Codes of the whole range, or near their zero points; scales are of one size, to be replaced."""
    channels = problem.channels if problem.scale == "channel" and problem.out in CODES else 1
    x_zero, w_zero = _ZEROS[problem.x], 0 if problem.w == "int8" else _ZEROS[problem.w]

    def draw(dtype: str, zero: int, shape: tuple[int, ...]) -> Whole:
        limits = np.iinfo(dtype)
        low, high = (zero - _SMALL, zero + _SMALL) if small else (limits.min + (limits.min < 0), limits.max)
        return rng.integers(low, high + 1, shape)

    bias = np.zeros(1, np.int64)
    if problem.plain.bias:
        bias = rng.integers(-_SMALL, _SMALL + 1, problem.channels) * (1 if small else 1000)
    return IntegerCase(
        problem,
        x=draw(problem.x, x_zero, problem.plain.x),
        w=draw(problem.w, w_zero, problem.plain.w),
        x_zero=x_zero,
        w_zero=np.full(channels, w_zero),
        bias=bias,
        x_scale=1.0,
        w_scale=np.full(channels, 0.5) if channels == 1 else _round_all(rng.uniform(0.25, 1, channels)),
        y_scale=1.0,
        y_zero=4 if problem.out == "int8" else 117 if problem.out == "uint8" else 0,
        pad=x_zero,
    )


def _round(value: float) -> float:
    """As float32 has it."""
    return float(np.float32(value))


def _round_all(values: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    return values.astype(np.float32).astype(np.float64)


def _add_pairs(order: PairOrder) -> Callable[[IntegerCase], Whole]:
    def add(case: IntegerCase) -> Whole:
        found = sum_in_pairs(case, order)
        return sum_exactly(case) if found is None else found

    return add


def _end_in_16_bits(case: IntegerCase) -> Whole:
    exact = sum_exactly(case)
    found = sum_in_bits(case, exact, 16, wraps=False)
    return exact if found is None else found


_SUMS: dict[str, Callable[[IntegerCase], Whole]] = {
    "int32": sum_exactly,
    **{f"pairs in int16 that saturate, {order}": _add_pairs(order) for order in PairOrder},
    "int16 in the end": _end_in_16_bits,
}


def _overflows(case: IntegerCase) -> bool:
    """Whether sums in fewer bits would give other codes of the first case."""
    pairs = case.problem.w == "int8" and sum_in_pairs(case, list_orders_of(case)[0]) is None
    return not pairs and sum_in_bits(case, sum_exactly(case), 16, wraps=False) is not None


def _fits(asked: list[_Asked], add: Callable[[IntegerCase], Whole]) -> bool:
    """Whether the codes of the first case, of the whole range, are at most a step from the right ones of such sums."""
    case, codes = asked[0].case, asked[0].codes
    sums = add(case)
    if case.problem.out == "int32":
        return bool((sums == codes).all())
    return bool((np.abs(find_steps(case, sums).right - codes) <= 1).all())


def _count_ways(asked: list[_Asked], add: Callable[[IntegerCase], Whole]) -> tuple[int, list[Way]]:
    """How many codes the best ways to rescale give, and which ways these are."""
    if asked[0].case.problem.out == "int32":
        return sum(int((add(one.case) == one.codes).sum()) for one in asked), []
    ways, sums = list(list_ways()), [add(one.case) for one in asked]
    counts = [
        sum(int((clamp(o.case, way.run(o.case, s)) == o.codes).sum()) for o, s in zip(asked, sums, strict=True))
        for way in ways
    ]
    most = max(counts)
    return most, [way for way, count in zip(ways, counts, strict=True) if count == most]


def _summarize(sums: str | None, ways: list[Way], count: int, total: int) -> str:
    if sums is None:
        return "No recipe: neither sums in 32 bits nor those that saturate in 16 bits make these codes."
    said = f"It adds products in {sums}"
    if ways:
        said += f" and {ways[0].says}"
    if count < total:
        return f"{said}; that gives {count:,} of {total:,} codes: of the rest it is undetermined."
    return f"{said}: that gives all {total:,} codes."


def _list_evidence(sums: str | None, ways: list[Way], count: int, total: int) -> Iterator[Evidence]:
    if sums is None:
        yield Evidence("open", "how it adds was not found")
        return
    yield Evidence("replay", f"{count:,} of {total:,} codes")
    if len(ways) > 1:
        others = "; ".join(way.says for way in ways[1:4])
        yield Evidence("open", f"which of {len(ways)} ways to rescale that give the same codes here: also {others}")
