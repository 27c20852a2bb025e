"""One runner on exact integers and on the operands in question; whatever it does becomes data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from samebits.errors import EngineFailure, SamebitsError
from samebits.findings import Failure
from samebits.judging.sides import Recorded
from samebits.problems import Problem
from samebits.runner import Identity, Runner, check_result


@dataclass(frozen=True)
class Ran:
    """What one runner returned, on the operands and on exact integers; or one recorded result."""

    recorded: Recorded
    on_exact: np.ndarray | None = None


def run_on_both(
    runner: Runner, problem: Problem, exact: Mapping[str, np.ndarray], operands: Mapping[str, np.ndarray]
) -> Ran:
    """Runs both sets of operands; an engine that fails leaves what it did before, and its failure."""
    identity: Identity | None = None
    on_exact: np.ndarray | None = None
    result: np.ndarray | None = None
    failure: Failure | None = None
    try:
        identity = runner.identify()
        on_exact = check_result(problem, runner.run(problem, exact))
        result = check_result(problem, runner.run(problem, operands))
        # Only now can a caller's runner say what it was seen to do.
        identity = runner.identify()
    except EngineFailure as error:
        # Failure lists the kinds that EngineFailure and its classes declare as plain text.
        failure = Failure(error.kind, str(error))  # type: ignore[arg-type]
    except (SamebitsError, MemoryError) as error:
        failure = Failure("error", f"{type(error).__name__}: {error}")
    return Ran(Recorded(runner.text, result, runner.text, identity, failure), on_exact)
