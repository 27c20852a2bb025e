"""A problem as strided sums of products, and the float64 tiles that add them up."""

from samebits.sums.tiles.memory import check_address_space

# Before any module of this part loads what would wait for ever.
check_address_space()
