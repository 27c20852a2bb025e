"""Which numbers exist: formats as data, rounding in a scalar and an array form, distances in representable numbers."""

from samebits.formats.format import FORMATS, Format, find_format, numpy_dtype
from samebits.formats.ulps import count_ulps

__all__ = ["FORMATS", "Format", "count_ulps", "find_format", "numpy_dtype"]
