"""Runs thousands of hostile inputs and says which ended otherwise than a person may expect; `make attack`.

Each ends with status 0, 1 or 2, and with 2 says one line; in a minute, in 4 GiB unless it is refused, and writes
nothing that it was not told to. Most run in a forked child, some as programs. `--at NUMBER` runs one again and shows
what it says.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from hostile_files import make_case_attack
from hostile_outcomes import LONGEST_S, Attack, Outcome, end_attack, judge_outcome, start_attack
from hostile_texts import SMALL, make_command, make_engine, make_log, make_onnx, make_problem, make_product, make_recipe

ROOT = Path(__file__).parent.parent
# How many in a hundred are of which kind.
SHARES: tuple[tuple[int, Callable[[Random], Attack]], ...] = (
    (16, make_command),
    (14, make_problem),
    (12, make_product),
    (12, make_recipe),
    (8, make_engine),
    (22, make_case_attack),
    (13, make_log),
    (3, make_onnx),
)
_PROGRAM_EVERY = 50
_SHOWN_EACH = 3


@dataclass
class Running:
    """An input that has been started and not ended."""

    number: int
    attack: Attack
    folder: Path
    started: float
    killed: bool = False


@dataclass
class Tally:
    """What was counted of all inputs."""

    kinds: Counter[str] = field(default_factory=Counter)
    statuses: Counter[tuple[str, int]] = field(default_factory=Counter)
    times_s: Counter[str] = field(default_factory=Counter)
    faults: dict[str, list[tuple[int, Attack]]] = field(default_factory=lambda: defaultdict(list))
    longest_s: tuple[float, int] = (0.0, 0)
    largest_bytes: tuple[int, int] = (0, 0)


def make_attack(number: int, seed: int) -> Attack:
    """The input of that number: always the same one, however many are made."""
    rng = Random(f"{seed} {number}")
    makers = [maker for share, maker in SHARES for _ in range(share)]
    return rng.choice(makers)(rng)


def warm_up(folder: Path) -> None:
    """Imports everything and compiles what most inputs need, once for all children."""
    import samebits.display.narrator
    import samebits.problems.languages.onnx_node
    import samebits.questions.compare
    import samebits.questions.compare.comparison_report
    import samebits.questions.doctor.inventory
    import samebits.questions.doctor.inventory_report
    import samebits.questions.explain
    import samebits.questions.explain.explanation_report
    import samebits.questions.profile
    import samebits.questions.profile.profile_picture
    import samebits.questions.profile.profile_report  # noqa: F401  (for the children, which fork)

    for number, command in enumerate((("compare", SMALL, "--on", "truth", "--on", "emulate:direct"), ("doctor",))):
        child = start_attack(Attack("warm", command), folder / f"warm{number}", as_program=False)
        os.waitpid(child, 0)


def attack_all(numbers: range, seed: int, jobs: int, folder: Path) -> Tally:
    """Runs the inputs of these numbers, so many at once."""
    tally, running = Tally(), dict[int, Running]()
    waiting = iter(numbers)
    last_said = time.monotonic()
    while True:
        while len(running) < jobs and (number := next(waiting, None)) is not None:
            attack = make_attack(number, seed)
            here = Running(number, attack, folder / str(number), time.monotonic())
            as_program = number % _PROGRAM_EVERY == 0 and not attack.code
            running[start_attack(attack, here.folder, as_program=as_program)] = here
        if not running:
            return tally
        ended, status, usage = os.wait4(-1, os.WNOHANG)
        if ended in running:
            done = running.pop(ended)
            count(tally, done, end_attack(done.folder, status, done.started, usage, ended))
        elif not ended:
            time.sleep(0.002)
        for child, one in running.items():
            if not one.killed and time.monotonic() - one.started > LONGEST_S:
                one.killed = True
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child, signal.SIGKILL)
        if time.monotonic() - last_said > 20:
            last_said = time.monotonic()
            print(f"{tally.kinds.total()} of {len(numbers)}", file=sys.stderr, flush=True)


def count(tally: Tally, done: Running, outcome: Outcome) -> None:
    """Adds one outcome; folders of inputs that ended well are removed."""
    faults = judge_outcome(done.attack, outcome)
    tally.kinds[done.attack.kind] += 1
    tally.statuses[done.attack.kind, outcome.status] += 1
    tally.times_s[done.attack.kind] += outcome.time_s  # type: ignore[assignment]  (a Counter of seconds)
    tally.longest_s = max(tally.longest_s, (outcome.time_s, done.number))
    tally.largest_bytes = max(tally.largest_bytes, (outcome.peak_bytes, done.number))
    for fault in faults:
        tally.faults[fault].append((done.number, done.attack))
        print(f"#{done.number} {fault}: {done.attack.show()}", file=sys.stderr, flush=True)
    if not faults:
        shutil.rmtree(done.folder, ignore_errors=True)


def list_repository() -> dict[str, tuple[int, int]]:
    """Every file of the repository with its size and time, compiled code and what git keeps apart."""
    found = {}
    for parent, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in (".git", ".venv", "__pycache__") and not f.endswith("_cache")]
        for name in files:
            status = os.lstat(os.path.join(parent, name))
            found[os.path.relpath(os.path.join(parent, name), ROOT)] = status.st_size, status.st_mtime_ns
    return found


def print_tally(tally: Tally, elapsed_s: float) -> None:
    """The counts, and for each fault how often and how to see it again."""
    total = tally.kinds.total()
    print(f"{total} hostile inputs in {elapsed_s / 60:.1f} minutes: {len(tally.faults)} distinct faults")
    for kind, number in sorted(tally.kinds.items()):
        statuses = ", ".join(f"{s}: {n}" for (k, s), n in sorted(tally.statuses.items()) if k == kind)
        print(f"  {kind:9}{number:6} {tally.times_s[kind] / number:6.2f} s each   status {statuses}")
    print(f"  longest {tally.longest_s[0]:.1f} s (#{tally.longest_s[1]})", end="")
    print(f", largest {tally.largest_bytes[0] / 2**30:.2f} GiB (#{tally.largest_bytes[1]})")
    for fault, seen in sorted(tally.faults.items(), key=lambda pair: -len(pair[1])):
        print(f"\n{fault}: {len(seen)} times")
        for number, attack in sorted(seen, key=lambda pair: len(pair[1].show()))[:_SHOWN_EACH]:
            print(f"  #{number}  {attack.show()}")


def show_one(number: int, seed: int, folder: Path, as_program: bool) -> None:
    """Runs one input again and prints everything it said; its files are kept."""
    attack, started = make_attack(number, seed), time.monotonic()
    child = start_attack(attack, folder / str(number), as_program=as_program)
    _, status, usage = os.wait4(child, 0)
    outcome = end_attack(folder / str(number), status, started, usage, child)
    print(f"{attack.show()}\nin {folder / str(number) / 'work'}\n{outcome.out}\n{outcome.err}")
    print(f"status {outcome.status}, {outcome.time_s:.1f} s, {outcome.peak_bytes / 2**20:.0f} MiB; ", end="")
    print("; ".join(judge_outcome(attack, outcome)) or "nothing is wrong")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--at", type=int, help="run this input only, show what it says and keep its files")
    parser.add_argument("--program", action="store_true", help="with --at: as a program of its own")
    options = parser.parse_args()
    # What an input leaves open or unread is no matter here.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    folder = Path(tempfile.mkdtemp(prefix="hostile-"))
    warm_up(folder)
    if options.at is not None:
        show_one(options.at, options.seed, folder, options.program)
        return 0
    before, started = list_repository(), time.monotonic()
    tally = attack_all(range(options.first, options.first + options.count), options.seed, options.jobs, folder)
    changed = [n for n, s in list_repository().items() if before.get(n) != s]
    if changed:
        tally.faults[f"written in the repository: {', '.join(changed)[:200]}"] = []
    # `--svg ../../x` is told to write there.
    beside = [n for n in os.listdir(folder) if not n.isdecimal() and n not in ("warm0", "warm1", "x")]
    if beside:
        tally.faults[f"written beside an input's folder: {', '.join(beside)[:200]}"] = []
    print_tally(tally, time.monotonic() - started)
    print(f"what faulty inputs left is in {folder}" if tally.faults else "", end="\n" if tally.faults else "")
    if not tally.faults:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
