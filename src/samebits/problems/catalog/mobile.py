"""MobileNet v1, v2, v3 (arXiv:1704.04861, 1801.04381, 1905.02244) and ShuffleNet v1 (arXiv:1707.01083)."""

from samebits.problems.catalog.tables import table_from_rows

RELU6 = "then=clip(0,6)"


def _depthwise_row(name: str, channels: int, size: int, stride: int, kernel: int, padding: str, then: str) -> str:
    operands = f"x=1x{channels}x{size}x{size} w={channels}x1x{kernel}x{kernel}"
    return f"{name} conv2d {operands} bias stride={stride} padding={padding} groups={channels} {then}"


def _pointwise_row(name: str, c_in: int, c_out: int, size: int, then: str) -> str:
    return f"{name} conv2d x=1x{c_in}x{size}x{size} w={c_out}x{c_in}x1x1 bias {then}"


# Inference form, batch norm folded. v1 as TensorFlow runs it (SAME): channels in, channels out, input size, stride.
MOBILENET_V1_BLOCKS = (
    (32, 64, 112, 1),
    (64, 128, 112, 2),
    (128, 128, 56, 1),
    (128, 256, 56, 2),
    (256, 256, 28, 1),
    (256, 512, 28, 2),
    (512, 512, 14, 1),
    (512, 1024, 14, 2),
    (1024, 1024, 7, 1),
)

MOBILENET_V1 = table_from_rows(
    f"conv1 conv2d x=1x3x224x224 w=32x3x3x3 bias stride=2 padding=same_upper {RELU6}",
    (
        _depthwise_row(f"depthwise.{c_in}-s{stride}", c_in, size, stride, 3, "same_upper", RELU6)
        for c_in, _, size, stride in MOBILENET_V1_BLOCKS
    ),
    (
        _pointwise_row(f"pointwise.{c_in}-{c_out}", c_in, c_out, size // stride, RELU6)
        for c_in, c_out, size, stride in MOBILENET_V1_BLOCKS
    ),
)

# Expanded channels, output channels, input size, stride of every distinct inverted residual. Projections are linear.
MOBILENET_V2_BLOCKS = (
    (32, 16, 112, 1),
    (96, 24, 112, 2),
    (144, 24, 56, 1),
    (144, 32, 56, 2),
    (192, 32, 28, 1),
    (192, 64, 28, 2),
    (384, 64, 14, 1),
    (384, 96, 14, 1),
    (576, 96, 14, 1),
    (576, 160, 14, 2),
    (960, 160, 7, 1),
    (960, 320, 7, 1),
)

MOBILENET_V2 = table_from_rows(
    f"conv1 conv2d x=1x3x224x224 w=32x3x3x3 bias stride=2 padding=1 {RELU6}",
    (
        _depthwise_row(f"depthwise.{width}-s{stride}", width, size, stride, 3, "1", RELU6)
        for width, size, stride in dict.fromkeys((w, s, t) for w, _, s, t in MOBILENET_V2_BLOCKS)
    ),
    (
        _pointwise_row(f"project.{width}-{c_out}", width, c_out, size // stride, "")
        for width, c_out, size, stride in MOBILENET_V2_BLOCKS
    ),
    _pointwise_row("expand.16-96", 16, 96, 112, RELU6),
    _pointwise_row("expand.24-144", 24, 144, 56, RELU6),
    _pointwise_row("expand.160-960", 160, 960, 7, RELU6),
    _pointwise_row("head", 320, 1280, 7, RELU6),
)

# Large. h-swish is no epilogue here, so only the early blocks keep theirs.
MOBILENET_V3 = table_from_rows(
    _depthwise_row("bneck1.depthwise", 16, 112, 1, 3, "1", "then=relu"),
    _depthwise_row("bneck2.depthwise", 64, 112, 2, 3, "1", "then=relu"),
    _depthwise_row("bneck3.depthwise", 72, 56, 1, 3, "1", "then=relu"),
    _depthwise_row("bneck4.depthwise", 72, 56, 2, 5, "2", "then=relu"),
    _depthwise_row("bneck5.depthwise", 120, 28, 1, 5, "2", "then=relu"),
    _depthwise_row("bneck7.depthwise", 240, 28, 2, 3, "1", ""),
    _depthwise_row("bneck8.depthwise", 200, 14, 1, 3, "1", ""),
    _depthwise_row("bneck9.depthwise", 184, 14, 1, 3, "1", ""),
    _depthwise_row("bneck13.depthwise", 672, 14, 2, 5, "2", ""),
    _depthwise_row("bneck14.depthwise", 960, 7, 1, 5, "2", ""),
    _pointwise_row("bneck4.squeeze", 72, 24, 1, "then=relu"),
    _pointwise_row("bneck4.excite", 24, 72, 1, ""),
    _pointwise_row("head", 960, 1280, 1, ""),
)

# Three groups, so the 1x1 convolutions are grouped too. Training form.
SHUFFLENET_V1 = """
stage2.0.conv1       conv2d x=1x24x56x56 w=60x24x1x1
stage2.0.depthwise   conv2d x=1x60x56x56 w=60x1x3x3 stride=2 padding=1 groups=60
stage2.0.conv3       conv2d x=1x60x28x28 w=216x20x1x1 groups=3
stage2.1.conv1       conv2d x=1x240x28x28 w=60x80x1x1 groups=3
stage2.1.conv3       conv2d x=1x60x28x28 w=240x20x1x1 groups=3
stage3.0.conv1       conv2d x=1x240x28x28 w=120x80x1x1 groups=3
stage3.0.depthwise   conv2d x=1x120x28x28 w=120x1x3x3 stride=2 padding=1 groups=120
stage3.1.conv1       conv2d x=1x480x14x14 w=120x160x1x1 groups=3
stage3.1.conv3       conv2d x=1x120x14x14 w=480x40x1x1 groups=3
stage4.1.conv1       conv2d x=1x960x7x7 w=240x320x1x1 groups=3
stage4.1.conv3       conv2d x=1x240x7x7 w=960x80x1x1 groups=3
"""

TABLES = {
    "mobilenet-v1": MOBILENET_V1,
    "mobilenet-v2": MOBILENET_V2,
    "mobilenet-v3": MOBILENET_V3,
    "shufflenet": SHUFFLENET_V1,
}
