"""LeNet-5 (LeCun et al. 1998), AlexNet (Krizhevsky et al. 2012; 2014, arXiv:1404.5997), VGG-16 (arXiv:1409.1556)."""

LENET5 = """
c1   conv2d x=1x1x32x32 w=6x1x5x5 bias
c3   conv2d x=1x6x14x14 w=16x6x5x5 bias
c5   conv2d x=1x16x5x5 w=120x16x5x5 bias
"""

# The net of 2012: two GPUs, hence two groups; the paper's 224 only works out as 227.
ALEXNET = """
conv1   conv2d x=1x3x227x227 w=96x3x11x11 bias stride=4 then=relu
conv2   conv2d x=1x96x27x27 w=256x48x5x5 bias padding=2 groups=2 then=relu
conv3   conv2d x=1x256x13x13 w=384x256x3x3 bias padding=1 then=relu
conv4   conv2d x=1x384x13x13 w=384x192x3x3 bias padding=1 groups=2 then=relu
conv5   conv2d x=1x384x13x13 w=256x192x3x3 bias padding=1 groups=2 then=relu
"""

# "One weird trick" (2014): the one-column AlexNet that torchvision ships.
ALEXNET_OWT = """
features.0    conv2d x=1x3x224x224 w=64x3x11x11 bias stride=4 padding=2
features.3    conv2d x=1x64x27x27 w=192x64x5x5 bias padding=2
features.6    conv2d x=1x192x13x13 w=384x192x3x3 bias padding=1
features.8    conv2d x=1x384x13x13 w=256x384x3x3 bias padding=1
features.10   conv2d x=1x256x13x13 w=256x256x3x3 bias padding=1
"""

# At 224 only the two ends stay under the catalog's size.
VGG16 = """
conv1_1   conv2d x=1x3x224x224 w=64x3x3x3 bias padding=1 then=relu
conv5_1   conv2d x=1x512x14x14 w=512x512x3x3 bias padding=1 then=relu
"""

# The same widths on 32x32 pictures, as trained on CIFAR.
VGG16_CIFAR = """
conv1_1   conv2d x=1x3x32x32 w=64x3x3x3 bias padding=1 then=relu
conv1_2   conv2d x=1x64x32x32 w=64x64x3x3 bias padding=1 then=relu
conv2_1   conv2d x=1x64x16x16 w=128x64x3x3 bias padding=1 then=relu
conv2_2   conv2d x=1x128x16x16 w=128x128x3x3 bias padding=1 then=relu
conv3_1   conv2d x=1x128x8x8 w=256x128x3x3 bias padding=1 then=relu
conv3_2   conv2d x=1x256x8x8 w=256x256x3x3 bias padding=1 then=relu
conv4_1   conv2d x=1x256x4x4 w=512x256x3x3 bias padding=1 then=relu
conv4_2   conv2d x=1x512x4x4 w=512x512x3x3 bias padding=1 then=relu
conv5_1   conv2d x=1x512x2x2 w=512x512x3x3 bias padding=1 then=relu
"""

TABLES = {
    "lenet5": LENET5,
    "alexnet": ALEXNET,
    "alexnet-owt": ALEXNET_OWT,
    "vgg16": VGG16,
    "vgg16-cifar": VGG16_CIFAR,
}
