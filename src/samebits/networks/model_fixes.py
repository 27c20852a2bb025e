"""A network as a place of trials: every text runs it on the inputs compared and on others, all units judged."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from samebits.errors import ModelError, SamebitsError
from samebits.findings import Fix, Verdict, is_agreement, worst_verdict
from samebits.findings.causes import CauseCode
from samebits.judging.fixes.setting_changes import Change, apply_all, list_changes
from samebits.judging.fixes.trials import Trial, time_in_turns
from samebits.networks.model_judging import JudgedUnit
from samebits.networks.model_runners import ModelRunner, open_model_runner
from samebits.networks.network import Network
from samebits.networks.observing import Observer
from samebits.numbers.ulps import digest_bits
from samebits.problems.case_file import save_case
from samebits.problems.integer_problem import is_integer_problem

Arrays = Mapping[str, np.ndarray]


@dataclass
class ModelTrials:
    """A network, the inputs that were compared, and others. `judge` gives the worst verdict of an observer's units."""

    network: Network
    inputs: Arrays
    others: Arrays
    judge: Callable[[Observer], Verdict]
    time_limit_s: float = 300.0
    # Texts that give the same bits need no second judgement.
    known: dict[tuple[str, str, str], Verdict] = field(default_factory=dict[tuple[str, str, str], Verdict])

    def list_changes(self, text: str, cause: CauseCode | None, in_force: Mapping[str, str]) -> list[Change]:
        return list_changes(text, None, cause, in_force)

    def try_text(self, text: str, changes: tuple[Change, ...]) -> Trial:
        changed = apply_all(text, changes)
        failed = Trial(changed, changes, "undecided", None)
        try:
            runner = self._open(changed)
        except SamebitsError:
            return failed
        try:
            failed = replace(failed, identity=runner.identify())
            observers = [Observer(runner, self.network, fed) for fed in (self.inputs, self.others)]
            for observer in observers:
                observer.begin()
            own, other = (digest_outputs(o.plain) for o in observers)
            digests = ("", own, other)
            if digests not in self.known:
                verdicts: list[Verdict] = [self.judge(o) for o in observers]
                deviating: list[Verdict] = [v for v in verdicts if not is_agreement(v)]
                self.known[digests] = worst_verdict(deviating or verdicts)
            repeats = all(o.repeats is not False for o in observers)
            return replace(failed, verdict=self.known[digests] if repeats else "undecided", digests=digests)
        except SamebitsError:
            return failed
        finally:
            runner.close()

    def _open(self, text: str) -> ModelRunner:
        codes = is_integer_problem(self.network.name)
        return open_model_runner(text, time_limit_s=self.time_limit_s, program=self.network.program, codes=codes)

    def time_in_turns(self, texts: tuple[str, str]) -> tuple[float, float] | None:
        return time_in_turns(self._open_run, texts)

    def _open_run(self, text: str) -> tuple[Callable[[], object], Callable[[], None]]:
        runner = self._open(text)
        observer = Observer(runner, self.network, self.inputs)
        return lambda: observer.run_with([], self.network.outputs), runner.close

    def still_loses(self, trial: Trial) -> bool:
        """False: every unit was judged on what it was fed, with its cause, so nothing is left to ask."""
        return False

    def name_change_of_code(self) -> Fix | None:
        return None


def digest_outputs(outputs: Arrays) -> str:
    """A name for the bits of all outputs."""
    parts = [f"{name} {array.dtype} {array.shape} {digest_bits(array)}" for name, array in sorted(outputs.items())]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


_ODD = re.compile(r"[^A-Za-z0-9_.-]+")
_LONGEST_NAME = 60


def save_cases(folder: str | Path, judged: Sequence[JudgedUnit]) -> list[str]:
    """Writes one case per unit, with what each deviating side returned; the paths written, in the units' sequence.

    The folder is made if it is not there. A network's names make no path: whatever is no letter, digit, dot, dash or
    underscore becomes an underscore. Raises ModelError where nothing can be written.
    """
    if not str(folder):
        raise ModelError("cases need a folder to be written to, and its name is empty")
    folder, written = Path(folder), list[str]()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for number, unit in enumerate(judged):
            for side, shown in unit.cases.items():
                name = f"{number:03d}-{_plain(unit.unit.name)}-{_plain(side)}.npz"
                path = folder / name
                save_case(path, shown.case.problem, shown.case.operands, shown.case.results)
                written.append(str(path))
    except (OSError, ValueError) as error:  # ValueError: a path with a null byte.
        said = getattr(error, "strerror", None) or error
        raise ModelError(f"cases cannot be written to {str(folder)!r}: {said}") from None
    return written


def _plain(name: str) -> str:
    return _ODD.sub("_", name)[:_LONGEST_NAME].strip(".") or "unit"
