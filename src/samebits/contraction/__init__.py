"""A problem as strided sums of products, and the float64 tiles that add them up."""

from samebits.contraction.compiled_cache import discard_stale_code

discard_stale_code()
