"""Which numbers exist: formats as data, rounding in a scalar and an array form, distances in representable numbers.

Also when two arrays have the same bits, and the float environment that a computation needs.
"""

from samebits.numbers.format import FORMATS, Format, find_format, numpy_dtype
from samebits.numbers.ulps import count_ulps

__all__ = ["FORMATS", "Format", "count_ulps", "find_format", "numpy_dtype"]
