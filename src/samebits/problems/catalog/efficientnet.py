"""EfficientNet-B0 (Tan and Le 2019, arXiv:1905.11946), with the asymmetric SAME padding that TensorFlow makes."""

from samebits.problems.catalog.tables import table_from_rows


def _depthwise_row(block: str, channels: int, size: int, kernel: int, stride: int) -> str:
    operands = f"x=1x{channels}x{size}x{size} w={channels}x1x{kernel}x{kernel}"
    return f"{block}.depthwise conv2d {operands} stride={stride} padding=same_upper groups={channels}"


def _pointwise_row(name: str, c_in: int, c_out: int, size: int) -> str:
    return f"{name} conv2d x=1x{c_in}x{size}x{size} w={c_out}x{c_in}x1x1"


def _squeeze_rows(block: str, channels: int, squeezed: int) -> tuple[str, str]:
    return (
        f"{block}.squeeze conv2d x=1x{channels}x1x1 w={squeezed}x{channels}x1x1 bias",
        f"{block}.excite conv2d x=1x{squeezed}x1x1 w={channels}x{squeezed}x1x1 bias",
    )


# Block, channels, input size, kernel, stride: table 1 of the paper, every distinct depthwise convolution.
DEPTHWISE = (
    ("block1a", 32, 112, 3, 1),
    ("block2a", 96, 112, 3, 2),
    ("block2b", 144, 56, 3, 1),
    ("block3a", 144, 56, 5, 2),
    ("block3b", 240, 28, 5, 1),
    ("block4a", 240, 28, 3, 2),
    ("block4b", 480, 14, 3, 1),
    ("block5a", 480, 14, 5, 1),
    ("block5b", 672, 14, 5, 1),
    ("block6a", 672, 14, 5, 2),
    ("block6b", 1152, 7, 5, 1),
    ("block7a", 1152, 7, 3, 1),
)

# Name, channels in, channels out, size.
POINTWISE = (
    ("block1a.project", 32, 16, 112),
    ("block2a.expand", 16, 96, 112),
    ("block2a.project", 96, 24, 56),
    ("block3a.project", 144, 40, 28),
    ("block3b.expand", 40, 240, 28),
    ("block4a.project", 240, 80, 14),
    ("block5a.project", 480, 112, 14),
    ("block6a.project", 672, 192, 7),
    ("block6b.expand", 192, 1152, 7),
    ("block7a.project", 1152, 320, 7),
    ("head", 320, 1280, 7),
)

EFFICIENTNET_B0 = table_from_rows(
    "stem conv2d x=1x3x224x224 w=32x3x3x3 stride=2 padding=same_upper",
    (_depthwise_row(*row) for row in DEPTHWISE),
    (_pointwise_row(*row) for row in POINTWISE),
    _squeeze_rows("block1a", 32, 8),
    _squeeze_rows("block7a", 1152, 48),
)

TABLES = {"efficientnet-b0": EFFICIENTNET_B0}
