"""The lock file: choices as JSON. One process at a time works on a file; it is replaced whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import msgspec

from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runner_text import parse_runner_text
from samebits.engines.runner import Identity
from samebits.engines.runner.lowered_runner import lower_runner
from samebits.errors import LockError, SamebitsError
from samebits.findings import finding_from_json, json_from_finding
from samebits.judging.side_running import run_on_both
from samebits.machine import describe_machine
from samebits.numbers.ulps import digest_bits
from samebits.problems import Problem
from samebits.problems.lowering import lower_problem
from samebits.progress import Progress
from samebits.questions.pick.checking import make_operands
from samebits.questions.pick.finals import OpenRunners
from samebits.questions.pick.pick_schema import Choice, Contract, Lock, LockedChoice, Place
from samebits.regular_files import read_regular
from samebits.version import VERSION


def find_place(text: str, identity: Identity | None = None) -> Place:
    """The Place of a text on this machine, without loading an engine; for a given object, by its `identity`."""
    device = describe_machine()
    if identity is not None:
        return Place(identity.version, device)
    runner = parse_runner_text(text)
    spec = ENGINES.get(runner.name)
    if spec is None:
        return Place(VERSION, device)
    variables = spec.load_class().variables
    fixed = [f"{n}={os.environ[n]}" for n in sorted(variables) if n in os.environ and n not in runner.environment]
    return Place(spec.find_version() or "not installed", ", ".join([device, *fixed]))


_LARGEST_BYTES = 2**28
_LOOK_AGAIN_S = 0.1


def read_lock(path: str | Path) -> Lock:
    """The choices of a lock file; raises LockError where there is none or where it cannot be read."""
    try:
        return finding_from_json(read_regular(path, _LARGEST_BYTES), Lock)
    except OSError as error:
        raise LockError(f"{path}: {error.strerror or error}") from None
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LockError(f"{path}: no lock file of samebits: {str(error)[:150]}") from None


class LockStore:
    """A lock file that this process alone works on."""

    def __init__(self, path: Path):
        self._path = path
        self.name = path.name
        known = read_lock(path).choices if path.exists() else []
        self.choices: dict[str, LockedChoice] = {locked.choice.problem: locked for locked in known}

    def put(self, choice: Choice, contract: Contract) -> None:
        """Keeps a choice, in place of the one of the same problem, and writes the file."""
        self.choices[choice.problem] = LockedChoice(contract=contract, choice=choice)
        lock = Lock(samebits_version=VERSION, choices=list(self.choices.values()))
        # One name for all: what a process that was killed left behind is overwritten by the next.
        new = self._name_new()
        try:
            with self._open_new(new) as file:
                file.write(json_from_finding(lock) + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink()
            raise LockError(f"{self._path}: cannot be written ({error.strerror or error})") from None

    def try_writing(self) -> None:
        """Raises LockError where the file could not be written, before any work is done for it."""
        new = self._name_new()
        try:
            self._open_new(new).close()
            new.unlink()
        except OSError as error:
            raise LockError(f"{self._path}: cannot be written ({error.strerror or error})") from None

    def _name_new(self) -> Path:
        return self._path.with_name(f".{self._path.name}.new")

    def _open_new(self, new: Path) -> TextIO:
        """Opens a new file; whatever has its name, a link too, is removed first."""
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        return os.fdopen(descriptor, "w", encoding="utf-8")


@contextlib.contextmanager
def open_lock(path: str | Path, progress: Progress) -> Iterator[LockStore]:
    """The file for this process alone, as long as the block lasts; others wait. Raises LockError."""
    try:
        # Through links to the file itself, so that all who mean it hold the same folder.
        file = Path(path).resolve()
    except (OSError, RuntimeError) as error:
        raise LockError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    if file.is_dir():
        raise LockError(f"{path}: is a folder")
    try:
        # The lock is on the folder: the file itself is replaced, and may not be there yet.
        held = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise LockError(f"{path}: {error.strerror or error}") from None
    try:
        while not _take(held, path):
            progress(f"waiting: another process works in the folder of {path}", 0.0)
            time.sleep(_LOOK_AGAIN_S)
        store = LockStore(file)
        store.try_writing()
        yield store
    finally:
        os.close(held)


def _take(held: int, path: str | Path) -> bool:
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES):
            return False
        raise LockError(f"{path}: its folder cannot be held for one process ({error.strerror or error})") from None
    return True


def replay_choice(choice: Choice, problem: Problem, runners: OpenRunners, progress: Progress) -> Choice:
    """The choice, without timing. Raises LockError where its engine is missing or gives other bits here."""
    text = choice.engine or ""
    try:
        here = find_place(text, runners.identify_given(text))
    except SamebitsError as error:
        raise LockError(f"the lock's choice for {choice.problem} cannot be used: {error}") from None
    if here in choice.places:
        return msgspec.structs.replace(choice, picked_by="lock")
    progress(f"checking {text[:60]}, which the lock has from elsewhere", 0.5)
    lowering = lower_problem(problem)
    exact, normal = make_operands(lowering)
    try:
        ran = run_on_both(lower_runner(runners.find(text), lowering), lowering.convolution, exact, normal)
    except SamebitsError as error:
        raise LockError(f"the lock's choice for {choice.problem} cannot be used: {error}") from None
    if ran.recorded.result is None or ran.on_exact is None:
        says = ran.recorded.failure.says if ran.recorded.failure else "it returned nothing"
        raise LockError(f"the lock's choice for {choice.problem} cannot be used: {text}: {says}")
    if [digest_bits(ran.on_exact), digest_bits(ran.recorded.result)] != choice.digests:
        known = "; ".join(f"{place.version} on {place.device}" for place in choice.places)
        raise LockError(
            f"{text} gives other bits here ({here.version} on {here.device}) than where the lock was"
            f" made ({known}), for {choice.problem}; --again picks once more"
        )
    return msgspec.structs.replace(choice, picked_by="checked lock", places=[*choice.places, here])
