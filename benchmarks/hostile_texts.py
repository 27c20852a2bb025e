"""Hostile command lines, problem, recipe and engine texts, logs and ONNX nodes: valid ones, damaged in every way."""

from __future__ import annotations

from random import Random

from hostile_outcomes import ANY, TROUBLE, Attack, File

# What stands where something else is expected: numbers of every size and script, controls, markup, paths, nothing.
ODD = (
    "", " ", "-1", "0", "-0", "+1", "1.5", "1e999", "1e-999", "nan", "inf", "-inf", "9" * 18, "9" * 19, "9" * 400,
    "2" * 5000, str(2**31), str(2**63), str(2**64), "0x10", "1_000", "²", "٣", "१२", "½", "Ⅷ", "\uff11", "\u200b",
    "\u202e", "\x1b[31mred", "\x1b]0;title\x07", "\x07", "\r", "\n", "\t", "\x7f", "\x9b31m", "\u2028", "é", "日本",
    "😀", "\udcff", "a" * 10_000, "%s", "{}", "[bold]", "[/]", "[link=file:///]x[/link]", "'", '"', "`", "$(id)",
    "../../x",
    "/dev/zero", "/dev/null", "/proc/self/mem", "--", "-", "--json", "--help", "\\", ",", ";", "|", "=", "None", "True",
    "0" * 50 + "1", "x" * 50, "=" * 50, "(" * 300, "-" * 3,
)  # fmt: skip
TINY = "conv1d x=1x1x7 w=1x1x5 bias"
SMALL = "conv2d x=1x4x6x5 w=3x4x3x3 padding=1 bias"
PROBLEMS = (
    TINY,
    SMALL,
    "conv2d x=2x4x9x9 w=8x2x3x3 stride=2x1 padding=1:0x0:2 dilation=1x2 groups=2 dtype=float16",
    "conv1d.grad_input x=2x4x20 w=6x4x5 padding=same_upper dtype=bfloat16",
    "conv3d x=1x2x4x5x4 w=3x2x2x2x2 bias out=float32 then=relu",
    "conv2d.grad_weight x=5x3x8x8 w=4x3x3x3 dtype=float64",
    "conv_transpose2d x=1x4x5x5 w=4x3x3x3 stride=2 padding=1 output_padding=1 then=clip(0,6)",
    "conv_transpose1d.grad_weight x=3x4x9 w=4x2x4 stride=3 dtype=float8_e4m3fn",
    "--conv --dir=FWD_D --dt=f16 mb1ic3ih9oc4oh4kh3sh2ph0",
    "benchdnn --deconv --dir=BWD_D g2mb2ic4ih5oc6oh9kh3sh2ph1dh0n\"name\" --attr-post-ops=relu",
    "mb2_ic4oc6_ih7oh7kh3sh1dh0ph1_iw7ow7kw3sw1dw0pw1",
    "./bin/MIOpenDriver convfp16 -n 2 -c 4 -H 8 -W 8 -k 4 -y 3 -x 3 -p 1 -q 1 -u 1 -v 1 -l 1 -j 1 -m conv -g 1 -F 1",
    "MIOpenDriver conv -n 1 -c 4 -H 5 -W 5 -k 4 -y 3 -x 3 -u 2 -v 2 -m trans -g 2 -F 4 -z same",
    "%c = f32[1,6,6,4]{3,2,1,0} convolution(f32[1,8,8,3]{3,2,1,0} %x, f32[3,3,3,4]{3,2,1,0} %w), window={size=3x3},"
    " dim_labels=b01f_01io->b01f",
    "%custom-call.20 = (f16[1,5,4,4]{2,1,0,3}, u8[0]{0}) custom-call(f16[37,1,50,4]{3,2,1,0} %b,"
    " f16[37,1,10,4]{3,2,1,0} %a), window={size=1x5 stride=1x5}, dim_labels=b01f_01io->b01f,"
    " custom_call_target=\"__cudnn$convBackwardFilter\"",
)  # fmt: skip
PRODUCTS = (
    "linear x=8x32 w=24x32 bias dtype=bfloat16",
    "linear x=2x3x9 w=5x9 then=relu out=float64",
    "linear.grad_input x=6x9 w=4x9",
    "linear.grad_weight x=6x7x9 w=4x9 dtype=float8_e5m2",
    "matmul x=4x1x5x8 w=3x8x6 dtype=float16 out=float32",
    "matmul x=8 w=8 dtype=float64",
    "matmul x=2x3x8 w=8 then=clip(0,6)",
    "matmul x=8 w=3x8x5",
    "--matmul --dt=f16:f16:f32 3x20x30:1x30x40",
    "benchdnn --matmul --dt=bf16 --bia-dt=f32 --bia-mask=2 --attr-post-ops=relu 20x30:30x40n\"name\"",
    "hipblaslt-bench -m 64 -n 8 -k 32 --a_type f16_r --b_type f16_r --d_type f32_r --alpha 1 --activation_type relu",
    "./rocblas-bench -f gemm_strided_batched -r bf16_r --transposeA T -m 16 -n 8 -k 4 --batch_count 2 --beta 0",
    "cublasLtMatmul A=0x7f Adesc=[type=R_16F rows=16 cols=32 ld=16] Bdesc=[type=R_16F rows=32 cols=8] Cdesc=[type=R_16F"
    " rows=16 cols=8] Ddesc=[type=R_32F] computeDesc=[computeType=COMPUTE_32F transa=OP_N epilogue=EPILOGUE_RELU]",
    "%d = bf16[2,8,6] dot(bf16[2,8,9] %a, bf16[2,6,9] %b), lhs_batch_dims={0}, lhs_contracting_dims={2},"
    " rhs_batch_dims={0}, rhs_contracting_dims={2}",
    "%v = f32[] dot(f32[30] %a, f32[30] %b), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
    "%g = (f32[8,6]{1,0}, s8[4]{0}) custom-call(f32[8,9]{1,0} %a, f32[9,6]{1,0} %b),"
    " custom_call_target=\"__cublas$gemm\", backend_config={\"alpha_real\":1,\"beta\":0,\"dot_dimension_numbers\":"
    "{\"lhs_contracting_dimensions\":[\"1\"],\"rhs_contracting_dimensions\":[\"0\"]},\"epilogue\":\"DEFAULT\"}",
)  # fmt: skip
# Values where a configuration or a node has numbers and names.
VALUES = ("[]", "{}", "null", "true", "-1", "0", "2", "NaN", "1e999", "9" * 400, '"²"', '"RELU"', "[1,1]", "0.5")
RECIPES = (
    "direct", "fft", "winograd(2)", "winograd(4) acc=float16",
    "direct product=fused acc=float32 order=c,kh,kw bias=first",
    "direct x=tf32/toward_zero w=tf32/toward_zero fused=25 acc=float32/toward_zero order=k/8|fused:k",
    "direct order=halves:k%8|k start=product padding=multiplied nan=bound flush=operands,results",
    "direct order=chain@float16:k/4|k via=bfloat16 out=toward_zero bias=rounded",
    "direct order=c,kh,kw;pairs:k!product=rounded!bias=after/3 where=ow(0*2,1*3) bias=last",
    "direct order=tree:0:9+(9:18)@float16+{18:27}+[27:30+30]*3@3",
    "direct order=tree:(0:36:2)+(1:36:2) product=bfloat16 bias=after/2",
    "direct order=splits:-k/2%9|kh,-kw,c acc=bfloat16",
)  # fmt: skip
HUGE_RECIPES = (
    "direct order=tree:0:10000000",
    "direct order=tree:0:16777217",
    "direct order=tree:[[[[0]*99@1]*99@100]*99@10000]*9@1000000",
    "direct order=tree:[0]*999999999999@1",
    "direct order=tree:[(0:4000)]*4000@4000",
    "direct order=tree:[[0]*4000@0]*4000@0",
    "direct order=tree:[(0)]*9999999@1",
    "direct order=tree:{0:9999999}",
    "direct order=tree:" + "(" * 190 + "0" + ")" * 190,
    "direct order=tree:" + "(" * 5000 + "0" + ")" * 5000,
    "direct order=tree:" + "+".join(map(str, range(200_000))),
    "direct order=" + ";".join(["k"] * 20_000),
    "direct order=" + "|".join(["k"] * 20_000),
    "direct order=" + ",".join(["k"] * 20_000),
    "direct where=" + "ow(" * 60 + "0" + "*1)" * 60,
    "direct where=ow(0*999999999999)",
    "direct where=ow(" + ",".join(["0*1"] * 100_000) + ")",
    "direct where=999999999999",
    "direct fused=²", "direct bias=after/²", "direct order=tree:²", "direct bias=after/999999999", "direct order=k/٣",
    "winograd(²)", "winograd(99)", "direct order=k%999999999", "direct order=k/999999999|k%999999999",
)  # fmt: skip
ENGINES = ("torch", "onnxruntime", "tensorflow", "jax", "openvino", "truth", "emulate")
SETTINGS = (
    "threads=1", "mkldnn=off", "layout=channels_last", "env.OMP_NUM_THREADS=1", "env.X=a\\,b", "deterministic=on",
    "INFERENCE_PRECISION_HINT=f32", "flush_denormal=on", "fp32_precision=tf32", "env.TF_ENABLE_ONEDNN_OPTS=0",
)  # fmt: skip
NUMPY_SETTINGS = (
    "threads=1", "call=einsum", "call=dot,x_memory=strided", "w_memory=transposed", "env.OPENBLAS_CORETYPE=Prescott",
    "env.OPENBLAS_NUM_THREADS=-1", "call=einsum,threads=1,env.OMP_NUM_THREADS=x", "call=none", "memory=", "threads=0",
)  # fmt: skip
LOG_LINES = (
    "2021-06-05 21:28:17.678118: E buffer_comparator.cc:682] Difference at 0: 95.25 vs 80.8125",
    "E0317 05:01:29.217242  712317 buffer_comparator.cc:156] Difference at 6: 8.18504, expected 7.16615",
    "E0317 05:01:29.217324  712317 buffer_comparator.cc:156] Difference at 7: nan, expected 8.91452",
    "E gpu_conv_algorithm_picker.cc:545] Results mismatch between different convolution algorithms. This is",
    "E gemm_fusion_autotuner.cc:1138] Results do not match the reference. This is likely",
    PROBLEMS[-1] + ', backend_config="{\\"algorithm\\":\\"0\\"}" for 1+TC vs 0+TC',
    PROBLEMS[-2],
    "E gpu_conv_algorithm_picker.cc:192] Device: GeForce RTX 3070",
    "E gpu_conv_algorithm_picker.cc:202] cudnn version: 8.1.1",
    "AssertionError: Tensor-likes are not close!",
    "Mismatched elements: 1 / 32 (3.1%)",
    "Greatest absolute difference: 0.5 at index (1, 2) (up to 1e-05 allowed)",
    "Greatest relative difference: 0.05 at index (1, 2) (up to 1.3e-06 allowed)",
    "Not equal to tolerance rtol=1e-05, atol=1e-08",
    "Max absolute difference among violations: 0.25",
    "Max relative difference: inf",
    "[I] Accuracy Comparison | trt-runner-N0 vs. onnxrt-runner-N0",
    "[I]     trt-runner-N0: y | Stats: mean=0.1, std-dev=1.2, median=0.1, min=-3.5 at (0, 1), max=4.5 at (2, 3)",
    "[I]         Absolute Difference | Stats: mean=0.01, std-dev=0.02, median=0.01, min=0 at (0,), max=0.3 at (5,)",
    "[I]         Relative Difference | Stats: mean=0.02, std-dev=0.05, median=0.01, min=0 at (0,), max=2.5 at (7,)",
    "[E]         FAILED | Output: 'y' | Difference exceeds tolerance (rel=1e-05, abs=1e-05)",
    "[I]     Tolerance: [abs=1e-05, rel=1e-05] | Checking elemwise error",
    "onednn_verbose,v1,primitive,exec,cpu,convolution,brgconv:avx512_core_bf16,forward_training,"
    "src:bf16::blocked:acdb::f0 wei:bf16::blocked:Acdb16a::f0 bia:undef::undef::: dst:f32::blocked:acdb::f0,"
    "attr-fpmath:bf16,alg:convolution_direct,mb2_ic4oc6_ih7oh7kh3sh1dh0ph1_iw7ow7kw3sw1dw0pw1,0.05",
    "dnnl_verbose,exec,cpu,convolution,jit:avx2,backward_weights,src_f32::blocked:abcd:f0 wei_f32::blocked:abcd:f0"
    " dst_f32::blocked:abcd:f0,,alg:convolution_direct,mb1_ic3oc4_ih8oh6kh3sh1dh0ph0_iw8ow6kw3sw1dw0pw0,0.1",
    *PROBLEMS[:4],
)  # fmt: skip


