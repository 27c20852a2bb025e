"""Writes docs/commands.md from the commands themselves: `make commands`."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Any

import typer.main

from samebits.cli.app import COMMANDS, app

PAGE = Path(__file__).parent.parent / "docs" / "commands.md"
ABOUT = """# Commands and options

Written from the commands themselves (`make commands`). `samebits COMMAND --help` says the same. Exit status 2
means trouble in every command: a bad input, a missing or broken engine, one line on standard error.
"""


def format_command(name: str, command: Any) -> str:
    """One section: what it does, how it is called, its options, its exit status, two examples."""
    says = [" ".join(part.split()) for part in command.help.split("\n\n")]
    takes = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option" and one.name != "help"]
    call = " ".join([f"samebits {name}", *(one.metavar or one.name.upper() for one in takes)])
    rows = [f"| `{_escape(one.metavar or one.name.upper())}` | {_escape(one.help)} | |" for one in takes]
    rows += [f"| `{_say_names(one)}` | {_escape(_say_help(one))} | {_say_default(one)}|" for one in options]
    declared = COMMANDS[name]
    return "\n".join(
        [
            f"## {name}",
            "",
            "\n\n".join(says),
            "",
            f"`{call} [OPTIONS]`. Exit status: {declared.exits}.",
            "",
            "| | | default |",
            "|---|---|---|",
            *rows,
            "",
            "```",
            *declared.examples,
            "```",
        ]
    )


def format_page() -> str:
    """The whole page."""
    commands = typer.main.get_command(app).commands  # type: ignore[attr-defined]  (a group has them)
    return "\n".join([ABOUT, "\n\n".join(format_command(name, one) for name, one in commands.items()), ""])


def _say_names(option: Any) -> str:
    names = sorted([*option.opts, *option.secondary_opts], key=lambda name: (not name.startswith("--"), name))
    choices = "|".join(type(option.default)) if isinstance(option.default, StrEnum) else "VALUE"
    value = "" if option.is_flag else f" {option.metavar or choices}"
    return _escape(", ".join(names) + value)


def _say_help(option: Any) -> str:
    """What an option is for; of one that only some subjects have, for which."""
    group = getattr(option, "rich_help_panel", None)
    return f"{group.lower()}: {option.help}" if group else option.help


def _say_default(option: Any) -> str:
    if option.is_flag or option.default in (None, ()):
        on = option.secondary_opts and option.default
        return f"`{option.opts[0]}` " if on else ""
    return f"`{getattr(option.default, 'value', option.default)}` "


def _escape(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    PAGE.write_text(format_page())
    sys.exit(0)
