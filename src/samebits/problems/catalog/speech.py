"""wav2vec 2.0 (arXiv:2006.11477), Whisper (2212.04356), Tacotron 1 and 2 (1703.10135, 1712.05884), TCN (1803.01271)."""

from samebits.problems.catalog.tables import table_from_rows

# A quarter of a second at 16 kHz. The positional convolution is 128 taps in 16 groups; being even, it makes T + 1.
WAV2VEC2 = """
feature_extractor.0   conv1d x=1x1x4000 w=512x1x10 stride=5
feature_extractor.1   conv1d x=1x512x799 w=512x512x3 stride=2
feature_extractor.2   conv1d x=1x512x399 w=512x512x3 stride=2
feature_extractor.3   conv1d x=1x512x199 w=512x512x3 stride=2
feature_extractor.4   conv1d x=1x512x99 w=512x512x3 stride=2
feature_extractor.5   conv1d x=1x512x49 w=512x512x2 stride=2
feature_extractor.6   conv1d x=1x512x24 w=512x512x2 stride=2
pos_conv              conv1d x=1x768x12 w=768x48x128 bias padding=64 groups=16
"""

# Three seconds or one of a thirty-second window: 100 frames each.
WHISPER = """
tiny.conv1    conv1d x=1x80x300 w=384x80x3 bias padding=1
tiny.conv2    conv1d x=1x384x300 w=384x384x3 bias stride=2 padding=1
base.conv2    conv1d x=1x512x100 w=512x512x3 bias stride=2 padding=1
small.conv1   conv1d x=1x80x300 w=768x80x3 bias padding=1
large.conv1   conv1d x=1x128x100 w=1280x128x3 bias padding=1
"""

# Tacotron 1: a bank of 1 to 16 taps, SAME, so the even ones pad one more at the end.
TACOTRON = table_from_rows(
    (
        f"bank.{taps} conv1d x=1x128x61 w=128x128x{taps} bias padding=same_upper then=relu"
        for taps in (1, 2, 3, 4, 8, 13, 16)
    ),
)

TACOTRON2 = """
encoder.conv1      conv1d x=1x512x61 w=512x512x5 bias padding=2
postnet.0          conv1d x=1x80x211 w=512x80x5 bias padding=2
postnet.4          conv1d x=1x512x211 w=80x512x5 bias padding=2
location           conv1d x=1x2x61 w=32x2x31 padding=15
"""

# Sequential MNIST: 784 steps, 25 wide, 7 taps, padded at the beginning only.
TCN = table_from_rows(
    "first conv1d x=4x1x784 w=25x1x7 bias padding=6:0 then=relu",
    (
        f"causal.{dilation} conv1d x=4x25x784 w=25x25x7 bias padding={6 * dilation}:0 dilation={dilation} then=relu"
        for dilation in (1, 2, 4, 8, 16, 32, 64, 128)
    ),
)

# Conformer (2005.08100): pointwise, 31-tap depthwise, and the 2-D subsampling of a spectrogram.
CONFORMER = """
pointwise1      conv1d x=1x256x97 w=512x256x1 bias
depthwise       conv1d x=1x256x97 w=256x1x31 bias padding=15 groups=256
subsample.0     conv2d x=1x1x199x80 w=64x1x3x3 bias stride=2 then=relu
subsample.1     conv2d x=1x64x99x39 w=64x64x3x3 bias stride=2 then=relu
"""

TABLES = {
    "wav2vec2": WAV2VEC2,
    "whisper": WHISPER,
    "tacotron": TACOTRON,
    "tacotron2": TACOTRON2,
    "tcn": TCN,
    "conformer": CONFORMER,
}