def damage(text: str, rng: Random, times: int = 0) -> str:
    """The text with pieces replaced, doubled, cut out, or numbers exchanged for others."""
    for _ in range(times or rng.randint(1, 4)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.randint(0, 6))
        kind = rng.randrange(6)
        if kind == 0:
            text = text[:start] + rng.choice(ODD) + text[end:]
        elif kind == 1:
            text = text[:start] + text[end:]
        elif kind == 2:
            text = text[:end] + text[start:]
        elif kind == 3:
            text = text[:start]
        else:
            text = exchange_number(text, rng)
    return text


def exchange_number(text: str, rng: Random) -> str:
    """The text with one of its numbers exchanged, most often for one of another magnitude."""
    places = [i for i, c in enumerate(text) if c.isdecimal() and (i == 0 or not text[i - 1].isdecimal())]
    if not places:
        return text
    start = end = rng.choice(places)
    while end < len(text) and text[end].isdecimal():
        end += 1
    number = str(int(2 ** rng.uniform(0, 45))) if rng.random() < 0.5 else rng.choice((*ODD[:26], "1", "2", "3", "7"))
    return text[:start] + number + text[end:]


def choose_options(rng: Random) -> tuple[str, ...]:
    """Options a person may well add."""
    chosen = [o for o in ("--json", "--no-attribute") if rng.random() < 0.3]
    if rng.random() < 0.2:
        chosen += ["--data", rng.choice(("normal", "uniform", "exact"))]
    return tuple(chosen)


