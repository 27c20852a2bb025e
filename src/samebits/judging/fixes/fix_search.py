"""The smallest change of settings after which sides agree: tried, never guessed.

Every engine's text is run with one change after another, each in a fresh worker on three sets of operands. Two sides
agree where all bits of all three are the same; short of that, where no side is anything but `rounding`. Changes of two
sides are combined from what was seen of each. What was found is run once more on every side, changed or not, before it
is called verified.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from samebits.findings import Evidence, Fix, Side, Verdict, is_agreement
from samebits.findings.causes import CauseCode
from samebits.judging.fixes.setting_changes import Change, pair_changes
from samebits.judging.fixes.trials import Trial, Trials
from samebits.judging.side_running import Ran
from samebits.numbers.ulps import digest_bits
from samebits.progress import Progress

_MOST_TIME_S = 300.0
_MOST_PAIRED = 6


@dataclass(frozen=True)
class AskedSide:
    """A side of a comparison: its engine's text (None where nothing can be changed), its bits and verdict."""

    name: str
    text: str | None
    bits: str
    verdict: Verdict
    cause: CauseCode | None


def list_asked(ran: list[Ran], sides: list[Side], texts: Sequence[str | None]) -> list[AskedSide]:
    """The sides that returned something, with the texts that may be changed."""
    return [
        AskedSide(s.name, text, digest_bits(r.recorded.result), s.verdict, s.cause)
        for s, r, text in zip(sides, ran, texts, strict=True)
        if r.recorded.result is not None
    ]


@dataclass(frozen=True)
class _Choice:
    """One trial for every side, in their sequence (None: a side that cannot be changed)."""

    trials: tuple[Trial | None, ...]
    verdict: Verdict
    same_bits: bool

    @property
    def changes(self) -> int:
        return sum(len(t.changes) for t in self.trials if t)


