"""Inception-v3 (Szegedy et al. 2015, arXiv:1512.00567), at 299, named as torchvision names its layers."""

# Conv2d_4a_3x3 (80 to 192 channels at 73) is 0.7 G multiply-adds and left out.
INCEPTION_V3 = """
Conv2d_1a_3x3                 conv2d x=1x3x299x299 w=32x3x3x3 stride=2
Conv2d_2a_3x3                 conv2d x=1x32x149x149 w=32x32x3x3
Conv2d_2b_3x3                 conv2d x=1x32x147x147 w=64x32x3x3 padding=1
Conv2d_3b_1x1                 conv2d x=1x64x73x73 w=80x64x1x1
Mixed_5b.branch1x1            conv2d x=1x192x35x35 w=64x192x1x1
Mixed_5b.branch5x5_1          conv2d x=1x192x35x35 w=48x192x1x1
Mixed_5b.branch5x5_2          conv2d x=1x48x35x35 w=64x48x5x5 padding=2
Mixed_5b.branch3x3dbl_2       conv2d x=1x64x35x35 w=96x64x3x3 padding=1
Mixed_5b.branch3x3dbl_3       conv2d x=1x96x35x35 w=96x96x3x3 padding=1
Mixed_5b.branch_pool          conv2d x=1x192x35x35 w=32x192x1x1
Mixed_5c.branch1x1            conv2d x=1x256x35x35 w=64x256x1x1
Mixed_5d.branch5x5_1          conv2d x=1x288x35x35 w=48x288x1x1
Mixed_6a.branch3x3            conv2d x=1x288x35x35 w=384x288x3x3 stride=2
Mixed_6a.branch3x3dbl_3       conv2d x=1x96x35x35 w=96x96x3x3 stride=2
Mixed_6b.branch1x1            conv2d x=1x768x17x17 w=192x768x1x1
Mixed_6b.branch7x7_1          conv2d x=1x768x17x17 w=128x768x1x1
Mixed_6b.branch7x7_2          conv2d x=1x128x17x17 w=128x128x1x7 padding=0x3
Mixed_6b.branch7x7_3          conv2d x=1x128x17x17 w=192x128x7x1 padding=3x0
Mixed_6b.branch7x7dbl_2       conv2d x=1x128x17x17 w=128x128x7x1 padding=3x0
Mixed_6b.branch7x7dbl_5       conv2d x=1x128x17x17 w=192x128x1x7 padding=0x3
Mixed_6c.branch7x7_1          conv2d x=1x768x17x17 w=160x768x1x1
Mixed_6c.branch7x7_2          conv2d x=1x160x17x17 w=160x160x1x7 padding=0x3
Mixed_6c.branch7x7_3          conv2d x=1x160x17x17 w=192x160x7x1 padding=3x0
Mixed_6e.branch7x7_2          conv2d x=1x192x17x17 w=192x192x1x7 padding=0x3
Mixed_6e.branch7x7_3          conv2d x=1x192x17x17 w=192x192x7x1 padding=3x0
AuxLogits.conv0               conv2d x=1x768x5x5 w=128x768x1x1
AuxLogits.conv1               conv2d x=1x128x5x5 w=768x128x5x5
Mixed_7a.branch3x3_2          conv2d x=1x192x17x17 w=320x192x3x3 stride=2
Mixed_7a.branch7x7x3_4        conv2d x=1x192x17x17 w=192x192x3x3 stride=2
Mixed_7b.branch1x1            conv2d x=1x1280x8x8 w=320x1280x1x1
Mixed_7b.branch3x3_1          conv2d x=1x1280x8x8 w=384x1280x1x1
Mixed_7b.branch3x3_2a         conv2d x=1x384x8x8 w=384x384x1x3 padding=0x1
Mixed_7b.branch3x3_2b         conv2d x=1x384x8x8 w=384x384x3x1 padding=1x0
Mixed_7b.branch3x3dbl_1       conv2d x=1x1280x8x8 w=448x1280x1x1
Mixed_7b.branch3x3dbl_2       conv2d x=1x448x8x8 w=384x448x3x3 padding=1
Mixed_7b.branch_pool          conv2d x=1x1280x8x8 w=192x1280x1x1
Mixed_7c.branch1x1            conv2d x=1x2048x8x8 w=320x2048x1x1
"""

TABLES = {"inception-v3": INCEPTION_V3}