def make_problem(rng: Random) -> Attack:
    """A damaged problem text, or a right one of any size, compared between the truth and an emulated engine."""
    text = damage(rng.choice(PROBLEMS), rng) if rng.random() < 0.8 else make_sized_text(rng)
    if rng.random() < 0.1:
        text = rng.choice((text * 40, " ".join(rng.choices(PROBLEMS, k=3)), "[" * 5000 + text, f"({text})" * 300))
    engines = ("--on", "truth", "--on", "emulate:direct") if rng.random() < 0.7 else ("--on", "truth")
    return Attack("problem", ("compare", text, *engines, *choose_options(rng)))


def make_sized_text(rng: Random) -> str:
    """A problem whose shapes fit each other, of one product or of 10^18: most are refused or quick."""
    rank = rng.randint(1, 3)
    wide = rng.choice((6.0, 12.0, 20.0))

    def draw(bits: float = wide) -> int:
        return int(2 ** rng.uniform(0, bits))

    groups = rng.choice((1, 1, 2, draw()))
    c_in, c_out, kernel = draw(wide / 2), draw(wide / 2), [draw(wide / 2) for _ in range(rank)]
    transposed, direction = rng.random() < 0.3, rng.choice(("", "", ".grad_input", ".grad_weight"))
    w = (c_in * groups, c_out) if transposed else (c_out * groups, c_in)
    sizes = [k + draw() for k in kernel]
    words = [f"conv{'_transpose' * transposed}{rank}d{direction}"]
    words += [f"x={'x'.join(map(str, (draw(), c_in * groups, *sizes)))}", f"w={'x'.join(map(str, (*w, *kernel)))}"]
    words += [f"groups={groups}", f"stride={rng.choice((1, 1, 2, draw()))}", f"padding={rng.choice((0, 0, 1, draw()))}"]
    return " ".join([*words, f"dtype={rng.choice(('float32', 'float16', 'float64'))}"])


