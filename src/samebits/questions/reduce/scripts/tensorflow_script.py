"""The call of TensorFlow, channels last, as a script has it."""

from __future__ import annotations

from collections.abc import Mapping

from samebits.problems import Problem
from samebits.problems.problem import Axis


def write_tensorflow(problem: Problem, settings: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Lines that import, and those that make `result` of `operands`."""
    imports = ["import tensorflow as tf"]
    if "threads" in settings:
        imports.append(f"tf.config.threading.set_intra_op_parallelism_threads({int(settings['threads'])})")
    if settings.get("deterministic") == "on":
        imports += ["tf.keras.utils.set_random_seed(0)", "tf.config.experimental.enable_op_determinism()"]
    lines = [
        f"given = {{name: tf.cast(tf.constant(array), tf.{problem.dtype}) for name, array in operands.items()}}",
        "",
        "",
        "def compute(x, w, bias=None):",
        *(f"    {line}" for line in _write_call(problem)),
        "",
        "",
    ]
    if problem.direction == "forward":
        lines.append("result = compute(**given)")
    else:
        wanted, shape = ("x", problem.x) if problem.direction == "grad_input" else ("w", problem.w)
        lines += [
            f'given["{wanted}"] = tf.zeros({shape}, tf.{problem.dtype})',
            "with tf.GradientTape() as tape:",
            f'    tape.watch(given["{wanted}"])',
            '    y = compute(given["x"], given["w"])',
            f'result = tape.gradient(y, given["{wanted}"], given["dy"])',
        ]
    return imports, [*lines, f"result = tf.cast(result, tf.float64).numpy().reshape({problem.out_shape})"]


def _write_call(problem: Problem) -> list[str]:
    lines = _write_product(problem) if problem.product else _write_convolution(problem)
    if problem.then:
        low, high = problem.then.low, problem.then.high
        clip = f"y = tf.clip_by_value(y, {low!r}, {high!r})".replace("inf", 'float("inf")')
        lines.append("y = tf.nn.relu(y)" if problem.then.name == "relu" else clip)
    return [*lines, "return y"]


def _write_product(problem: Problem) -> list[str]:
    if problem.kind == "linear":
        flat = len(problem.x) == 2
        lines = ["kernel = tf.transpose(w)", f"y = {'tf.matmul(x, kernel)' if flat else 'tf.tensordot(x, kernel, 1)'}"]
        return [*lines, "y = y + bias"] if problem.bias else lines
    x = "x[None]" if len(problem.x) == 1 else "x"
    w = "w[:, None]" if len(problem.w) == 1 else "w"
    return [f"y = tf.reshape(tf.matmul({x}, {w}), {problem.y_shape})"]


def _write_convolution(problem: Problem) -> list[str]:
    rank = max(problem.rank, 2)
    lines: list[str] = []
    if problem.rank == 1:
        lines.append("x, w = x[:, :, None, :], w[:, :, None, :]")
    last, first = (0, *range(2, rank + 2), 1), (0, rank + 1, *range(1, rank + 1))
    lines += [
        f"x, w = tf.transpose(x, {last}), tf.transpose(w, {(*range(2, rank + 2), 1, 0)})",
        *_write_operator(problem, rank),
    ]
    if problem.bias:
        lines.append("y = tf.nn.bias_add(y, bias)")
    lines.append(f"y = tf.transpose(y, {first})")
    return [*lines, "y = y[:, :, 0]"] if problem.rank == 1 else lines


def _write_operator(problem: Problem, rank: int) -> list[str]:
    axes = (Axis(1, 1, 1, 1, 1, 0, 0), *problem.axes) if problem.rank == 1 else problem.axes
    pads = [[0, 0], *([a.pad_begin, a.pad_end] for a in axes), [0, 0]]
    strides, dilations = [1, *(a.stride for a in axes), 1], [1, *(a.dilation for a in axes), 1]
    padded = any(map(any, pads))
    if problem.is_transposed:
        shape = [problem.x[0], *(a.size_large for a in axes), problem.c_out]
        if rank == 2:
            padding = pads if padded else '"VALID"'
            return [f"y = tf.nn.conv2d_transpose(x, w, {shape}, {strides}, {padding}, dilations={dilations})"]
        whole = [size + begin + end for size, (begin, end) in zip(shape, pads, strict=True)]
        return [
            f'y = tf.nn.conv3d_transpose(x, w, {whole}, {strides}, "VALID", dilations={dilations})',
            f"y = tf.slice(y, {[begin for begin, _ in pads]}, {shape})",
        ]
    if rank == 3:
        lines = [f"x = tf.pad(x, {pads})"] if padded else []
        return [*lines, f'y = tf.nn.conv3d(x, w, {strides}, "VALID", dilations={dilations})']
    padding = pads if padded else '"VALID"'
    return [f"y = tf.nn.conv2d(x, w, {strides}, {padding}, dilations={dilations})"]
