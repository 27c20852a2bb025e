"""Public reports of mismatching convolutions, one row each, and those that no case can hold."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
from report_makers import (
    Maker,
    altered,
    bias_view,
    epilogue,
    fault_free,
    fill_from,
    injected,
    input_padding,
    make_integers,
    make_large,
    make_largest,
    make_ones,
    make_overflowing,
    make_positive,
    make_wide_weights,
    make_xla,
    misread,
    nan_weight,
    padded,
    recipe,
    repadded,
    swapped_pads,
    undilated,
    write_other,
    write_zeros,
)

from injected_cases import CLIP6, RELU


@dataclass(frozen=True)
class Report:
    """A report, and how it is simulated. `causes`: the established one, and names that say the same."""

    source: str
    established: bool
    causes: tuple[str, ...]
    problem: str
    make: Maker | None = None


ALL = slice(None)
ORDER, TF32 = "summation-order", "reduced-precision-operands"
NARROW, OVER = "low-precision-accumulator", "overflow"
WINO, FFT, PAD, GEOM = "winograd", "fft", "padding", "transposed-geometry"
VIEW, SHAPE, INDEX, MEMORY = "strided-view", "shape-specific-kernel", "index-overflow", "uninitialized-memory"
LAYER = "conv2d x=2x16x20x20 w=16x16x3x3 padding=1 dtype=float32"
WINO16 = "conv2d x=1x32x16x16 w=16x32x3x3 padding=1 dtype=float16"
YES, NO = True, False
_TWO = ("direct order=c,kh,kw", "direct order=kh,kw,c product=rounded")

REPORTS = (
    Report("pytorch/pytorch#70589", NO, (ORDER,), "conv2d x=8x3x32x32 w=16x3x3x3 padding=1", fault_free(*_TWO)),
    Report("jax-ml/jax#9102", NO, (ORDER,), "conv2d x=2x1x28x28 w=32x1x3x3 padding=same_upper", fault_free(*_TWO)),
    Report("tensorflow/tensorflow#19200", NO, (WINO, ORDER), LAYER, recipe("winograd(4)", make_integers)),
    Report("tensorflow/tensorflow#117663", NO, ("ill-conditioned", ORDER), "conv2d x=1x8x30x30 w=8x8x5x5 padding=2", fault_free(*_TWO)),
    Report("pytorch/pytorch#107514", YES, (TF32,), LAYER, recipe("direct x=tf32 w=tf32 order=k/37|k")),
    Report("NVIDIA/TensorRT#4492", YES, (TF32,), "conv2d x=1x3x64x64 w=32x3x7x7 stride=2 padding=3 bias", recipe("direct x=tf32 w=tf32 order=kh,kw,c")),
    Report("IBM/aihwkit#766", YES, (TF32,), "conv3d x=1x4x9x9x9 w=8x4x3x3x3 bias", recipe("direct x=tf32 w=tf32")),
    Report("pytorch/pytorch#60451", YES, (TF32,), "conv3d x=1x8x8x8x8 w=8x8x3x3x3 padding=1", recipe("direct x=tf32 w=tf32 order=k/29|k")),
    Report("pytorch/pytorch#175952", NO, (TF32,), "conv2d x=1x3x64x64 w=16x3x3x3 stride=2 padding=1", recipe("direct x=tf32 w=tf32 order=k/37|k")),
    Report("PaddlePaddle/Paddle#67354", NO, (TF32,), "conv2d x=1x64x5x5 w=64x64x3x3 padding=1", recipe("direct x=tf32 w=tf32 order=k/37|k")),
    Report("tensorflow/tensorflow#58047", NO, (ORDER, "identical"), "conv2d x=1x16x7x7 w=16x16x1x1", fault_free(*_TWO)),
    Report("jax-ml/jax#9973", YES, (TF32,), "conv1d x=1x2x2 w=2x2x1", recipe("direct x=bfloat16 w=bfloat16")),
    Report("apple/coremltools#1809", YES, (TF32,), "conv2d x=1x3x64x64 w=128x3x3x3", recipe("direct x=float16 w=float16 via=float16")),
    Report("stackoverflow: is my fp16 convolution fp16", YES, (NARROW, OVER), "conv2d x=1x1x1x4 w=1x1x1x2 dtype=float16", recipe("direct acc=float16 product=float16", make_largest)),
    Report("LeelaChessZero/lc0#1045", NO, (WINO,), "conv2d x=1x64x8x8 w=64x64x3x3 padding=1 dtype=float16", recipe("winograd(4) acc=float16")),
    Report("stackoverflow: XLA autotuner (the log)", YES, (NARROW,), "conv2d.grad_weight x=3778x24x1x50 w=24x24x1x5 stride=1x5 dtype=float16"),
    Report("danijar/dreamerv3#19", YES, (NARROW,), "conv2d.grad_weight x=40x3x64x64 w=8x3x4x4 stride=2 padding=1 dtype=float16", recipe("direct order=chain@float16:k/16|k", make_xla)),
    Report("danijar/dreamerv3#126", NO, (NARROW,), "conv2d x=1x2x70x70 w=2x2x63x63 dtype=bfloat16", recipe("direct order=chain@bfloat16:k/512|k", make_positive)),
    Report("pytorch/pytorch#83863", YES, (NARROW,), "conv1d x=1x1024x4 w=8x1024x1 dtype=bfloat16", recipe("direct acc=bfloat16", make_ones)),
    Report("Tencent/ncnn PR#2698", YES, (NARROW, OVER), "conv2d x=1x4x256x256 w=4x1x256x256 groups=4 dtype=float16", recipe("direct acc=float16", make_large(60))),
    Report("apple/coremltools#2625", YES, (NARROW,), "conv2d x=1x96x14x14 w=24x96x1x1 bias dtype=float16", recipe("direct acc=float16")),
    Report("ROCm/MIOpen#2496", YES, (OVER,), "conv2d x=5x1x3x3 w=1x1x1x1 dtype=float16", injected("saturation", lambda p, s: make_large(200)(p))),
    Report("apple/coremltools#2110", YES, (OVER,), "conv2d x=1x64x12x12 w=16x64x3x3 dtype=float16", recipe("direct acc=float16", make_large(2e4))),
    Report("ROCm/AMDMIGraphX#850", NO, (OVER,), "conv2d x=1x256x8x8 w=16x256x1x1 dtype=float16", recipe("direct acc=float16", make_overflowing)),
    Report("Tencent/ncnn#5313", NO, (OVER,), "conv1d x=1x80x50 w=32x80x3 dtype=float16", recipe("direct acc=float16", make_overflowing)),
    Report("uxlfoundation/oneDNN#748", YES, (WINO,), "conv2d x=1x144x12x12 w=144x144x3x3 padding=1", recipe("winograd(4)")),
    Report("uxlfoundation/oneDNN#436", NO, (WINO,), "conv2d x=1x16x56x56 w=16x16x3x3 padding=1", recipe("winograd(4)")),
    Report("ROCm/rocm-libraries#3508", YES, (WINO,), WINO16, recipe("winograd(4) acc=float16")),
    Report("ROCm/MIOpen#2492", YES, (WINO,), "conv2d x=2x16x14x14 w=16x16x3x3 padding=1 dtype=float16", recipe("winograd(2) acc=float16")),
    Report("Tencent/ncnn PR#1891", YES, (WINO,), WINO16, recipe("winograd(6) acc=float16")),
    Report("ARM-software/ComputeLibrary#1154", YES, (WINO, OVER), "conv2d x=1x16x4x8 w=16x16x3x3 padding=1 dtype=float16", recipe("winograd(4) acc=float16", make_large(2e3))),
    Report("OpenPPL/ppl.nn#969", NO, (WINO,), "conv2d x=1x4x64x64 w=24x4x3x3 padding=1", recipe("winograd(6)")),
    Report("pytorch/pytorch#30934", NO, (FFT,), "conv1d x=1x4x64 w=4x4x9", recipe("fft", make_wide_weights)),
    Report("tensorflow/tensorflow#1299", NO, (FFT,), "conv2d x=4x1x33x33 w=1x1x5x5 padding=same_upper", recipe("fft", make_positive)),
    Report("pytorch/pytorch#52983", YES, (FFT,), "conv2d x=2x8x24x24 w=8x8x5x5 padding=2", recipe("fft", make_positive)),
    Report("k2-fsa/sherpa-onnx#3850", YES, (PAD,), "conv2d x=1x8x20x20 w=8x8x3x3 padding=0x1", swapped_pads),
    Report("microsoft/onnxruntime PR#29631", YES, (PAD,), "conv2d x=1x4x12x12 w=4x4x4x4 padding=0:3x0:3", repadded(((3, 0), (3, 0)))),
    Report("root-project/root#21737", YES, (PAD,), "conv2d x=1x4x12x12 w=8x4x4x4 padding=same_upper", repadded(((2, 1), (2, 1)))),
    Report("plaidml/plaidml PR#1780", YES, (PAD,), "conv2d x=1x4x13x13 w=8x4x2x2 stride=2 padding=same_upper", repadded(((1, 0), (1, 0)))),
    Report("onnx/onnxmltools#94", YES, (PAD,), "conv2d x=1x3x16x16 w=8x3x3x3 stride=2 padding=same_upper", repadded(((1, 0), (1, 0)))),
    Report("PaddlePaddle/X2Paddle#342", YES, (PAD,), "conv2d x=1x3x15x15 w=8x3x4x4 padding=same_lower", repadded(((1, 2), (1, 2)))),
    Report("pytorch/pytorch#37844", YES, (PAD,), "conv2d x=1x2x10x18 w=4x2x3x3 padding=1", padded("wrap", ((1, 1), (1, 1)))),
    Report("microsoft/onnxruntime#4086", YES, (GEOM,), "conv_transpose2d x=1x2x4x4 w=2x2x2x2 padding=same_upper", repadded(((1, 0), (1, 0)))),
    Report("PINTO0309/onnx2tf#56", YES, (GEOM,), "conv_transpose2d x=1x4x6x6 w=4x3x3x3 stride=3 padding=1", repadded(((0, 2), (0, 2)))),
    Report("Samsung/TICO#420", YES, (GEOM,), "conv_transpose2d x=1x4x6x6 w=4x3x3x3 stride=2 padding=1", input_padding),
    Report("pytorch/pytorch#1565", YES, (GEOM, "dropped-attribute"), "conv_transpose1d x=1x2x5 w=2x2x2 stride=2 dilation=2", undilated),
    Report("gmalivenko/pytorch2keras#7", YES, (GEOM,), "conv_transpose2d x=1x4x6x6 w=4x3x4x4 stride=2 padding=1", repadded(((2, 0), (2, 0)))),
    Report("pytorch/pytorch#82060", YES, (VIEW, "axis-order"), "conv2d x=1x4x12x12 w=16x4x3x3 padding=1", misread("w", lambda w: w.transpose(0, 2, 3, 1).reshape(w.shape))),
    Report("pytorch/pytorch#15297", NO, (VIEW,), "conv2d x=1x8x10x10 w=8x1x3x3 groups=8", misread("w", lambda w: np.broadcast_to(w[:1], w.shape))),
    Report("pytorch/pytorch#169342", NO, (VIEW,), "conv2d x=3x4x10x10 w=6x4x3x3 padding=1", altered(write_other((slice(1, None),)))),
    Report("pytorch/pytorch#197114", YES, (VIEW,), "conv3d x=1x4x6x7x8 w=4x4x3x3x3 padding=1", misread("x", lambda x: np.moveaxis(x, 1, -1).reshape(x.shape))),
    Report("pytorch/pytorch#19912", YES, (SHAPE,), "conv2d x=1x4x9x9 w=16x2x1x1 groups=2", altered(write_zeros((ALL, slice(8, None))))),
    Report("pytorch/pytorch#18218", YES, (SHAPE,), "conv2d x=2x8x9x9 w=16x2x3x3 groups=4 padding=1", altered(write_zeros((ALL, slice(12, None))))),
    Report("pytorch/pytorch#25101", YES, (SHAPE,), "conv2d.grad_input x=2x9x32x32 w=3x9x5x5 stride=3 padding=1", altered(write_other((ALL, ALL, ALL, slice(28, 31))))),
    Report("pytorch/pytorch#169688", NO, (SHAPE,), "conv2d x=1x16x20x20 w=16x16x3x3 stride=3 dtype=bfloat16", altered(write_other((ALL, slice(8, None))))),
    Report("pytorch/pytorch#188335", YES, (SHAPE,), "conv2d x=3x8x260x1 w=8x1x256x1 groups=8", altered(write_other((slice(2, 3),)))),
    Report("pytorch/pytorch#82921", YES, (SHAPE,), "conv1d x=2x8x40 w=8x8x3 stride=2", altered(write_other((ALL, ALL, slice(16, None))))),
    Report("ROCm/MIOpen#77", YES, (SHAPE,), "conv2d.grad_weight x=2x2x50x55 w=4x2x3x3", altered(write_other((ALL, ALL, ALL, slice(2, 3))))),
    Report("modular/modular#6129", NO, (SHAPE,), "conv1d x=1x64x40 w=64x4x16 groups=16", altered(write_other((ALL, slice(4, None))))),
    Report("microsoft/onnxruntime#18992", NO, (SHAPE, "dropped-attribute", "fusion"), "conv2d x=1x1x8x8 w=1x1x1x1 bias dtype=float16", injected("bias doubled")),
    Report("openxla/xla#49123", NO, (SHAPE,), "conv2d x=1x4x9x9 w=4x2x1x1 groups=2", altered(write_other((ALL, slice(3, None))))),
    Report("pytorch/pytorch#87354", NO, (INDEX, SHAPE), "conv3d x=1x4x8x9x9 w=2x4x1x1x1", altered(write_zeros((ALL,)))),
    Report("pytorch/pytorch#84488", NO, (INDEX,), "conv3d x=1x4x8x12x12 w=8x4x1x1x1 bias", altered(fill_from(0.7))),
    Report("pytorch/pytorch#142836", YES, (INDEX,), "conv2d x=2x4x40x40 w=4x4x1x1", altered(fill_from(0.6))),
    Report("ml-explore/mlx#3138", YES, (INDEX,), "conv3d x=1x4x9x14x14 w=8x4x3x3x3", altered(fill_from(0.5))),
    Report("uxlfoundation/oneDNN#1468", YES, (INDEX,), "conv3d x=1x8x10x10x10 w=8x8x3x3x3 padding=1", altered(fill_from(0.8))),
    Report("huggingface/candle#3604", YES, (INDEX,), "conv1d x=1x4x400 w=16x4x3 padding=1", altered(fill_from(0.66))),
    Report("ROCm/rocm-libraries PR#4611", YES, (INDEX, MEMORY), "conv3d x=1x4x8x14x14 w=8x4x3x3x3 padding=1", altered(fill_from(0.66, np.nan))),
    Report("pytorch/pytorch#59439", NO, (MEMORY,), "conv2d x=1x3x24x32 w=2x3x3x3", altered(write_other((ALL, ALL, slice(21, None)), np.nan))),
    Report("uxlfoundation/oneDNN#5717", YES, (MEMORY,), "conv1d x=1x40x33 w=16x40x1 dtype=bfloat16", altered(write_other((ALL, ALL, slice(32, None)), np.nan))),
    Report("pytorch/pytorch#109985", NO, (MEMORY,), "conv2d x=1x4x12x12 w=4x4x3x3", altered(write_other((ALL, slice(3)), np.nan))),
    Report("microsoft/onnxruntime#26669", NO, (MEMORY,), "conv2d x=1x8x16x16 w=8x8x3x3 padding=1", altered(write_other((ALL, ALL, slice(14, None)), np.inf))),
    Report("pytorch/pytorch#2778", YES, ("nondeterminism",), "conv2d.grad_weight x=8x8x14x14 w=8x8x3x3", fault_free("direct order=n,oh,ow", "direct order=k%4|k", names="runs")),
    Report("tensorflow/tensorflow#12871", YES, ("nondeterminism",), "conv2d.grad_weight x=8x8x14x14 w=8x8x3x3 padding=1", fault_free("direct order=n|oh,ow", "direct order=k%8|k", names="runs")),
    Report("PaddlePaddle/Paddle#10266", YES, ("nondeterminism",), "conv2d.grad_input x=4x8x14x14 w=8x8x3x3", fault_free("direct", "direct order=kh,kw,c", names="runs")),
    Report("pytorch/pytorch#3614", NO, ("nondeterminism",), LAYER, fault_free(*_TWO, names="runs")),
    Report("NVIDIA/TensorRT#3938, the clip at fault", NO, ("fusion",), "conv2d x=1x3x64x64 w=16x3x3x3 padding=1 bias", epilogue(CLIP6, RELU)),
    Report("NVIDIA/TensorRT#3938, TF32 at fault", NO, (TF32,), "conv2d x=1x3x64x64 w=16x3x3x3 padding=1 bias then=clip(0,6)", recipe("direct x=tf32 w=tf32 order=k/37|k")),
    Report("facebookarchive/C3D#420", YES, ("fusion",), "conv3d x=1x3x8x9x9 w=4x3x3x3x3", epilogue(RELU, None)),
    Report("mindspore-ai/mindspore#381", NO, ("nan-semantics",), "conv2d x=1x3x12x12 w=4x3x3x3", injected("nan lost")),
    Report("onnx/onnx#6002", YES, ("nan-semantics",), "conv2d x=1x4x12x12 w=4x4x1x1", injected("nan lost")),
    Report("Tencent/ncnn#1609", YES, ("fusion",), "conv2d x=1x3x12x12 w=4x3x3x3", epilogue(CLIP6, None)),
    Report("apache/mxnet#19361", YES, ("subnormals",), "conv2d x=1x3x12x12 w=4x3x3x3", injected("flush")),
    Report("pytorch/pytorch#60179", YES, ("dropped-attribute", PAD), "conv2d x=1x4x14x14 w=4x4x3x3 padding=2x0", swapped_pads),
    Report("pytorch/pytorch#192212", YES, (VIEW,), "conv2d x=1x128x9x9 w=3x128x3x3", misread("w", lambda w: np.random.default_rng(1).standard_normal(w.shape).astype(w.dtype))),
    Report("pytorch/pytorch#9326", NO, (ORDER,), LAYER, fault_free("direct order=k/256|k", "direct order=pairs:k%4|k")),
    Report("pytorch/pytorch#85694", NO, (VIEW,), "conv2d x=2x8x12x12 w=8x2x3x3 groups=4 padding=1 bias", bias_view),
    Report("ROCm/rocm-libraries#3339", YES, (SHAPE, INDEX), "conv2d x=2x8x24x24 w=16x8x3x3 padding=1", altered(write_other((ALL, ALL, slice(16, None))))),
    Report("pytorch/pytorch#49268", NO, (MEMORY,), "conv2d x=4x3x24x24 w=16x3x3x3 padding=1", altered(write_other((ALL, slice(12, None)), 1e28))),
    Report("pytorch/pytorch#12484", NO, (MEMORY,), "conv1d x=2x8x40 w=8x8x3", nan_weight),
    Report("NVIDIA/TensorRT#4400", NO, ("fusion",), LAYER, epilogue(None, RELU)),
    Report("microsoft/onnxruntime#18959", NO, ("fusion",), "conv2d x=2x8x16x16 w=12x8x3x3 padding=1 bias", injected("affine")),
    Report("Tencent/ncnn#517", YES, ("harness",), LAYER, misread("w", np.zeros_like)),
)  # fmt: skip
# Reports that could be emulated in principle, and why no case holds them.
LEFT_OUT = (
    ("apache/tvm#18601, apache/tvm PR#4260, NVIDIA-AI-IOT/torch2trt#734, pytorch/pytorch#104206", "the result has another shape than the problem: such a case file is refused, with the setting that gives the shape"),
    ("jax-ml/jax#22855, google/flax#4113, PaddlePaddle/Paddle PR#14874", "a residual is added, an operand that problems do not have"),
    ("apache/tvm#19533", "a clip whose bound is NaN, which problems do not have"),
    ("pytorch/pytorch#100160", "the values of another run's input were frozen into the model: no case holds that input"),
    ("apache/tvm#5363 and nine more on int8", "integer arithmetic"),
)  # fmt: skip
# Why explain says something else, where it does.
REASONS = {
    "pytorch/pytorch#87354": "zeros everywhere have no place where they begin",
    "pytorch/pytorch#192212": "the weights that were read are not on record",
    "pytorch/pytorch#85694": "the bias that was read is not on record: all but the first channel look like a wrong part",
    "pytorch/pytorch#12484": "it says that NaN is lost; memory that was never written is one way to lose it",
    "modular/modular#6129": "60 of its 64 channels are wrong, which is said to be other operands",
    "Tencent/ncnn#517": "it says that nothing but zeros came out; what was forgotten before is not in arrays",
}
