"""For tests of kernels: results judged by bounds, exact data and bits, and not by a tolerance.

def test_my_layer():
    assert_conv_close(my_conv(x, w), "conv2d x=2x16x14x14 w=8x16x3x3 padding=1", {"x": x, "w": w})

test_my_kernel = conformance(my_kernel, ["conv2d x=2x16x14x14 w=8x16x3x3 padding=1 bias"])
"""

from samebits.testing.assertions import assert_conv_close
from samebits.testing.conforming import PROPERTIES, check_property, conformance
from samebits.testing.engine_checking import engine_conformance

__all__ = ["PROPERTIES", "assert_conv_close", "check_property", "conformance", "engine_conformance"]
