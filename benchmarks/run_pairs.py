"""Pairs of small trainings with one cause of difference each: is the first difference found, and of which kind?

`make runs` (also --write FILE). The training is `tests/questions/training.py`; what must be told of each pair is
written beside it, from what the training does.
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pages import write_page

from samebits.questions.runs.run_diff import diff

TRAINING = Path(__file__).parent.parent / "tests" / "questions" / "training.py"
ABOUT = """Two runs of a small training (`tests/questions/training.py`: convolution, batch norm, dropout, linear layer;
6 steps), which differ in one thing, with other optimizers, workers and threads that are the same in both. Right is a
pair whose first difference is told at the line and in the step where the training makes it, with the right kind; of
pairs without a difference, that they are the same. `make runs` writes this page."""
BASES = ((), ("optimizer=adam",), ("workers=1",), ("threads=2", "lr=0.1"))


@dataclass(frozen=True)
class Pair:
    """What differs, both runs, and what must be told: kind, reason, line, step; without a kind: they are the same."""

    cause: str
    a: tuple[str, ...]
    b: tuple[str, ...]
    kind: str | None
    reason: str | None
    line: str
    step: int


def list_pairs() -> Iterator[Pair]:
    """All of them, with the expected answer."""
    for base, seed in itertools.product(BASES, (1, 2)):
        yield (
            Pair("nothing", base, (*base, "again"), None, None, "", 0)
            if seed == 1
            else Pair("seed", base, (*base, f"seed={seed}"), "inputs", "random state", "self.conv, self.norm =", 0)
        )
    for base in BASES:
        yield Pair("no seed", base, (*base, "seed=none"), "inputs", "random state", "self.conv, self.norm =", 0)
        yield Pair("shuffle", base, (*base, "shuffle=9"), "inputs", "random state", "for step, (x, y) in", 0)
        yield Pair("dropout", base, (*base, "p=0.3"), "inputs", "arguments", "return self.head", 0)
        yield Pair("initial value", base, (*base, "start=1e-5"), "structure", None, "model.head.bias[0] +=", 0)
        yield Pair("kernels", base, (*base, "mkldnn=off"), "operation", None, "y = torch.relu", 0)
        for step in (1, 3, 5):
            yield Pair("one ulp", base, (*base, f"nudge={step}"), "structure", None, "torch.nextafter", step)
            yield Pair("drawn once more", base, (*base, f"extra_draw={step}"), "structure", None, "torch.rand(1)", step)
        yield Pair("order in a batch", base, (*base, "swap=2"), "structure", None, "x, y = x.flip(0)", 2)
    for base in ((), ("optimizer=adam",), ("workers=1",)):
        yield Pair("rate", base, (*base, "lr=0.04"), "inputs", "arguments", "optimizer.step()", 0)
        yield Pair("order of data", base, (*base, "python_shuffle=1"), "inputs", "order of the data", "x = self.x[", 0)
        yield Pair("augmentation", (*base, "augment=1"), (*base, "augment=2"), "inputs", "arguments", "default_rng", 0)
    yield Pair("workers", (), ("workers=2",), None, None, "", 0)
    yield Pair("workers", ("workers=1",), ("workers=2",), None, None, "", 0)
    yield Pair("noise", ("noise=1",), ("noise=1", "again"), "inputs", "arguments", "os.urandom", 0)


def find_line(text: str) -> str:
    """Where the training does something; nothing for no text."""
    lines = TRAINING.read_text().splitlines()
    return f"training.py:{next(i for i, line in enumerate(lines, 1) if text in line)}" if text else ""


def record(folder: Path, changes: tuple[str, ...]) -> Path:
    """The trace of a run with these changes; each is run once."""
    path = folder / ("-".join(changes) + ".trace")
    if not path.exists():
        given = [c for c in changes if c != "again"]
        command = [
            sys.executable,
            "-m",
            "samebits",
            "trace",
            "-o",
            str(path),
            "--",
            sys.executable,
            str(TRAINING),
            *given,
        ]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def judge(pair: Pair, folder: Path) -> tuple[bool, str]:
    """Whether what is told is right, and what is told."""
    found = diff(record(folder, pair.a), record(folder, pair.b))
    if found.first is None:
        return pair.kind is None, "the same"
    first = found.first
    told = (first.kind, first.reason, first.line, first.step)
    return told == (pair.kind, pair.reason, find_line(pair.line), pair.step), str(told)


def main() -> int:
    """Runs and judges all pairs; writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    counts, right = Counter[str](), Counter[str]()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for pair in list_pairs():
            is_right, told = judge(pair, Path(folder))
            counts[pair.cause] += 1
            right[pair.cause] += is_right
            if not is_right:
                wrong.append(f"- {pair.cause}, {' '.join(pair.b)}: told {told}")
                print(wrong[-1], file=sys.stderr, flush=True)
    lines = ["| cause | pairs | right |", "|---|---|---|"]
    lines += [f"| {cause} | {count} | {right[cause]} |" for cause, count in counts.items()]
    lines += [f"| **all** | {counts.total()} | {right.total()} |", "", *wrong]
    print("\n".join(lines))
    if given.write:
        write_page(given.write, "Runs with one cause of difference", ABOUT, "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
