"""Settings that make sides agree, found by running them."""

from samebits.fixes.fix_search import AskedSide, FixSearch
from samebits.fixes.trials import TrialData

__all__ = ["AskedSide", "FixSearch", "TrialData"]
