"""Writes the example case files: one filter of length 5 over 0, 10, 20, ... of three lengths (a report from 2017).

The first outputs of all three lengths are the same sums; on the CPU of the report they were not the same bits.
"""

from pathlib import Path

import numpy as np

from samebits.problems import parse_problem_text
from samebits.problems.case_file import save_case

WEIGHT = np.array([-0.7313, -1.1043, 1.8492, 1.3007, -0.1033], np.float32)
BIAS = np.array([0.0401], np.float32)

for length in (7, 8, 9):
    problem = parse_problem_text(f"conv1d x=1x1x{length} w=1x1x5 bias dtype=float32")
    x = np.arange(length, dtype=np.float32) * 10
    operands = {"x": x.reshape(1, 1, length), "w": WEIGHT.reshape(1, 1, 5), "bias": BIAS}
    save_case(Path(__file__).parent / f"length{length}.npz", problem, operands)