def make_product(rng: Random) -> Attack:
    """A product in any language, damaged or of any size; often with settings to be tried until the sides agree."""
    text = rng.choice(PRODUCTS)
    kind = rng.random()
    if kind < 0.2:
        text = make_sized_product(rng)
    elif kind < 0.3:
        words = text.replace('":', '": ').split()
        words[rng.randrange(len(words))] = rng.choice(VALUES)
        text = " ".join(words)
    elif kind < 0.4:
        text = rng.choice((text[: rng.randint(4, 20)], f" {text}"[: rng.randint(4, 20)])) * rng.choice((1, 9, 20_000))
    elif kind < 0.8:
        text = damage(text, rng)
    # Every setting that is tried starts NumPy in another process.
    numpy = ("--on", f"numpy:{rng.choice(NUMPY_SETTINGS)}", *rng.choice(((), ("--on", "numpy"), ("--on", "truth"))))
    sides = numpy if rng.random() < 0.15 else ("--on", "truth", *rng.choice(((), ("--on", "emulate:direct"))))
    fix = ("--fix",) if rng.random() < 0.5 else ()
    if rng.random() < 0.05:
        return Attack("product", ("profile", "emulate:direct", text, *fix, *choose_options(rng)))
    return Attack("product", ("compare", text, *sides, *fix, *choose_options(rng)))


