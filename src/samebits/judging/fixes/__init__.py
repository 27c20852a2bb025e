"""Settings that make sides agree, found by running them."""

from samebits.judging.fixes.fix_search import AskedSide, FixSearch, list_asked
from samebits.judging.fixes.problem_trials import ProblemTrials

__all__ = ["AskedSide", "FixSearch", "ProblemTrials", "list_asked"]
