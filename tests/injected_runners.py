"""Runners with injected faults, and their fault-free controls, built on NumPy alone."""

from __future__ import annotations

import numpy as np

from samebits.engines.runner import Identity
from samebits.errors import EngineCrashed
from samebits.sums.truth import compute_truth


class InjectedRunner:
    """Starts from the true result in float64 and spoils it as told."""

    def __init__(self, name, spoil=None, compute=None):
        self.text = name
        self._spoil = spoil or (lambda problem, result: result)
        self._compute = compute or (lambda problem, operands: compute_truth(problem, operands).values)

    def identify(self):
        return Identity(self.text, self.text, "0", "CPU")

    def run(self, problem, operands):
        return self._spoil(problem, self._compute(problem, operands).copy())

    def close(self):
        return


class CrashingRunner(InjectedRunner):
    """Crashes at the second run: after the exact data."""

    def __init__(self):
        super().__init__("crashing")
        self.runs = 0

    def run(self, problem, operands):
        self.runs += 1
        if self.runs == 2:
            raise EngineCrashed("its process was ended by SIGKILL")
        return super().run(problem, operands)


def add_in_float32(order):
    """A valid-padded 2-D convolution that adds its products one by one in float32, in the order given of its taps."""

    def compute(problem, operands):
        x, w = operands["x"], operands["w"]
        pads = [(0, 0), (0, 0), *((a.pad_begin, a.pad_end) for a in problem.axes)]
        x = np.pad(x, pads)
        terms = [(c, i, j) for c in range(w.shape[1]) for i in range(w.shape[2]) for j in range(w.shape[3])]
        height, width = problem.out_shape[2:]
        total = np.zeros(problem.out_shape, np.float32)
        for c, i, j in order(terms):
            window = x[:, None, c, i : i + height, j : j + width]
            total = total + window * w[None, :, c, i, j, None, None]
        return total

    return compute


def round_operands_to_bfloat16(problem, operands):
    """The truth of operands truncated to bfloat16: the function is right, the precision is not the declared one."""
    import ml_dtypes

    rounded = {n: a.astype(ml_dtypes.bfloat16).astype(np.float32) for n, a in operands.items()}
    return compute_truth(problem, rounded).values
