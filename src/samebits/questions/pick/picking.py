"""Picking: candidates are checked against the contract, timed in turns, and the fastest is proved and kept."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from samebits.engines.registry.runner_text import parse_runner_text, refuse_text_of_file
from samebits.engines.runner import Kernel, Runner
from samebits.engines.runner.guarded_runner import GuardedRunner, guard_runner, list_runners
from samebits.errors import ArgumentError, SamebitsError
from samebits.findings import Evidence
from samebits.findings.causes import CauseCode
from samebits.judging.comparing_cost import check_memory
from samebits.numbers.float_environment import default_float_environment
from samebits.problems import Problem, format_problem
from samebits.progress import Announcement, Progress, ignore_progress, prefix_progress
from samebits.questions.pick.checking import Checked, ProblemData, Proof, check_candidate, prepare_data, prove_choice
from samebits.questions.pick.engine_variants import list_candidates
from samebits.questions.pick.finals import (
    Finals,
    OpenRunners,
    is_as_fast,
    list_by_time,
    list_contenders,
    list_finalists,
    order_by_time,
    time_finalists,
)
from samebits.questions.pick.lock_file import LockStore, find_place, open_lock, replay_choice
from samebits.questions.pick.pick_schema import Choice, Contract, LockedChoice, Pick, Rejection, Timed
from samebits.questions.pick.pick_sentences import say_other_bits, say_passed_over, summarize_pick
from samebits.questions.pick.subject_problems import list_problems
from samebits.sums.tiles.memory import count_available_bytes
from samebits.version import VERSION

_LARGEST_BYTES = 2**60
# The truth, its bound and the sums of magnitudes of an output; an input as it is given and as it is judged.
_BYTES_AN_OUTPUT, _BYTES_AN_INPUT = 24, 16


@default_float_environment()
def pick(
    subject: str | Path | Problem | Sequence[str | Problem],
    on: Sequence[str | Runner | Kernel] = (),
    *,
    max_ulp: float | None = None,
    within: Literal["bound", "any"] = "bound",
    deterministic: bool = True,
    batch_invariant: bool = False,
    workspace: int | None = None,
    gradients: bool = False,
    sizes: Mapping[str, tuple[int, ...]] | None = None,
    lock: str | Path | None = None,
    again: bool = False,
    time_limit_s: float = 300.0,
    progress: Progress = ignore_progress,
) -> Pick:
    """The fastest way to compute a problem, or every convolution and product of a model, that keeps a contract.

    `subject` is a problem, its text, a case (its problem counts), a model (.onnx, .pt2, `file.py:function`), or a list
    of problems. Candidates are the engines in `on` (all installed ones): one named without settings in all its
    variants, another text or a runner as it stands. Each runs on exact integers, where any error counts, and on normal
    operands; then again and again. Those that keep the contract are timed in turns; of the fastest the recipe is
    looked for and replayed. With `lock` the choices are kept in that file, and what stands in it is not timed again: it
    is taken as it is where the engine's version and processor are known to it, and elsewhere if it gives the same bits.
    `again` picks once more. `workspace` is in bytes, `max_ulp` in representable numbers, and
    `sizes` are those that a model leaves open, by name, or whole shapes by input.

    Raises LockError where a locked choice does not hold here, SamebitsError for what cannot be dealt with.

    >>> import samebits
    >>> found = samebits.pick("matmul x=3x8 w=8x4", ["numpy"])
    >>> [choice.engine.partition(":")[0] for choice in found.choices]
    ['numpy']
    """
    on = list_runners(on)
    if lock is not None and not isinstance(lock, (str, Path)):
        raise ArgumentError(f"lock must be a path, not {lock!r}")
    if isinstance(time_limit_s, bool) or not isinstance(time_limit_s, (int, float)) or not 0 < time_limit_s <= 1e6:
        raise ArgumentError(f"time_limit_s must be above 0 and at most 1e6, not {time_limit_s!r}")
    contract = _make_contract(max_ulp, within, deterministic, batch_invariant, workspace)
    given = [guard_runner(runner) for runner in on if not isinstance(runner, str)]
    if len({runner.text for runner in given}) < len(given):
        raise ArgumentError("two of the runners have the same text; a choice is kept by it")
    named = [runner for runner in on if isinstance(runner, str)]
    for text in named:
        parse_runner_text(text)
    problems, left_out = _list_all(subject, gradients, sizes, time_limit_s, progress)
    for problem in problems:
        check_memory(problem, 2)
    with contextlib.ExitStack() as opened:
        store = opened.enter_context(open_lock(lock, progress)) if lock is not None else None
        runners = OpenRunners(given, time_limit_s)
        opened.callback(runners.close)
        picking = _Picking(contract, named, given, runners, store, again=again, progress=progress)
        choices = picking.run(problems)
    texts = [part if isinstance(part, str) else format_problem(part) for part in _list_parts(subject)]
    return Pick(
        subject=" and ".join(texts[:3]) + (f" and {len(texts) - 3} more" if len(texts) > 3 else ""),
        contract=contract,
        choices=choices,
        summary=summarize_pick(choices),
        lock=str(lock) if lock is not None else None,
        evidence=_list_evidence(left_out, picking.passed_over.values()),
        samebits_version=VERSION,
    )


def _list_evidence(left_out: Iterable[str], passed_over: Iterable[str]) -> list[Evidence]:
    says = [*(f"left out: {node}" for node in left_out), *map(say_passed_over, passed_over)]
    return [Evidence("structure", one) for one in says]


def _make_contract(
    max_ulp: float | None, within: str, deterministic: bool, batch_invariant: bool, workspace: int | None
) -> Contract:
    """Raises ArgumentError for what no contract can say."""
    if within not in ("bound", "any"):
        raise ArgumentError(f"within must be bound or any, not {within!r}")
    if max_ulp is not None and not (
        isinstance(max_ulp, (int, float)) and max_ulp is not True and 0 <= max_ulp < math.inf
    ):
        raise ArgumentError(f"max_ulp must be a number from 0, not {max_ulp!r}")
    if workspace is not None and not (isinstance(workspace, int) and 0 <= workspace <= _LARGEST_BYTES):
        raise ArgumentError(f"workspace must be a whole number of bytes, at most 2^60, not {workspace!r}")
    return Contract(
        max_ulp=max_ulp,
        within=within,
        deterministic=bool(deterministic),
        batch_invariant=bool(batch_invariant),
        workspace=workspace,
    )


def _list_parts(subject: str | Path | Problem | Sequence[str | Problem]) -> list[str | Problem]:
    if isinstance(subject, (str, Path)):
        return [str(subject)]
    parts: list[str | Problem] = [subject] if isinstance(subject, Problem) else []
    if isinstance(subject, Sequence):
        parts = list(subject)
    if not parts or not all(isinstance(part, (str, Problem)) for part in parts):
        raise ArgumentError("pick needs a problem, its text, a model, or a list of problems")
    return parts


def _list_all(
    subject: str | Path | Problem | Sequence[str | Problem],
    gradients: bool,
    sizes: Mapping[str, tuple[int, ...]] | None,
    time_limit_s: float,
    progress: Progress,
) -> tuple[dict[Problem, list[str]], list[str]]:
    found: dict[Problem, list[str]] = {}
    left_out: list[str] = []
    for part in _list_parts(subject):
        problems, without = list_problems(
            part, gradients=gradients, time_limit_s=time_limit_s, progress=progress, sizes=sizes
        )
        for problem, nodes in problems.items():
            found.setdefault(problem, []).extend(nodes)
        left_out += without
    return found, left_out


@dataclass
class _Candidates:
    """What is known of one problem's candidates so far."""

    data: ProblemData
    texts: list[str]
    rejected: list[Rejection] = field(default_factory=list[Rejection])
    kept: dict[str, Checked] = field(default_factory=dict[str, Checked])


