"""A question's finding is known in its own folder alone, an engine's module in one line of a table."""

import ast
import re
from pathlib import Path

import pytest

import samebits
from samebits.engines.registry.known_engines import ENGINES

PACKAGE = Path(samebits.__file__).parent
QUESTIONS = PACKAGE / "questions"
# One line each: the list of all questions, and the door of the package.
DOORS = {"questions/all_questions.py", "__init__.py"}
# A profile's finding fills rows of lists too; those of problems and networks lie in `findings`.
ROOMS = ("sweep", "reduce", "doctor", "guard")


def list_imports(path):
    """The modules that a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def find_readers(module):
    """The files that import a module or what lies below it, those of its own folder aside."""
    own = PACKAGE / Path(*module.split(".")[1:])
    return {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if not path.is_relative_to(own) and any(f"{name}.".startswith(f"{module}.") for name in list_imports(path))
    }


@pytest.mark.slow
@pytest.mark.parametrize("room", ROOMS)
def test_a_findings_schema_is_read_in_its_own_folder_alone(room):
    """So a field added to it is added, filled, shown and laid out there, and nowhere else."""
    (schema,) = QUESTIONS.joinpath(room).glob("*_schema.py")
    module = f"samebits.questions.{room}.{schema.stem}"
    outside = {name for name in find_readers(module) if not name.startswith(f"questions/{room}/")}
    assert outside == set() or (room == "guard" and all(name.startswith("torch/") for name in outside))


@pytest.mark.slow
def test_the_room_of_sweeps_is_known_to_the_doors_alone():
    assert find_readers("samebits.questions.sweep") <= DOORS


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ENGINES if name != "torch"])
def test_an_engines_module_is_imported_by_nobody(name):
    """The table of engines names it as a text: a new engine is a file and a line. torch's layers call torch's own."""
    assert find_readers(ENGINES[name].module) == set()
    others = [path for path in PACKAGE.rglob("*.py") if path.name != f"{name}.py"]
    assert [path for path in others if re.search(rf"adapters\.{name}\b", path.read_text())] == []
