"""What is to be thought of results that differ: verdicts, and where and by how much."""

from samebits.diagnosis.comparison import MAKERS, compare
from samebits.diagnosis.explain import explain

__all__ = ["MAKERS", "compare", "explain"]
