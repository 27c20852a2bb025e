"""ViT (arXiv:2010.11929), ConvNeXt (arXiv:2201.03545) and others that split a picture in patches: stride = kernel."""

# ViT's patch embedding in its sizes: Ti/16, S/16, B/16, B/32; then DINO S/8 (2104.14294), CLIP L/14 (2103.00020)
# and a toy one for MNIST in a batch.
VIT = """
ti16.patch_embed     conv2d x=1x3x224x224 w=192x3x16x16 bias stride=16
s16.patch_embed      conv2d x=1x3x224x224 w=384x3x16x16 bias stride=16
b16.patch_embed      conv2d x=1x3x224x224 w=768x3x16x16 bias stride=16
b32.patch_embed      conv2d x=1x3x224x224 w=768x3x32x32 bias stride=32
s8.patch_embed       conv2d x=1x3x224x224 w=384x3x8x8 bias stride=8
l14.patch_embed      conv2d x=1x3x224x224 w=1024x3x14x14 stride=14
mnist.patch_embed    conv2d x=8x1x28x28 w=64x1x7x7 bias stride=7
"""

# ConvNeXt-T.
CONVNEXT = """
stem                 conv2d x=1x3x224x224 w=96x3x4x4 bias stride=4
stage1.depthwise     conv2d x=1x96x56x56 w=96x1x7x7 bias padding=3 groups=96
stage2.downsample    conv2d x=1x96x56x56 w=192x96x2x2 bias stride=2
stage2.depthwise     conv2d x=1x192x28x28 w=192x1x7x7 bias padding=3 groups=192
stage3.downsample    conv2d x=1x192x28x28 w=384x192x2x2 bias stride=2
stage3.depthwise     conv2d x=1x384x14x14 w=384x1x7x7 bias padding=3 groups=384
stage4.downsample    conv2d x=1x384x14x14 w=768x384x2x2 bias stride=2
stage4.depthwise     conv2d x=1x768x7x7 w=768x1x7x7 bias padding=3 groups=768
"""

# SegFormer-B0 (2105.15203): overlapping patches, then the reduction of keys, stride = kernel = 8 and 4.
SEGFORMER = """
patch_embed1         conv2d x=1x3x128x128 w=32x3x7x7 bias stride=4 padding=3
patch_embed2         conv2d x=1x32x32x32 w=64x32x3x3 bias stride=2 padding=1
patch_embed3         conv2d x=1x64x16x16 w=160x64x3x3 bias stride=2 padding=1
reduce1              conv2d x=1x32x32x32 w=32x32x8x8 bias stride=8
reduce2              conv2d x=1x64x16x16 w=64x64x4x4 bias stride=4
"""

TABLES = {"vit": VIT, "convnext": CONVNEXT, "segformer": SEGFORMER}
