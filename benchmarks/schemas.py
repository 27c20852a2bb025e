"""Writes docs/schemas: what each kind of finding looks like as JSON, as JSON Schema (`make schemas`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from samebits.findings import Comparison, Inventory, Profile
from samebits.findings.diff_schema import RunDiff
from samebits.findings.guard_schema import GuardReport
from samebits.findings.list_schema import ChangesFinding, ListFinding
from samebits.findings.model_schema import ModelComparison
from samebits.findings.pick_schema import Lock, Pick
from samebits.findings.reduction_schema import Reduction
from samebits.findings.sweep_schema import Sweep

FOLDER = Path(__file__).parent.parent / "docs" / "schemas"
KINDS: tuple[type[msgspec.Struct], ...] = (
    Comparison,
    Profile,
    ModelComparison,
    RunDiff,
    Pick,
    Lock,
    GuardReport,
    Sweep,
    ListFinding,
    ChangesFinding,
    Reduction,
    Inventory,
)


def describe(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON Schema of a finding, under the name that its `schema` field has."""
    name = next(f.default for f in msgspec.structs.fields(kind) if f.name == "schema")
    found = msgspec.json.schema(kind)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": name, "title": name, **found}


def name_file(kind: type[msgspec.Struct]) -> str:
    """samebits.comparison/1 is kept as samebits.comparison-1.json."""
    return describe(kind)["$id"].replace("/", "-") + ".json"


def main() -> None:
    """Writes all schemas anew."""
    FOLDER.mkdir(exist_ok=True)
    for kind in KINDS:
        (FOLDER / name_file(kind)).write_text(json.dumps(describe(kind), indent=1) + "\n")


if __name__ == "__main__":
    main()
