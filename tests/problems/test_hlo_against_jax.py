"""XLA HLO as JAX prints it: the problem put in comes back, and PyTorch computes what XLA computes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samebits.errors import ProblemShapeError, ProblemTextError
from samebits.problems.languages.hlo import parse_hlo
from samebits.problems.problem import Problem
from samebits.problems.problem_text import format_problem, parse_problem_text


def lower(function: Any, *arrays: Any) -> str:
    jax = pytest.importorskip("jax")
    return jax.jit(function).lower(*arrays).as_text(dialect="hlo")


def result_sizes(module: str) -> list[int]:
    line = next(line for line in module.splitlines() if " convolution(" in line)
    sizes = re.search(r"= \w+\[([\d,]+)\]", line)
    assert sizes
    return sorted(int(s) for s in sizes[1].split(","))


@st.composite
def forward_problems(draw: st.DrawFn) -> Problem:
    rank, groups = draw(st.integers(1, 3)), draw(st.integers(1, 2))

    def each(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.integers(low, high)) for _ in range(rank))

    c_in, c_out = groups * draw(st.integers(1, 3)), groups * draw(st.integers(1, 3))
    return Problem(
        kind=("conv1d", "conv2d", "conv3d")[rank - 1],
        x=(draw(st.integers(1, 3)), c_in, *each(7, 9)),
        w=(c_out, c_in // groups, *each(1, 3)),
        stride=each(1, 3),
        dilation=each(1, 3),
        padding=tuple(zip(each(0, 3), each(0, 3), strict=True)),
        groups=groups,
        dtype=draw(st.sampled_from(["float32", "bfloat16", "float16"])),
        out=draw(st.sampled_from(["", "float32"])),
    )


def convolve_with(problem: Problem, labels: tuple[str, str, str] | None = None) -> Any:
    lax: Any = pytest.importorskip("jax").lax

    def convolve(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            w,
            problem.stride,
            problem.padding,
            rhs_dilation=problem.dilation,
            dimension_numbers=labels,
            feature_group_count=problem.groups,
            preferred_element_type=problem.out,
        )

    return convolve


@settings(deadline=None, max_examples=40)
@given(problem=forward_problems(), data=st.data())
def test_jax_prints_the_problem_that_was_put_in(problem: Problem, data: st.DataObject) -> None:
    jax = pytest.importorskip("jax")
    spatial = "DHW"[3 - problem.rank :]
    labels, shapes = [], []
    for letters, shape in (("NC", problem.x), ("OI", problem.w)):
        names = letters + spatial
        order = data.draw(st.permutations(names))
        if letters == "OI":
            # JAX numbers the spatial axes as the filter's label orders them.
            in_order = iter(spatial)
            order = [next(in_order) if name in spatial else name for name in order]
        labels.append("".join(order))
        shapes.append(tuple(shape[names.index(name)] for name in order))
    labels.append("".join(data.draw(st.permutations("NC" + spatial))))
    arrays = [jax.ShapeDtypeStruct(shape, problem.dtype) for shape in shapes]
    module = lower(convolve_with(problem, (labels[0], labels[1], labels[2])), *arrays)
    assert parse_hlo(module) == problem


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(problem=forward_problems())
def test_both_gradients_that_jax_prints_have_the_shape_of_what_they_differentiate(problem: Problem) -> None:
    jax = pytest.importorskip("jax")
    convolve = convolve_with(parse_problem_text(format_problem(problem).partition(" out=")[0]))
    x, w = (jax.ShapeDtypeStruct(shape, problem.dtype) for shape in (problem.x, problem.w))
    dy = jax.ShapeDtypeStruct(problem.y_shape, problem.dtype)
    for number, shape in ((0, problem.x), (1, problem.w)):
        module = lower(lambda x, w, dy, number=number: jax.vjp(convolve, x, w)[1](dy)[number], x, w, dy)
        if module.count(" convolution(") != 1:
            continue
        gradient = parse_hlo(module)
        assert sorted(gradient.out_shape) == result_sizes(module) == sorted(shape)


def test_jaxs_grouped_weight_gradient_is_the_problem_differentiated() -> None:
    jax = pytest.importorskip("jax")
    text = "conv2d x=2x4x9x8 w=6x2x3x3 stride=2x1 padding=1:1x0:1 dilation=1x2 groups=2"
    problem = parse_problem_text(text)
    x, w = np.zeros(problem.x, np.float32), np.zeros(problem.w, np.float32)
    dy = np.zeros(problem.y_shape, np.float32)
    module = lower(lambda x, w, dy: jax.vjp(lambda w: convolve_with(problem)(x, w), w)[1](dy), x, w, dy)
    assert parse_hlo(module) == parse_problem_text(text.replace("conv2d", "conv2d.grad_weight"))


def test_jaxs_same_transposed_convolution() -> None:
    jax = pytest.importorskip("jax")
    x, w = np.zeros((1, 5, 5, 3), np.float32), np.zeros((3, 3, 3, 4), np.float32)
    module = lower(lambda x, w: jax.lax.conv_transpose(x, w, (2, 2), "SAME"), x, w)
    # (5 - 1) * 2 + 3 = 11 rows, of which SAME keeps 10.
    assert (
        format_problem(parse_hlo(module))
        == "conv_transpose2d x=1x3x5x5 w=3x4x3x3 stride=2 padding=0:1x0:1 dtype=float32"
    )


def evaluate(problem: Problem, lhs: np.ndarray, rhs: np.ndarray) -> np.ndarray:
    """`problem` by PyTorch, on the operands of a convolution with labels bf0_oi0->bf0, in that order of axes."""
    torch = pytest.importorskip("torch")
    x, w, axis = torch.from_numpy(lhs.copy()), torch.from_numpy(rhs.copy()), problem.axes[0]
    options = {"stride": problem.stride, "dilation": problem.dilation, "groups": problem.groups}
    if problem.is_transposed:
        groups = problem.groups
        taps = rhs[:, :, ::-1].reshape(groups, -1, rhs.shape[1], rhs.shape[2]).transpose(0, 2, 1, 3)
        taps = torch.from_numpy(taps.reshape(-1, taps.shape[2], taps.shape[3]).copy())
        full = torch.nn.functional.conv_transpose1d(x, taps, **options)
        full = torch.nn.functional.pad(full, (0, axis.size_large))
        return full[:, :, axis.pad_begin : axis.pad_begin + axis.size_large].numpy()
    if problem.direction == "grad_weight":
        padded = torch.nn.functional.pad(x.swapaxes(0, 1), (axis.pad_begin, axis.pad_end))
        dy = w.swapaxes(0, 1)
        return torch.nn.grad.conv1d_weight(padded, problem.w, dy, **options).swapaxes(0, 1).numpy()
    padded = torch.nn.functional.pad(x, (axis.pad_begin, axis.pad_end))
    return torch.nn.functional.conv1d(padded, w, **options).numpy()


@pytest.mark.slow
@settings(deadline=None, max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(
    sizes=st.tuples(st.integers(3, 7), st.integers(1, 3)),
    features=st.tuples(st.integers(1, 2), st.integers(1, 2), st.integers(1, 2)),
    groups=st.sampled_from([(1, 1), (1, 1), (2, 1), (1, 2)]),
    pads=st.tuples(st.integers(-2, 4), st.integers(-2, 4)),
    steps=st.tuples(st.integers(1, 3), st.integers(1, 3), st.sampled_from([1, 1, 2, 3])),
)
def test_every_accepted_line_means_what_xla_computes(
    sizes: tuple[int, int],
    features: tuple[int, int, int],
    groups: tuple[int, int],
    pads: tuple[int, int],
    steps: tuple[int, int, int],
) -> None:
    lax = pytest.importorskip("jax").lax
    size, kernel = sizes
    n, c, o = features
    stride, rhs_dilation, lhs_dilation = steps
    if (size - 1) * lhs_dilation + 1 + sum(pads) < (kernel - 1) * rhs_dilation + 1:
        return
    rng = np.random.default_rng(size * 1000 + kernel)
    lhs = rng.integers(-4, 5, (n * groups[1], c * groups[0], size)).astype(np.float32)
    rhs = rng.integers(-4, 5, (o * groups[0] * groups[1], c, kernel)).astype(np.float32)

    def convolve(lhs: Any, rhs: Any) -> Any:
        return lax.conv_general_dilated(
            lhs,
            rhs,
            (stride,),
            (pads,),
            lhs_dilation=(lhs_dilation,),
            rhs_dilation=(rhs_dilation,),
            feature_group_count=groups[0],
            batch_group_count=groups[1],
        )

    try:
        problem = parse_hlo(lower(convolve, lhs, rhs))
    except (ProblemTextError, ProblemShapeError):
        assert lhs_dilation > 1 or groups[1] > 1 or min(pads) < 0
        return
    np.testing.assert_array_equal(evaluate(problem, lhs, rhs), np.asarray(convolve(lhs, rhs)))
