"""How far from the truth a result may be without being at fault, derived and not guessed."""

from samebits.sums.bounds.any_order import accumulator_format, bound_errors, bound_narrowest_errors
from samebits.sums.bounds.probabilistic import bound_likely_errors

__all__ = ["accumulator_format", "bound_errors", "bound_likely_errors", "bound_narrowest_errors"]
