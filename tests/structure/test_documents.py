"""What README and docs say can be done is done here: Python runs, commands end as they say, tables are the code's."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from needed_engines import skip_without_engines
from needed_gpu import skip_without_gpu
from needed_processor import has_wide_vectors
from samebits import thresholds
from samebits.engines.registry.known_engines import ENGINES
from samebits.findings.causes import CAUSES
from samebits.problems import format_problem, parse_problem_text

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
# Written by benchmarks, or without anything to run.
MEASURED = ("commands.md", "survey.md", "replay.md", "injected.md", "reports.md", "releasing.md")
PAGES = [README, *(p.read_text() for p in sorted((ROOT / "docs").rglob("*.md")) if p.name not in MEASURED)]
BLOCKS = [block for page in PAGES for block in re.findall(r"^```([\w{}-]*)\n(.*?)^```", page, re.DOTALL | re.MULTILINE)]
PYTHON = [text for language, text in BLOCKS if language == "python"]
CONSOLE = [re.match(r"\$ (.*?(?<!\\)\n)(.*)", text, re.DOTALL).groups() for lang, text in BLOCKS if lang == "console"]
LABEL = re.compile(r"^ {2}([a-z]+(?: [a-z]+)*) {2,}\S", re.MULTILINE)
PLAIN = [line for language, text in BLOCKS if not language for line in text.splitlines()]
IN_TABLE = re.findall(r"^\|[^|]*\| `(samebits (?:compare|profile|doctor)[^`]*)`", README, re.MULTILINE)
COMMANDS = [
    *(
        line
        for line in PLAIN
        if re.match(r"samebits (compare|explain|profile|doctor|sweep|pick|reduce) (?!.*( -o | > ))", line)
    ),
    *IN_TABLE,
]
STORIES = [text for language, text in BLOCKS if not language and "samebits trace" in text and "examples/" in text]
# Commands that read what those before them wrote.
CHAINS = [text for language, text in BLOCKS if not language and re.search(r"^samebits .* > \S+$", text, re.MULTILINE)]
PROBLEMS = sorted({line for line in PLAIN if re.match(r"conv(_transpose)?[123]d|linear|matmul", line)})


def run(command: str) -> subprocess.CompletedProcess[str]:
    if "device=cuda" in command:
        skip_without_gpu()
    skip_without_engines(name for name in ENGINES if re.search(rf"\b{name}\b", command))
    words = shlex.split(command.replace("\\\n", " "))
    environment = {**os.environ, "COLUMNS": "96"}
    return subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300
    )


@pytest.mark.parametrize("code", PYTHON)
def test_python_blocks_run(code, tmp_path):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("command", "shown"), sorted(set(CONSOLE)))
def test_shown_runs_give_the_shown_verdict(command, shown):
    done = run(command)
    verdict = re.search(r"^[A-Z]{5,}", shown, re.MULTILINE).group()
    agrees = re.search(r"^(IDENTICAL|ROUNDING) ", done.stdout, re.MULTILINE)
    if agrees and done.returncode == 0 and verdict in ("UNDECIDED", "DOWNGRADE", "WRONG") and not has_wide_vectors():
        pytest.skip("the kernels that the page shows need a processor with AVX-512")
    assert re.search(rf"^{verdict} ", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert done.returncode == (0 if verdict in ("IDENTICAL", "ROUNDING", "REPLAYED") else 1)
    # Labels that a page explains are those that are printed; values may be another machine's.
    shown_labels, printed_labels = (set(LABEL.findall(text)) for text in (shown, done.stdout))
    assert shown_labels <= printed_labels


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_commands_run(command):
    done = run(command)
    assert done.returncode in (0, 1), done.stderr


@pytest.mark.parametrize("story", STORIES)
def test_runs_that_are_recorded_and_compared(story, tmp_path):
    skip_without_engines(["torch"])
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for line in story.splitlines():
        words = [sys.executable if word == "python" else word for word in shlex.split(line)]
        done = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True, cwd=tmp_path, timeout=300)
        assert done.returncode in (0, 1), done.stderr
    assert re.search(r"^(SAME|DIFFER) ", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("commands", CHAINS)
def test_commands_that_read_what_others_wrote(commands, tmp_path):
    skip_without_engines(name for name in ENGINES if re.search(rf"--on {name}\b", commands))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    samebits = f'samebits() {{ {shlex.quote(sys.executable)} -m samebits "$@" || [ $? = 1 ]; }}'
    script = f"set -e\n{samebits}\n{commands}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", PROBLEMS)
def test_problem_texts_are_read_and_printed_back(text):
    printed = format_problem(parse_problem_text(text))
    assert printed == (text if "dtype=" in text else f"{text} dtype=float32")


def test_something_was_found_to_test():
    assert len(PYTHON) >= 2
    assert len(set(CONSOLE)) >= 5
    assert len(set(COMMANDS)) >= 4
    assert len(PROBLEMS) >= 5
    assert len(STORIES) >= 1
    assert len(CHAINS) >= 1


def test_the_readme_is_short():
    prose = re.sub(r"```.*?```", "", README, flags=re.DOTALL)
    assert len(README.split()) <= 600
    assert len(prose.split()) > 300


def test_links_lead_to_files():
    for page, folder in [(README, ROOT), *((p.read_text(), p.parent) for p in (ROOT / "docs").rglob("*.md"))]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[\w-]+)?\)", page):
            assert (folder / target).exists(), target


def test_the_page_of_causes_is_the_table():
    page = (ROOT / "docs" / "causes.md").read_text()
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == [c.code for c in CAUSES]
    for cause in CAUSES:
        section = page.partition(f"## {cause.code}\n")[2].partition("\n## ")[0]
        assert f"{cause.phrase[1:]}. Verdict: {' or '.join(cause.verdicts)}" in section
        assert f"What to do: {cause.advice}." in section


def test_the_page_of_thresholds_is_the_table():
    page = (ROOT / "docs" / "thresholds.md").read_text()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| `")]
    assert [row[:4] for row in rows] == [
        [f"`{t.name}`", f"{t.value:g}", t.decides, t.derivation] for t in thresholds.TABLE
    ]
    # A dash: not varied yet.
    assert all(re.fullmatch(r"\d+( \(\d+\))?|-", cell) for row in rows for cell in row[4:])


def test_every_threshold_is_in_the_table_and_used():
    constants = {name: value for name, value in vars(thresholds).items() if name.isupper() and name != "TABLE"}
    assert {t.name: t.value for t in thresholds.TABLE} == constants
    sources = "\n".join(p.read_text() for p in (ROOT / "src").rglob("*.py") if p.name != "thresholds.py")
    assert [name for name in constants if f"thresholds.{name}" not in sources] == []
