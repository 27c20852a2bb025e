"""The published JSON Schemas are those of the findings, and what commands print fits them."""

from __future__ import annotations

import importlib
import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import samebits
from samebits.findings import json_from_finding
from samebits.problems import parse_problem_text
from samebits.problems.case_file import Case
from samebits.problems.operands import make_normal
from samebits.questions.doctor.inventory import take_inventory
from samebits.questions.runs.diff_schema import RunDiff, SettingDifference

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "schemas"
LAYER = "conv2d x=2x8x10x12 w=16x8x3x3"


@pytest.fixture(scope="module")
def schemas():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield importlib.import_module("schemas")


def test_the_files_are_what_the_findings_say(schemas):
    """`make schemas` replaces them."""
    written = {path.name: json.loads(path.read_text()) for path in FOLDER.glob("*.json")}
    assert written == {schemas.name_file(kind): schemas.describe(kind) for kind in schemas.KINDS}


def explain_fault():
    problem = parse_problem_text(LAYER)
    operands = make_normal(problem)
    result = np.full(problem.out_shape, np.nan, np.float32)
    return samebits.explain(Case(problem, operands, {"a": result}))


MADE = {
    "comparison": lambda: samebits.compare(LAYER, ["emulate:direct x=tf32 w=tf32", "truth"]),
    "explanation": explain_fault,
    "log": lambda: samebits.explain("examples/xla_mismatch.log"),
    "profile": lambda: samebits.profile("emulate:direct order=c,kw;kw|c where=ow(0*8,1*4)", "conv1d x=1x8x14 w=16x8x3"),
    "network": lambda: samebits.compare("examples/conv_clip.onnx", ["onnxruntime", "truth"]),
    "pick": lambda: samebits.pick(LAYER, ["onnxruntime", "emulate:direct acc=float16"]),
    "inventory": take_inventory,
    "runs": lambda: RunDiff(
        a="a", b="b", same=False, summary="", first=None, settings=[SettingDifference("x", "1", "2", None)], compared=1,
        differing=0, only_a=0, only_b=0, samebits_version="0",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MADE)
def test_findings_fit_their_schema(name):
    document = json.loads(json_from_finding(MADE[name]()))
    schema = json.loads((FOLDER / f"{document['schema'].replace('/', '-')}.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema, cls=jsonschema.Draft202012Validator)
    # The check can fail.
    broken = dict(document)
    del broken["samebits_version"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(broken, schema, cls=jsonschema.Draft202012Validator)
