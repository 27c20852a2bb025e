"""The truth: the correctly rounded result of every problem, sharing no arithmetic with what it judges."""

from samebits.sums.truth.convolution import Truth, compute_truth

__all__ = ["Truth", "compute_truth"]
