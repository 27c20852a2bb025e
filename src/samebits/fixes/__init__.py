"""Settings that make sides agree, found by running them."""

from samebits.fixes.fix_search import AskedSide, FixSearch
from samebits.fixes.problem_trials import ProblemTrials

__all__ = ["AskedSide", "FixSearch", "ProblemTrials"]
