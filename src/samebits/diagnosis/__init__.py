"""What is to be thought of results that differ: verdicts, and where and by how much."""

from samebits.diagnosis.comparison import MAKERS, compare, is_case_path

__all__ = ["MAKERS", "compare", "is_case_path"]