def make_sized_product(rng: Random) -> str:
    """A product of operands with up to a hundred axes, which fit each other for the most part."""
    wide = rng.choice((2.0, 5.0, 12.0, 20.0))
    rows, columns, length = (int(2 ** rng.uniform(0, wide)) for _ in range(3))
    count = rng.choice((0, 0, 1, 2, 3, 10, 62, 63, 100))
    batch = [rng.choice((1, 1, 1, 2, int(2 ** rng.uniform(0, wide)))) for _ in range(count)]
    direction = rng.choice(("", "", ".grad_input", ".grad_weight"))
    x, w, kind = [*batch, rows, length], [columns, length], f"linear{direction}"
    if rng.random() < 0.6:
        kind, own = "matmul", [rng.choice((size, 1)) for size in batch[rng.randint(0, count) :]]
        w = [*own, length, columns]
    if rng.random() < 0.2:
        changed = rng.choice((x, w))
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 2, 3))
    shapes = " ".join(f"{name}={'x'.join(map(str, shape))}" for name, shape in (("x", x), ("w", w)))
    return f"{kind} {shapes} dtype={rng.choice(('float32', 'float16', 'float64', 'float8_e4m3fn'))}"


def make_recipe(rng: Random) -> Attack:
    """A recipe text, damaged, or one that is small and stands for something huge."""
    text = rng.choice(HUGE_RECIPES) if rng.random() < 0.25 else damage(rng.choice(RECIPES), rng)
    problem = rng.choice((TINY, SMALL, "conv1d x=1x1x10000000 w=1x1x10000000" if rng.random() < 0.1 else SMALL))
    if rng.random() < 0.15:
        return Attack("recipe", ("profile", f"emulate:{text}", problem))
    return Attack("recipe", ("compare", problem, "--on", "truth", "--on", f"emulate:{text}", *choose_options(rng)))


def make_engine(rng: Random) -> Attack:
    """An engine text whose name or settings are none; a few are right, and start that engine."""
    name = damage(rng.choice(ENGINES), rng, 1) if rng.random() < 0.3 else rng.choice(ENGINES)
    settings = rng.choices(SETTINGS, k=rng.randint(1, 3))
    text = f"{name}:{','.join(settings)}"
    spoilt = rng.choice((",", "=", "threads=²", "threads=0", "threads=1025", "env.=1", "env.A B=1", "env.É=1", "x=1"))
    # Loading an engine takes seconds: only one in thirty may be right.
    text = rng.choice(
        (f"{text},{spoilt}", f"{text},{settings[0]}", damage(text, rng) + f",{spoilt}", f"{name}:{spoilt}")
    )
    if rng.random() < 1 / 30:
        text = rng.choice(("onnxruntime", "onnxruntime:threads=1,env.OMP_NUM_THREADS=x", "torch:env.PYTHONPATH=/none"))
    command = ("compare", TINY) if rng.random() < 0.8 else ("profile",)
    if command[0] == "profile":
        return Attack("engine", ("profile", text, TINY))
    return Attack("engine", (*command, "--on", text, "--on", rng.choice(("truth", text, "emulate:direct"))))


def make_command(rng: Random) -> Attack:
    """A command line with wrong, missing, repeated, huge, negative, unicode, control-character or empty values."""
    odd = rng.choice(ODD)
    option = rng.choice(
        ("--on", "--data", "--seed", "--time-limit", "--svg", "--json", "--attribute", "--version", odd)
    )
    value = rng.choice(ODD) if rng.random() < 0.7 else rng.choice(("1", "truth", "normal", "0.5", "a/b.svg"))
    compare = ("compare", "--on", "truth", TINY)
    lines: tuple[tuple[tuple[str, ...], frozenset[int]], ...] = (
        ((*compare, option, value), ANY),
        ((*compare, f"{option}={value}"), ANY),
        ((*compare, option), ANY),
        ((*compare, "--seed", value, "--seed", rng.choice(ODD)), ANY),
        ((*compare, "--data", odd), TROUBLE),
        (("compare", "--on", odd, TINY), TROUBLE),
        (("compare", "--on", "truth", odd), ANY),
        (("compare",), TROUBLE),
        (("profile", "emulate:direct", TINY, option, value), ANY),
        (("profile", "emulate:direct", TINY, "--svg", value), ANY),
        (("profile", odd, TINY), ANY),
        (("profile",), TROUBLE),
        (("explain", odd), ANY),
        (("explain", "none.log", option, value), ANY),
        (("explain", "a.npz", "b.npz"), TROUBLE),
        (("explain",), TROUBLE),
        (("doctor", odd), ANY),
        (("doctor", option, value), ANY),
        ((odd, option, value), ANY),
        ((odd, *compare), ANY),
        ((option, value, *compare), ANY),
        (("--version", "--version"), frozenset({0})),
        ((rng.choice(("compare", "profile", "explain", "doctor")), "--help"), frozenset({0})),
        (tuple(rng.choices(ODD, k=rng.randint(1, 40))), ANY),
        ((*compare, *(("--on", "truth") * rng.randint(1, 60))), ANY),
    )  # fmt: skip
    arguments, expected = rng.choice(lines)
    return Attack("command", arguments, expected=expected)


