"""The convolutions of `truth_sweep.py`: torch's OpInfo samples, JAX's test parameters, and what they mean.

Every one is a form in three arrays: the convolution and its gradients by input and by weight are the same products,
added up at the elements of one of the three. On small integers the exact reference must give what torch or JAX does.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from exact_reference import compute_reference

from samebits.problems import Problem
from samebits.problems.problem import DIRECTIONS, Direction

Arrays = dict[str, np.ndarray]
ROLES: dict[Direction, str] = {"forward": "y", "grad_input": "x", "grad_weight": "w"}
# Products in one problem: the exact reference lists them one by one.
MOST_PRODUCTS = 1_000_000


@dataclass(frozen=True)
class Sample:
    """One convolution: our problem, and a function that has its origin compute y, x's and w's gradient in float64.

    The function takes x, w, bias (if any) and dy as our problem has them, and returns the arrays of ROLES. `places` are
    where, along each spatial axis, x is the origin's input; elsewhere it is zero, and its gradient not asked for.
    """

    origin: str
    problem: Problem
    ask: Callable[[Arrays], Arrays]
    places: tuple[slice, ...] = ()


def list_torch_samples() -> Iterator[Sample]:
    """Every OpInfo sample of the six convolutions, as it is and with a larger batch and more channels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from torch.testing._internal.common_methods_invocations import op_db
    seen = set()
    for op in op_db:
        kind = op.name.removeprefix("nn.functional.")
        if not kind.startswith("conv") or kind == op.name:
            continue
        taken = itertools.chain(op.sample_inputs("cpu", torch.float64), op.reference_inputs("cpu", torch.float64))
        for sample in taken:
            for batch, channels in ((1, 1), (3, 1), (2, 8), (5, 16)):
                made = _make_torch_sample(op, kind, sample, batch, channels)
                text = str(made.problem)
                if made.problem.multiply_adds <= MOST_PRODUCTS and text not in seen:
                    seen.add(text)
                    yield made


