"""DCGAN (arXiv:1511.06434), SRCNN (1501.00092), ESPCN (1609.05158), latent diffusion (2112.10752): pictures made."""

# The 64-wide net of PyTorch's example; DCGAN pads a transposed 4x4 of stride 2 by 1.
DCGAN = """
generator.project    conv_transpose2d x=4x100x1x1 w=100x512x4x4
generator.1          conv_transpose2d x=1x512x4x4 w=512x256x4x4 stride=2 padding=1
generator.2          conv_transpose2d x=1x256x8x8 w=256x128x4x4 stride=2 padding=1
generator.3          conv_transpose2d x=1x128x16x16 w=128x64x4x4 stride=2 padding=1
generator.4          conv_transpose2d x=1x64x32x32 w=64x3x4x4 stride=2 padding=1
discriminator.0      conv2d x=1x3x64x64 w=64x3x4x4 stride=2 padding=1
discriminator.1      conv2d x=1x64x32x32 w=128x64x4x4 stride=2 padding=1
discriminator.2      conv2d x=1x128x16x16 w=256x128x4x4 stride=2 padding=1
discriminator.3      conv2d x=1x256x8x8 w=512x256x4x4 stride=2 padding=1
discriminator.4      conv2d x=8x512x4x4 w=1x512x4x4
"""

# 9-1-5 on its 33x33 training patches.
SRCNN = """
conv1   conv2d x=8x1x33x33 w=64x1x9x9 bias then=relu
conv2   conv2d x=8x64x25x25 w=32x64x1x1 bias then=relu
conv3   conv2d x=8x32x25x25 w=1x32x5x5 bias
"""

# Three times larger: 9 channels become 3x3 pixels.
ESPCN = """
conv1   conv2d x=1x1x85x85 w=64x1x5x5 bias padding=2
conv2   conv2d x=1x64x85x85 w=32x64x3x3 bias padding=1
conv3   conv2d x=1x32x85x85 w=9x32x3x3 bias padding=1
"""

# FSRCNN (1608.00367): ends in a 9x9 transposed convolution, stride 2, 3 and 4.
FSRCNN = """
extract    conv2d x=1x1x40x40 w=56x1x5x5 bias padding=2
shrink     conv2d x=1x56x40x40 w=12x56x1x1 bias
map        conv2d x=1x12x40x40 w=12x12x3x3 bias padding=1
upscale2   conv_transpose2d x=1x56x40x40 w=56x1x9x9 bias stride=2 padding=4 output_padding=1
upscale3   conv_transpose2d x=1x56x40x40 w=56x1x9x9 bias stride=3 padding=4 output_padding=2
upscale4   conv_transpose2d x=1x56x40x40 w=56x1x9x9 bias stride=4 padding=4 output_padding=3
"""

# Stable Diffusion's U-Net on a 16x16 latent (its own is 64x64).
DIFFUSION_UNET = """
conv_in              conv2d x=2x4x16x16 w=320x4x3x3 bias padding=1
down0.resnet.conv1   conv2d x=1x320x16x16 w=320x320x3x3 bias padding=1
down0.downsample     conv2d x=1x320x32x32 w=320x320x3x3 bias stride=2 padding=1
down1.resnet.conv1   conv2d x=1x320x8x8 w=640x320x3x3 bias padding=1
down1.shortcut       conv2d x=1x320x8x8 w=640x320x1x1 bias
down1.resnet.conv2   conv2d x=1x640x8x8 w=640x640x3x3 bias padding=1
down1.downsample     conv2d x=1x640x8x8 w=640x640x3x3 bias stride=2 padding=1
mid.resnet.conv1     conv2d x=1x1280x2x2 w=1280x1280x3x3 bias padding=1 dtype=float16
up3.shortcut         conv2d x=1x960x16x16 w=320x960x1x1 bias
up0.shortcut         conv2d x=1x2560x4x4 w=1280x2560x1x1 bias dtype=float16
conv_out             conv2d x=2x320x16x16 w=4x320x3x3 bias padding=1
"""

# Its autoencoder: the encoder pads the end only before it strides.
DIFFUSION_VAE = """
encoder.conv_in           conv2d x=1x3x64x64 w=128x3x3x3 bias padding=1
encoder.resnet.conv1      conv2d x=1x128x32x32 w=128x128x3x3 bias padding=1
encoder.down0             conv2d x=1x128x32x32 w=128x128x3x3 bias stride=2 padding=0:1x0:1
encoder.down1             conv2d x=1x256x16x16 w=256x256x3x3 bias stride=2 padding=0:1x0:1
encoder.conv_out          conv2d x=1x512x8x8 w=8x512x3x3 bias padding=1
quant_conv                conv2d x=1x8x32x32 w=8x8x1x1 bias
post_quant_conv           conv2d x=1x4x32x32 w=4x4x1x1 bias
decoder.conv_in           conv2d x=1x4x32x32 w=512x4x3x3 bias padding=1
decoder.mid.conv1         conv2d x=1x512x8x8 w=512x512x3x3 bias padding=1
decoder.conv_out          conv2d x=1x128x64x64 w=3x128x3x3 bias padding=1
"""

# Johnson's style transfer (1603.08155): 9x9 ends, and 3x3 transposed ones that need output_padding.
STYLE_TRANSFER = """
conv1   conv2d x=1x3x64x64 w=32x3x9x9 bias padding=4 then=relu
up1     conv_transpose2d x=1x128x16x16 w=128x64x3x3 bias stride=2 padding=1 output_padding=1 then=relu
up2     conv_transpose2d x=1x64x32x32 w=64x32x3x3 bias stride=2 padding=1 output_padding=1 then=relu
out     conv2d x=1x32x64x64 w=3x32x9x9 bias padding=4
"""

TABLES = {
    "dcgan": DCGAN,
    "srcnn": SRCNN,
    "espcn": ESPCN,
    "fsrcnn": FSRCNN,
    "diffusion-unet": DIFFUSION_UNET,
    "diffusion-vae": DIFFUSION_VAE,
    "style-transfer": STYLE_TRANSFER,
}
