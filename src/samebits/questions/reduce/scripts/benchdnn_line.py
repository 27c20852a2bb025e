"""A convolution as a line for oneDNN's benchdnn."""

from __future__ import annotations

from samebits.problems import Problem

_DTYPES = {"float32": "f32", "bfloat16": "bf16", "float16": "f16", "float64": "f64"}
_DIRECTIONS = {"forward": "FWD_D", "grad_input": "BWD_D", "grad_weight": "BWD_W"}


def write_benchdnn(problem: Problem) -> str | None:
    """The line that benchdnn reads, every size written out; None for what it has no words for.

    Rules: oneDNN, tests/benchdnn/doc/driver_conv.md and driver_matmul.md.
    """
    if problem.dtype not in _DTYPES or problem.out != problem.dtype:
        return None
    dtype = "" if problem.dtype == "float32" else f"--dt={_DTYPES[problem.dtype]} "
    if problem.product:
        return _write_product(problem, dtype)
    direction = "FWD_B" if problem.bias else _DIRECTIONS[problem.direction]
    epilogue = ""
    if problem.then:
        low, high = problem.then.low, problem.then.high
        relu = problem.then.name == "relu"
        epilogue = f"--attr-post-ops={'relu' if relu else f'clip:{low!r}:{high!r}'} "
    driver = "deconv" if problem.is_transposed else "conv"
    return f"--{driver} --dir={direction} {dtype}{epilogue}{_describe(problem)}"


def _describe(problem: Problem) -> str:
    text = f"g{problem.groups}" if problem.groups > 1 else ""
    text += f"mb{problem.x[0]}ic{problem.c_in}"
    letters = "dhw"[-problem.rank :]
    read = [(f"i{letter}", problem.x[2 + i]) for i, letter in enumerate(letters)]
    made = [(f"o{letter}", problem.y_shape[2 + i]) for i, letter in enumerate(letters)]
    sizes = [*read, ("oc", problem.c_out), *made]
    text += "".join(f"{name}{size}" for name, size in sizes)
    for i, letter in enumerate(letters):
        axis = problem.axes[i]
        text += f"k{letter}{axis.kernel}s{letter}{axis.stride}p{letter}{axis.pad_begin}d{letter}{axis.dilation - 1}"
    return text


def _write_product(problem: Problem, dtype: str) -> str | None:
    if problem.direction != "forward" or problem.then or len(problem.x) < 2 or len(problem.w) < 2:
        return None
    w = problem.w[::-1] if problem.kind == "linear" else problem.w
    x = (1,) * (len(w) - len(problem.x)) + problem.x
    w = (1,) * (len(x) - len(w)) + w
    bias = "--bia-dt=f32 " if problem.bias else ""
    turned = "--wtag=ba " if problem.kind == "linear" and len(x) == 2 else ""
    return f"--matmul {dtype}{bias}{turned}{'x'.join(map(str, x))}:{'x'.join(map(str, w))}"
