"""C3D (arXiv:1412.0767), I3D (1705.07750), R(2+1)D (1711.11248), SlowFast (1812.03982), 3-D U-Net (1606.06650)."""

# A quarter of the width and half of each side.
C3D = """
conv1a   conv3d x=1x3x16x56x56 w=16x3x3x3x3 bias padding=1 then=relu
conv2a   conv3d x=1x16x8x28x28 w=32x16x3x3x3 bias padding=1 then=relu
conv3a   conv3d x=1x32x8x14x14 w=64x32x3x3x3 bias padding=1 then=relu
conv3b   conv3d x=1x64x4x14x14 w=64x64x3x3x3 bias padding=1 then=relu
conv4a   conv3d x=1x64x4x7x7 w=128x64x3x3x3 bias padding=1 then=relu
conv5a   conv3d x=1x128x2x4x4 w=128x128x3x3x3 bias padding=1 then=relu
"""

# Inflated Inception on 8 frames of 56x56, TensorFlow's SAME.
I3D = """
Conv3d_1a_7x7      conv3d x=1x3x8x56x56 w=64x3x7x7x7 stride=2 padding=same_upper
Conv3d_2b_1x1      conv3d x=1x64x4x14x14 w=64x64x1x1x1
Conv3d_2c_3x3      conv3d x=1x64x4x7x7 w=192x64x3x3x3 padding=same_upper
Mixed_3b.b1b       conv3d x=1x96x4x7x7 w=128x96x3x3x3 padding=same_upper
Mixed_3b.b2b       conv3d x=1x16x4x7x7 w=32x16x3x3x3 padding=same_upper
"""

# Space then time, at a quarter of each side; the widths between are the paper's, chosen to match a full 3-D kernel.
R2PLUS1D = """
stem.spatial        conv3d x=1x3x8x56x56 w=45x3x1x7x7 stride=1x2x2 padding=0x3x3
stem.temporal       conv3d x=1x45x8x28x28 w=64x45x3x1x1 padding=1x0x0
layer1.spatial      conv3d x=1x64x4x14x14 w=144x64x1x3x3 padding=0x1x1
layer1.temporal     conv3d x=1x144x4x14x14 w=64x144x3x1x1 padding=1x0x0
layer2.spatial      conv3d x=1x64x4x14x14 w=230x64x1x3x3 stride=1x2x2 padding=0x1x1
layer2.temporal     conv3d x=1x230x4x7x7 w=128x230x3x1x1 stride=2x1x1 padding=1x0x0
layer2.downsample   conv3d x=1x64x4x14x14 w=128x64x1x1x1 stride=2
layer4.temporal     conv3d x=1x921x2x4x4 w=512x921x3x1x1 padding=1x0x0
"""

# The lateral connections stride 8 frames with 5 taps: frames between are never read.
SLOWFAST = """
fast.stem        conv3d x=1x3x16x56x56 w=8x3x5x7x7 stride=1x2x2 padding=2x3x3
slow.stem        conv3d x=1x3x4x56x56 w=64x3x1x7x7 stride=1x2x2 padding=0x3x3
lateral.1        conv3d x=1x8x32x14x14 w=16x8x5x1x1 stride=8x1x1 padding=2x0x0
lateral.3        conv3d x=1x64x32x7x7 w=128x64x5x1x1 stride=8x1x1 padding=2x0x0
"""

# X3D (2004.04730): channelwise 3-D convolutions.
X3D = """
stem.temporal      conv3d x=1x24x8x28x28 w=24x1x5x1x1 padding=2x0x0 groups=24
res2.depthwise     conv3d x=1x54x8x28x28 w=54x1x3x3x3 stride=1x2x2 padding=1 groups=54
res5.depthwise     conv3d x=1x432x4x5x5 w=432x1x3x3x3 padding=1 groups=432
"""

# A quarter of the paper's width, its valid padding (as anisotropic as the paper's volumes) and 2x2x2 up-convolutions.
UNET3D = """
down1.conv1   conv3d x=1x3x20x36x36 w=8x3x3x3x3 bias then=relu
down1.conv2   conv3d x=1x8x18x34x34 w=16x8x3x3x3 bias then=relu
down2.conv2   conv3d x=1x16x8x16x16 w=32x16x3x3x3 bias then=relu
up3           conv_transpose3d x=1x128x2x5x5 w=128x128x2x2x2 bias stride=2
up1           conv_transpose3d x=1x32x6x9x9 w=32x32x2x2x2 bias stride=2
head          conv3d x=1x16x8x16x16 w=3x16x1x1x1 bias
"""

# V-Net (1606.04797): 5x5x5, strided instead of pooled.
VNET = """
left1    conv3d x=1x1x16x32x32 w=16x1x5x5x5 bias padding=2
down1    conv3d x=1x16x16x32x32 w=32x16x2x2x2 bias stride=2
left2    conv3d x=1x32x8x8x8 w=32x32x5x5x5 bias padding=2
up1      conv_transpose3d x=1x32x8x16x16 w=32x16x2x2x2 bias stride=2
"""

# 3-D GAN (1610.07584) and a causal video autoencoder (2310.05737): time padded at the beginning only.
VOLUMES = """
gan3d.project        conv_transpose3d x=1x200x1x1x1 w=200x64x4x4x4
gan3d.up1            conv_transpose3d x=1x64x4x4x4 w=64x32x4x4x4 stride=2 padding=1
gan3d.up3            conv_transpose3d x=1x16x16x16x16 w=16x1x4x4x4 stride=2 padding=1
gan3d.odd            conv_transpose3d x=1x8x5x6x7 w=8x4x3x3x3 stride=2 padding=1 output_padding=1
magvit2.causal       conv3d x=1x3x9x32x32 w=32x3x3x3x3 bias padding=2:0x1:1x1:1
magvit2.down         conv3d x=1x32x9x16x16 w=64x32x3x3x3 bias stride=2 padding=2:0x0:1x0:1
"""

TABLES = {
    "c3d": C3D,
    "i3d": I3D,
    "r2plus1d": R2PLUS1D,
    "slowfast": SLOWFAST,
    "x3d": X3D,
    "unet3d": UNET3D,
    "vnet": VNET,
    "volumes": VOLUMES,
}
