"""The call of JAX, as a script has it."""

from __future__ import annotations

from collections.abc import Mapping

from samebits.problems import Problem


def write_jax(problem: Problem, settings: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Lines that import, and those that make `result` of `operands`."""
    imports = ["import jax", 'jax.config.update("jax_enable_x64", True)']
    if "precision" in settings:
        imports.append(f'jax.config.update("jax_default_matmul_precision", "{settings["precision"]}")')
    lines = [
        f'given = {{name: jax.numpy.asarray(array).astype("{problem.dtype}") for name, array in operands.items()}}',
        "",
        "",
        "def compute(x, w, bias=None):",
        *(f"    {line}" for line in _write_call(problem)),
        "",
        "",
    ]
    jit = "jax.jit" if settings.get("jit", "on") == "on" else ""
    if problem.direction == "forward":
        lines.append(f"result = {jit}(compute)(**given)")
    else:
        wanted, shape = ("x", problem.x) if problem.direction == "grad_input" else ("w", problem.w)
        arguments = "v, given['w']" if wanted == "x" else "given['x'], v"
        lines += [
            "def differentiate(given):",
            f'    zeros = jax.numpy.zeros({shape}, "{problem.dtype}")',
            f"    return jax.vjp(lambda v: compute({arguments}), zeros)[1](given['dy'])[0]",
            "",
            "",
            f"result = {jit}(differentiate)(given)",
        ]
    return imports, [*lines, "result = np.asarray(result).astype(np.float64)"]


def _write_call(problem: Problem) -> list[str]:
    if problem.kind == "matmul":
        lines = [f'y = jax.numpy.matmul(x, w, preferred_element_type="{problem.out}")']
    elif problem.kind == "linear":
        summed = "(((x.ndim - 1,), (1,)), ((), ()))"
        lines = [f'y = jax.lax.dot_general(x, w, {summed}, preferred_element_type="{problem.out}")']
    else:
        lines = _write_convolution(problem)
    if problem.bias:
        lines.append(f"y = y + bias.astype(y.dtype).reshape({problem.bias_shape})")
    if problem.then:
        low, high = problem.then.low, problem.then.high
        clip = f"y = jax.numpy.clip(y, {low!r}, {high!r})".replace("inf", 'float("inf")')
        lines.append("y = jax.nn.relu(y)" if problem.then.name == "relu" else clip)
    return [*lines, "return y"]


def _write_convolution(problem: Problem) -> list[str]:
    pads = [(a.pad_begin, a.pad_end) for a in problem.axes]
    strides, inner, lines = problem.stride, (1,) * problem.rank, list[str]()
    if problem.is_transposed:
        g, c_in, c_out = problem.groups, problem.w[0] // problem.groups, problem.w[1]
        taps = problem.w[2:]
        lines = [
            "# A transposed convolution is one of the dilated input with turned weights.",
            f"w = w.reshape({(g, c_in, c_out, *taps)}).swapaxes(1, 2).reshape({(g * c_out, c_in, *taps)})",
            f"w = jax.numpy.flip(w, {tuple(range(2, 2 + problem.rank))})",
        ]
        pads = []
        for a in problem.axes:
            reach = (a.kernel - 1) * a.dilation
            before = reach - a.pad_begin
            pads.append((before, a.size_large + reach - ((a.size_small - 1) * a.stride + 1) - before))
        strides, inner = inner, strides
    spatial = "DHW"[-problem.rank :]
    names = (f"NC{spatial}", f"OI{spatial}", f"NC{spatial}")
    return [
        *lines,
        "y = jax.lax.conv_general_dilated(",
        f"    x, w, {strides}, {pads}, lhs_dilation={inner}, rhs_dilation={problem.dilation},",
        f'    feature_group_count={problem.groups}, dimension_numbers={names}, preferred_element_type="{problem.out}",',
        ")",
    ]
