"""No network's: the corners of the arithmetic of Dumoulin and Visin 2016 (arXiv:1603.07285) where code goes wrong."""

# One product per output, or one output, or one row: no sum to order, or only one.
SMALLEST = """
one-product          conv2d x=1x1x1x1 w=1x1x1x1
one-product-biased   conv2d x=3x1x7x5 w=1x1x1x1 bias
depthwise-1x1        conv2d x=2x7x11x13 w=7x1x1x1 groups=7
one-output           conv2d x=1x32x7x7 w=1x32x7x7
one-output-long      conv1d x=1x1x4096 w=1x1x4096
one-column           conv2d x=1x5x31x1 w=5x5x3x1 padding=1x0
one-row              conv2d x=1x5x1x31 w=5x5x1x3 padding=0x1
single-channel       conv2d x=1x1x29x31 w=1x1x3x3 padding=1
single-channel-out   conv2d x=1x17x23x19 w=1x17x3x3 padding=1
scalar-transposed    conv_transpose1d x=1x1x1 w=1x1x1
one-channel-one-column     conv2d x=3x1x7x3 w=16x1x2x2 stride=1x3
one-channel-one-column-2   conv2d x=3x1x7x6 w=1x1x5x4 stride=1x3
one-channel-one-column-3d  conv3d x=3x1x3x5x6 w=4x1x3x3x4 stride=2x1x3
one-channel-two-columns    conv2d x=3x1x7x6 w=16x1x2x2 stride=1x3
"""

# Kernel, stride, padding and size out of their usual proportion.
PROPORTIONS = """
kernel-over-input        conv2d x=1x3x3x3 w=4x3x7x7 padding=3
kernel-over-input-1d     conv1d x=2x2x2 w=3x2x9 padding=4
kernel-over-input-3d     conv3d x=1x2x2x3x2 w=2x2x5x5x5 padding=2
stride-over-kernel       conv2d x=1x3x32x32 w=8x3x2x2 stride=5
stride-over-kernel-1d    conv1d x=4x4x101 w=4x4x3 stride=7
stride-over-input        conv2d x=1x2x5x5 w=3x2x3x3 stride=9
gaps-transposed          conv_transpose2d x=1x3x6x6 w=3x5x2x2 stride=4
gaps-transposed-extra    conv_transpose2d x=1x3x6x6 w=3x5x2x2 stride=4 output_padding=3
padding-over-kernel      conv2d x=1x2x6x6 w=3x2x3x3 bias padding=5
padding-over-kernel-1d   conv1d x=1x2x6 w=3x2x2 bias padding=4
leftover-not-read        conv2d x=1x3x10x10 w=4x3x3x3 stride=4
even-kernel              conv2d x=1x4x9x9 w=4x4x4x4 padding=2
dilation-over-input      conv1d x=1x4x12 w=4x4x3 padding=16 dilation=16
dilated-transposed       conv_transpose2d x=1x4x7x7 w=4x6x3x3 padding=2 dilation=3
dilated-strided          conv2d x=1x6x41x41 w=8x6x3x3 stride=3 padding=4 dilation=5
unequal-everything       conv2d x=2x6x37x23 w=10x3x5x2 stride=3x1 padding=2x1 dilation=1x4 groups=2
"""

