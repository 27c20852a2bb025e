"""What to change, per cause and framework. None of it was tried here, and every row says its source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from samebits.findings.causes import CauseCode, find_cause
from samebits.findings.comparison_schema import Fix


@dataclass(frozen=True)
class Advice:
    """One setting or change of code; `source` is where its maker, or a report, says that it helps.

    `only` names the family of problems that it is for, where it does nothing for the other, and `formats` those that
    operands are rounded to, where it does nothing for others. `of` tells advice for kernels of integer codes from that
    for floating-point ones.
    """

    cause: CauseCode
    engine: str
    setting: str
    why: str
    source: str
    only: Literal["", "convolution", "product"] = ""
    formats: tuple[str, ...] = ()
    of: Literal["", "codes", "floats"] = ""


_TORCH_PRECISION = "pytorch.org/docs/stable/notes/numerical_accuracy.html"
_TORCH_RANDOM = "pytorch.org/docs/stable/notes/randomness.html"
_OPENVINO_PRECISION = "docs.openvino.ai: Precision Control"
_QUANTIZE = "onnx.ai/onnx/operators: QuantizeLinear, QLinearConv, QLinearMatMul"
_TF32, _HALVES = ("tf32",), ("float16", "bfloat16")
_CUDNN = "docs.nvidia.com/deeplearning/cudnn: Convolution Functions, backward filter"

_SDPA = "docs.pytorch.org/docs/stable/generated/torch.nn.functional.scaled_dot_product_attention.html"

ADVICE = (
    Advice(
        CauseCode.HIDDEN_KEYS, "torch",
        "attn_mask=torch.nn.attention.bias.causal_lower_right(queries, keys) in place of is_causal=True",
        "is_causal is aligned to the upper left: behind a cache a query sees too few keys", _SDPA,
    ),
    Advice(
        CauseCode.HIDDEN_KEYS, "onnxruntime", "Attention (opset 23) in place of MultiHeadAttention with unidirectional",
        "its mask is defined for any lengths, and may be given as an input", "onnx.ai/onnx/operators/onnx__Attention.html",
    ),
    Advice(
        CauseCode.NARROW_INTERMEDIATE, "torch", "torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)",
        "the kernel math keeps scores in float32 then", _SDPA,
    ),
    Advice(
        CauseCode.NARROW_INTERMEDIATE, "openvino", "INFERENCE_PRECISION_HINT=f32",
        "on processors with bfloat16 the plugin computes in it by default", _OPENVINO_PRECISION,
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "torch", "torch.backends.cudnn.allow_tf32 = False",
        "cuDNN rounds float32 operands to TF32 by default", _TORCH_PRECISION, "convolution", _TF32,
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "torch",
        "torch.backends.cuda.matmul.allow_tf32 = False; torch.set_float32_matmul_precision('highest')",
        "cuBLAS, and oneDNN, round float32 operands where these allow it", _TORCH_PRECISION, "product", ("tf32", "bfloat16"),
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "torch", "with torch.autocast(x.device.type, enabled=False): y = layer(x.float())",
        "autocast rounds operands to a half format", "pytorch.org/docs/stable/amp.html", "", _HALVES,
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "tensorflow", "keras.mixed_precision.set_dtype_policy('float32')",
        "mixed precision rounds operands to a half format", "keras.io/api/mixed_precision", "", _HALVES,
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "any CUDA library", "NVIDIA_TF32_OVERRIDE=0 in the environment",
        "forbids TF32 in cuDNN and cuBLAS whatever the framework asks for", "github.com/pytorch/pytorch/issues/153698",
        "", _TF32,
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "tensorflow", "tf.config.experimental.enable_tensor_float_32_execution(False)",
        "TF32 is on by default",
        "tensorflow.org/api_docs/python/tf/config/experimental/enable_tensor_float_32_execution", "", _TF32,
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "jax", "jax.config.update('jax_default_matmul_precision', 'highest')",
        "the default lets GPUs use TF32 and TPUs bfloat16", "docs.jax.dev: jax_default_matmul_precision",
        "", ("tf32", "bfloat16"),
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "openvino", "INFERENCE_PRECISION_HINT=f32",
        "the CPU plugin computes in bfloat16 where the processor can", _OPENVINO_PRECISION, "", _HALVES,
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "openvino", "save_model(model, path, compress_to_fp16=False)",
        "saved weights are rounded to float16 by default", "docs.openvino.ai: openvino.save_model", "", ("float16",),
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "tensorrt", "trtexec --noTF32",
        "TF32 is allowed by default; in code clear BuilderFlag.TF32, and set neither FP16 nor BF16", "docs.nvidia.com/deeplearning/tensorrt: Reduced Precision",
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "onnxruntime", "CUDA provider option use_tf32=0",
        "TF32 is allowed by default", "onnxruntime.ai/docs/execution-providers/CUDA-ExecutionProvider.html", "", _TF32,
    ),
    Advice(
        CauseCode.LOW_PRECISION_ACCUMULATOR, "tensorflow", "TF_FP16_CONV_USE_FP32_COMPUTE=1 (the default) in the environment",
        "asks cuDNN to add float16 products in float32", "tensorflow/core/util/use_cudnn.cc", "convolution",
    ),
    Advice(
        CauseCode.LOW_PRECISION_ACCUMULATOR, "cudnn", "backward filter: ALGO_1 in place of ALGO_0; engines without the note"
        " REDUCED_PRECISION_REDUCTION", "ALGO_0 keeps intermediate sums of a float16 result in float16", _CUDNN, "convolution",
    ),
    Advice(
        CauseCode.LOW_PRECISION_ACCUMULATOR, "xla", "forbid the algorithm (denylist), or compute the gradient in float32",
        "the autotuner measures time, not accuracy, and may keep it", "openxla/xla: hlo_algorithm_denylist.cc",
    ),
    Advice(
        CauseCode.LOW_PRECISION_ACCUMULATOR, "torch",
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False (allow_bf16_... for bfloat16)",
        "products of 16 bits may be reduced in 16 bits", _TORCH_PRECISION, "product",
    ),
    Advice(
        CauseCode.OVERFLOW, "any", "scale the input by 2^-k and the result by 2^k, or compute in float32 or bfloat16",
        "float16 ends at 65,504; a power of two changes no bit of the rest", "IEEE 754", of="floats",
    ),
    Advice(
        CauseCode.OVERFLOW, "any", "hold sums and codes in 32 bits; clip to the limits of 8 bits, zero point included, then narrow",
        "a narrowing conversion wraps around, QuantizeLinear saturates", _QUANTIZE, of="codes",
    ),
    Advice(
        CauseCode.DROPPED_ATTRIBUTE, "any", "hold scales, zero points and bias against the model's, one after the other:"
        " code = round(sum x_scale w_scale / y_scale) + y_zero, bias in steps of x_scale w_scale",
        "a kernel that took one of them otherwise gives such codes", _QUANTIZE, of="codes",
    ),
    Advice(
        CauseCode.OTHER_OPERANDS, "any", "say int8 or uint8 where codes change hands; move codes and zero point by 128 together",
        "the same bytes are other numbers in the other dtype", _QUANTIZE, of="codes",
    ),
    Advice(
        CauseCode.REDUCED_PRECISION_OPERANDS, "any", "keep scales in float32, or their quotient as a whole number of 31 bits and a shift",
        "a scale in fewer bits moves every code that lies near a half", "github.com/google/gemmlowp: doc/quantization.md",
        of="codes",
    ),
    Advice(
        CauseCode.PADDING, "any", "pad with x's zero point, which is what the number 0 is as a code",
        "the code 0 is another number unless the zero point is 0", _QUANTIZE, of="codes",
    ),
    Advice(
        CauseCode.FUSION, "any", "clip where the activation of this layer clips, and only there",
        "a fused activation clips codes at those of its own limits", _QUANTIZE, of="codes",
    ),
    Advice(
        CauseCode.WINOGRAD, "miopen", "MIOPEN_DEBUG_CONV_WINOGRAD=0 in the environment",
        "keeps Winograd's transforms out", "rocm.docs.amd.com/projects/MIOpen: Debug and logging",
    ),
    Advice(
        CauseCode.WINOGRAD, "tensorflow", "TF_ENABLE_WINOGRAD_NONFUSED=0 in the environment",
        "keeps cuDNN's nonfused Winograd out", "tensorflow/core/util/use_cudnn.cc",
    ),
    Advice(
        CauseCode.WINOGRAD, "cudnn", "deselect engines with the numerical note WINOGRAD",
        "its transforms enlarge rounding errors",
        "cudnn-frontend: cudnn_frontend_utils.h",
    ),
    Advice(
        CauseCode.FFT, "cudnn", "deselect engines with the numerical note FFT",
        "its error follows the largest value of a plane", "cudnn-frontend: cudnn_frontend_utils.h",
    ),
    Advice(
        CauseCode.SUMMATION_ORDER, "any", "samebits.conv2d: correctly rounded, so the order cannot matter",
        "seldom a setting makes two libraries add in one order (compare --fix tries)", "docs/truth.md", "convolution",
    ),
    Advice(
        CauseCode.SUMMATION_ORDER, "any", "samebits.linear, samebits.matmul: correctly rounded, so the order cannot matter",
        "seldom a setting makes two libraries add in one order (compare --fix tries)", "docs/truth.md", "product",
    ),
    Advice(
        CauseCode.ILL_CONDITIONED, "any", "compare with the error bound, K u sum|x||w|, in place of a relative tolerance",
        "outputs near zero are small differences of large terms", "docs/truth.md",
    ),
    Advice(
        CauseCode.EXCESS_PRECISION, "torch", "TORCHINDUCTOR_EMULATE_PRECISION_CASTS=1 in the environment",
        "inductor computes half formats in float32 and rounds at the end of a fused kernel only",
        "pytorch/pytorch: torch/_inductor/config.py, emulate_precision_casts",
    ),
    Advice(
        CauseCode.NONDETERMINISM, "torch", "torch.use_deterministic_algorithms(True); torch.backends.cudnn.benchmark = False",
        "algorithms picked by timing, or with atomics, differ from run to run", _TORCH_RANDOM,
    ),
    Advice(
        CauseCode.PADDING, "onnx", "write explicit pads in place of auto_pad; pad asymmetrically with a Pad node of its own",
        "SAME_UPPER, SAME_LOWER and one-sided pads are read differently",
        "github.com/microsoft/onnxruntime/issues/26215",
    ),
    Advice(
        CauseCode.TRANSPOSED_GEOMETRY, "onnx", "write pads and output_padding in place of auto_pad and output_shape",
        "engines crop different sides", "github.com/openvinotoolkit/openvino/issues/33397",
    ),
    Advice(
        CauseCode.TRANSPOSED_GEOMETRY, "jax", "jax.lax.conv_transpose(..., transpose_kernel=True)",
        "the default does not flip the kernel as a gradient does", "docs.jax.dev: jax.lax.conv_transpose",
    ),
    Advice(
        CauseCode.AXIS_ORDER, "any", "flip the kernel, or state the layouts (OIHW or HWIO) where the weights change hands",
        "frameworks compute cross-correlation, mathematics a convolution", "pytorch.org/docs: torch.nn.Conv2d",
        "convolution",
    ),
    Advice(
        CauseCode.AXIS_ORDER, "any", "transpose what lies transposed: torch's linear keeps w as N x K, matmul as K x N",
        "weights change hands with their axes exchanged", "pytorch.org/docs: torch.nn.Linear", "product",
    ),
    Advice(
        CauseCode.INT8_SATURATION, "onnxruntime", "session.x64quantprecision = 1 in the session's options",
        "processors without VNNI add pairs of products in 16 bits", "onnxruntime.ai/docs/performance/model-optimizations/quantization.html",
    ),
    Advice(
        CauseCode.STRIDED_VIEW, "torch", ".contiguous() (or .clone()) on input, weight and bias before the call",
        "a kernel that ignores strides reads other elements", "github.com/pytorch/pytorch/issues/82060",
    ),
    Advice(
        CauseCode.SHAPE_SPECIFIC_KERNEL, "any",
        "another algorithm, instruction set or version of the library",
        "the kernel for just this shape is at fault", "reports of this kind: docs/explain.md",
    ),
    Advice(
        CauseCode.INDEX_OVERFLOW, "any", "split the batch or the space into parts below 2^31 elements",
        "offsets of 32 bits wrap around", "github.com/pytorch/pytorch/issues: index overflow reports",
    ),
    Advice(
        CauseCode.UNINITIALIZED_MEMORY, "torch", "torch.utils.deterministic.fill_uninitialized_memory = True shows it",
        "outputs that no kernel wrote", _TORCH_RANDOM,
    ),
    Advice(
        CauseCode.FUSION, "onnxruntime", "GraphOptimizationLevel.ORT_DISABLE_ALL, then level by level",
        "shows which graph rewrite is at fault",
        "onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html",
    ),
    Advice(
        CauseCode.FUSION, "tensorrt", "mark the convolution's output as a network output (polygraphy --trt-outputs mark all)",
        "takes the fusion apart", "github.com/NVIDIA/TensorRT: Polygraphy",
    ),
    Advice(
        CauseCode.NAN_SEMANTICS, "any", "test for NaN before the clip (isnan), or clip by comparisons that let NaN through",
        "minimum and maximum of a NaN are a number in some libraries", "github.com/onnx/onnx/issues/6002",
    ),
    Advice(
        CauseCode.SUBNORMALS, "torch", "torch.set_flush_denormal(False)", "subnormal numbers are flushed to zero",
        "pytorch.org/docs: torch.set_flush_denormal",
    ),
    Advice(
        CauseCode.DROPPED_ATTRIBUTE, "any", "compare the attributes of the two graphs node by node and attach what is missing",
        "a converter lost stride, dilation, bias or padding", "reports of this kind: docs/explain.md",
    ),
)  # fmt: skip


# Words of sides' names, and whose settings the engine of that name reads.
_READS = {
    "torch": ("torch",),
    "pytorch": ("torch",),
    "tensorflow": ("tensorflow",),
    "tf": ("tensorflow",),
    "keras": ("tensorflow", "torch", "jax"),
    "jax": ("jax", "xla"),
    "xla": ("xla", "jax", "tensorflow", "cudnn"),
    "onnxruntime": ("onnxruntime", "onnx"),
    "ort": ("onnxruntime", "onnx"),
    "onnxrt": ("onnxruntime", "onnx"),
    "litert": ("litert",),
    "tflite": ("litert",),
    "xnnpack": ("litert",),
    "openvino": ("openvino", "onnx"),
    "ov": ("openvino", "onnx"),
    "tensorrt": ("tensorrt", "onnx"),
    "trt": ("tensorrt", "onnx"),
    "trtexec": ("tensorrt", "onnx"),
    "cudnn": ("cudnn",),
    "miopen": ("miopen",),
    "onednn": (),
    "numpy": (),
}


def advise(
    causes: Sequence[CauseCode],
    *,
    product: bool = False,
    names: Sequence[str] = (),
    says: str = "",
    codes: bool = False,
    rows: bool = False,
) -> list[Fix]:
    """Advice for these causes, none of it tried here; for a cause without a known setting the general one.

    `product`: the problem is a matrix product and no convolution. `names` are those of the deviating sides: where all
    of them name engines, settings that these do not read are left out. `says` is what these sides do: where it names
    formats, settings that govern others are left out. `codes`: the problem's operands are integer codes. `rows`: it is
    a function of rows, of which no setting is known.
    """
    family = "product" if product else "convolution"
    engines, formats = _find_engines(names), set(re.findall(r"\b(?:tf32|bfloat16|float16)\b", says))
    table = [a for a in ADVICE if a.only in ("", family) and a.of in ("", "codes" if codes else "floats")]
    if rows:
        table = []
    if codes:
        # What holds for codes alone comes in place of what holds for any numbers.
        own = {a.cause for a in table if a.of == "codes"}
        table = [a for a in table if a.of == "codes" or a.cause not in own]
    return [fix for cause in dict.fromkeys(causes) for fix in _list_fixes(table, cause, engines, formats)]


def _find_engines(names: Sequence[str]) -> set[str] | None:
    """Whose settings sides of such names read; None where a name says nothing of its engine."""
    found: set[str] = set()
    for name in names:
        known = [_READS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in _READS]
        if not known:
            return None
        found.update(*known)
    return found if names else None


def _list_fixes(table: Sequence[Advice], cause: CauseCode, engines: set[str] | None, formats: set[str]) -> list[Fix]:
    known = [a for a in table if a.cause == cause]
    known = [a for a in known if not formats or not a.formats or formats & set(a.formats)]
    known = [a for a in known if engines is None or a.engine == "any" or a.engine in engines]
    if not known:
        row = find_cause(cause)
        known = [Advice(cause, "any", row.advice, row.phrase, row.link)]
    return [
        Fix(engine=a.engine, setting=a.setting, why=a.why, verified=False, verdict_after=None, source=a.source)
        for a in known
    ]
