"""What a guard has seen so far: checks counted, breaches judged, what was left out; and the report of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from samebits.errors import SamebitsError
from samebits.findings import Evidence
from samebits.findings.causes import AGREEING, worst_verdict
from samebits.problems.case_file import Case, save_case
from samebits.questions.explain.explaining import explain
from samebits.questions.guard.guard_schema import Breach, Direction, GuardedResult, GuardReport
from samebits.questions.guard.guard_sentences import (
    name_result,
    say_beyond_bound,
    say_beyond_likely,
    say_detection,
    say_dismissed,
    say_impossible,
    say_odd,
    say_unlisted,
    summarize_guard,
)
from samebits.torch.guard_checks import BlockCheck, Impossible, check_block, check_extremes
from samebits.torch.layer_calls import LayerResult
from samebits.version import VERSION

# Explaining takes seconds: the most breaches explained, in all and of one result, and the longest sums, in terms.
_MOST_EXPLAINED, _MOST_OF_ONE, _LONGEST_EXPLAINED = 16, 2, 10_000
# At most so many breaches are listed; further ones are only counted.
_MOST_KEPT = 256


@dataclass
class _Tally:
    seen: int = 0
    checks: int = 0
    outputs: int = 0
    draws: int = 0
    breaches: int = 0
    explained: int = 0
    over_bound: float = 0.0
    over_likely: float = 0.0


class GuardBook:
    """Counts and findings of one guard. It has no lock of its own: its caller holds one while using it."""

    def __init__(self, module: str, share: float, seed: int, cases: Path | None) -> None:
        self.module, self.share, self.cases = module, share, cases
        self.rng = np.random.default_rng(seed)
        self.breaches: list[Breach] = []
        self.left_out: dict[str, str] = {}
        self._tallies: dict[tuple[str, Direction], _Tally] = {}
        self._explained = self._dismissed = 0
        # The number of outputs that cannot be judged, as their terms are not finite, and where the first ones were.
        self._odd, self._first_odd = 0, ""

    def draw(self, name: str, direction: Direction) -> bool:
        """Counts a result; returns whether it is drawn to be checked."""
        self._tallies.setdefault((name, direction), _Tally()).seen += 1
        return self.rng.random() < self.share

    def leave_out(self, what: str, why: str) -> None:
        """Notes, once, that something could not be checked."""
        self.left_out.setdefault(what, why)

    def check(self, name: str, found: LayerResult) -> Breach | None:
        """Compares a result with the truth; counts, lists and returns a breach, if there is one."""
        tally = self._tallies[name, found.direction]
        impossible, check = check_extremes(found), check_block(found, self.rng)
        if check is not None:
            odd = check.block.result.size - check.finite
            tally.checks += 1
            tally.outputs += check.finite
            # Outputs with terms that are not finite may be any of those drawn: then none counts as drawn.
            tally.draws += 0 if odd else check.block.draws
            tally.over_bound = max(tally.over_bound, check.over_bound)
            tally.over_likely = max(tally.over_likely, check.over_likely or 0.0)
            if odd:
                self._odd += odd
                where = f"the {name_result(name, found.direction)} at call {tally.seen:,}"
                self._first_odd = self._first_odd or where
        breach = None
        if impossible is not None:
            breach = _state_impossible(name, found.direction, tally.seen, impossible)
        elif check is not None and (check.beyond_bound or check.beyond_likely):
            breach = self._judge(name, found, tally, check)
        if breach is not None:
            tally.breaches += 1
            if len(self.breaches) < _MOST_KEPT:
                self.breaches.append(breach)
        return breach

    def _judge(self, name: str, found: LayerResult, tally: _Tally, check: BlockCheck) -> Breach | None:
        """A breach as a finding, explained where there is time for it; None where rounding may have made it."""
        proved = check.beyond_bound > 0
        says = (
            say_beyond_bound(check.beyond_bound, check.finite, check.over_bound)
            if proved
            else say_beyond_likely(check.beyond_likely, check.finite, check.over_likely)
        )
        breach = Breach(
            layer=name,
            direction=found.direction,
            call=tally.seen,
            verdict="undecided",
            cause=None,
            certainty="bounds" if proved else "statistics",
            outputs=check.beyond_bound if proved else check.beyond_likely,
            checked=check.finite,
            max_over_bound=check.over_bound,
            max_over_likely=check.over_likely,
            says=says,
        )
        # What sums of products could not do, transforms such as Winograd's may.
        sound = not proved or (found.may_transform and check.within_transforms)
        terms = check.block.left.shape[-1]
        if self._explained >= _MOST_EXPLAINED or tally.explained >= _MOST_OF_ONE or terms > _LONGEST_EXPLAINED:
            if sound:
                self._dismissed += 1
                return None
            why = (
                "too long to be looked into" if terms > _LONGEST_EXPLAINED else "not looked into, as earlier ones were"
            )
            return msgspec.structs.replace(breach, says=f"{says}; {why}")
        self._explained, tally.explained = self._explained + 1, tally.explained + 1
        case = check.state_case(name_result(name, found.direction))
        side = explain(case).sides[0]
        if sound and (side.cause is None or side.verdict in AGREEING):
            self._dismissed += 1
            return None
        return msgspec.structs.replace(
            breach,
            verdict="undecided" if side.verdict in AGREEING else side.verdict,
            cause=None if side.verdict in AGREEING else side.cause,
            certainty=side.certainty or breach.certainty,
            says=f"{says}; {side.says}" if side.says and side.verdict not in AGREEING else says,
            case=self._keep(case, f"{name or 'module'}-{found.direction}-{tally.seen}"),
        )

    def _keep(self, case: Case, stem: str) -> str | None:
        if self.cases is None:
            return None
        path = self.cases / f"{stem}.npz"
        try:
            self.cases.mkdir(parents=True, exist_ok=True)
            save_case(path, case.problem, case.operands, case.results)
        except (OSError, SamebitsError) as error:
            self.leave_out(f"case {path}", f"it could not be written: {error}")
            return None
        return str(path)

    def report(self, spent_s: float, running_s: float) -> GuardReport:
        """Everything as a finding."""
        results = [
            GuardedResult(
                layer=layer,
                direction=direction,
                seen=t.seen,
                checks=t.checks,
                outputs=t.outputs,
                draws=t.draws,
                breaches=t.breaches,
                max_over_bound=t.over_bound if t.checks else None,
                max_over_likely=t.over_likely if t.checks else None,
            )
            for (layer, direction), t in self._tallies.items()
        ]
        outputs, found = sum(r.outputs for r in results), sum(r.breaches for r in results)
        explained = [b for b in self.breaches if b.verdict != "undecided"] or self.breaches
        verdict = worst_verdict(b.verdict for b in explained) if explained else "rounding"
        gravest = [b for b in explained if b.verdict == verdict]
        said = [
            say_detection(results),
            say_odd(self._odd, self._first_odd) if self._odd else None,
            say_dismissed(self._dismissed) if self._dismissed else None,
            say_unlisted(found - len(self.breaches)) if found > len(self.breaches) else None,
        ]
        return GuardReport(
            module=self.module,
            verdict=verdict if outputs or explained else "undecided",
            cause=next((b.cause for b in gravest), None),
            summary=summarize_guard(gravest, results, outputs, self._odd),
            share=self.share,
            checks=sum(r.checks for r in results),
            outputs=outputs,
            time_s=spent_s,
            running_s=running_s,
            results=results,
            breaches=list(self.breaches),
            left_out=dict(self.left_out),
            evidence=[Evidence("statistic", says) for says in said if says],
            samebits_version=VERSION,
        )


def _state_impossible(name: str, direction: Direction, call: int, found: Impossible) -> Breach:
    return Breach(
        layer=name,
        direction=direction,
        call=call,
        verdict="wrong",
        cause=None,
        certainty="bounds",
        outputs=None,
        checked=None,
        max_over_bound=None,
        max_over_likely=None,
        says=say_impossible(found.index, found.value, found.limit),
    )
