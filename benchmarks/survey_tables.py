"""What surveys share: a list swept on the CPU engines into a table that outlives an interruption, and its rows."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import pyarrow.parquet

from samebits.questions.list.list_running import run_list
from samebits.questions.list.list_schema import ListFinding
from samebits.questions.list.row import Row
from samebits.questions.list.subject_running import Doing

ROOT = Path(__file__).parent.parent
KNOWN = ROOT / "known_deviations" / "cpu_engines.toml"
TABLES = ROOT / "build" / "surveys"
ENGINES = ("onnxruntime", "torch", "tensorflow", "jax", "openvino:INFERENCE_PRECISION_HINT=f32")


def write_lines(name: str, lines: Iterable[str]) -> str:
    """The path of a list made of these lines."""
    TABLES.mkdir(parents=True, exist_ok=True)
    path = TABLES / f"{name}.txt"
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def sweep_survey(
    name: str, lists: str, engines: Sequence[str], doing: Doing, known: Path | None = None
) -> tuple[ListFinding, list[Row]]:
    """The list's table, which stays under build/surveys; what was interrupted is gone on with."""
    TABLES.mkdir(parents=True, exist_ok=True)
    table = TABLES / f"{name}.parquet"
    begun = table.with_name(table.name + ".partial").exists()
    found = run_list(lists, engines, table=table, doing=doing, known=known, resume=begun, progress=_show)
    print(file=sys.stderr)
    return found, msgspec.convert(pyarrow.parquet.read_table(table).to_pylist(), list[Row])


def _show(what: str, share: float | None) -> None:
    print(f"\r{100 * (share or 0.0):5.1f} % {what:<70}", end="", file=sys.stderr)
