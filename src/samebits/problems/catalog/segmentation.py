"""U-Net (arXiv:1505.04597), DeepLab v3 and v3+ (arXiv:1706.05587, 1802.02611), dilated context (arXiv:1511.07122)."""

# Valid padding as in the paper; a tile of 188 instead of 572 and a quarter of its width.
UNET = """
down1.conv1   conv2d x=1x1x188x188 w=16x1x3x3 bias then=relu
down1.conv2   conv2d x=1x16x186x186 w=16x16x3x3 bias then=relu
down2.conv1   conv2d x=1x16x92x92 w=32x16x3x3 bias then=relu
down2.conv2   conv2d x=1x32x90x90 w=32x32x3x3 bias then=relu
down3.conv1   conv2d x=1x32x44x44 w=64x32x3x3 bias then=relu
down3.conv2   conv2d x=1x64x42x42 w=64x64x3x3 bias then=relu
down4.conv1   conv2d x=1x64x20x20 w=128x64x3x3 bias then=relu
down4.conv2   conv2d x=1x128x18x18 w=128x128x3x3 bias then=relu
bottom.conv1  conv2d x=1x128x8x8 w=256x128x3x3 bias then=relu
bottom.conv2  conv2d x=1x256x6x6 w=256x256x3x3 bias then=relu
up4           conv_transpose2d x=1x256x4x4 w=256x128x2x2 bias stride=2
up4.conv1     conv2d x=1x256x8x8 w=128x256x3x3 bias then=relu
up3           conv_transpose2d x=1x128x4x4 w=128x64x2x2 bias stride=2
up2           conv_transpose2d x=1x64x4x4 w=64x32x2x2 bias stride=2
up1           conv_transpose2d x=1x32x4x4 w=32x16x2x2 bias stride=2
head          conv2d x=1x16x4x4 w=2x16x1x1 bias
"""

# The 33x33 grid of a 513 crop at output stride 16, full width where depthwise, an eighth of it where
# dense; the decoder on half of its 129x129 grid.
# At rate 36 the taps reach beyond the map: all but the middle ones read padding only.
DEEPLAB = """
aspp.conv1x1            conv2d x=1x256x33x33 w=32x256x1x1
aspp.6                  conv2d x=1x256x33x33 w=32x256x3x3 padding=6 dilation=6
aspp.12                 conv2d x=1x256x33x33 w=32x256x3x3 padding=12 dilation=12
aspp.18                 conv2d x=1x256x33x33 w=32x256x3x3 padding=18 dilation=18
aspp.36                 conv2d x=1x256x33x33 w=32x256x3x3 padding=36 dilation=36
aspp.depthwise.6        conv2d x=1x2048x33x33 w=2048x1x3x3 padding=6 dilation=6 groups=2048
aspp.depthwise.12       conv2d x=1x2048x33x33 w=2048x1x3x3 padding=12 dilation=12 groups=2048
aspp.depthwise.18       conv2d x=1x2048x33x33 w=2048x1x3x3 padding=18 dilation=18 groups=2048
block4.unit2            conv2d x=1x64x33x33 w=64x64x3x3 padding=2 dilation=2
block4.unit3            conv2d x=1x64x33x33 w=64x64x3x3 padding=4 dilation=4
decoder.low_level       conv2d x=1x256x65x65 w=48x256x1x1
decoder.depthwise       conv2d x=1x304x65x65 w=304x1x3x3 padding=same_upper groups=304
"""

# 21 classes in and out, dilation doubling: the basic context module of table 1.
CONTEXT = """
layer1   conv2d x=1x21x64x64 w=21x21x3x3 bias padding=1 then=relu
layer3   conv2d x=1x21x64x64 w=21x21x3x3 bias padding=2 dilation=2 then=relu
layer4   conv2d x=1x21x64x64 w=21x21x3x3 bias padding=4 dilation=4 then=relu
layer5   conv2d x=1x21x64x64 w=21x21x3x3 bias padding=8 dilation=8 then=relu
layer6   conv2d x=1x21x64x64 w=21x21x3x3 bias padding=16 dilation=16 then=relu
layer8   conv2d x=1x21x64x64 w=21x21x1x1 bias
"""

# FCN (1411.4038): scores of 21 classes enlarged 2 and 8 times by transposed convolutions, the second one depthwise.
FCN = """
upscore2   conv_transpose2d x=1x21x16x16 w=21x21x4x4 stride=2
upscore8   conv_transpose2d x=1x21x16x16 w=21x1x16x16 stride=8 groups=21
"""

TABLES = {"unet": UNET, "deeplab": DEEPLAB, "context": CONTEXT, "fcn": FCN}
