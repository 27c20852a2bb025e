"""Shapes from public bug reports and questions about convolutions that disagree; the row's name is the report's id.

The ids are those of the project's list of reports. `-scaled`: the report's shape is beyond the catalog's limits, so
batch, sizes or channels were made smaller, all else kept. `-completed`: the report leaves sizes out; these are ours.
"""

# Everything given by the report (layouts turned into N x C x spatial; integers and quantised data become float32).
COMPLETE = """
M01-01          conv2d x=64x3x32x32 w=16x3x3x3 padding=1
M01-02          conv1d x=1x256x10 w=256x256x5 bias padding=2
M01-02.batch2   conv1d x=2x256x10 w=256x256x5 bias padding=2
M01-07          conv2d x=1x4x64x64 w=1x4x3x3 bias padding=1
M01-12          conv2d x=2x1x28x28 w=32x1x3x3 padding=same_upper
M03-19          conv2d x=1x3x128x128 w=128x3x3x3 bias
M04-01          conv2d.grad_weight x=3778x24x1x50 w=24x24x1x5 stride=1x5 dtype=float16
M06-01          conv2d x=1x144x12x12 w=144x144x3x3 padding=1
M06-02          conv2d x=1x16x56x56 w=16x16x3x3 padding=1
M06-09          conv2d x=1x8x4x4 w=16x8x3x3 dtype=float16
M06-11          conv2d x=1x4x640x512 w=24x4x3x3
M07-02          conv2d x=4x1x33x33 w=1x1x5x5 padding=same_upper
M08-02          conv1d x=1x2x1 w=1x2x1
M10-01          conv1d x=1x1x4 w=1x1x2 stride=2 padding=same_upper
M11-01          conv_transpose2d x=1x1x8x8 w=1x1x3x3 stride=2 padding=same_upper
M11-01.lower    conv_transpose2d x=1x1x8x8 w=1x1x3x3 stride=2 padding=same_lower
M11-04          conv_transpose2d x=1x1x32x32 w=1x1x3x3 padding=same_upper
M11-09          conv_transpose2d x=1x1x2x2 w=1x1x3x3 padding=same_upper
M11-12          conv_transpose2d x=1x1x28x28 w=1x1x3x3 stride=2 padding=1 output_padding=1
M12-01          conv2d x=1x1x5x5 w=1x1x3x3 padding=1
M14-04          conv2d.grad_input x=1x9x32x32 w=3x9x5x5 stride=3 padding=1
M14-16          conv2d.grad_weight x=2x2x50x55 w=1x2x3x3
M14-29          conv2d x=1x3x231x231 w=45x3x3x3
M18-01          conv2d x=40x8x32x32 w=8x8x3x3 padding=1
M18-04          conv2d x=1x3x512x512 w=16x3x3x3 padding=same_upper then=clip(0,6)
"""

SCALED = """
M04-02-scaled   conv2d.grad_weight x=64x3x64x64 w=48x3x4x4 stride=2 padding=1 dtype=float16
M14-17-scaled   conv2d x=1x8x135x240 w=16x8x3x3
M14-26-scaled   conv2d x=1x80x73x73 w=16x80x3x3
M15-01-scaled   conv3d x=1x28x32x32x16 w=28x28x1x1x1
M15-09-scaled   conv3d x=1x16x5x37x65 w=16x16x3x3x3 padding=1
"""

COMPLETED = """
M01-09-completed         conv2d x=1x16x20x20 w=16x16x3x3
M01-09-completed.half    conv2d x=1x16x20x20 w=8x16x3x3
M01-11-completed         conv2d x=1x3x64x64 w=6x3x8x8 stride=2
M01-11-completed.second  conv2d x=1x6x29x29 w=6x6x8x8 stride=2
M02-01-completed         conv2d x=1x3x64x64 w=64x3x7x7 stride=2
M02-04-completed         conv2d x=1x3x32x32 w=64x3x3x3 bias padding=1
M05-02-completed         conv_transpose2d x=6x7x9x8 w=7x3x15x18 dtype=float16
M10-02-completed         conv2d x=1x1x4x4 w=1x1x2x2 padding=0:1x0:1
M10-04-completed         conv2d x=1x1x5x5 w=1x1x3x3 padding=0:0x1:1
M10-16-completed         conv2d x=1x2x9x9 w=4x2x3x3 padding=same_upper dilation=2
M11-07-completed         conv_transpose2d x=1x3x8x8 w=3x3x2x2 padding=3 dilation=2 output_padding=1
M11-16-completed         conv_transpose2d x=1x4x5x5 w=4x2x3x3 stride=3 padding=1
M11-19-completed         conv_transpose2d x=1x256x8x8 w=256x64x4x4 stride=4
M11-21-completed         conv_transpose1d x=1x4x9 w=4x2x3 stride=2 dilation=2
M13-01-completed         conv2d x=2x1x16x16 w=64x1x3x3 padding=1
M13-02-completed         conv2d x=1x8x16x16 w=8x1x3x3 padding=1 groups=8
M13-06-completed         conv2d x=1x128x16x16 w=3x128x3x3 padding=1
M14-01-completed         conv2d x=1x4x8x8 w=16x2x1x1 groups=2
M14-07-completed         conv_transpose1d x=1x8x16 w=8x8x3 stride=2 padding=1 dilation=2 dtype=bfloat16
M14-09-completed         conv2d x=2x8x300x3 w=8x1x256x1 groups=8
M14-19-completed         conv1d x=1x768x8 w=768x48x128 padding=64 groups=16
M14-22-completed         conv2d x=1x1x3x3 w=1x1x1x1 bias dtype=float16
M14-24-completed         conv2d x=1x4x5x5 w=4x2x1x1 groups=2
M16-02-completed         conv2d x=1x3x160x240 w=16x3x3x3
M21-01-completed         conv3d x=1x3x8x16x16 w=64x3x3x3x3
"""

# The cases that the project starts from: a tail against a packet path, and which format holds the sum.
SEEDS = """
seed-1.length7     conv1d x=1x1x7 w=1x1x5 bias
seed-1.length8     conv1d x=1x1x8 w=1x1x5 bias
seed-1.length9     conv1d x=1x1x9 w=1x1x5 bias
seed-2             conv2d x=1x1x1x4 w=1x1x1x2 dtype=float16
seed-2.agreement   conv2d x=16x16x32x32 w=16x16x3x3 dtype=float16
"""

TABLES = {"report": "\n".join((COMPLETE, SCALED, COMPLETED, SEEDS))}
