"""What is published beside the code says what the code says: citation, conda recipe, the action for GitHub."""

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from samebits.version import VERSION

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parent.parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ACTION = ROOT / "samebits-action"
# Packages that conda calls otherwise.
CONDA_NAMES = {"xxhash": "python-xxhash", "torch": "pytorch"}


def name_for_conda(requirement: str) -> str:
    name, rest = re.match(r"([\w.-]+)(.*)", requirement).groups()
    return f"{CONDA_NAMES.get(name, name)} {rest}"


def test_the_citation_names_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (str(cited["version"]), cited["license"]) == (VERSION, PROJECT["license"])
    assert {"cff-version", "message", "title", "authors", "type"} <= set(cited)


def test_the_conda_recipe_needs_what_the_package_needs():
    recipe = yaml.safe_load((ROOT / "packaging/conda/recipe.yaml").read_text())
    assert str(recipe["context"]["version"]) == VERSION
    needed = {name_for_conda(r) for r in PROJECT["dependencies"]}
    python = f"python {PROJECT['requires-python']}"
    assert set(recipe["requirements"]["run"]) == {*needed, python}
    extras = PROJECT["optional-dependencies"]
    optional = {name_for_conda(r) for name in ("torch", "jax", "openvino", "report") for r in extras[name]}
    assert set(recipe["requirements"]["run_constraints"]) <= optional
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert entry == f"samebits = {PROJECT['scripts']['samebits']}"


def test_the_action_passes_on_every_input():
    action = yaml.safe_load((ACTION / "action.yml").read_text())
    text = (ACTION / "action.yml").read_text()
    for name in action["inputs"]:
        assert f"inputs.{name} }}" in text
    # Inputs reach the shell as variables alone: no text of a caller becomes part of a script.
    scripts = [step["run"] for step in action["runs"]["steps"] if "run" in step]
    assert scripts
    assert not any("${{" in script for script in scripts)


def run_action(folder: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(folder / "output"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "PAGES": str(folder / "pages"),
        **inputs,
    }
    return subprocess.run(
        ["bash", str(ACTION / "run.sh")], cwd=folder, env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize(
    ("engine", "status", "verdict"),
    [("truth", 0, "identical"), ("emulate:direct acc=float16", 1, "downgrade"), ("nobody", 2, "trouble")],
)
def test_the_action_compares(engine, status, verdict, tmp_path):
    done = run_action(tmp_path, COMPARE="linear x=4x64 w=8x64", ENGINES=f"{engine}\ntruth\n")
    assert done.returncode == status, done.stderr
    assert (tmp_path / "output").read_text() == f"verdict={verdict}\n"
    if status < 2:
        assert json.loads((tmp_path / "pages/compare.json").read_text())["verdict"] == verdict
        assert (tmp_path / "pages/compare.html").read_text().lower().startswith("<!doctype html>")
        assert f"**{verdict.upper()}**" in (tmp_path / "summary.md").read_text()


@pytest.mark.parametrize(
    ("engines", "status", "verdict"),
    [("", 0, "same"), ("numpy\nemulate:direct acc=float16\n", 1, "different"), ("numpy\nnobody\n", 2, "trouble")],
)
def test_the_action_checks_seals(engines, status, verdict, tmp_path):
    sealing = ["-m", "samebits", "seal", "linear x=4x64 w=8x64", "--on", "numpy", "-o", "net.seal"]
    subprocess.run([sys.executable, *sealing], cwd=tmp_path, check=True, capture_output=True, timeout=300)
    done = run_action(tmp_path, SEAL="net.seal", ENGINES=engines)
    assert done.returncode == status, done.stderr
    assert (tmp_path / "output").read_text() == f"verdict={verdict}\n"
    # The seal holds on the first engine of all three, whatever the others do.
    assert json.loads((tmp_path / "pages/check1.json").read_text())["holds"] is True
    assert "**HOLDS**" in (tmp_path / "summary.md").read_text()


KERNELS = """
import numpy as np
from samebits.testing import conformance

def right(problem, operands):
    return operands["x"] @ operands["w"].T

def narrow(problem, operands):
    return (operands["x"].astype(np.float16) @ operands["w"].astype(np.float16).T).astype(np.float32)

test_kernel = conformance({kernel}, ["linear x=6x80 w=5x80"])
"""


@pytest.mark.parametrize(("kernel", "status", "verdict"), [("right", 0, "passed"), ("narrow", 1, "failed")])
def test_the_action_tests_kernels(kernel, status, verdict, tmp_path):
    (tmp_path / "test_kernel.py").write_text(KERNELS.replace("{kernel}", kernel))
    done = run_action(tmp_path, CONFORMANCE="test_kernel.py")
    assert done.returncode == status, done.stdout + done.stderr
    assert (tmp_path / "output").read_text() == f"verdict={verdict}\n"
    assert bool(list((tmp_path / "pages").glob("*.html"))) == bool(status)


def test_tests_that_cannot_be_run_are_trouble(tmp_path):
    done = run_action(tmp_path, CONFORMANCE="missing.py")
    assert done.returncode == 2
    assert (tmp_path / "output").read_text() == "verdict=trouble\n"


def test_the_action_wants_to_be_told_what_to_do(tmp_path):
    done = run_action(tmp_path)
    assert (done.returncode, done.stderr) == (2, "samebits-action: give compare, seal or conformance\n")
