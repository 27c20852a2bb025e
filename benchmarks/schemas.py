"""Writes docs/schemas: what each kind of finding looks like as JSON, as JSON Schema (`make schemas`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from samebits.findings import Comparison
from samebits.findings.model_schema import ModelComparison
from samebits.questions.case.case_schema import CaseContents
from samebits.questions.compare.versions_schema import Versions
from samebits.questions.doctor.inventory_schema import Inventory
from samebits.questions.guard.guard_schema import GuardReport
from samebits.questions.list.list_schema import ChangesFinding, ListFinding
from samebits.questions.pick.pick_schema import Lock, Pick
from samebits.questions.profile.profile_schema import Profile
from samebits.questions.reduce.reduction_schema import Reduction
from samebits.questions.runs.diff_schema import RunDiff
from samebits.questions.seal.seal_schema import Check, Seal
from samebits.questions.sweep.sweep_schema import Sweep

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
    Versions,
    ListFinding,
    ChangesFinding,
    Reduction,
    Inventory,
    CaseContents,
    Seal,
    Check,
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
    """Replaces all schemas."""
    FOLDER.mkdir(exist_ok=True)
    for kind in KINDS:
        (FOLDER / name_file(kind)).write_text(json.dumps(describe(kind), indent=1) + "\n")


if __name__ == "__main__":
    main()
