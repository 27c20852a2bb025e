"""What is computed: problems, their texts (ours and other tools'), operands, case files and a catalog."""

from samebits.problems.problem import Axis, Direction, Epilogue, Kind, Problem
from samebits.problems.problem_text import format_problem, parse_problem_text

__all__ = ["Axis", "Direction", "Epilogue", "Kind", "Problem", "format_problem", "parse_problem_text"]
