"""Engines that run: each on exact integers and on the operands in question, judged, and their differences explained."""

from samebits.questions.compare.comparing import MAKERS, compare

__all__ = ["MAKERS", "compare"]
