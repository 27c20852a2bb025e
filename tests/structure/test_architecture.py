"""The house is as ARCHITECTURE.md says, and its rooms stay small: lengths, branches, names, annotations, words."""

import ast
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PACKAGE = ROOT / "src" / "samebits"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PYPROJECT = (ROOT / "pyproject.toml").read_text()
LONGEST_FILE, LONGEST_FUNCTION = 400, 60
# Functions with more than ten branches, kernels aside.
MOST_COMPLEX = 5
KERNELS = ("kernel", "settling", "exact_accumulator", "microkernel")
# What the word list of the design replaces, wherever a person reads it.
REPLACED = (
    r"suspect", r"line-?up\b", r"convict", r"accus", r"guilt", r"\bstudies\b|\bstudy\b", r"\binterview",
    r"questionnaire", r"re-?enact", r"\bplant(s|ed|ing)?\b", r"\bhealthy\b", r"\btwins?\b",
    r"\bmend(s|ed|ing)?\b", r"\bin force\b",
    r"\bput to (it|every|a runner|the)\b", r"\btold apart\b", r"\btell \w+ apart\b", r"\bno number", r"swallow",
    r"carried in\b", r"\bnot learnt\b", r"\bfused dot", r"\bfrom truth\b", r"\bof bound\b", r"\bkeeps bits\b",
    r"\bhow sure\b", r"culprit",
)  # fmt: skip
READ_BY_PEOPLE = [
    *SOURCES,
    *(ROOT / "benchmarks").glob("*.py"),
    *(ROOT / "examples").glob("*.py"),
    *(p for p in (ROOT / "tests").rglob("*.py") if p != Path(__file__)),
    *(ROOT / "docs").rglob("*.md"),
    *ROOT.glob("*.md"),
    *(ROOT / "known_deviations").glob("*.toml"),
    ROOT / "Makefile",
    ROOT / "pyproject.toml",
]


def list_functions(path):
    """Every function of a file with the names it stands under: (names, node)."""

    def visit(node, names):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, (ast.FunctionDef, ast.ClassDef)):
                yield from ([((*names, child.name), child)] if isinstance(child, ast.FunctionDef) else [])
                # What stands inside a function is its own affair.
                inside = child.name if isinstance(child, ast.ClassDef) else f"_{child.name}"
                yield from visit(child, (*names, inside))

    return list(visit(ast.parse(path.read_text()), ()))


def is_compiled(function):
    return any("compiled" in ast.dump(d) or "njit" in ast.dump(d) for d in function.decorator_list)


def test_every_file_the_table_names_exists():
    table = [line for line in TEXT.splitlines() if line.startswith("|")]
    named = [path for line in table for path in re.findall(r"`([\w./-]+/[\w./-]*)`", line)]
    assert len(named) > 15
    missing = [path for path in named if not (PACKAGE / path).exists() and not (ROOT / path).exists()]
    assert not missing


def test_every_source_file_stands_in_the_table():
    table = "\n".join(line for line in TEXT.splitlines() if line.startswith("|"))
    files = [p.relative_to(PACKAGE).as_posix() for p in SOURCES if p.name not in ("__init__.py", "__main__.py")]
    catalog = [f for f in files if f.startswith("problems/catalog/")]
    missing = [f for f in files if f not in catalog and f"`{f}`" not in table]
    assert not missing


def test_the_picture_is_the_one_that_is_enforced():
    picture = TEXT.partition("```")[2].partition("```")[0]
    shown = [re.sub(r" {2,}.*", "", line).strip() for line in picture.splitlines() if line.strip()]
    layers = re.search(r"layers = \[\n(.*?)\n\]", PYPROJECT, re.DOTALL).group(1)
    enforced = re.findall(r'"(.*?)"', layers)
    assert [line.replace(" ", "") for line in shown] == [line.replace(" ", "") for line in enforced]
    parts = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()}
    assert parts <= set(" ".join(enforced).replace("|", " ").split())


def test_no_two_modules_share_a_name():
    names = [p.stem if p.stem != "__init__" else p.parent.name for p in SOURCES]
    counted = Counter(names)
    # An engine and what people call layers for it have the framework's name.
    assert {n: c for n, c in counted.items() if c > 1 + (n == "torch")} == {}


def test_no_source_file_is_too_long():
    assert {p: n for p in SOURCES if (n := len(p.read_text().splitlines())) > LONGEST_FILE} == {}


def test_no_function_is_too_long():
    sizes = {(p.name, *names): f.end_lineno - f.lineno + 1 for p in SOURCES for names, f in list_functions(p)}
    assert len(sizes) > 500
    assert {name: size for name, size in sizes.items() if size > LONGEST_FUNCTION} == {}


def test_few_functions_have_many_branches():
    command = [sys.executable, "-m", "ruff", "check", "--select", "C901", "--output-format", "concise", str(PACKAGE)]
    found = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    assert found[-1].startswith(("Found", "All checks passed"))
    complex_ = [line for line in found if "C901" in line and not any(k in line.partition(":")[0] for k in KERNELS)]
    assert len(complex_) <= MOST_COMPLEX, complex_


def test_every_source_file_says_what_it_is():
    assert [p for p in SOURCES if not p.read_text().lstrip().startswith('"""')] == []


def is_public(names):
    return not any(name.startswith("_") for name in names)


# What a documented base says, its classes need not repeat.
OVERRIDDEN = {
    "load", "report", "explain_unsupported", "run", "identify", "close", "load_onnx", "run_onnx", "export_program",
    "list_program_values", "run_program", "run_network", "list_changes", "try_text", "time_in_turns", "still_loses",
    "name_change_of_code", "forward", "backward", "prepare", "time_runs",
}  # fmt: skip


def test_public_functions_are_annotated_and_documented():
    public = [(p, names, f) for p in SOURCES for names, f in list_functions(p) if is_public(names)]
    public = [(p, names, f) for p, names, f in public if not is_compiled(f)]
    assert len(public) > 300
    bare = []
    for path, names, function in public:
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        arguments = [a for a in arguments if a.arg not in ("self", "cls")]
        annotated = function.returns is not None and all(a.annotation for a in arguments)
        documented = ast.get_docstring(function) or (len(names) > 1 and names[-1] in OVERRIDDEN)
        if not annotated or not documented:
            bare.append((path.name, *names))
    assert bare == []


@pytest.mark.parametrize("pattern", REPLACED)
def test_replaced_words_are_gone(pattern):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in READ_BY_PEOPLE
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line, re.IGNORECASE)
    ]
    assert found == []
