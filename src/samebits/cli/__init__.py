"""The command line: parses arguments, asks the library, prints findings."""

from samebits.cli.app import main

__all__ = ["main"]
