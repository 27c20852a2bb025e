"""The catalog on five engines: left alone, killed again and again, on a cluster that loses a node: the same table?

`make kills` (also --only GLOB, --on ENGINE, --kills N, --seed N, --parts killed,cluster). Rows that differ are asked
again: an engine that does not repeat itself (known_deviations/) cannot make the same row twice. Exit status 1 where
another one differs.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pyarrow.parquet
from survey_tables import ENGINES, TABLES

from samebits.engines.registry.runners import open_runner
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.questions.list.row import Row

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from ray_cluster import open_cluster

_SHORTEST_S, _LONGEST_S = 2.0, 40.0
# How often an engine is asked whether it repeats itself.
_REPEATS = 20


def prepare(name: str) -> Path:
    """Where a table is to be written; what was there is gone."""
    TABLES.mkdir(parents=True, exist_ok=True)
    path = TABLES / f"{name}.parquet"
    path.unlink(missing_ok=True)
    path.with_name(path.name + ".partial").unlink(missing_ok=True)
    return path


def sweep(words: Sequence[str], table: Path) -> subprocess.Popen[bytes]:
    """A sweep that goes on where it was."""
    words = [*words, "-o", str(table), "--resume"]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def sweep_killed(words: Sequence[str], table: Path, kills: int, chance: random.Random) -> None:
    """Runs a sweep that is killed at random times, `kills` times at most."""
    killed = 0
    while not table.exists():
        process = sweep(words, table)
        try:
            process.wait(chance.uniform(_SHORTEST_S, _LONGEST_S) if killed < kills else None)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
            print(f"killed {killed} times", file=sys.stderr)
        if process.returncode == 2 or (process.returncode == 1 and not table.exists()):
            raise SystemExit(f"the sweep refused: {' '.join(words)}")
    print(f"killed {killed} times", end=": ")


def sweep_on_cluster(words: Sequence[str], table: Path, subjects: int) -> None:
    """Runs a sweep on two nodes, each with engines of its own; one is lost midway, and replaced later."""
    half = {"torch": 1, "tensorflow": 1}
    with open_cluster({"onnxruntime": 1, "jax": 1, "openvino": 1}, {}) as cluster:
        lost = cluster.add(half)
        started = time.perf_counter()
        process = sweep([*words, "--ray", cluster.address], table)
        journal = table.with_name(table.name + ".partial")
        while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > subjects / 2):
            time.sleep(0.5)
        cluster.kill(lost)
        print("a node is lost", file=sys.stderr)
        time.sleep(10)
        cluster.add(half)
        process.wait()
        print(f"on a cluster that lost a node, {time.perf_counter() - started:.0f} s", end=": ")


def compare_rows(one: Path, other: Path) -> bool:
    """Whether two tables are the same but for rows of engines that do not repeat themselves; says so."""
    a, b = (msgspec.convert(pyarrow.parquet.read_table(path).to_pylist(), list[Row]) for path in (one, other))
    if one.read_bytes() == other.read_bytes():
        print(f"{len(b)} rows, the same bytes")
        return True
    if len(a) != len(b):
        print(f"{len(a)} rows and {len(b)}")
        return False
    differing = [row for row, again in zip(a, b, strict=True) if row != again]
    unsteady = [row for row in differing if not repeats(row)]
    print(f"{len(b)} rows, {len(differing)} differ; of these the engine does not repeat itself in {len(unsteady)}:")
    for row in differing:
        print(f"  {row.side} on {row.subject}{'' if row in unsteady else ': NO REASON'}")
    return len(differing) == len(unsteady)


def repeats(row: Row) -> bool:
    """Whether an engine gives the same bits for the same operands again and again."""
    problem = parse_problem_text(row.problem or "")
    operands = make_normal(problem, 0)
    runner = open_runner(row.side or "")
    try:
        return len({runner.run(problem, operands).tobytes() for _ in range(_REPEATS)}) == 1
    finally:
        runner.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="*")
    parser.add_argument("--on", action="append")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parts", default="killed,cluster")
    options = parser.parse_args()
    alone = prepare("left-alone")
    engines = [word for engine in options.on or ENGINES for word in ("--on", engine)]
    words = [sys.executable, "-m", "samebits", "sweep", f"catalog:{options.only}", *engines]
    started = time.perf_counter()
    sweep(words, alone).wait()
    subjects = len({row["subject"] for row in pyarrow.parquet.read_table(alone).to_pylist()})
    print(f"left alone: {subjects} subjects, {time.perf_counter() - started:.0f} s")
    same = True
    if "killed" in options.parts:
        killed = prepare("killed")
        sweep_killed(words, killed, options.kills, random.Random(options.seed))
        same &= compare_rows(alone, killed)
    if "cluster" in options.parts:
        spread = prepare("cluster")
        sweep_on_cluster(words, spread, subjects)
        same &= compare_rows(alone, spread)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())
