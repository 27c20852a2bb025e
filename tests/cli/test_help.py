"""The help of every command: two examples that can be typed as they stand."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import typer.main

from samebits.cli.app import app, main
from samebits.cli.examples import EXAMPLES

COMMANDS = typer.main.get_command(app).commands


def test_every_command_has_its_examples():
    assert set(EXAMPLES) == set(COMMANDS)


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
