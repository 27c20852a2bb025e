"""A problem as strided sums of products, and the float64 tiles that add them up."""