@dataclass
class _Picking:
    contract: Contract
    named: Sequence[str]
    given: Sequence[GuardedRunner]
    runners: OpenRunners
    store: LockStore | None
    again: bool
    progress: Progress
    # Entries of the lock that are not used, and why; they stay in the file.
    passed_over: dict[Problem, str] = field(default_factory=dict[Problem, str])

    def run(self, problems: Mapping[Problem, list[str]]) -> list[Choice]:
        """The choices in the problems' sequence; each is kept as soon as it is made."""
        chosen: dict[Problem, Choice] = {}
        for problem in problems:
            known = self._find_locked(problem)
            if known is not None:
                chosen[problem] = replay_choice(known.choice, problem, self.runners, self.progress)
                if self.store is not None and chosen[problem].picked_by == "checked lock":
                    self.store.put(_as_picked(chosen[problem]), known.contract)
        wanted = [problem for problem in problems if problem not in chosen]
        for together in _divide(wanted):
            candidates = self._check_all(together)
            for i, problem in enumerate(together):
                self.progress(f"timing {format_problem(problem)[:60]}", i / len(together))
                chosen[problem] = self._choose(problem, candidates[problem])
                if self.store is not None and chosen[problem].engine is not None and problem not in self.passed_over:
                    self.store.put(chosen[problem], self.contract)
        return [msgspec.structs.replace(chosen[p], used_by=nodes) for p, nodes in problems.items()]

    def _list_texts(self, problem: Problem) -> list[str]:
        from samebits.engines.registry.known_engines import list_installed_for

        named = self.named if self.named or self.given else list_installed_for(problem)
        return [*list_candidates(problem, named), *self._list_given()]

    def _find_locked(self, problem: Problem) -> LockedChoice | None:
        """The lock's choice for a problem, if it was picked by the same contract and is among what is asked for now."""
        if self.store is None or self.again:
            return None
        known = self.store.choices.get(format_problem(problem))
        if known is None or known.contract != self.contract:
            return None
        text = known.choice.engine or ""
        if not self._is_asked_for(text, problem):
            return None
        refused = self._refuse(text)
        if refused is not None:
            self.passed_over[problem] = refused
            self.progress(Announcement(say_passed_over(refused)), 0.0)
            return None
        return known

    def _list_given(self) -> list[str]:
        return [runner.text for runner in self.given]

    def _refuse(self, text: str) -> str | None:
        """Why a text of the lock is not opened; None if it may be, or is unreadable (opening it then says why)."""
        if self.store is None or text in self._list_given():
            return None
        try:
            return refuse_text_of_file(text, self.named, self.store.name)
        except SamebitsError:
            return None

    def _is_asked_for(self, text: str, problem: Problem) -> bool:
        """Whether a choice is among what may be chosen now; an engine named alone allows all of its texts."""
        if not (self.named or self.given) or text in self._list_texts(problem):
            return True
        return text.partition(":")[0] in self.named

    def _check_all(self, problems: Sequence[Problem]) -> dict[Problem, _Candidates]:
        """Every candidate on every problem, one engine after the other, so that each is opened once."""
        found: dict[Problem, _Candidates] = {}
        for i, problem in enumerate(problems):
            self.progress(f"computing {format_problem(problem)[:60]}", i / len(problems))
            data = prepare_data(problem, prefix_progress(self.progress, f"{i + 1} of {len(problems)}: "))
            found[problem] = _Candidates(data, self._list_texts(problem))
        texts = list(dict.fromkeys(text for one in found.values() for text in one.texts))
        for i, text in enumerate(texts):
            self.progress(f"checking {text[:60]}", i / len(texts))
            for one in found.values():
                if text in one.texts:
                    self._check(text, one)
        return found

    def _check(self, text: str, one: _Candidates) -> None:
        if self.contract.workspace is not None:
            # Memory that a process has once had is not seen to grow again.
            self.runners.drop(text)
        try:
            is_fresh = not self.runners.is_open(text)
            checked = check_candidate(self.runners.find(text), one.data, self.contract)
            checked = checked if is_fresh else dataclasses.replace(checked, peak_bytes=None)
        except SamebitsError as error:
            one.rejected.append(Rejection(text, str(error)))
            return
        if checked.rejection is not None:
            one.rejected.append(checked.rejection)
            # A worker that crashed or hung stays what it is; the next problem gets another.
            self.runners.drop(text)
        else:
            one.kept[text] = checked

    def _choose(self, problem: Problem, one: _Candidates) -> Choice:
        """The fastest candidate that passes the last checks; they are tried from the fastest on."""
        rough = {text: one.kept[text].fastest_s for text in one.texts if text in one.kept}
        seen = {text: checked.time_s for text, checked in one.kept.items()}
        rejected = list(one.rejected)
        while rough:
            finalists = list_finalists(rough)
            runners = [self.runners.find(text) for text in finalists]
            times, rounds = self._time(runners, problem, one, rough, rejected)
            for text in order_by_time(times):
                proof = self._prove(text, one)
                if proof.rejection is None:
                    out = {text, *(r.engine for r in rejected)}
                    known = {t: s for t, s in {**seen, **times}.items() if t not in out}
                    slower = [
                        Timed(other, known[other], is_as_fast(rounds[text], rounds.get(other, ())))
                        for other in list_by_time(known)
                    ]
                    return self._make_choice(one.data, one.kept[text], times[text], proof, rejected, slower)
                rejected.append(proof.rejection)
            rough = {text: seconds for text, seconds in rough.items() if text not in finalists}
        return Choice(problem=format_problem(problem), engine=None, time_s=None, rejected=rejected)

    def _time(
        self,
        runners: Sequence[Runner],
        problem: Problem,
        one: _Candidates,
        rough: Mapping[str, float],
        rejected: list[Rejection],
    ) -> tuple[dict[str, float], dict[str, list[float]]]:
        """Median times in turns, averaged over two processes for those that may be the fastest, and those of all turns.

        Adds to `rejected`.
        """
        finals = time_finalists(runners, problem, one.data.given, rough)
        rounds = dict(finals.rounds)
        times = self._drop_broken(finals, one, rejected)
        seconds = {text: self.runners.find_second(text) for text in list_contenders(times)}
        others = [runner for runner in seconds.values() if runner is not None]
        if len(others) > 1:
            second = time_finalists(others, problem, one.data.given, times)
            again = self._drop_broken(second, one, rejected)
            rounds |= {text: [*rounds.get(text, ()), *taken] for text, taken in second.rounds.items()}
            gone = {rejection.engine for rejection in rejected}
            times = {t: (s + again[t]) / 2 if t in again else s for t, s in times.items() if t not in gone}
        return times, rounds

    def _drop_broken(self, finals: Finals, one: _Candidates, rejected: list[Rejection]) -> dict[str, float]:
        """The times of those that neither failed nor returned other bits than before."""
        rejected += [Rejection(text, says) for text, says in finals.failures.items()]
        times = dict(finals.times)
        for text in list(times):
            if self.contract.deterministic and not finals.digests[text] <= one.kept[text].seen:
                rejected.append(Rejection(text, say_other_bits(), CauseCode.NONDETERMINISM))
                times.pop(text)
        return times

    def _prove(self, text: str, one: _Candidates) -> Proof:
        self.progress(f"proving {text[:60]}", 0.5)
        second = self.runners.find_second(text)
        return prove_choice(self.runners.find(text), second, one.data, self.contract, one.kept[text])

    def _make_choice(
        self,
        data: ProblemData,
        checked: Checked,
        time_s: float,
        proof: Proof,
        rejected: list[Rejection],
        slower: list[Timed],
    ) -> Choice:
        return Choice(
            problem=format_problem(data.stated),
            engine=checked.text,
            time_s=time_s,
            rejected=rejected,
            slower=slower,
            places=[find_place(checked.text, self.runners.identify_given(checked.text))],
            recipe=proof.recipe,
            replay=proof.replay,
            peak_bytes=checked.peak_bytes,
            digests=list(checked.digests),
        )


def _divide(problems: Sequence[Problem]) -> list[list[Problem]]:
    """Problems whose operands and truths are held at once, in a quarter of the memory that is free."""
    groups: list[list[Problem]] = []
    limit, held = count_available_bytes() / 4, 0.0
    for problem in problems:
        outputs = math.prod(problem.out_shape)
        inputs = sum(math.prod(shape) for shape in problem.operand_shapes.values())
        needed = 2.0 * (_BYTES_AN_OUTPUT * outputs + _BYTES_AN_INPUT * inputs)
        if not groups or held + needed > limit:
            groups.append([])
            held = 0.0
        groups[-1].append(problem)
        held += needed
    return groups


def _as_picked(choice: Choice) -> Choice:
    """The choice as it stands in the lock; only its places show that it was checked again."""
    return msgspec.structs.replace(choice, picked_by="timing", used_by=[])
