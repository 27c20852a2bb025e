"""What the README says can be done is done here: its Python runs, its commands end as it says."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from samebits.problems import format_problem, parse_problem_text

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```", README, re.DOTALL | re.MULTILINE)
PYTHON = [text for language, text in BLOCKS if language == "python"]
CONSOLE = [re.match(r"\$ (.*?(?<!\\)\n)(.*)", text, re.DOTALL).groups() for lang, text in BLOCKS if lang == "console"]
PLAIN = [line for language, text in BLOCKS if not language for line in text.splitlines()]
COMMANDS = [line for line in PLAIN if line.startswith("samebits ")]
PROBLEMS = [line for line in PLAIN if line.startswith("conv")]


def run(command: str) -> subprocess.CompletedProcess[str]:
    words = shlex.split(command.replace("\\\n", " "))
    environment = {**os.environ, "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", *words], capture_output=True, text=True, cwd=ROOT, env=environment, timeout=300
    )


@pytest.mark.parametrize("code", PYTHON)
def test_python_blocks_run(code, tmp_path):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("command", "shown"), CONSOLE)
def test_shown_runs_give_the_shown_verdict(command, shown):
    done = run(command)
    verdict = re.search(r"^[A-Z]{5,}", shown, re.MULTILINE).group()
    assert re.search(rf"^{verdict} ", done.stdout, re.MULTILINE), done.stdout + done.stderr
    assert done.returncode == (0 if verdict in ("IDENTICAL", "ROUNDING", "REPLAYED") else 1)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command):
    assert run(command).returncode in (0, 1)


@pytest.mark.parametrize("text", PROBLEMS)
def test_problem_texts_are_read_and_printed_back(text):
    printed = format_problem(parse_problem_text(text))
    assert printed == (text if "dtype=" in text else f"{text} dtype=float32")


def test_something_was_found_to_test():
    assert (len(PYTHON), len(CONSOLE), len(COMMANDS), len(PROBLEMS)) == (2, 4, 1, 5)