@dataclass
class FixSearch:
    """Settings tried on the sides of one comparison; `run` says what was found."""

    place: Trials
    sides: list[AskedSide]
    progress: Progress
    most_time_s: float = _MOST_TIME_S
    trials: list[list[Trial]] = field(default_factory=list[list[Trial]])
    verified: list[tuple[Trial | None, ...]] = field(default_factory=list[tuple["Trial | None", ...]])
    repeated: list[Trial] = field(default_factory=list[Trial])
    tried: int = 0
    started: float = field(default_factory=time.monotonic)

    def run(self) -> tuple[list[Fix], list[Evidence]]:
        """The fixes, the smallest first, and further evidence."""
        if len(self.sides) < 2 and all(is_agreement(s.verdict) for s in self.sides):
            return [], [
                Evidence("setting", "settings are tried to make sides agree: one result alone has none to agree with")
            ]
        if self._agree():
            return [], [Evidence("setting", "all sides have the same bits already: there is nothing to fix")]
        self.trials = [[] if s.text is None else [self.place.try_text(s.text, ())] for s in self.sides]
        for _ in self._try_in_sequence():
            best = self._choose(same_bits=self._wanted[0])
            # One change is the least there can be.
            if best is not None and best.changes == 1 and is_agreement(best.verdict) and self._holds(best):
                break
        fixes: list[Fix] = []
        for same_bits in self._wanted:
            choice = self._choose(same_bits=same_bits)
            while choice is not None and not self._holds(choice):
                choice = self._choose(same_bits=same_bits)
            if choice is not None and choice.changes:
                fixes.append(self._describe(choice))
        distinct = {(fix.text, *fix.together_with): fix for fix in reversed(fixes)}
        return self._conclude(sorted(distinct.values(), key=_rank))

    @property
    def _wanted(self) -> tuple[bool, ...]:
        """The same bits before agreement; of one side alone only that it is right."""
        return (True, False) if len(self.sides) > 1 else (False,)

    def _name_put_right(self) -> list[Evidence]:
        """The deviating sides that a setting puts right, each alone, where others stay as they are."""
        put_right: list[str] = []
        left: list[str] = []
        for side, own in zip(self.sides, self.trials, strict=True):
            if is_agreement(side.verdict):
                continue
            right = sorted((t for t in own if t.changes and t.agrees), key=lambda t: len(t.changes))
            found = next((t for t in right if self._repeats(side, t) and not self.place.still_loses(t)), None)
            if found is None:
                left.append(side.name)
            else:
                put_right.append(found.text)
        if not put_right:
            return []
        others = f", and no setting tried makes {' or '.join(left)} right" if left else ""
        return [
            Evidence("setting", f"{' and '.join(put_right)} {'is' if len(put_right) == 1 else 'are'} right{others}")
        ]

    def _agree(self) -> bool:
        bits = {s.bits for s in self.sides}
        return len(bits) == 1 and all(is_agreement(s.verdict) for s in self.sides)

    def _try_in_sequence(self) -> Iterator[None]:
        """What is meant for the cause; what was set left out; other changes, of sides that deviate first; pairs."""
        order = sorted(range(len(self.sides)), key=lambda i: is_agreement(self.sides[i].verdict))
        singles = {i: self._list_changes(i) for i in order}
        total = sum(map(len, singles.values())) or 1
        # Two sides of one engine differ by what was set on one of them.
        every = sorted(
            ((i, c) for i in order for c in singles[i]),
            key=lambda both: (not both[1].is_meant, both[1].value is not None),
        )
        for i, change in every:
            if self._is_over():
                return
            self.progress(f"trying {self.sides[i].name[:40]} {change.says[:60]}", self.tried / total)
            self._try(i, (change,))
            yield
        for i in order:
            if self._choose(same_bits=self._wanted[0]):
                return
            moved = [t.changes[0] for t in self.trials[i][1:] if t.digests and t.digests != self.trials[i][0].digests]
            for pair in itertools.islice(pair_changes(moved[:_MOST_PAIRED]), _MOST_PAIRED**2):
                if self._is_over():
                    return
                self.progress(f"trying {self.sides[i].name[:40]} {' '.join(c.says for c in pair)[:60]}", 0.9)
                self._try(i, pair)
                yield

    def _list_changes(self, i: int) -> list[Change]:
        side = self.sides[i]
        if side.text is None:
            return []
        identity = self.trials[i][0].identity
        return self.place.list_changes(side.text, side.cause, identity.settings if identity else {})

    def _try(self, i: int, changes: tuple[Change, ...]) -> None:
        text = self.sides[i].text
        assert text is not None
        self.tried += 1
        self.trials[i].append(self.place.try_text(text, changes))

    def _is_over(self) -> bool:
        return time.monotonic() - self.started > self.most_time_s

    def _choose(self, *, same_bits: bool) -> _Choice | None:
        """The choice with the fewest changes; among equals, the one whose trial of the first side came first."""
        chosen = self._choose_same_bits() if same_bits else self._choose_agreeing()
        return min(
            (c for c in chosen if c.changes), key=lambda c: (not is_agreement(c.verdict), c.changes), default=None
        )

    def _choose_same_bits(self) -> Iterator[_Choice]:
        fixed = {s.bits for s in self.sides if s.text is None}
        if len(fixed) > 1:
            return
        # A recorded result says nothing of other operands than its own.
        keys = [self._bits_of(trials, whole=not fixed) for trials in self.trials if trials]
        others = [set(own) for own in keys[1:]] + ([set[object](fixed)] if fixed else [])
        # In the first side's sequence: a set of texts has another one in every process.
        for key in dict.fromkeys(keys[0] if keys else []):
            if not all(key in other for other in others):
                continue
            trials: tuple[Trial | None, ...] = tuple(
                next((t for t in own if t.digests and self._key(t, whole=not fixed) == key), None) if own else None
                for own in (sorted(group, key=lambda t: len(t.changes)) for group in self.trials)
            )
            yield _Choice(trials, self._find_obstacle(trials), same_bits=True)

    def _find_obstacle(self, trials: Iterable[Trial | None]) -> Verdict:
        """The first verdict against any side; `identical` where there is none, as their bits are the same."""
        for trial in trials:
            if trial and not is_agreement(trial.verdict):
                return trial.verdict
        for side in self.sides:
            if side.text is None and not is_agreement(side.verdict):
                return side.verdict
        return "identical"

    def _bits_of(self, trials: Iterable[Trial], *, whole: bool) -> list[object]:
        return [self._key(t, whole=whole) for t in trials if t.digests]

    @staticmethod
    def _key(trial: Trial, *, whole: bool) -> object:
        assert trial.digests is not None
        return trial.digests if whole else trial.digests[1]

    def _choose_agreeing(self) -> Iterator[_Choice]:
        """The choice after which no side deviates: each deviating side is changed, as little as possible."""
        if all(is_agreement(s.verdict) for s in self.sides):
            return
        trials: list[Trial | None] = []
        for side, own in zip(self.sides, self.trials, strict=True):
            if side.text is None and not is_agreement(side.verdict):
                return
            found = [t for t in own if t.agrees and (t.changes or is_agreement(side.verdict))]
            if own and not found:
                return
            trials.append(min(found, key=lambda t: len(t.changes)) if found else None)
        yield _Choice(tuple(trials), "rounding", same_bits=False)

    def _holds(self, choice: _Choice) -> bool:
        """Whether fresh workers of every side give the same bits again; a trial that does not is marked as useless."""
        if choice.trials in self.verified:
            return True
        for i, (side, trial) in enumerate(zip(self.sides, choice.trials, strict=True)):
            if trial is None:
                continue
            asks = trial.changes and not is_agreement(side.verdict) and not choice.same_bits
            if not self._repeats(side, trial) or (asks and self.place.still_loses(trial)):
                useless = replace(trial, verdict="undecided", digests=None)
                self.trials[i] = [useless if t is trial else t for t in self.trials[i]]
                return False
        self.verified.append(choice.trials)
        return True

    def _repeats(self, side: AskedSide, trial: Trial) -> bool:
        """Whether a fresh worker gives the same bits; of a text without changes, whether it gave them when compared."""
        if any(t is trial for t in self.repeated):
            return True
        assert side.text is not None
        if not trial.changes and trial.digests and trial.digests[1] != side.bits:
            return False
        self.progress(f"verifying {trial.text[:60]}", 0.95)
        again = self.place.try_text(side.text, trial.changes)
        if again.digests != trial.digests or again.verdict != trial.verdict:
            return False
        self.repeated.append(trial)
        return True

    def _describe(self, choice: _Choice) -> Fix:
        """A choice that holds, with what its first change costs."""
        changed = [(s, t) for s, t in zip(self.sides, choice.trials, strict=True) if t and t.changes]
        side, trial = changed[0]
        times = self.place.time_in_turns((side.text or "", trial.text))
        return Fix(
            engine=trial.text.partition(":")[0],
            setting=", ".join(c.says for c in trial.changes),
            why="; ".join(c.why for c in trial.changes),
            verified=True,
            verdict_after=choice.verdict,
            source=next((c.source for c in trial.changes if c.source), None),
            text=trial.text,
            same_bits=choice.same_bits,
            changes=choice.changes,
            also="; ".join(dict.fromkeys(c.also for c in trial.changes)),
            together_with=[t.text for _, t in changed[1:]],
            time_before_s=times[0] if times else None,
            time_after_s=times[1] if times else None,
        )

    def _conclude(self, fixes: list[Fix]) -> tuple[list[Fix], list[Evidence]]:
        """The fixes and evidence; adds the change of code that always helps where no setting gives the same bits."""
        plural = "" if self.tried == 1 else "s"
        evidence = [Evidence("setting", f"{self.tried} setting{plural} tried, each in a process of its own")]
        if any(fix.same_bits and is_agreement(fix.verdict_after or "undecided") for fix in fixes):
            return fixes, evidence
        if self._is_over():
            evidence.append(Evidence("setting", f"stopped after {self.most_time_s:.0f} s; more settings may help"))
        if not fixes:
            evidence.append(Evidence("setting", "no setting tried makes the sides agree"))
            evidence += self._name_put_right()
        change = self.place.name_change_of_code()
        return [*fixes, *([change] if change else [])], evidence


def _rank(fix: Fix) -> tuple[bool, int, bool]:
    """Agreement before what only has the same bits, few changes before many, the same bits before rounding."""
    return not is_agreement(fix.verdict_after or "undecided"), fix.changes or 0, not fix.same_bits