def _make_torch_sample(op: Any, kind: Any, sample: Any, batch: int, channels: int) -> Sample:
    weight, bias = sample.args[0], sample.args[1] if len(sample.args) > 1 else None
    rank = int(kind[-2])
    x = tuple(sample.input.shape)
    x = x if len(x) == rank + 2 else (1, *x)
    words: dict[str, Any] = {
        name: _spread(value, rank) for name, value in sample.kwargs.items() if name not in ("groups", "padding")
    }
    x, w = (x[0] * batch, x[1] * channels, *x[2:]), (weight.shape[0] * channels, weight.shape[1], *weight.shape[2:])
    w = (w[0], w[1] * channels, *w[2:])
    padding = sample.kwargs.get("padding", 0)
    reach = [(k - 1) * d for k, d in zip(w[2:], words.get("dilation", (1,) * rank), strict=True)]
    pairs = {"valid": ((0, 0),) * rank, "same": tuple((r // 2, r - r // 2) for r in reach)}
    pairs = pairs[padding] if isinstance(padding, str) else tuple((p, p) for p in _spread(padding, rank))
    problem = Problem(
        kind,
        x,
        w,
        bias=bias is not None,
        padding=pairs,
        groups=sample.kwargs.get("groups", 1),
        dtype="float64",
        **words,
    )
    return Sample("torch", problem, partial(_ask_torch, op, sample.kwargs))


def _spread(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value) * (rank if len(value) == 1 else 1)


def _ask_torch(op: Any, words: dict[str, Any], arrays: Arrays) -> Arrays:
    import torch

    x, w = (torch.from_numpy(arrays[name]).requires_grad_() for name in ("x", "w"))
    bias = torch.from_numpy(arrays["bias"]) if "bias" in arrays else None
    with warnings.catch_warnings():
        # Torch mentions that its way of uneven padding may copy.
        warnings.simplefilter("ignore")
        y = op.op(x, w, bias, **words)
    dx, dw = torch.autograd.grad(y, (x, w), torch.from_numpy(arrays["dy"]))
    return {"y": y.detach().numpy(), "x": dx.numpy(), "w": dw.numpy()}


@dataclass(frozen=True)
class JaxConvolution:
    """Parameters of jax.lax.conv_general_dilated, in its layouts NCHW and OIHW; per axis where plural."""

    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    strides: tuple[int, ...]
    pads: tuple[tuple[int, int], ...]
    lhs_dilation: tuple[int, ...]
    rhs_dilation: tuple[int, ...]
    feature_groups: int = 1
    batch_groups: int = 1

    @property
    def is_empty(self) -> bool:
        """Whether the kernel reaches further than the padded input on some axis."""
        sizes = zip(self.lhs[2:], self.lhs_dilation, self.pads, self.rhs[2:], self.rhs_dilation, strict=True)
        return any((n - 1) * d + sum(pad) < (k - 1) * tap for n, d, pad, k, tap in sizes)


def list_jax_parameters() -> list[JaxConvolution]:
    """The parameters of JAX's own tests.

    tests/lax_test.py: testConvGeneralDilated, testConvTranspose1D, 2D and 3D; tests/lax_autodiff_test.py:
    testConvGeneralDilatedGrad (jax-ml/jax). Empty arrays are left out.
    """
    found = []
    groups = ((1, 1), (2, 1), (1, 2))
    pairs = list(itertools.product(((1, 1), (1, 2), (1, 4)), repeat=2))
    for (bg, fg), (b, i, j) in itertools.product(groups, itertools.product((2, 3), repeat=3)):
        shapes = (b * bg, i * fg, 9, 10), (j * fg * bg, i, 4, 5)
        for strides, pads in itertools.product(((1, 1), (2, 1)), (((1, 2), (2, 0)), ((10, 8), (7, 13)))):
            found += [JaxConvolution(*shapes, strides, pads, d, e, fg, bg) for d, e in pairs]
    pads_of_gradients = (((0, 0), (0, 0)), ((1, 0), (0, 1)), ((0, -1), (0, 0)))
    for (bg, fg), (b, i, j) in itertools.product(groups, itertools.product((1, 2), repeat=3)):
        shapes = (b * bg, i * fg, 6, 7), (j * fg * bg, i, 1, 2)
        for words in itertools.product(((1, 1), (1, 2), (2, 1)), pads_of_gradients, ((1, 1), (2, 1)), ((1, 1), (2, 2))):
            strides, pads, lhs_dilation, rhs_dilation = words
            found.append(JaxConvolution(*shapes, strides, pads, lhs_dilation, rhs_dilation, fg, bg))
    return [c for c in [*found, *_list_jax_transposes()] if not c.is_empty]


def _list_jax_transposes() -> Iterator[JaxConvolution]:
    """The convolutions that lax.conv_transpose becomes."""
    shapes = {1: ((10,), ((3,), (4,))), 2: ((10, 5), ((3, 3), (4, 4))), 3: ((5, 4, 3), ((3, 3, 3), (2, 4, 2)))}
    steps = list(itertools.product((1, 2, 3), (1, 2)))
    for size, kernels in shapes.values():
        for (b, i, j), kernel in itertools.product(((2, 2, 3), (3, 3, 2)), kernels):
            for stride, dilation in steps:
                for padding in ("VALID", "SAME"):
                    yield _read_transpose((b, i, *size), (j, i, *kernel), stride, dilation, padding)


def _read_transpose(
    lhs: tuple[int, ...], rhs: tuple[int, ...], stride: int, dilation: int, padding: str
) -> JaxConvolution:
    """The one convolution in the jaxpr of lax.conv_transpose."""
    import jax

    rank = len(lhs) - 2
    call = partial(
        jax.lax.conv_transpose, strides=(stride,) * rank, padding=padding, rhs_dilation=(dilation,) * rank,
        dimension_numbers=("NC" + "DHW"[-rank:], "OI" + "DHW"[-rank:], "NC" + "DHW"[-rank:]),
    )  # fmt: skip
    arrays = [jax.ShapeDtypeStruct(shape, "float32") for shape in (lhs, rhs)]
    p = next(e.params for e in jax.make_jaxpr(call)(*arrays).eqns if "window_strides" in e.params)
    return JaxConvolution(
        lhs, rhs, tuple(p["window_strides"]), tuple(p["padding"]), tuple(p["lhs_dilation"]), tuple(p["rhs_dilation"])
    )


def list_jax_samples(seed: int, count: int) -> Iterator[Sample]:
    """`count` of JAX's parameters, drawn by the seed, each as a problem of ours."""
    parameters = list_jax_parameters()
    for n in np.random.default_rng(seed).permutation(len(parameters))[:count]:
        yield make_jax_sample(parameters[n])


def make_jax_sample(c: JaxConvolution) -> Sample:
    """As a transposed convolution (lhs dilation), a weight gradient (batch groups) or a convolution.

    What none of these can say is written out: input that negative padding removes is not there, and the zeros of a
    dilation are where a stride or batch groups go with it.
    """
    transposed = _make_transposed(c)
    if transposed:
        return transposed
    pads = [(max(begin, 0), max(end, 0)) for begin, end in c.pads]
    crops = [(max(-begin, 0), max(-end, 0)) for begin, end in c.pads]
    size = [(n - 1) * d + 1 - sum(crop) for n, d, crop in zip(c.lhs[2:], c.lhs_dilation, crops, strict=True)]
    places = tuple(slice(-begin % d, None, d) for (begin, _), d in zip(crops, c.lhs_dilation, strict=True))
    if c.batch_groups > 1:
        problem = _make_weight_gradient(c, size, pads)
    else:
        problem = Problem(
            _kind("conv", len(size)), (*c.lhs[:2], *size), c.rhs, stride=c.strides, padding=tuple(pads),
            dilation=c.rhs_dilation, groups=c.feature_groups, dtype="float64",
        )  # fmt: skip
    return Sample("jax", problem, partial(_ask_jax, c, places, False), places)


def _make_transposed(c: JaxConvolution) -> Sample | None:
    reach = [(k - 1) * d for k, d in zip(c.rhs[2:], c.rhs_dilation, strict=True)]
    if max(c.lhs_dilation) == 1 or max(c.strides) > 1 or c.batch_groups > 1:
        return None
    pairs = tuple((r - begin, max(r - end, 0)) for (begin, end), r in zip(c.pads, reach, strict=True))
    extra = tuple(max(end - r, 0) for (_, end), r in zip(c.pads, reach, strict=True))
    limits = [max(d) for d in zip(c.lhs_dilation, c.rhs_dilation, strict=True)]
    if min(map(min, pairs)) < 0 or any(e >= limit for e, limit in zip(extra, limits, strict=True)):
        return None
    problem = Problem(
        _kind("conv_transpose", len(reach)), c.lhs, (c.lhs[1], c.rhs[0] // c.feature_groups, *c.rhs[2:]),
        stride=c.lhs_dilation, padding=pairs, dilation=c.rhs_dilation, output_padding=extra, groups=c.feature_groups,
        dtype="float64",
    )  # fmt: skip
    return Sample("jax", problem, partial(_ask_jax, c, (), True))


def _make_weight_gradient(c: JaxConvolution, size: list[int], pads: list[tuple[int, int]]) -> Problem:
    """A convolution with batch groups is the weight gradient of one whose stride is its dilation, and the reverse."""
    taps, pairs = [], []
    for n, (begin, end), k, d, stride in zip(size, pads, c.rhs[2:], c.rhs_dilation, c.strides, strict=True):
        count, left = divmod(n + begin + end - (k - 1) * d - 1, stride)
        taps.append(count + 1)
        # What the strides leave over at the end may not count as another output of the forward convolution.
        pairs.append((begin, max(end - left, 0)))
    return Problem(
        _kind("conv", len(size)), (c.lhs[1], c.lhs[0], *size), (c.rhs[0], c.lhs[0] // c.batch_groups, *taps),
        stride=c.rhs_dilation, padding=tuple(pairs), dilation=c.strides, groups=c.batch_groups, dtype="float64",
    )  # fmt: skip


def _kind(name: str, rank: int) -> Any:
    return f"{name}{rank}d"


def _ask_jax(c: JaxConvolution, places: tuple[slice, ...], is_transposed: bool, arrays: Arrays) -> Arrays:
    """JAX's convolution and its vjp, from our arrays and back to ours."""
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_disable_most_optimizations", True)
    spatial = (slice(None), slice(None), *places)

    def swap(array: Any) -> Any:
        return array.swapaxes(0, 1) if c.batch_groups > 1 else array

    def turn(array: Any, shape: tuple[int, ...]) -> Any:
        """Weights of a convolution as those of the transposed one, and back."""
        if not is_transposed:
            return swap(array)
        grouped = np.flip(array, tuple(range(2, array.ndim))).reshape(c.feature_groups, -1, *array.shape[1:])
        return grouped.swapaxes(1, 2).reshape(shape)

    third, result = ("dy", "w") if c.batch_groups > 1 else ("w", "dy")
    kept = [slice(-(min(begin, 0) // d), None) for (begin, _), d in zip(c.pads, c.lhs_dilation, strict=True)]
    ours = swap(arrays["x"])[spatial]
    lhs = np.zeros(c.lhs)
    kept = (slice(None), slice(None), *(slice(k.start, k.start + n) for k, n in zip(kept, ours.shape[2:], strict=True)))
    lhs[kept] = ours
    call = partial(
        jax.lax.conv_general_dilated, window_strides=c.strides, padding=c.pads, lhs_dilation=c.lhs_dilation,
        rhs_dilation=c.rhs_dilation, feature_group_count=c.feature_groups, batch_group_count=c.batch_groups,
    )  # fmt: skip
    y, pull = jax.vjp(call, lhs, turn(arrays[third], c.rhs))
    dlhs, drhs = (np.asarray(d) for d in pull(jax.numpy.asarray(swap(arrays[result]))))
    dx = np.full(swap(arrays["x"]).shape, np.nan)
    dx[spatial] = dlhs[kept]
    return {
        "x": swap(dx),
        "y" if third == "dy" else third: turn(drhs, arrays[third].shape),
        "y" if result == "dy" else result: swap(np.asarray(y)),
    }


def find_misreadings(sample: Sample, seed: int) -> list[str]:
    """The directions in which the exact reference differs from the sample's origin on small integers: none expected."""
    random = np.random.default_rng(seed)
    shapes = {**sample.problem.operand_shapes, "dy": sample.problem.y_shape}
    arrays = {name: random.integers(-4, 5, shape).astype(np.float64) for name, shape in shapes.items()}
    if sample.places:
        held = np.zeros_like(arrays["x"])
        at = (slice(None), slice(None), *sample.places)
        held[at] = arrays["x"][at]
        arrays["x"] = held
    answers = sample.ask(arrays)
    wrong = []
    for problem in list_directions(sample.problem):
        own = compute_reference(problem, {name: arrays[name] for name in problem.operand_shapes}).codes
        answer = answers[ROLES[problem.direction]]
        asked = ~np.isnan(answer).ravel()
        if answer.shape != problem.out_shape or (own.view(np.float64)[asked] != answer.ravel()[asked]).any():
            wrong.append(f"{sample.origin}: {problem}")
    return wrong


def list_directions(problem: Problem) -> list[Problem]:
    """The convolution and its two gradients."""
    return [replace(problem, direction=d, bias=problem.bias and d == "forward") for d in DIRECTIONS]
