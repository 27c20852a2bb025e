"""WaveNet (arXiv:1609.03499), Demucs (2111.03600, 2211.08553), HiFi-GAN (2010.05646), Conv-TasNet (1809.07454)."""

from samebits.problems.catalog.tables import table_from_rows

# Causal: all padding at the beginning. Two taps, 64 residual channels, gate and filter made at once.
WAVENET = table_from_rows(
    "causal conv1d x=1x1x1024 w=64x1x2 bias padding=1:0",
    (
        f"dilated.{dilation} conv1d x=1x64x1024 w=128x64x2 bias padding={dilation}:0 dilation={dilation}"
        for dilation in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    ),
    "skip conv1d x=1x64x1024 w=256x64x1 bias",
    "end.1 conv1d x=1x256x512 w=256x256x1 bias then=relu",
)

# The time branch of Hybrid Demucs: 8 taps, stride 4, and back; dilated residual branches an eighth as wide.
DEMUCS = """
encoder.0           conv1d x=1x2x4096 w=48x2x8 bias stride=4 padding=2
encoder.1           conv1d x=1x48x1024 w=96x48x8 bias stride=4 padding=2
encoder.2           conv1d x=1x96x256 w=192x96x8 bias stride=4 padding=2
encoder.3           conv1d x=1x192x64 w=384x192x8 bias stride=4 padding=2
encoder.0.rewrite   conv1d x=1x48x1024 w=96x48x1 bias
encoder.0.dconv.0   conv1d x=1x48x1024 w=6x48x3 bias padding=1
encoder.0.dconv.1   conv1d x=1x48x1024 w=6x48x3 bias padding=2 dilation=2
decoder.0           conv_transpose1d x=1x384x16 w=384x192x8 bias stride=4 padding=2
decoder.1           conv_transpose1d x=1x192x64 w=192x96x8 bias stride=4
decoder.3           conv_transpose1d x=1x48x1024 w=48x8x8 bias stride=4 padding=2
"""

# V1 generator; the discriminator's 41 taps in groups; the period one is 2-D with a 5x1 kernel.
HIFIGAN = """
conv_pre          conv1d x=1x80x32 w=512x80x7 bias padding=3
ups.0             conv_transpose1d x=1x512x32 w=512x256x16 bias stride=8 padding=4
ups.1             conv_transpose1d x=1x256x64 w=256x128x16 bias stride=8 padding=4
ups.2             conv_transpose1d x=1x128x512 w=128x64x4 bias stride=2 padding=1
ups.3             conv_transpose1d x=1x64x1024 w=64x32x4 bias stride=2 padding=1
resblock.3.1      conv1d x=1x256x256 w=256x256x3 bias padding=1
resblock.7.3      conv1d x=1x128x512 w=128x128x7 bias padding=9 dilation=3
resblock.11.5     conv1d x=1x64x1024 w=64x64x11 bias padding=25 dilation=5
conv_post         conv1d x=1x32x2048 w=1x32x7 bias padding=3
scale.0           conv1d x=1x1x4096 w=128x1x15 bias padding=7
scale.1           conv1d x=1x128x2048 w=128x32x41 bias stride=2 padding=20 groups=4
scale.2           conv1d x=1x128x1024 w=256x8x41 bias stride=2 padding=20 groups=16
scale.3           conv1d x=1x256x512 w=512x16x41 bias stride=4 padding=20 groups=16
period.0          conv2d x=1x1x1365x3 w=32x1x5x1 bias stride=3x1 padding=2x0
period.1          conv2d x=1x32x455x3 w=128x32x5x1 bias stride=3x1 padding=2x0
"""

# Learned analysis and synthesis of 16 samples, hop 8; depthwise dilated blocks between them.
CONVTASNET = table_from_rows(
    "encoder conv1d x=1x1x4000 w=512x1x16 stride=8",
    (
        f"block.depthwise.{d} conv1d x=1x512x499 w=512x1x3 bias padding={d} dilation={d} groups=512"
        for d in (1, 8, 64, 128)
    ),
    "block.pointwise conv1d x=1x128x499 w=512x128x1 bias",
    "decoder conv_transpose1d x=1x512x499 w=512x1x16 stride=8",
)

# EnCodec (2210.13438): causal strided encoder with kernel 2 x stride, strides 2, 4, 5, 8.
ENCODEC = """
encoder.first   conv1d x=1x1x3200 w=32x1x7 bias padding=6:0
encoder.down2   conv1d x=1x32x3200 w=64x32x4 bias stride=2 padding=2:0
encoder.down4   conv1d x=1x64x1600 w=128x64x8 bias stride=4 padding=4:0
encoder.down5   conv1d x=1x128x400 w=256x128x10 bias stride=5 padding=5:0
encoder.down8   conv1d x=1x256x80 w=512x256x16 bias stride=8 padding=8:0
decoder.up8     conv_transpose1d x=1x512x10 w=512x256x16 bias stride=8 padding=0:8
decoder.up5     conv_transpose1d x=1x256x80 w=256x128x10 bias stride=5 padding=0:5
"""

TABLES = {
    "wavenet": WAVENET,
    "demucs": DEMUCS,
    "hifigan": HIFIGAN,
    "convtasnet": CONVTASNET,
    "encodec": ENCODEC,
}
