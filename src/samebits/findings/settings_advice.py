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
    operands are rounded to, where it does nothing for others.
    """

    cause: CauseCode
    engine: str
    setting: str
    why: str
    source: str
    only: Literal["", "convolution", "product"] = ""
    formats: tuple[str, ...] = ()


_TORCH_PRECISION = "pytorch.org/docs/stable/notes/numerical_accuracy.html"
_TORCH_RANDOM = "pytorch.org/docs/stable/notes/randomness.html"
_OPENVINO_PRECISION = "docs.openvino.ai: Precision Control"
_TF32, _HALVES = ("tf32",), ("float16", "bfloat16")
_CUDNN = "docs.nvidia.com/deeplearning/cudnn: Convolution Functions, backward filter"

ADVICE = (
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
        CauseCode.REDUCED_PRECISION_OPERANDS, "torch", "with torch.autocast(device_type, enabled=False): around the layer",
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
        CauseCode.REDUCED_PRECISION_OPERANDS, "tensorrt", "trtexec --noTF32 (or clear BuilderFlag.TF32); do not set FP16, BF16",
        "TF32 is allowed by default", "docs.nvidia.com/deeplearning/tensorrt: Reduced Precision",
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
        "float16 ends at 65,504; a power of two changes no bit of the rest", "IEEE 754",
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
    causes: Sequence[CauseCode], *, product: bool = False, names: Sequence[str] = (), says: str = ""
) -> list[Fix]:
    """Advice for these causes, none of it tried here; for a cause without a known setting the general one.

    `product`: the problem is a matrix product and no convolution. `names` are those of the deviating sides: where all
    of them name engines, settings that these do not read are left out. `says` is what these sides do: where it names
    formats, settings that govern others are left out.
    """
    family = "product" if product else "convolution"
    engines, formats = _find_engines(names), set(re.findall(r"\b(?:tf32|bfloat16|float16)\b", says))
    return [fix for cause in dict.fromkeys(causes) for fix in _list_fixes(cause, family, engines, formats)]


def _find_engines(names: Sequence[str]) -> set[str] | None:
    """Whose settings sides of such names read; None where a name says nothing of its engine."""
    found: set[str] = set()
    for name in names:
        known = [_READS[word] for word in re.split(r"[^a-z]+", name.lower()) if word in _READS]
        if not known:
            return None
        found.update(*known)
    return found if names else None


def _list_fixes(cause: CauseCode, family: str, engines: set[str] | None, formats: set[str]) -> list[Fix]:
    known = [a for a in ADVICE if a.cause == cause and a.only in ("", family)]
    known = [a for a in known if not formats or not a.formats or formats & set(a.formats)]
    known = [a for a in known if engines is None or a.engine == "any" or a.engine in engines]
    if not known:
        row = find_cause(cause)
        known = [Advice(cause, "any", row.advice, row.phrase, row.link)]
    return [
        Fix(engine=a.engine, setting=a.setting, why=a.why, verified=False, verdict_after=None, source=a.source)
        for a in known
    ]


_ORDER = CauseCode.SUMMATION_ORDER
_OPERANDS = CauseCode.REDUCED_PRECISION_OPERANDS
_SUMS = CauseCode.LOW_PRECISION_ACCUMULATOR
_KERNEL = CauseCode.SHAPE_SPECIFIC_KERNEL
_SUBNORMALS = CauseCode.SUBNORMALS
_RUNS = CauseCode.NONDETERMINISM
_EXCESS = CauseCode.EXCESS_PRECISION
_SATURATION = CauseCode.INT8_SATURATION
_FUSION = CauseCode.FUSION
_VIEW = CauseCode.STRIDED_VIEW
_WINOGRAD = CauseCode.WINOGRAD


@dataclass(frozen=True)
class SettingRow:
    """One change of one engine's settings.

    `also` says what else it does; `takes` what it can have an effect on: all, convolutions, products, or networks only;
    `devices` where, of an engine that has the setting `device`.
    """

    engine: str
    change: str
    causes: tuple[CauseCode, ...]
    why: str
    also: str
    source: str
    since: str = ""
    takes: str = "all"
    devices: tuple[str, ...] = ("cpu",)

    @property
    def key(self) -> str:
        """The setting, or the variable as env.NAME."""
        return self.change.partition("=")[0]

    @property
    def value(self) -> str:
        """What it is set to."""
        return self.change.partition("=")[2]


_TORCH_MKLDNN = "docs.pytorch.org/docs/stable/backends.html"
_TORCH_NUMBERS = "docs.pytorch.org/docs/stable/notes/numerical_accuracy.html"
_GPU, _ANY_DEVICE = ("cuda",), ("cpu", "cuda")
_TORCH_THREADS = "docs.pytorch.org/docs/stable/generated/torch.set_num_threads.html"
_ISA = "uxlfoundation.github.io/oneDNN/dev_guide_cpu_dispatcher_control.html"
_FPMATH = "uxlfoundation.github.io/oneDNN/dev_guide_attributes_fpmath_mode.html"
_ORT_LEVELS = "onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html"
_ORT_QUANTIZATION = "onnxruntime.ai/docs/performance/model-optimizations/quantization.html"
_ORT_THREADS = "onnxruntime.ai/docs/performance/tune-performance/threading.html"
_OV_PRECISION = "docs.openvino.ai: Precision Control"
_OV_CPU = "docs.openvino.ai: CPU Device"
_TF_ONEDNN = "www.intel.com: oneDNN in TensorFlow (TF_ENABLE_ONEDNN_OPTS)"
_TF_DETERMINISM = "www.tensorflow.org/api_docs/python/tf/config/experimental/enable_op_determinism"
_XLA_FLAGS = "openxla/xla: xla/xla.proto and xla/debug_options_flags.cc"
_JAX_PRECISION = "docs.jax.dev: jax_default_matmul_precision"
_OPENBLAS = "github.com/OpenMathLib/OpenBLAS: README, DYNAMIC_ARCH"
_NUMPY = "numpy.org/doc/stable/reference/generated/numpy.matmul.html"
_SLOWER = "slower: one core computes"
_OLDER = "slower: older instructions"

SETTINGS = (
    # Precision of what is multiplied and added.
    SettingRow("torch", "fp32_precision=ieee", (_OPERANDS,), "oneDNN keeps float32 operands as they are",
               "slower where the processor multiplies bfloat16", _TORCH_MKLDNN, "2.9"),
    SettingRow("torch", "env.ONEDNN_DEFAULT_FPMATH_MODE=STRICT", (_OPERANDS,), "oneDNN may not narrow float32",
               "slower where the processor multiplies bfloat16", _FPMATH),
    SettingRow("openvino", "INFERENCE_PRECISION_HINT=f32", (_OPERANDS, _SUMS), "the plugin computes in float32",
               "slower, and more memory, where the processor multiplies bfloat16", _OV_PRECISION),
    SettingRow("openvino", "EXECUTION_MODE_HINT=ACCURACY", (_OPERANDS, _SUMS), "keeps the model's own precision",
               "slower where the processor multiplies bfloat16; an explicit precision hint wins over it",
               _OV_PRECISION),
    SettingRow("tensorflow", "env.ONEDNN_DEFAULT_FPMATH_MODE=STRICT", (_OPERANDS,), "oneDNN may not narrow float32",
               "slower where the processor multiplies bfloat16", _FPMATH),
    SettingRow("jax", "precision=highest", (_OPERANDS,), "products in float32, not in TF32 or bfloat16",
               "slower on GPUs and TPUs; nothing else on a CPU", _JAX_PRECISION,
               devices=_ANY_DEVICE),
    SettingRow("torch", "tf32=off", (_OPERANDS,), "cuDNN and cuBLAS keep float32 operands as they are",
               "slower: matrix units do not multiply float32", _TORCH_NUMBERS, devices=_GPU),
    SettingRow("torch", "reduced_precision=off", (_SUMS, _ORDER), "partial sums of 16-bit products stay in float32",
               "may be slower", _TORCH_NUMBERS, takes="products", devices=_GPU),
    SettingRow("torch", "fp16_accumulation=off", (_SUMS,), "float16 products are added in float32", "slower",
               _TORCH_NUMBERS, "2.7", takes="products", devices=_GPU),
    SettingRow("torch", "fast_accum=off", (_SUMS,), "sums of float8 products are joined in float32", "slower",
               "pytorch.org: torch._scaled_mm, use_fast_accum", takes="products", devices=_GPU),
    # Which library, and which of its kernels.
    SettingRow("torch", "benchmark=off", (_RUNS, _ORDER, _KERNEL), "cuDNN's heuristic chooses, not a measurement",
               "may be slower", "docs.pytorch.org/docs/stable/notes/randomness.html", takes="convolutions",
               devices=_GPU),
    SettingRow("torch", "cudnn=off", (_ORDER, _KERNEL, _WINOGRAD), "torch's own convolutions in place of cuDNN's",
               "slower", _TORCH_MKLDNN, takes="convolutions", devices=_GPU),
    SettingRow("torch", "blas=cublaslt", (_ORDER, _KERNEL), "cublasLt's products", "none known", _TORCH_MKLDNN,
               takes="products", devices=_GPU),
    SettingRow("torch", "mkldnn=off", (_ORDER, _KERNEL, _OPERANDS, _WINOGRAD),
               "torch's own kernels in place of oneDNN's",
               "usually slower", _TORCH_MKLDNN),
    SettingRow("torch", "mkldnn=on", (_ORDER, _KERNEL), "oneDNN's kernels in place of torch's own", "usually faster",
               _TORCH_MKLDNN),
    SettingRow("torch", "linear_as=addmm", (_ORDER, _KERNEL), "another operator, another kernel", "a change of code",
               "docs.pytorch.org/docs/stable/generated/torch.addmm.html", takes="products",
               devices=_ANY_DEVICE),
    SettingRow("torch", "linear_as=matmul", (_ORDER, _KERNEL), "another operator; the bias is added after the product",
               "a change of code", "docs.pytorch.org/docs/stable/generated/torch.matmul.html", takes="products",
               devices=_ANY_DEVICE),
    SettingRow("torch", "linear_as=linear", (_ORDER, _KERNEL), "torch.nn.functional.linear", "a change of code",
               "docs.pytorch.org/docs/stable/generated/torch.nn.functional.linear.html", takes="products",
               devices=_ANY_DEVICE),
    SettingRow("tensorflow", "env.TF_ENABLE_ONEDNN_OPTS=0", (_ORDER, _KERNEL, _OPERANDS, _WINOGRAD),
               "Eigen's kernels in place of oneDNN's", "usually slower", _TF_ONEDNN),
    SettingRow("tensorflow", "env.TF_ENABLE_ONEDNN_OPTS=1", (_ORDER, _KERNEL), "oneDNN's kernels in place of Eigen's",
               "usually faster; the default on x86-64", _TF_ONEDNN),
    SettingRow("tensorflow", "linear_as=transpose_b", (_ORDER, _KERNEL),
               "weights of N x K, turned by the product itself",
               "a change of code", "www.tensorflow.org/api_docs/python/tf/linalg/matmul", takes="products"),
    SettingRow("tensorflow", "linear_as=dense", (_ORDER, _KERNEL), "weights of K x N, as Keras keeps them",
               "a change of code", "www.tensorflow.org/api_docs/python/tf/keras/layers/Dense", takes="products"),
    SettingRow("jax", "env.XLA_FLAGS=--xla_cpu_use_onednn=false", (_ORDER, _KERNEL), "XLA's own products",
               "may be slower",
               _XLA_FLAGS),
    SettingRow("jax", "env.XLA_FLAGS=--xla_cpu_multi_thread_eigen=false", (_ORDER,), "Eigen on one thread", _SLOWER,
               _XLA_FLAGS),
    SettingRow("jax", "jit=off", (_ORDER, _FUSION), "every operation by itself, none fused", "slower",
               "docs.jax.dev: jit",
               devices=_ANY_DEVICE),
    SettingRow("jax", "jit=on", (_ORDER, _FUSION), "one program", "faster", "docs.jax.dev: jit",
               devices=_ANY_DEVICE),
    SettingRow("onnxruntime", "linear_as=gemm", (_ORDER, _KERNEL), "Gemm, the bias within it", "another graph",
               "onnx.ai/onnx/operators/onnx__Gemm.html", takes="products"),
    SettingRow("onnxruntime", "linear_as=matmul", (_ORDER, _KERNEL), "MatMul, then Add", "another graph",
               "onnx.ai/onnx/operators/onnx__MatMul.html", takes="products"),
    SettingRow("onnxruntime", "conv1d_as=conv2d", (_ORDER, _KERNEL), "2-D kernels for 1-D problems", "another graph",
               "github.com/onnx/tensorflow-onnx: how it exports Conv1D", takes="convolutions"),
    SettingRow("onnxruntime", "conv1d_as=conv1d", (_ORDER, _KERNEL), "1-D problems as they are", "another graph",
               "onnx.ai/onnx/operators/onnx__Conv.html", takes="convolutions"),
    SettingRow("numpy", "call=matmul", (_ORDER, _KERNEL), "BLAS", "faster", _NUMPY, takes="products"),
    SettingRow("numpy", "call=dot", (_ORDER, _KERNEL), "another path to BLAS", "a change of code", _NUMPY,
               takes="products"),
    SettingRow("numpy", "call=einsum", (_ORDER, _KERNEL), "NumPy's own loops in place of BLAS", "much slower",
               "numpy.org/doc/stable/reference/generated/numpy.einsum.html", takes="products"),
    # Graph rewrites and constants.
    SettingRow("onnxruntime", "optimization=basic", (_FUSION, _ORDER), "no layout or fused kernels", "slower",
               _ORT_LEVELS),
    SettingRow("onnxruntime", "optimization=extended", (_FUSION, _ORDER), "no layout rewrites", "slower", _ORT_LEVELS),
    SettingRow("onnxruntime", "optimization=disable", (_FUSION, _ORDER), "no graph rewrites", "slower", _ORT_LEVELS),
    SettingRow("onnxruntime", "optimization=all", (_FUSION, _ORDER), "all graph rewrites", "faster; the default",
               _ORT_LEVELS),
    SettingRow("onnxruntime", "weights=runtime", (_FUSION, _ORDER, _WINOGRAD), "weights are not packed beforehand",
               "slower: packed on every run", _ORT_LEVELS),
    SettingRow("onnxruntime", "weights=constant", (_FUSION, _ORDER), "weights are packed beforehand", "faster",
               _ORT_LEVELS),
    SettingRow("openvino", "weights=runtime", (_FUSION, _ORDER, _WINOGRAD), "weights are not packed beforehand",
               "slower: packed on every run", _OV_CPU),
    SettingRow("openvino", "weights=constant", (_FUSION, _ORDER), "weights are packed beforehand", "faster", _OV_CPU),
    SettingRow("torch", "env.TORCHINDUCTOR_EMULATE_PRECISION_CASTS=1", (_EXCESS,),
               "inductor rounds between operations as torch without it does", "slower where operations are fused",
               "pytorch/pytorch: torch/_inductor/config.py, emulate_precision_casts"),
    SettingRow("torch", "compile=off", (_FUSION, _ORDER), "torch's own operators", "slower",
               "docs.pytorch.org: torch.compile",
               devices=_ANY_DEVICE),
    SettingRow("torch", "compile=on", (_FUSION, _ORDER), "inductor's kernels", "faster, after compiling for seconds",
               "docs.pytorch.org: torch.compile",
               devices=_ANY_DEVICE),
    # Layout.
    SettingRow("torch", "layout=contiguous", (_ORDER, _VIEW, _KERNEL), "channels first", "a copy, where they lie last",
               "docs.pytorch.org: Channels Last Memory Format", takes="convolutions",
               devices=_ANY_DEVICE),
    SettingRow("torch", "layout=channels_last", (_ORDER, _VIEW, _KERNEL), "channels last",
               "a copy, where they lie first",
               "docs.pytorch.org: Channels Last Memory Format", takes="convolutions",
               devices=_ANY_DEVICE),
    *(SettingRow(engine, f"{name}_memory=contiguous", (_ORDER, _VIEW, _KERNEL), f"{name} without other strides",
                 f"a copy of {name}", source, takes="products")
      for engine, source in (("torch", "docs.pytorch.org/docs/stable/generated/torch.Tensor.contiguous.html"),
                             ("numpy", "numpy.org/doc/stable/reference/generated/numpy.ascontiguousarray.html"))
      for name in ("w", "x")),
    # Subnormal numbers.
    SettingRow("torch", "flush_denormal=off", (_SUBNORMALS,), "keeps subnormal numbers", "slower where there are many",
               "docs.pytorch.org/docs/stable/generated/torch.set_flush_denormal.html"),
    SettingRow("torch", "flush_denormal=on", (_SUBNORMALS,), "flushes subnormal numbers, as the other side does",
               "numbers below 2^-126 become 0", "docs.pytorch.org/docs/stable/generated/torch.set_flush_denormal.html"),
    SettingRow("onnxruntime", "flush_denormal=off", (_SUBNORMALS,), "keeps subnormal numbers",
               "slower where there are many",
               "onnxruntime.ai/docs/performance/tune-performance/troubleshooting.html"),
    SettingRow("onnxruntime", "flush_denormal=on", (_SUBNORMALS,), "flushes subnormal numbers, as the other side does",
               "numbers below 2^-126 become 0",
               "onnxruntime.ai/docs/performance/tune-performance/troubleshooting.html"),
    SettingRow("openvino", "CPU_DENORMALS_OPTIMIZATION=NO", (_SUBNORMALS,), "keeps subnormal numbers",
               "slower where there are many", _OV_CPU),
    SettingRow("openvino", "CPU_DENORMALS_OPTIMIZATION=YES", (_SUBNORMALS,),
               "flushes subnormal numbers, as the other side does",
               "numbers below 2^-126 become 0", _OV_CPU),
    SettingRow("onnxruntime", "x64quantprecision=on", (_SATURATION,),
               "products of codes are not added in pairs of 16 bits", "slower on processors without VNNI", _ORT_QUANTIZATION,
               takes="networks"),
    # Threads and determinism.
    SettingRow("torch", "threads=1", (_ORDER, _RUNS), "one thread, one way to divide the work", _SLOWER,
               _TORCH_THREADS),
    SettingRow("torch", "deterministic=on", (_RUNS,), "deterministic kernels, or an error", "may be slower",
               "docs.pytorch.org/docs/stable/notes/randomness.html",
               devices=_ANY_DEVICE),
    SettingRow("onnxruntime", "threads=1", (_ORDER, _RUNS), "one thread, one way to divide the work", _SLOWER,
               _ORT_THREADS),
    SettingRow("openvino", "INFERENCE_NUM_THREADS=1", (_ORDER, _RUNS), "one thread, one way to divide the work",
               _SLOWER,
               _OV_CPU),
    SettingRow("tensorflow", "threads=1", (_ORDER, _RUNS), "one thread, one way to divide the work", _SLOWER,
               "www.tensorflow.org/api_docs/python/tf/config/threading/set_intra_op_parallelism_threads"),
    SettingRow("tensorflow", "deterministic=on", (_RUNS,), "deterministic kernels, or an error", "may be slower",
               _TF_DETERMINISM),
    SettingRow("numpy", "threads=1", (_ORDER, _RUNS), "one thread, one way to divide the work", _SLOWER, _OPENBLAS,
               takes="products"),
    # Instruction sets: which kernels a library chooses on this processor.
    *(SettingRow(engine, f"env.ONEDNN_MAX_CPU_ISA={isa}", (_ORDER, _KERNEL, _OPERANDS), f"oneDNN's kernels for {isa}",
               _OLDER, _ISA)
      for isa in ("AVX512_CORE", "AVX2", "SSE41") for engine in ("torch", "tensorflow", "openvino")),
    *(SettingRow("torch", f"env.ATEN_CPU_CAPABILITY={isa}", (_ORDER, _KERNEL), f"torch's own kernels for {isa}", _OLDER,
                 "github.com/pytorch/pytorch: aten/src/ATen/native/DispatchStub.cpp") for isa in ("avx2", "default")),
    SettingRow("torch", "env.MKL_CBWR=COMPATIBLE", (_ORDER, _RUNS), "MKL's kernels for any processor", _OLDER,
               "www.intel.com: MKL, Conditional Numerical Reproducibility"),
    *(SettingRow("jax", f"env.XLA_FLAGS=--xla_cpu_max_isa={isa}", (_ORDER, _KERNEL), f"code for {isa}", _OLDER,
               _XLA_FLAGS)
      for isa in ("AVX2", "SSE4_2")),
    *(SettingRow("numpy", f"env.OPENBLAS_CORETYPE={core}", (_ORDER, _KERNEL), f"OpenBLAS's kernels for {core}",
               "may be slower",
                 _OPENBLAS, takes="products") for core in ("SkylakeX", "Haswell", "Sandybridge", "Nehalem")),
)  # fmt: skip
