"""The command line: parses arguments, asks the library, prints findings."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line in this process; returns the exit status."""
    from samebits.cli.app import main as run

    return run(arguments)


def run_program() -> int:
    """The program `samebits`: as `main`, and from here on an interrupt ends the process."""
    from samebits.display.interrupts import end_on_interrupt, ignore_interrupts

    # Before anything that takes time to import.
    end_on_interrupt()
    status = main()
    ignore_interrupts()
    return status


__all__ = ["main", "run_program"]
