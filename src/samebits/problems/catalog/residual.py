"""ResNet (He et al. 2015, arXiv:1512.03385) and ResNeXt (Xie et al. 2016, arXiv:1611.05431)."""

# Version 1.5, the one that torchvision ships: the 3x3 strides, not the 1x1 before it. Every distinct layer at 224.
RESNET50 = """
conv1                 conv2d x=1x3x224x224 w=64x3x7x7 stride=2 padding=3
layer1.0.conv1        conv2d x=1x64x56x56 w=64x64x1x1
layer1.0.conv2        conv2d x=1x64x56x56 w=64x64x3x3 padding=1
layer1.0.conv3        conv2d x=1x64x56x56 w=256x64x1x1
layer1.1.conv1        conv2d x=1x256x56x56 w=64x256x1x1
layer2.0.conv1        conv2d x=1x256x56x56 w=128x256x1x1
layer2.0.conv2        conv2d x=1x128x56x56 w=128x128x3x3 stride=2 padding=1
layer2.0.conv3        conv2d x=1x128x28x28 w=512x128x1x1
layer2.0.downsample   conv2d x=1x256x56x56 w=512x256x1x1 stride=2
layer2.1.conv1        conv2d x=1x512x28x28 w=128x512x1x1
layer2.1.conv2        conv2d x=1x128x28x28 w=128x128x3x3 padding=1
layer3.0.conv1        conv2d x=1x512x28x28 w=256x512x1x1
layer3.0.conv2        conv2d x=1x256x28x28 w=256x256x3x3 stride=2 padding=1
layer3.0.conv3        conv2d x=1x256x14x14 w=1024x256x1x1
layer3.0.downsample   conv2d x=1x512x28x28 w=1024x512x1x1 stride=2
layer3.1.conv1        conv2d x=1x1024x14x14 w=256x1024x1x1
layer3.1.conv2        conv2d x=1x256x14x14 w=256x256x3x3 padding=1
layer4.0.conv1        conv2d x=1x1024x14x14 w=512x1024x1x1
layer4.0.conv2        conv2d x=1x512x14x14 w=512x512x3x3 stride=2 padding=1
layer4.0.conv3        conv2d x=1x512x7x7 w=2048x512x1x1
layer4.0.downsample   conv2d x=1x1024x14x14 w=2048x1024x1x1 stride=2
layer4.1.conv1        conv2d x=1x2048x7x7 w=512x2048x1x1
layer4.1.conv2        conv2d x=1x512x7x7 w=512x512x3x3 padding=1
"""

# As exported for inference, batch norm folded in; the second of a block is added to its input before any ReLU.
RESNET18 = """
conv1                 conv2d x=1x3x224x224 w=64x3x7x7 bias stride=2 padding=3 then=relu
layer1.0.conv1        conv2d x=1x64x56x56 w=64x64x3x3 bias padding=1 then=relu
layer1.0.conv2        conv2d x=1x64x56x56 w=64x64x3x3 bias padding=1
layer2.0.conv1        conv2d x=1x64x56x56 w=128x64x3x3 bias stride=2 padding=1 then=relu
layer2.0.conv2        conv2d x=1x128x28x28 w=128x128x3x3 bias padding=1
layer2.0.downsample   conv2d x=1x64x56x56 w=128x64x1x1 bias stride=2
layer2.1.conv1        conv2d x=1x128x28x28 w=128x128x3x3 bias padding=1 then=relu
layer3.0.conv1        conv2d x=1x128x28x28 w=256x128x3x3 bias stride=2 padding=1 then=relu
layer3.0.conv2        conv2d x=1x256x14x14 w=256x256x3x3 bias padding=1
layer3.0.downsample   conv2d x=1x128x28x28 w=256x128x1x1 bias stride=2
layer4.0.conv1        conv2d x=1x256x14x14 w=512x256x3x3 bias stride=2 padding=1 then=relu
layer4.0.conv2        conv2d x=1x512x7x7 w=512x512x3x3 bias padding=1
layer4.0.downsample   conv2d x=1x256x14x14 w=512x256x1x1 bias stride=2
"""

# ResNet-20 of the paper's section 4.2, in small batches.
RESNET20_CIFAR = """
conv1                 conv2d x=8x3x32x32 w=16x3x3x3 padding=1
layer1.0.conv1        conv2d x=8x16x32x32 w=16x16x3x3 padding=1
layer2.0.conv1        conv2d x=4x16x32x32 w=32x16x3x3 stride=2 padding=1
layer2.0.downsample   conv2d x=4x16x32x32 w=32x16x1x1 stride=2
layer2.1.conv1        conv2d x=4x32x16x16 w=32x32x3x3 padding=1
layer3.0.conv1        conv2d x=2x32x16x16 w=64x32x3x3 stride=2 padding=1
layer3.0.downsample   conv2d x=2x32x16x16 w=64x32x1x1 stride=2
layer3.1.conv1        conv2d x=2x64x8x8 w=64x64x3x3 padding=1
"""

# ResNeXt-50 32x4d: the grouped 3x3 of every stage, and the 1x1 that only it has.
RESNEXT50 = """
layer1.0.conv1   conv2d x=1x64x56x56 w=128x64x1x1
layer1.0.conv2   conv2d x=1x128x56x56 w=128x4x3x3 padding=1 groups=32
layer1.0.conv3   conv2d x=1x128x56x56 w=256x128x1x1
layer2.0.conv2   conv2d x=1x256x56x56 w=256x8x3x3 stride=2 padding=1 groups=32
layer2.1.conv2   conv2d x=1x256x28x28 w=256x8x3x3 padding=1 groups=32
layer3.0.conv2   conv2d x=1x512x28x28 w=512x16x3x3 stride=2 padding=1 groups=32
layer3.1.conv2   conv2d x=1x512x14x14 w=512x16x3x3 padding=1 groups=32
layer4.0.conv2   conv2d x=1x1024x14x14 w=1024x32x3x3 stride=2 padding=1 groups=32
layer4.1.conv2   conv2d x=1x1024x7x7 w=1024x32x3x3 padding=1 groups=32
"""

TABLES = {
    "resnet50": RESNET50,
    "resnet18": RESNET18,
    "resnet20-cifar": RESNET20_CIFAR,
    "resnext50": RESNEXT50,
}
