"""Every setting that is tried by `--fix`: one row for each change of one engine, and what it is good for."""

from __future__ import annotations

from dataclasses import dataclass

from samebits.findings.causes import CauseCode

_ORDER = CauseCode.SUMMATION_ORDER
_OPERANDS = CauseCode.REDUCED_PRECISION_OPERANDS
_SUMS = CauseCode.LOW_PRECISION_ACCUMULATOR
_KERNEL = CauseCode.SHAPE_SPECIFIC_KERNEL
_SUBNORMALS = CauseCode.SUBNORMALS
_CODES = CauseCode.REQUANTIZATION
_RUNS = CauseCode.NONDETERMINISM
_EXCESS = CauseCode.EXCESS_PRECISION
_SATURATION = CauseCode.INT8_SATURATION
_FUSION = CauseCode.FUSION
_VIEW = CauseCode.STRIDED_VIEW
_WINOGRAD = CauseCode.WINOGRAD
_HIDDEN, _NARROW = CauseCode.HIDDEN_KEYS, CauseCode.NARROW_INTERMEDIATE


@dataclass(frozen=True)
class SettingRow:
    """One change of one engine's settings.

    `also` says what else it does; `takes` what it can have an effect on: all, convolutions, products, attention, or
    networks only; `devices` where, of an engine that has the setting `device`. `is_instruction_set`: it is for an
    instruction set, as each processor has its own; of one variable the oldest comes last.
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
    is_instruction_set: bool = False

    @property
    def key(self) -> str:
        """The setting, or the variable as env.NAME."""
        return self.change.partition("=")[0]

    @property
    def value(self) -> str:
        """What it is set to."""
        return self.change.partition("=")[2]


_LITERT = "ai.google.dev/edge/litert: tf.lite.experimental.OpResolverType"
_TORCH_MKLDNN = "docs.pytorch.org/docs/stable/backends.html"
_TORCH_NUMBERS = "docs.pytorch.org/docs/stable/notes/numerical_accuracy.html"
_GPU, _ANY_DEVICE = ("cuda",), ("cpu", "cuda")
_TORCH_THREADS = "docs.pytorch.org/docs/stable/generated/torch.set_num_threads.html"
_ISA = "uxlfoundation.github.io/oneDNN/dev_guide_cpu_dispatcher_control.html"
_FPMATH = "uxlfoundation.github.io/oneDNN/dev_guide_attributes_fpmath_mode.html"
_ORT_LEVELS = "onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html"
_ORT_QUANTIZATION = "onnxruntime.ai/docs/performance/model-optimizations/quantization.html"
_ORT_THREADS = "onnxruntime.ai/docs/performance/tune-performance/threading.html"
_ORT_CONTRIB = "microsoft/onnxruntime: docs/ContribOperators.md"
_SDPA = "docs.pytorch.org/docs/stable/generated/torch.nn.attention.sdpa_kernel.html"
_OV_PRECISION = "docs.openvino.ai: Precision Control"
_OV_CPU = "docs.openvino.ai: CPU Device"
_TF_ONEDNN = "www.intel.com: oneDNN in TensorFlow (TF_ENABLE_ONEDNN_OPTS)"
_TF_DETERMINISM = "www.tensorflow.org/api_docs/python/tf/config/experimental/enable_op_determinism"
_XLA_FLAGS = "openxla/xla: xla/xla.proto and xla/debug_options_flags.cc"
_JAX_PRECISION = "docs.jax.dev: jax_default_matmul_precision"
_OPENBLAS = "github.com/OpenMathLib/OpenBLAS: README, DYNAMIC_ARCH"
_NUMPY = "numpy.org/doc/stable/reference/generated/numpy.matmul.html"
_NCNN = "github.com/Tencent/ncnn: src/option.h"
_MNN = "mnn-docs.readthedocs.io: BackendConfig"
_OPENCV = "docs.opencv.org: cv::dnn::Net"
_TVM = "tvm.apache.org/docs: Device/Target Interactions"
_IREE = "iree.dev: CPU deployment"
_TINYGRAD = "docs.tinygrad.org: Environment Variables"
_SLOWER = "slower: one core computes"
_OLDER = "slower: older instructions"

SETTINGS = (
    # Precision of what is multiplied and added.
    SettingRow("torch", "fp32_precision=ieee", (_OPERANDS,), "oneDNN keeps float32 operands as they are",
               "slower where the processor multiplies bfloat16", _TORCH_MKLDNN, "2.9"),
    SettingRow("torch", "env.ONEDNN_DEFAULT_FPMATH_MODE=STRICT", (_OPERANDS,), "oneDNN may not narrow float32",
               "slower where the processor multiplies bfloat16", _FPMATH),
    SettingRow("openvino", "INFERENCE_PRECISION_HINT=f32", (_NARROW, _OPERANDS, _SUMS), "it computes in float32",
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
    SettingRow("ncnn", "fp16_storage=off", (_OPERANDS,), "weights of products stay in float32", "twice the memory",
               _NCNN),
    SettingRow("ncnn", "bf16_storage=off", (_OPERANDS,), "values and weights stay in float32", "twice the memory",
               _NCNN),
    SettingRow("mnn", "precision=high", (_OPERANDS, _SUMS), "float32 where the processor computes in half precision",
               "slower there", _MNN),
    # Which library, and which of its kernels.
    SettingRow("ncnn", "winograd=off", (_WINOGRAD, _ORDER, _KERNEL), "sums of products in place of transforms",
               "slower", _NCNN, takes="convolutions"),
    SettingRow("ncnn", "sgemm=off", (_ORDER, _KERNEL), "direct kernels in place of a matrix product", "usually slower",
               _NCNN, takes="convolutions"),
    SettingRow("ncnn", "packing=off", (_ORDER, _KERNEL), "channels one by one, not in packs", "slower", _NCNN),
    SettingRow("opencv", "winograd=off", (_WINOGRAD, _ORDER, _KERNEL), "sums of products in place of transforms",
               "slower", _OPENCV, takes="convolutions"),
    SettingRow("opencv", "engine=classic", (_ORDER, _KERNEL), "the engine that it had before version 5",
               "other operators", _OPENCV, "5.0"),
    SettingRow("opencv", "fusion=off", (_FUSION,), "layers run one by one", "slower", _OPENCV, takes="networks"),
    SettingRow("tvm", "target=native", (_ORDER, _KERNEL), "LLVM compiles for this processor", "usually faster", _TVM),
    SettingRow("iree", "target=generic", (_ORDER, _KERNEL), "LLVM compiles for any x86-64", "slower", _IREE),
    SettingRow("tinygrad", "optimize=off", (_ORDER, _KERNEL), "kernels as they are written", "much slower", _TINYGRAD),
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
    SettingRow("onnxruntime", "attention_as=attention", (_ORDER, _KERNEL, _HIDDEN, _NARROW), "ONNX's own operator",
               "another graph", "onnx.ai/onnx/operators/onnx__Attention.html", takes="attention"),
    SettingRow("onnxruntime", "attention_as=multi_head", (_ORDER, _KERNEL, _HIDDEN, _NARROW), "MultiHeadAttention",
               "another graph", _ORT_CONTRIB, takes="attention"),
    SettingRow("onnxruntime", "attention_as=pattern", (_ORDER, _KERNEL, _HIDDEN, _NARROW), "MatMul, Softmax, MatMul",
               "another graph", "onnx.ai/onnx/operators/onnx__Softmax.html", takes="attention"),
    SettingRow("torch", "attention_as=math", (_ORDER, _KERNEL, _HIDDEN, _NARROW), "matmul, softmax, matmul",
               "slower, and more memory", _SDPA, takes="attention", devices=_ANY_DEVICE),
    SettingRow("torch", "attention_as=flash", (_ORDER, _KERNEL, _HIDDEN, _NARROW), "the kernel that works in blocks",
               "faster", _SDPA, takes="attention", devices=_ANY_DEVICE),
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
               "products of codes are not added in pairs of 16 bits", "slower on processors without VNNI",
               _ORT_QUANTIZATION, takes="networks"),
    # Threads and determinism.
    SettingRow("torch", "threads=1", (_ORDER, _RUNS), "one thread, one way to divide the work", _SLOWER,
               _TORCH_THREADS),
    SettingRow("torch", "deterministic=on", (_RUNS,), "deterministic kernels, or an error", "may be slower",
               "docs.pytorch.org/docs/stable/notes/randomness.html",
               devices=_ANY_DEVICE),
    SettingRow("onnxruntime", "threads=1", (_ORDER, _RUNS), "one thread, one way to divide the work", _SLOWER,
               _ORT_THREADS),
    SettingRow("litert", "kernels=xnnpack", (_ORDER, _KERNEL, _CODES), "XNNPACK's kernels, which are the default",
               "faster", _LITERT),
    SettingRow("litert", "kernels=builtin", (_ORDER, _KERNEL, _CODES), "LiteRT's own kernels in place of XNNPACK's",
               "slower", _LITERT),
    SettingRow("litert", "kernels=reference", (_ORDER, _KERNEL, _CODES), "the kernels that define the operators",
               "slower by far", _LITERT),
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
               _OLDER, _ISA, is_instruction_set=True)
      for isa in ("AVX512_CORE", "AVX2", "SSE41") for engine in ("torch", "tensorflow", "openvino")),
    *(SettingRow("torch", f"env.ATEN_CPU_CAPABILITY={isa}", (_ORDER, _KERNEL), f"torch's own kernels for {isa}", _OLDER,
                 "github.com/pytorch/pytorch: aten/src/ATen/native/DispatchStub.cpp", is_instruction_set=True)
      for isa in ("avx2", "default")),
    SettingRow("torch", "env.MKL_CBWR=COMPATIBLE", (_ORDER, _RUNS), "MKL's kernels for any processor", _OLDER,
               "www.intel.com: MKL, Conditional Numerical Reproducibility", is_instruction_set=True),
    *(SettingRow("jax", f"env.XLA_FLAGS=--xla_cpu_max_isa={isa}", (_ORDER, _KERNEL), f"code for {isa}", _OLDER,
               _XLA_FLAGS, is_instruction_set=True)
      for isa in ("AVX2", "SSE4_2")),
    *(SettingRow("numpy", f"env.OPENBLAS_CORETYPE={core}", (_ORDER, _KERNEL), f"OpenBLAS's kernels for {core}",
               "may be slower",
                 _OPENBLAS, takes="products", is_instruction_set=True)
      for core in ("SkylakeX", "Haswell", "Sandybridge", "Nehalem")),
)  # fmt: skip
