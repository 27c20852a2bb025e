"""The call of torch, as a script has it."""

from __future__ import annotations

from collections.abc import Mapping

from samebits.problems import Problem

_SETTINGS = {
    "threads": "torch.set_num_threads({})",
    "mkldnn": "torch.backends.mkldnn.enabled = {on}",
    "deterministic": "torch.use_deterministic_algorithms({on})",
    "flush_denormal": "torch.set_flush_denormal({on})",
    "fp32_precision": 'torch.backends.mkldnn.conv.fp32_precision = torch.backends.mkldnn.matmul.fp32_precision = "{}"',
}


def write_torch(problem: Problem, settings: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """Lines that import, and those that make `result` of `operands`."""
    imports, linear_as = ["import torch"], settings.get("linear_as", "linear")
    for name, value in settings.items():
        if name in _SETTINGS:
            imports.append(_SETTINGS[name].format(value, on=value == "on"))
    lines = [f"given = {{name: torch.from_numpy(array).to(torch.{problem.dtype}) for name, array in operands.items()}}"]
    if settings.get("layout") == "channels_last" and problem.rank in (2, 3):
        memory = "channels_last" if problem.rank == 2 else "channels_last_3d"
        change = f"tensor.contiguous(memory_format=torch.{memory}) if tensor.dim() > 1 else tensor"
        lines.append(f"given = {{name: {change} for name, tensor in given.items()}}")
    lines += [
        "",
        "",
        "def compute(x, w, bias=None):",
        *(f"    {line}" for line in _write_call(problem, linear_as)),
        "",
        "",
    ]
    if settings.get("compile") == "on":
        lines.append("compute = torch.compile(compute)")
    if problem.direction == "forward":
        lines.append("result = compute(**given)")
    else:
        wanted, shape = ("x", problem.x) if problem.direction == "grad_input" else ("w", problem.w)
        lines += [
            f'given["{wanted}"] = torch.zeros({shape}, dtype=torch.{problem.dtype}, requires_grad=True)',
            'y = compute(given["x"], given["w"])',
            f'result = torch.autograd.grad(y, given["{wanted}"], given["dy"])[0]',
        ]
    return imports, [*lines, "result = result.detach().to(torch.float64).numpy()"]


def _write_linear(problem: Problem, linear_as: str) -> str:
    if linear_as == "linear":
        return "y = torch.nn.functional.linear(x, w, bias)"
    if linear_as == "addmm" and problem.bias:
        return f"y = torch.addmm(bias, x.reshape(-1, {problem.x[-1]}), w.t()).reshape({problem.y_shape})"
    return "y = torch.matmul(x, w.t())" + (" + bias" if problem.bias else "")


def _write_call(problem: Problem, linear_as: str) -> list[str]:
    if problem.kind == "matmul":
        lines = ["y = torch.matmul(x, w)"]
    elif problem.kind == "linear":
        lines = [_write_linear(problem, linear_as)]
    else:
        lines = _write_convolution(problem)
    if problem.then:
        low, high = problem.then.low, problem.then.high
        clamp = f"y = y.clamp({low!r}, {high!r})".replace("inf", 'float("inf")')
        lines.append("y = torch.relu(y)" if problem.then.name == "relu" else clamp)
    return [*lines, "return y"]


def _write_convolution(problem: Problem) -> list[str]:
    pads = [(a.pad_begin, a.pad_end) for a in problem.axes]
    even, lines = tuple(min(pair) for pair in pads), list[str]()
    if problem.is_transposed:
        arguments = f"stride={problem.stride}, padding={even}, output_padding={_find_extra(problem)}"
        crop = ", ".join(
            f"{begin - e}:{begin - e + a.size_large}" for (begin, _), e, a in zip(pads, even, problem.axes, strict=True)
        )
        last = [f"y = y[:, :, {crop}]"]
    else:
        if any(begin != end for begin, end in pads):
            lines.append(f"x = torch.nn.functional.pad(x, {[p for pair in reversed(pads) for p in pair]})")
            even = (0,) * problem.rank
        arguments, last = f"stride={problem.stride}, padding={even}", []
    more = f"dilation={problem.dilation}, groups={problem.groups}"
    return [*lines, f"y = torch.nn.functional.{problem.kind}(x, w, bias, {arguments}, {more})", *last]


def _find_extra(problem: Problem) -> tuple[int, ...]:
    """The output padding with which torch's result reaches as far as the problem's."""
    return tuple(
        max(
            a.extra,
            0,
        )
        for a in problem.axes
    )
