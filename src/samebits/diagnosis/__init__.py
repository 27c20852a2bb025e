"""What is to be thought of results that differ: verdicts, and where and by how much."""

from samebits.diagnosis.comparison import MAKERS, compare

__all__ = ["MAKERS", "compare"]