# Padding that differs between the ends of an axis.
UNEVEN_PADDING = """
begin-only            conv2d x=1x3x13x13 w=5x3x3x3 padding=2:0x2:0
end-only              conv2d x=1x3x13x13 w=5x3x3x3 padding=0:2x0:2
crossed               conv2d x=1x3x13x13 w=5x3x3x3 padding=2:0x0:2
one-axis              conv2d x=1x3x13x13 w=5x3x4x4 padding=1:2x0:0
same-upper-even       conv2d x=1x3x13x13 w=5x3x2x2 padding=same_upper
same-lower-even       conv2d x=1x3x13x13 w=5x3x2x2 padding=same_lower
same-upper-strided    conv2d x=1x3x14x15 w=5x3x3x3 stride=2 padding=same_upper
same-lower-strided    conv2d x=1x3x14x15 w=5x3x3x3 stride=2 padding=same_lower
same-upper-dilated    conv1d x=1x4x19 w=4x4x4 padding=same_upper dilation=3
same-lower-dilated    conv1d x=1x4x19 w=4x4x4 padding=same_lower dilation=3
same-no-padding       conv2d x=1x3x16x16 w=5x3x2x2 stride=4 padding=same_upper
same-lower-3d         conv3d x=1x2x5x6x7 w=3x2x2x3x4 padding=same_lower
uneven-3d             conv3d x=1x2x5x6x7 w=3x2x3x3x3 padding=2:0x1:1x0:2
uneven-transposed     conv_transpose2d x=1x3x7x7 w=3x4x4x4 stride=2 padding=1:2x2:0
same-transposed-1d    conv_transpose1d x=1x3x11 w=3x4x4 stride=3 padding=same_lower
same-transposed-gap   conv_transpose1d x=1x3x11 w=3x4x2 stride=3 padding=same_upper
"""

# Prime sizes: no tile, packet or block divides them; and channels at one less and one more than a packet of 16.
PRIMES = """
prime                conv2d x=1x13x37x41 w=11x13x3x3 padding=1
prime-batch5         conv2d x=5x7x17x19 w=23x7x5x3 stride=2 padding=2x1
prime-batch7         conv1d x=7x29x97 w=31x29x7 padding=3
prime-3d             conv3d x=3x5x7x11x13 w=17x5x3x2x5
prime-transposed     conv_transpose2d x=1x19x11x13 w=19x7x5x3 stride=3x2 padding=1
channels-15          conv2d x=1x15x20x20 w=15x15x3x3 padding=1
channels-17          conv2d x=1x17x20x20 w=17x17x3x3 padding=1
width-127            conv1d x=1x16x127 w=16x16x3 padding=1
width-129            conv1d x=1x16x129 w=16x16x3 padding=1
groups-13            conv2d x=6x26x9x9 w=39x2x3x3 padding=1 groups=13
groups-transposed    conv_transpose2d x=3x15x9x9 w=15x2x3x3 stride=2 padding=1 groups=5
groups-transposed3d  conv_transpose3d x=2x6x3x4x5 w=6x2x3x3x3 stride=2 groups=3
"""

# Long sums: where the order and the width of the accumulator matter most.
LONG_SUMS = """
channels-4096        conv2d x=1x4096x4x4 w=16x4096x1x1
channels-8191        conv1d x=1x8191x5 w=8x8191x1
taps-2048            conv1d x=1x4x4096 w=4x4x2048
window-63            conv2d x=1x2x80x80 w=2x2x63x63
epilogue-low         conv2d x=1x64x8x8 w=8x64x3x3 bias padding=1 then=clip(-1,1)
epilogue-fraction    conv2d x=1x64x8x8 w=8x64x3x3 bias padding=1 then=clip(0.1,0.7)
wide-result          conv2d x=1x64x8x8 w=8x64x3x3 padding=1 dtype=float16 out=float32
wide-result-bf16     conv2d x=1x64x8x8 w=8x64x3x3 padding=1 dtype=bfloat16 out=float32
narrow-result        conv2d x=1x64x8x8 w=8x64x3x3 padding=1 dtype=float32 out=float16
float8-e4m3          conv2d x=1x64x8x8 w=8x64x3x3 padding=1 dtype=float8_e4m3fn out=float16
float8-e5m2          conv2d x=1x64x8x8 w=8x64x3x3 padding=1 dtype=float8_e5m2 out=bfloat16
float8-e4m3-narrow   conv1d x=1x64x64 w=16x64x3 padding=1 dtype=float8_e4m3fn
float8-e5m2-narrow   conv1d x=1x64x64 w=16x64x3 padding=1 dtype=float8_e5m2
"""

TABLES = {"corner": "\n".join((SMALLEST, PROPORTIONS, UNEVEN_PADDING, PRIMES, LONG_SUMS))}