def make_log(rng: Random) -> Attack:
    """A log: fragments of real lines, damaged; binary garbage; lines without end."""
    lines = [rng.choice(LOG_LINES) for _ in range(rng.randint(1, 14))]
    if rng.random() < 0.4:
        first = rng.randrange(len(LOG_LINES))
        lines = list(LOG_LINES[first : first + rng.randint(2, 8)])
    lines = [damage(line, rng, rng.randint(1, 2)) if rng.random() < 0.35 else line for line in lines]
    shape = rng.randrange(12)
    if shape == 0:
        lines = lines * rng.choice((10, 1000))
    elif shape == 1:
        lines.insert(0, rng.choice(("9", "(", "{", "e", "1.", "%a = ", "mb1ic", "=", ",", "\x1b[", " ")) * 300_000)
    elif shape == 2:
        lines = [rng.choice(LOG_LINES) * rng.choice((5, 500))]
    data = rng.choice(("\n", "\r\n", "\n\n")).join(lines).encode("utf-8", "replace")
    if shape == 3:
        data = rng.randbytes(rng.choice((0, 1, 3, 100, 100_000)))
    elif shape == 4:
        position = rng.randrange(len(data) + 1)
        data = data[:position] + rng.randbytes(rng.randint(1, 20)) + data[position:]
    elif shape == 5:
        data = data.decode().encode(rng.choice(("utf-16", "utf-8-sig", "utf-32")))
    name = rng.choice(("a.log", "a.txt", "a", "ä\x1b[31m.log", "-a.log"))
    return Attack("log", ("explain", f"./{name}", *(("--json",) if rng.random() < 0.3 else ())), (File(name, data),))


def make_onnx(rng: Random) -> Attack:
    """An ONNX node with attributes of every kind, through Python; or the bytes of a model for a log or a case."""
    if rng.random() < 0.3:
        model = b"\x08\x08\x12\x07pytorch:" + rng.randbytes(rng.randint(0, 300)) + b"\x0a\x04Conv" * rng.randint(0, 9)
        name = rng.choice(("m.onnx", "m.npz", "m.log"))
        command = rng.choice((("explain", name), ("compare", name, "--on", "truth")))
        return Attack("onnx", command, (File(name, model),), TROUBLE)
    values = (0, -1, 1, 2, 3, 2**31, 2**62, 2**70, [], [1, 1], [0, 0], [-1, 2], [1] * 9, [2**40] * 2, [1, 1, 1, 1], "")
    values += ("SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET", "²", None, 1.5, [1.5, 2], ["a", "b"], b"SAME_UPPER", {})
    names = ("kernel_shape", "strides", "dilations", "pads", "auto_pad", "group", "output_shape", "output_padding", "x")
    attributes = {rng.choice(names): rng.choice(values) for _ in range(rng.randint(0, 4))}
    shapes = ((1, 4, 8, 8), (4, 4, 3, 3), (1, 4, 8), (1, 4), (), (0, 4, 8, 8), (1, 4, -8, 8), (2**40, 4, 8, 8))
    operator = rng.choice(("Conv", "ConvTranspose", "Conv", "ConvInteger", "", "Gemm", "MatMul"))
    if operator in ("Gemm", "MatMul"):
        attributes = {rng.choice(("alpha", "beta", "transA", "transB")): rng.choice(values) for _ in range(2)}
        shapes = ((8, 8), (4, 8), (8,), (8, 4), (), (2, 8, 4), (0, 8), (-8, 8), (2**40, 8), (8, 2**40), (1,) * 70)
    x, w = rng.choice(shapes), rng.choice(shapes)
    dtype = rng.choice(("float32", "float16", "int8", ""))
    bias = rng.random() < 0.7
    code = (
        "from samebits.problems.languages.onnx_node import problem_from_onnx_node\n"
        f"problem_from_onnx_node({operator!r}, {attributes!r}, {x!r}, {w!r}, bias={bias}, dtype={dtype!r})"
    )
    return Attack("onnx", code=code)
