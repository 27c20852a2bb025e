"""The help of every command: two examples that can be typed as they stand."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from samebits.cli.app import COMMANDS as DECLARED
from samebits.cli.app import app, main
from samebits.questions.all_questions import FINDINGS

ROOT = Path(__file__).parent.parent.parent
COMMANDS = typer.main.get_command(app).commands
EXAMPLES = {name: command.examples for name, command in DECLARED.items()}


def test_the_reference_lists_every_command_and_option():
    page = (ROOT / "docs" / "commands.md").read_text()
    assert re.findall(r"^## (.*)$", page, re.MULTILINE) == [*COMMANDS]
    for name, command in COMMANDS.items():
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        cells = " ".join(re.findall(r"^\| `(-.*?)` \|", section, re.MULTILINE))
        listed = set(re.findall(r"--?[a-z][a-z-]*\b", cells))
        assert listed == {o for p in command.params for o in (*p.opts, *p.secondary_opts) if o.startswith("-")}, name
        assert DECLARED[name].exits in section


def test_declared_findings_bring_their_class_and_layout():
    for schema, kind in FINDINGS.items():
        found, lay_out, show = kind.load()
        assert (
            found.__struct_defaults__[found.__struct_fields__.index("schema") - len(found.__struct_fields__)] == schema
        )
        assert callable(lay_out)
        assert show is None or callable(show)


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_shows_two_examples_a_line_each(name, capsys):
    assert main([name, "--help"]) == 0
    printed = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert len(EXAMPLES[name]) == 2
    assert all(example in printed for example in EXAMPLES[name])


@pytest.mark.parametrize(("name", "example"), [(n, e) for n, two in EXAMPLES.items() for e in two])
def test_examples_are_commands_with_options_that_exist(name, example):
    program, command, *arguments = shlex.split(example)
    assert (program, command) == ("samebits", name)
    assert COMMANDS[name].make_context(name, arguments) is not None


def test_shells_complete_commands():
    program = Path(sys.executable).with_name("samebits")
    asked = {"_SAMEBITS_COMPLETE": "complete_bash", "COMP_WORDS": "samebits exp", "COMP_CWORD": "1"}
    done = subprocess.run([program], env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["explain"]


def test_samebits_alone_asks_what_a_person_has(capsys, monkeypatch):
    assert main([]) == 0
    printed = capsys.readouterr().out
    typed = [line.strip() for line in printed.splitlines() if line.startswith("    samebits ")]
    assert len(typed) > 8
    for line in typed:
        _, command, *arguments = shlex.split(line)
        assert COMMANDS[command].make_context(command, arguments) is not None
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    for answer, expected in (("4", "samebits explain a.npy b.npy"), ("", "Usage:"), ("99", "Usage:"), ("x", "Usage:")):
        monkeypatch.setattr("builtins.input", lambda _, answer=answer: answer)
        assert main([]) == 0
        assert expected in capsys.readouterr().out


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_h_is_help(name, capsys):
    assert main([*([name] if name else []), "-h"]) == 0
    assert capsys.readouterr().out.startswith("Usage: samebits")
