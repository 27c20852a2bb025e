"""The commands and their exit status: 0 agree, 1 differ, 2 trouble (one line on standard error, never a traceback)."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
import typer.main
from typer.exceptions import TyperException

from samebits.cli.first_question import ask_first_question
from samebits.cli.grouped_help import GroupedCommand
from samebits.display.endings import TRACEBACK_VARIABLE, check_environment, say_error, say_system_error, say_unforeseen
from samebits.display.printing import AGREE, TROUBLE, remember_typed
from samebits.display.streams import prepare_streams, say
from samebits.errors import SamebitsError
from samebits.questions.all_questions import QUESTIONS
from samebits.questions.question import Command
from samebits.questions.report.report_command import REPORT
from samebits.version import VERSION

# What the command line's library makes of an interrupt.
_INTERRUPTED = 130
_MOST_DIGITS = 6
_COMPLETION = "_SAMEBITS_COMPLETE"
_HELP = {"help_option_names": ["-h", "--help"]}
app = typer.Typer(
    name="samebits",
    help="Two convolutions disagree: which is right, does it matter, what causes it.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings=_HELP,
)


def _say_below(command: Command) -> str:
    """What stands under the help of a command: two examples, a line each, and its exit statuses."""
    examples = "\n".join(f"  {line}" for line in command.examples)
    # Lines after \b are not joined.
    return f"\b\nExamples:\n{examples}\n\nExit status: {command.exits}; 2: trouble."


COMMANDS: dict[str, Command] = {command.name: command for one in (*QUESTIONS, REPORT) for command in one.commands}
for _one in COMMANDS.values():
    _settings = {**_HELP, **_one.context_settings}
    app.command(_one.name, cls=GroupedCommand, epilog=_say_below(_one), context_settings=_settings)(_one.run)


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="print the version")] = False,
) -> None:
    if version:
        print(f"samebits {VERSION}")
    elif context.invoked_subcommand is None:
        print(ask_first_question() or context.get_help())


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; returns the exit status."""
    if not prepare_streams():
        return _complain("output could not be written: standard output is closed")
    try:
        check_environment()
        given = sys.argv[1:] if arguments is None else arguments
        if (words := _complete_in_bash()) is not None:
            print("\n".join(words))
            return AGREE
        remember_typed(given)
        program = typer.main.get_command(app)
        status = program.main(
            args=_protect_problems(given, _list_options(program)), prog_name="samebits", standalone_mode=False
        )
        sys.stdout.flush()
    except (SystemExit, OSError) as error:
        # What a shell asks for, the command line's library answers, and ends the program.
        if isinstance(error, SystemExit) and _COMPLETION in os.environ:
            return int(error.code or 0)
        return _complain(say_system_error(error))
    except (TyperException, SamebitsError, KeyboardInterrupt, typer.Abort, MemoryError) as error:
        return _complain(say_error(error))
    except Exception as error:  # A fault of ours, which is said in one line; whoever looks for it sees where it is.
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        return _complain(say_unforeseen(error))
    if status == _INTERRUPTED:
        return _complain("interrupted")
    return status if isinstance(status, int) else AGREE


def _complete_in_bash() -> list[str] | None:
    """What Bash is to offer behind the colon of an engine's text; None where it asks for anything else, or not at all.

    It splits words at colons, and the command line's library sees none of an option's value but the last piece.
    """
    if os.environ.get(_COMPLETION) != "complete_bash":
        return None
    from samebits.engines.registry.text_completion import complete_broken_words

    at = os.environ.get("COMP_CWORD", "")
    words = os.environ.get("COMP_WORDS", "").split("\n")
    return complete_broken_words(words, int(at)) if at.isdecimal() and len(at) < _MOST_DIGITS else None


def _list_options(program: Any) -> set[str]:
    """The options of all commands that take a value."""
    options = [option for command in program.commands.values() for option in command.params]
    return {name for option in options if not getattr(option, "is_flag", False) for name in option.opts}


def _protect_problems(arguments: Sequence[str], options: set[str]) -> list[str]:
    """Arguments as the command line's library is to see them; a command behind -- is not ours to change."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [*(_protect_problem(one, options) for one in arguments[:end]), *arguments[end:]]


def _protect_problem(argument: str, options: set[str]) -> str:
    """A quoted benchdnn line may begin with its own options; a space before it keeps it from being taken for ours."""
    name = argument.partition(" ")[0].partition("=")[0]
    return f" {argument}" if argument.startswith("--") and " " in argument and name not in options else argument


def _complain(says: str) -> int:
    say(says)
    return TROUBLE
