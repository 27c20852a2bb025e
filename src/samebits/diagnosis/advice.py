"""What to change, per cause and framework. None of it was tried here, and every row says its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from samebits.findings import Fix


@dataclass(frozen=True)
class Advice:
    """One setting or change of code; `source` is where its maker, or a report, says that it helps."""

    cause: str
    engine: str
    setting: str
    why: str
    source: str


_TORCH_PRECISION = "pytorch.org/docs/stable/notes/numerical_accuracy.html"
_TORCH_RANDOM = "pytorch.org/docs/stable/notes/randomness.html"
_OPENVINO_PRECISION = "docs.openvino.ai: Precision Control"
_CUDNN = "docs.nvidia.com/deeplearning/cudnn: Convolution Functions, backward filter"

ADVICE = (
    Advice(
        "reduced-precision-operands", "torch", "torch.backends.cudnn.allow_tf32 = False",
        "cuDNN rounds float32 operands to TF32 by default", _TORCH_PRECISION,
    ),
    Advice(
        "reduced-precision-operands", "any CUDA library", "NVIDIA_TF32_OVERRIDE=0 in the environment",
        "forbids TF32 in cuDNN and cuBLAS whatever the framework asks for", "github.com/pytorch/pytorch/issues/153698",
    ),
    Advice(
        "reduced-precision-operands", "tensorflow", "tf.config.experimental.enable_tensor_float_32_execution(False)",
        "TF32 is on by default",
        "tensorflow.org/api_docs/python/tf/config/experimental/enable_tensor_float_32_execution",
    ),
    Advice(
        "reduced-precision-operands", "jax", "jax.config.update('jax_default_matmul_precision', 'highest')",
        "the default lets GPUs use TF32 and TPUs bfloat16", "docs.jax.dev: jax_default_matmul_precision",
    ),
    Advice(
        "reduced-precision-operands", "openvino", "INFERENCE_PRECISION_HINT=f32",
        "the CPU plugin computes in bfloat16 where the processor can", _OPENVINO_PRECISION,
    ),
    Advice(
        "reduced-precision-operands", "openvino", "save_model(model, path, compress_to_fp16=False)",
        "saved weights are rounded to float16 by default", "docs.openvino.ai: openvino.save_model",
    ),
    Advice(
        "reduced-precision-operands", "tensorrt", "trtexec --noTF32 (or clear BuilderFlag.TF32); do not set FP16, BF16",
        "TF32 is allowed by default", "docs.nvidia.com/deeplearning/tensorrt: Reduced Precision",
    ),
    Advice(
        "reduced-precision-operands", "onnxruntime", "CUDA provider option use_tf32=0",
        "TF32 is allowed by default", "onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html",
    ),
    Advice(
        "low-precision-accumulator", "tensorflow", "TF_FP16_CONV_USE_FP32_COMPUTE=1 (the default) in the environment",
        "asks cuDNN to add float16 products in float32", "tensorflow/core/util/use_cudnn.cc",
    ),
    Advice(
        "low-precision-accumulator", "cudnn", "backward filter: ALGO_1 in place of ALGO_0; engines without the note"
        " REDUCED_PRECISION_REDUCTION", "ALGO_0 keeps intermediate sums of a float16 result in float16", _CUDNN,
    ),
    Advice(
        "low-precision-accumulator", "xla", "forbid the algorithm (denylist), or compute the gradient in float32",
        "the autotuner measures time, not accuracy, and may keep it", "openxla/xla: hlo_algorithm_denylist.cc",
    ),
    Advice(
        "low-precision-accumulator", "torch",
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False",
        "float16 products may be reduced in float16", _TORCH_PRECISION,
    ),
    Advice(
        "overflow", "any", "scale the input by 2^-k and the result by 2^k, or compute in float32 or bfloat16",
        "float16 ends at 65,504; a power of two changes no bit of the rest", "IEEE 754",
    ),
    Advice(
        "winograd", "miopen", "MIOPEN_DEBUG_CONV_WINOGRAD=0 in the environment",
        "keeps Winograd's transforms out", "rocm.docs.amd.com/projects/MIOpen: Debug and logging",
    ),
    Advice(
        "winograd", "tensorflow", "TF_ENABLE_WINOGRAD_NONFUSED=0 in the environment",
        "keeps cuDNN's nonfused Winograd out", "tensorflow/core/util/use_cudnn.cc",
    ),
    Advice(
        "winograd", "cudnn", "deselect engines with the numerical note WINOGRAD",
        "its transforms enlarge rounding errors",
        "cudnn-frontend: cudnn_frontend_utils.h",
    ),
    Advice(
        "fft", "cudnn", "deselect engines with the numerical note FFT",
        "its error follows the largest value of a plane", "cudnn-frontend: cudnn_frontend_utils.h",
    ),
    Advice(
        "summation-order", "any", "samebits.conv2d: correctly rounded, so the order cannot matter",
        "no setting makes two libraries add in one order", "docs/truth.md",
    ),
    Advice(
        "ill-conditioned", "any", "compare with the error bound, K u sum|x||w|, in place of a relative tolerance",
        "outputs near zero are small differences of large terms", "docs/truth.md",
    ),
    Advice(
        "nondeterminism", "torch", "torch.use_deterministic_algorithms(True); torch.backends.cudnn.benchmark = False",
        "algorithms picked by timing, or with atomics, differ from run to run", _TORCH_RANDOM,
    ),
    Advice(
        "padding", "onnx", "write explicit pads in place of auto_pad; pad asymmetrically with a Pad node of its own",
        "SAME_UPPER, SAME_LOWER and one-sided pads are read differently",
        "github.com/microsoft/onnxruntime/issues/26215",
    ),
    Advice(
        "transposed-geometry", "onnx", "write pads and output_padding in place of auto_pad and output_shape",
        "engines crop different sides", "github.com/openvinotoolkit/openvino/issues/33397",
    ),
    Advice(
        "transposed-geometry", "jax", "jax.lax.conv_transpose(..., transpose_kernel=True)",
        "the default does not flip the kernel as a gradient does", "docs.jax.dev: jax.lax.conv_transpose",
    ),
    Advice(
        "axis-order", "any", "flip the kernel, or state the layouts (OIHW or HWIO) where the weights change hands",
        "frameworks compute cross-correlation, mathematics a convolution", "pytorch.org/docs: torch.nn.Conv2d",
    ),
    Advice(
        "strided-view", "torch", ".contiguous() (or .clone()) on input, weight and bias before the call",
        "a kernel that ignores strides reads other elements", "github.com/pytorch/pytorch/issues/82060",
    ),
    Advice(
        "shape-specific-kernel", "any",
        "another algorithm or version of the library; samebits compare tries its settings",
        "the kernel for just this shape is at fault", "reports of this kind: docs/explain.md",
    ),
    Advice(
        "index-overflow", "any", "cut the batch or the space into parts below 2^31 elements",
        "offsets of 32 bits wrap around", "github.com/pytorch/pytorch/issues: index overflow reports",
    ),
    Advice(
        "uninitialized-memory", "torch", "torch.utils.deterministic.fill_uninitialized_memory = True shows it",
        "outputs that no kernel wrote", _TORCH_RANDOM,
    ),
    Advice(
        "fusion", "onnxruntime", "GraphOptimizationLevel.ORT_DISABLE_ALL, then level by level",
        "shows which graph rewrite is at fault",
        "onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html",
    ),
    Advice(
        "fusion", "tensorrt", "mark the convolution's output as a network output (polygraphy --trt-outputs mark all)",
        "takes the fusion apart", "github.com/NVIDIA/TensorRT: Polygraphy",
    ),
    Advice(
        "nan-semantics", "any", "test for NaN before the clip (isnan), or clip by comparisons that let NaN through",
        "minimum and maximum of a NaN are a number in some libraries", "github.com/onnx/onnx/issues/6002",
    ),
    Advice(
        "subnormals", "torch", "torch.set_flush_denormal(False)", "subnormal numbers are flushed to zero",
        "pytorch.org/docs: torch.set_flush_denormal",
    ),
    Advice(
        "dropped-attribute", "any", "compare the attributes of the two graphs node by node and attach what is missing",
        "a converter lost stride, dilation, bias or padding", "reports of this kind: docs/explain.md",
    ),
)  # fmt: skip


def advise(causes: Sequence[str]) -> list[Fix]:
    """All advice for these causes, none of it tried here."""
    return [
        Fix(engine=a.engine, setting=a.setting, why=a.why, verified=False, verdict_after=None, source=a.source)
        for cause in dict.fromkeys(causes)
        for a in ADVICE
        if a.cause == cause
    ]
