"""Examples in docstrings run, and every function of the public interface has one."""

import doctest
import importlib
from pathlib import Path

import pytest

import samebits
import samebits.testing
import samebits.torch
from needed_engines import skip_without_engines
from samebits.questions.list.list_running import run_list
from samebits.questions.list.table_changes import compare_tables

pytestmark = pytest.mark.slow
ROOT = Path(samebits.__file__).parent.parent
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in ROOT.rglob("samebits/**/*.py")
    if ">>> " in path.read_text()
)
# What records torch's operations, and what is made of its layers.
OF_TORCH = ("samebits.torch", "samebits.questions.runs")
PUBLIC = {
    **{name: getattr(samebits, name) for name in samebits.__all__ if not name.endswith(("Truth", "Error", "Failure"))},
    **{name: getattr(samebits.testing, name) for name in samebits.testing.__all__ if name != "PROPERTIES"},
    **{name: getattr(samebits.torch, name) for name in ("convert", "guard", "list_problems")},
    "run_list": run_list,
    "compare_tables": compare_tables,
}


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module, tmp_path, monkeypatch):
    if module.startswith(OF_TORCH):
        skip_without_engines(["torch"])
    monkeypatch.chdir(tmp_path)
    failed, run = doctest.testmod(importlib.import_module(module))
    assert failed == 0
    assert run > 0


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_function_shows_how_it_is_called(name):
    assert f"{name}(" in (PUBLIC[name].__doc__ or "").partition(">>> ")[2]
