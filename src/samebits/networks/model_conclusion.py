"""The finding on a network: verdicts of the sides and of all, the first unit, how much the network amplifies."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from samebits.engines.runner import Identity
from samebits.findings import Evidence, Failure, Verdict, is_agreement, worst_verdict
from samebits.findings.causes import CauseCode, gravest_cause
from samebits.findings.model_schema import ModelComparison, ModelSide, OutputDifference, Taps
from samebits.judging.measuring import measure_absolute
from samebits.judging.verdict_rules import judge_all
from samebits.networks.model_judging import PROVED, JudgedUnit, ModelJudge, measure_relative
from samebits.networks.model_runners import ModelRunner, OtherFileRunner
from samebits.networks.model_sentences import (
    say_exact_integers,
    say_meanings,
    say_network_replayed,
    summarize_model,
)
from samebits.networks.network import Network
from samebits.networks.observing import Observer
from samebits.networks.recorded_runs import RecordedRunner
from samebits.networks.unit_judging import UnitJudgement
from samebits.numbers import count_ulps, find_format
from samebits.numbers.format import FORMATS
from samebits.numbers.ulps import mark_differing_bits
from samebits.version import VERSION


@dataclass
class Asked:
    """One side of a comparison: its runner, and what came of opening it."""

    name: str
    runner: ModelRunner
    observer: Observer | None = None
    identity: Identity | None = None
    failure: Failure | None = None
    replayed: int | None = None
    exact: tuple[int, int] | None = None


@dataclass(frozen=True)
class Outcome:
    """Everything that judging a network found, before it is put into words."""

    network: Network
    asked: list[Asked]
    judged: list[JudgedUnit]
    judge: ModelJudge | None = None

    def list_deviating(self, side: str) -> list[JudgedUnit]:
        """The units where one side was judged and is neither right nor within rounding, in sequence."""
        own = [(u, u.sides[side]) for u in self.judged if side in u.sides]
        return [u for u, judged in own if judged.is_judged and not is_agreement(judged.verdict)]

    def find_first(self) -> JudgedUnit | None:
        """The first unit where a side is proved wrong or less precise; else that deviates; else whose bits differ."""
        kinds = (lambda u: u.is_proved, lambda u: u.deviates, lambda u: u.differing > 0)
        return next((u for is_one in kinds for u in self.judged if is_one(u)), None)


def conclude(outcome: Outcome, data: str) -> ModelComparison:
    """The finding: verdicts of the sides and of all, the first unit, how much the network amplifies."""
    ran = [a for a in outcome.asked if a.observer]
    differences = _list_differences(outcome, ran)
    sides = [_conclude_side(outcome, a) for a in outcome.asked]
    if len(ran) > 1 and not any(d.differing for d in differences) and not any(s.verdict in PROVED for s in sides):
        # Nothing is proved against anybody, and there is nothing that differs.
        sides = [_call_equal(s) for s in sides]
    verdicts: list[Verdict] = [s.verdict for s in sides if s.failure is None]
    verdict = judge_all(verdicts, differences)
    first = outcome.find_first()
    observers = [a.observer for a in ran if a.observer]
    cause = gravest_cause(s.cause for s in sides if s.cause)
    if verdict == "rounding" and cause is None and any(d.differing for d in differences):
        cause = CauseCode.SUMMATION_ORDER
    amplification = _amplify(first, differences)
    return ModelComparison(
        model=outcome.network.name,
        operations=len(_list_places(outcome.judged)),
        verdict=verdict,
        cause=cause if verdict != "identical" else None,
        summary=_summarize(outcome, verdict, sides, first, differences, amplification),
        first=first.unit.name if first else None,
        units=[u.as_finding() for u in outcome.judged],
        taps=Taps(
            any(o.changed_bits for o in observers),
            sorted({v for o in observers for v in o.left_out}),
            all(o.is_settled for o in observers),
        ),
        amplification=amplification,
        sides=sides,
        outputs=differences,
        data=data,
        samebits_version=VERSION,
    )


def _summarize(
    outcome: Outcome,
    verdict: Verdict,
    sides: Sequence[ModelSide],
    first: JudgedUnit | None,
    differences: Sequence[OutputDifference],
    amplification: float | None,
) -> str:
    """The answer in a few sentences; what a module means comes before what its sides do."""
    unjudged = [u.as_finding() for u in outcome.judged if not u.is_judged]
    meanings = [u.meaning for u in outcome.judged if u.meaning]
    if meanings and not any(u.deviates and not u.meaning for u in outcome.judged):
        return say_meanings(meanings, len(outcome.judged), unjudged, sides)
    own = summarize_model(
        verdict,
        sides,
        first.as_finding() if first else None,
        differences,
        amplification,
        unjudged,
        _list_alike(outcome),
    )
    return " ".join([*(f"{m}." for m in meanings[:1]), own])


def _list_alike(outcome: Outcome) -> dict[str, str]:
    """By side, what all of its deviating units do, where these are several and do the same."""
    found: dict[str, str] = {}
    for side in outcome.asked:
        own = [u.sides[side.name] for u in outcome.list_deviating(side.name)]
        said = {(j.says, j.cause_certainty == "statistics") for j in own}
        if len(own) > 1 and len(said) == 1 and (says := own[0].says):
            found[side.name] = says + (" (inferred)" if own[0].cause_certainty == "statistics" else "")
    return found


def _call_equal(side: ModelSide) -> ModelSide:
    """A side that is undecided although all sides returned the same bits."""
    if side.failure is not None or side.verdict != "undecided":
        return side
    return msgspec.structs.replace(side, verdict="identical", first=None)


def _conclude_side(outcome: Outcome, asked: Asked) -> ModelSide:
    identity, name = asked.identity, asked.name
    base = ModelSide(
        name=name,
        engine=None if isinstance(asked.runner, RecordedRunner) else asked.runner.text,
        file=asked.runner.other.name if isinstance(asked.runner, OtherFileRunner) else None,
        version=identity.version if identity else None,
        device=identity.device if identity else None,
        settings=identity.settings if identity else {},
        verdict="undecided",
        failure=asked.failure,
        evidence=[Evidence("setting", note) for note in (identity.notes if identity else ())],
    )
    if asked.observer is None:
        return base
    deviating = outcome.list_deviating(name)
    own = [u for u in outcome.judged if name in u.sides]
    verdict = _conclude_units([u.sides[name] for u in own])
    if is_agreement(verdict) and any(u.unit.products and not u.sides[name].is_judged for u in own):
        # Its products are what a network computes: of a side whose products nobody saw little is known.
        verdict = "undecided"
    joined = sum(len(u.unit.products) for u in own if len(u.unit.products) > 1) if base.engine is None else 0
    if joined and verdict == "rounding":
        # The bound of several products together is wide: being inside it shows little.
        verdict = "undecided"
    evidence = list(base.evidence)
    if asked.exact is not None and asked.exact[1]:
        evidence.append(Evidence("structure", say_exact_integers(*asked.exact)))
    if asked.replayed is not None:
        total = sum(1 for u in own if u.unit.products)
        evidence.append(Evidence("replay", say_network_replayed(asked.replayed, total)))
    gravest = [u for u in deviating if u.sides[name].verdict == verdict]
    return msgspec.structs.replace(
        base,
        verdict=verdict,
        cause=gravest[0].sides[name].cause if gravest else _find_harmless(outcome, name, verdict),
        first=(gravest or deviating)[0].unit.name if deviating else None,
        deviating=len(deviating),
        unjudged=sum(not u.sides[name].is_judged for u in own),
        unjudged_operations=len(_list_places(own) - _list_places(u for u in own if u.sides[name].is_judged)),
        joined=joined,
        repeats=asked.observer.repeats,
        replayed=asked.replayed,
        evidence=evidence,
    )


def _list_places(units: Iterable[JudgedUnit]) -> set[int]:
    return {place for u in units for place in u.unit.places}


def _find_harmless(outcome: Outcome, side: str, verdict: Verdict) -> CauseCode | None:
    """The cause that units have which are within rounding."""
    own = [u.sides[side].cause for u in outcome.judged if side in u.sides]
    return gravest_cause(c for c in own if c) if verdict == "rounding" else None


def _conclude_units(judged: Sequence[UnitJudgement]) -> Verdict:
    """What the units of a side come to: what is proved leads, and what nobody can judge says nothing."""
    verdicts: list[Verdict] = [j.verdict for j in judged if j.is_judged]
    is_proved = any(j.verdict == "downgrade" and j.cause_certainty == "bits" for j in judged)
    return "downgrade" if is_proved and "wrong" not in verdicts else worst_verdict(verdicts)


def _list_differences(outcome: Outcome, ran: Sequence[Asked]) -> list[OutputDifference]:
    """Every output of the network, each side against the first."""
    found: list[OutputDifference] = []
    if not ran or ran[0].observer is None:
        return found
    first = ran[0].observer.plain
    for other in ran[1:]:
        assert other.observer is not None
        for name in outcome.network.outputs:
            found.append(_compare_output(name, ran[0].name, first[name], other.name, other.observer.plain[name]))
    return found


def _compare_output(output: str, a: str, x: np.ndarray, b: str, y: np.ndarray) -> OutputDifference:
    if x.shape != y.shape or x.dtype != y.dtype:
        return OutputDifference(output, a, b, y.size, y.size, None, None, None)
    if x.dtype.name not in FORMATS:
        return OutputDifference(output, a, b, int((x != y).sum()), x.size, None, None, None)
    return OutputDifference(
        output=output,
        a=a,
        b=b,
        differing=int(mark_differing_bits(x, y).sum()),
        elements=x.size,
        max_abs=float(measure_absolute(x, y).max(initial=0.0)),
        max_ulp=float(count_ulps(x, y, find_format(x.dtype.name)).max(initial=0.0)),
        rel_l2=measure_relative(x, y),
    )


def _amplify(first: JudgedUnit | None, differences: Sequence[OutputDifference]) -> float | None:
    """By how much the relative difference grew from the first unit to the outputs; null where there is none."""
    if first is None or not first.relative_difference:
        return None
    last = max((d.rel_l2 for d in differences if d.rel_l2 is not None), default=None)
    return None if last is None else last / first.relative_difference
