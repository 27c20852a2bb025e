"""What `mutmut run` came to: mutants killed per file, then every survivor as the line it changes (`make mutants`).

Mutmut makes the mutants and runs each in a fork of a warm process; [tool.mutmut] in pyproject.toml says which files
and which tests. Module-level tables, properties and decorated functions (the commands) it leaves alone; those have
tests of their own: tests/findings, tests/judging, tests/cli/test_exit_status.py.
"""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from mutmut.mutation.diff_apply import get_diff_for_mutant

ROOT = Path(__file__).parent.parent
MUTANTS = ROOT / "mutants" / "src" / "samebits"
# pytest's exit status in the fork, as mutmut keeps it: every test passed; mutmut's own: no test calls the function.
SURVIVED = (0, 33)
# Changes that change nothing: both sides of a zip have one length here; NumPy's default type is float64.
HARMLESS = (
    ("equal lengths", re.compile(r"strict=(None|False)|zip\([^=]*, \)")),
    ("float64 either way", re.compile(r"\.astype\(None\)|np\.asarray\(None\)")),
)


@dataclass(frozen=True)
class File:
    """The mutants of one source file: how many were run, and the names of those that no test noticed."""

    path: str
    run: int
    survivors: list[str]


def read_files() -> list[File]:
    """All files that have mutants; a mutant that was not run yet does not count."""
    files: list[File] = []
    for path in sorted(MUTANTS.rglob("*.meta")):
        statuses = json.loads(path.read_text())["exit_code_by_key"]
        run = {name: status for name, status in statuses.items() if status is not None}
        if run:
            survivors = [name for name, status in run.items() if status in SURVIVED]
            files.append(File(str(path.relative_to(MUTANTS).with_suffix("")), len(run), survivors))
    return files


def describe_change(name: str) -> tuple[str, str]:
    """The changed line before and after."""
    lines = get_diff_for_mutant(name).splitlines()
    before = " ".join(line[1:].strip() for line in lines if line.startswith("-") and not line.startswith("---"))
    after = " ".join(line[1:].strip() for line in lines if line.startswith("+") and not line.startswith("+++"))
    return before, after


def say_harmless(before: str, after: str) -> str:
    """Why a change cannot matter, where its kind says so."""
    dropped = "strict=True" in before and "strict" not in after
    known = (why for why, pattern in HARMLESS if pattern.search(after) and not pattern.search(before))
    return "equal lengths" if dropped else next(known, "")


def show_survivors(files: list[File]) -> None:
    for file in files:
        for name in file.survivors:
            before, after = describe_change(name)
            why = say_harmless(before, after)
            print(f"\n{name}{f'  (changes nothing: {why})' if why else ''}\n  - {before}\n  + {after}")


def show_table(files: list[File]) -> int:
    """Prints killed of run per file; returns the share killed, in percent."""
    print(f"{'file':40} {'killed':>7} {'of':>5}")
    for file in files:
        print(f"{file.path:40} {file.run - len(file.survivors):7} {file.run:5}")
    run, survived = sum(f.run for f in files), sum(len(f.survivors) for f in files)
    share = 100 * (run - survived) // max(run, 1)
    print(f"{'all':40} {run - survived:7} {run:5}   {share} %")
    return share


def main() -> int:
    os.chdir(ROOT)
    files = read_files()
    show_survivors(files)
    print()
    return 0 if show_table(files) >= 85 else 1


if __name__ == "__main__":
    sys.exit(main())
