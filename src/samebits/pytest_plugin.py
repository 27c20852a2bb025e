"""What pytest loads of samebits: one option. Imports nothing else of it."""

from __future__ import annotations

import os
from typing import Any

_VARIABLE = "SAMEBITS_CASES"


def pytest_addoption(parser: Any) -> None:
    """Adds --samebits-cases."""
    group = parser.getgroup("samebits")
    group.addoption(
        "--samebits-cases",
        metavar="DIR",
        default=None,
        help="where samebits.testing keeps operands and results of failures (default: samebits-cases)",
    )


def pytest_configure(config: Any) -> None:
    """Hands the option down to the assertions, those of worker processes among them."""
    folder = config.getoption("--samebits-cases")
    if folder is not None:
        os.environ[_VARIABLE] = folder
