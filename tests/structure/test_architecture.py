"""The house is as ARCHITECTURE.md says, and its functions stay short: lengths, branches, names, annotations, words."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
PACKAGE = ROOT / "src" / "samebits"
SOURCES = sorted(PACKAGE.rglob("*.py"))
PYPROJECT = (ROOT / "pyproject.toml").read_text()
LONGEST_FUNCTION = 60
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
    # Patterns that a native editor rewrites.
    r"\bheld against\b", r"\banew\b", r"\binside of\b", r"as far as to", r"\bbe had again\b", r"\bhold_against",
    r"\b(large|small|little|nothing|exact data) beside\b", r"\bbeside (other work|each other)\b", r"\bbesides[.:,]",
    r"\btold (by|from)\b", r"\bis liken", r"goes_either_way",
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


def count_lines(function):
    """Of a function without its docstring, which may show as much as it needs."""
    first = function.body[0]
    said = first.end_lineno - first.lineno + 1 if ast.get_docstring(function) else 0
    return function.end_lineno - function.lineno + 1 - said


def is_compiled(function):
    return any("compiled" in ast.dump(d) or "njit" in ast.dump(d) for d in function.decorator_list)


def test_the_picture_is_the_one_that_is_enforced():
    picture = TEXT.partition("```")[2].partition("```")[0]
    shown = [re.sub(r" {2,}.*", "", line).strip() for line in picture.splitlines() if line.strip()]
    layers = re.search(r"layers = \[\n(.*?)\n\]", PYPROJECT, re.DOTALL).group(1)
    enforced = re.findall(r'"(.*?)"', layers)
    assert [line.replace(" ", "") for line in shown] == [line.replace(" ", "") for line in enforced]
    parts = {p.name for p in PACKAGE.iterdir() if (p / "__init__.py").exists()}
    assert parts <= set(" ".join(enforced).replace("|", " ").split())


def test_no_function_is_too_long():
    sizes = {(p.name, *names): count_lines(f) for p in SOURCES for names, f in list_functions(p)}
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
    "name_change_of_code", "explain_no_attention", "attend", "explain_no_function", "map_rows", "forward", "backward",
    "prepare", "time_runs", "compile_onnx",
}  # fmt: skip


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("pattern", REPLACED)
def test_replaced_words_are_gone(pattern):
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in READ_BY_PEOPLE
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if re.search(pattern, line, re.IGNORECASE)
    ]
    assert found == []
