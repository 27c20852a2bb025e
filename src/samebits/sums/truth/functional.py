"""Correctly rounded convolutions on anybody's arrays, named and ordered as in torch.nn.functional."""

from __future__ import annotations

import contextlib
import operator
import sys
from collections.abc import Sequence
from typing import Any, Literal, TypeVar

import array_api_compat
import numpy as np

from samebits.errors import OperandError, ProblemShapeError
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.format import numpy_dtype
from samebits.problems.attention import Attention, Causal
from samebits.problems.operands import check_operands, refuse_mask
from samebits.problems.problem import DTYPES, LARGEST_SIZE, Kind, Problem, Shape
from samebits.problems.product_shapes import find_product_shapes
from samebits.sums.truth.attention import compute_attention
from samebits.sums.truth.convolution import check_result_fits, compute_truth, round_all_to_nearest

ArrayT = TypeVar("ArrayT")
Size = int | Sequence[int]
_NUMPYS_OWN = ("float64", "float32", "float16")
_FULL_AXES = 4


def conv1d(
    x: ArrayT,
    w: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | Literal["valid", "same"] = 0,
    dilation: Size = 1,
    groups: int = 1,
    *,
    dtype: Any = None,
) -> ArrayT:
    """The correctly rounded 1-D convolution: y[n, o, i] = bias[o] + sum of x * w over channels and taps, rounded once.

    x (N, C_in, L) or (C_in, L), w (C_out, C_in/groups, k), bias (C_out); all of one dtype among float64, float32,
    bfloat16, float16, float8_e4m3fn, float8_e5m2. N may be 0; one number in a sequence holds for every axis. Returns an
    array of the same kind as x, in its dtype or `dtype`, never silently in another.
    Exact: each output is the number nearest to the exact sum, ties to even, so it does not depend on batch size,
    padding, position, threads or machine. Raises ProblemShapeError, and OperandError, also where arrays of x's kind
    cannot hold the dtype (float64 in JAX needs x64) and for masked arrays, whose mask would be lost.

    >>> import numpy as np, samebits
    >>> samebits.conv1d(np.float32([[1, 2, 3, 4]]), np.float32([[[1, 10]]]))
    array([[21., 32., 43.]], dtype=float32)
    """
    return _convolve("conv1d", x, w, bias, stride, padding, dilation, groups, dtype)


def conv2d(
    x: ArrayT,
    w: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | Literal["valid", "same"] = 0,
    dilation: Size = 1,
    groups: int = 1,
    *,
    dtype: Any = None,
) -> ArrayT:
    """The correctly rounded 2-D convolution; as `conv1d`, with x (N, C_in, H, W) and w (C_out, C_in/groups, kh, kw).

    >>> import numpy as np, samebits
    >>> samebits.conv2d(np.ones((1, 1, 3, 3), np.float32), np.ones((2, 1, 2, 2), np.float32), stride=2, padding=1).shape
    (1, 2, 2, 2)
    """
    return _convolve("conv2d", x, w, bias, stride, padding, dilation, groups, dtype)


def conv3d(
    x: ArrayT,
    w: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size | Literal["valid", "same"] = 0,
    dilation: Size = 1,
    groups: int = 1,
    *,
    dtype: Any = None,
) -> ArrayT:
    """The correctly rounded 3-D convolution; as `conv1d`, with three spatial axes.

    >>> import numpy as np, samebits
    >>> samebits.conv3d(np.ones((1, 2, 2, 2), np.float32), np.full((1, 1, 2, 2, 2), 0.5, np.float32))
    array([[[[4.]]]], dtype=float32)
    """
    return _convolve("conv3d", x, w, bias, stride, padding, dilation, groups, dtype)


def conv_transpose1d(
    x: ArrayT,
    w: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    *,
    dtype: Any = None,
) -> ArrayT:
    """The correctly rounded transposed 1-D convolution; as `conv1d`, with w (C_in, C_out/groups, k).

    >>> import numpy as np, samebits
    >>> samebits.conv_transpose1d(np.float32([[1, 2]]), np.float32([[[1, 10]]]), stride=2)
    array([[ 1., 10.,  2., 20.]], dtype=float32)
    """
    return _convolve("conv_transpose1d", x, w, bias, stride, padding, dilation, groups, dtype, output_padding)


def conv_transpose2d(
    x: ArrayT,
    w: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    *,
    dtype: Any = None,
) -> ArrayT:
    """The correctly rounded transposed 2-D convolution; as `conv1d`, with w (C_in, C_out/groups, kh, kw).

    >>> import numpy as np, samebits
    >>> samebits.conv_transpose2d(np.ones((1, 1, 1), np.float32), np.float32([[[[1, 2], [3, 4]]]]))
    array([[[1., 2.],
            [3., 4.]]], dtype=float32)
    """
    return _convolve("conv_transpose2d", x, w, bias, stride, padding, dilation, groups, dtype, output_padding)


def conv_transpose3d(
    x: ArrayT,
    w: Any,
    bias: Any = None,
    stride: Size = 1,
    padding: Size = 0,
    output_padding: Size = 0,
    groups: int = 1,
    dilation: Size = 1,
    *,
    dtype: Any = None,
) -> ArrayT:
    """The correctly rounded transposed 3-D convolution; as `conv1d`, with three spatial axes.

    >>> import numpy as np, samebits
    >>> samebits.conv_transpose3d(np.ones((1, 1, 1, 2), np.float32), np.ones((1, 1, 1, 1, 2), np.float32))
    array([[[[1., 2., 1.]]]], dtype=float32)
    """
    return _convolve("conv_transpose3d", x, w, bias, stride, padding, dilation, groups, dtype, output_padding)


def linear(x: ArrayT, w: Any, bias: Any = None, *, dtype: Any = None) -> ArrayT:
    """The correctly rounded y = x w^T + bias, as torch.nn.functional.linear's: each y[..., n] rounded once.

    x (..., K), w (N, K), bias (N); the result is (..., N). Formats, kinds of array, exactness and errors as in
    `conv1d`; any size may be 0.

    >>> import numpy as np, samebits
    >>> samebits.linear(np.float32([[2**25, 1, -(2**25)]]), np.ones((1, 3), np.float32))
    array([[1.]], dtype=float32)
    """
    return _multiply("linear", x, w, bias, dtype)


def matmul(x: ArrayT, w: Any, *, dtype: Any = None) -> ArrayT:
    """The correctly rounded matrix product, with the shapes and the broadcasting of numpy.matmul.

    x (..., M, K) or (K), w (..., K, N) or (K); the result is (..., M, N), without M or N where an operand has one axis.
    Formats, kinds of array, exactness and errors as in `conv1d`.

    >>> import numpy as np, samebits
    >>> samebits.matmul(np.float32([[1, 2], [3, 4]]), np.float32([[0, 1], [1, 0]]))
    array([[2., 1.],
           [4., 3.]], dtype=float32)
    """
    return _multiply("matmul", x, w, None, dtype)


@default_float_environment()
def attention(
    q: ArrayT,
    k: Any,
    v: Any,
    *,
    causal: bool | Causal = False,
    mask: Any = None,
    scale: float | None = None,
) -> ArrayT:
    """The correctly rounded attention, softmax(q k^T scale) v, as torch's scaled_dot_product_attention computes it.

    q (N, H, Lq, d), k (N, H_kv, Lk, d), v (N, H_kv, Lk, d_v), all without N, or without N and H; H a multiple of H_kv,
    whose heads are read in blocks. `causal` hides keys behind the query's own, from the upper left as in torch, or
    "lower_right". `mask` broadcasts to (N, H, Lq, Lk): boolean (true: the key is seen), or of q's dtype, and added to
    the scores. `scale` None: 1 / sqrt(d). The result is (N, H, Lq, d_v), of q's dtype and kind of array.
    Exact: each output is the number nearest to the exact result, ties to even; a query that sees no key has zeros.
    Formats and errors as in `conv1d`; NaN and infinities are refused.

    >>> import numpy as np, samebits
    >>> q, k, v = np.zeros((1, 2), np.float32), np.ones((3, 2), np.float32), np.float32([[1], [2], [6]])
    >>> samebits.attention(q, k, v)
    array([[3.]], dtype=float32)
    """
    given = {"q": q, "k": k, "v": v} | ({} if mask is None else {"mask": mask})
    operands = _read_named("attention", given)
    lost = _FULL_AXES - operands["q"].ndim
    if lost not in (0, 1, 2) or any(operands[name].ndim + lost != _FULL_AXES for name in ("k", "v")):
        raise ProblemShapeError(
            "attention takes q, k and v of 4 axes, N x heads x length x features, or the last 3 or 2"
        )
    operands |= {n: operands[n].reshape((1,) * lost + operands[n].shape) for n in ("q", "k", "v")}
    is_hiding = mask is not None and operands["mask"].dtype == bool
    asked = Attention(
        q=operands["q"].shape,
        k=operands["k"].shape,
        v=operands["v"].shape,
        causal=("upper_left" if causal else None) if isinstance(causal, bool) else causal,
        mask=None if mask is None else "bool" if is_hiding else "add",
        scale=scale,
        dtype=_dtype_name(operands["q"].dtype),
    )
    values = compute_attention(asked, operands).values
    return _like(values.reshape(values.shape[lost:]), q)


@default_float_environment()
def _multiply(kind: Kind, x: Any, w: Any, bias: Any, dtype: Any) -> Any:
    operands = _read_operands(kind, x, w, bias)
    given = find_product_shapes(kind, operands["x"].shape, operands["w"].shape)
    is_empty = any(0 in given.sizes[name] for name in ("x", "w"))
    if is_empty:
        for name, array in operands.items():
            if array.shape != given.sizes.get(name):
                raise OperandError(f"{name} has shape {array.shape}, but the product takes {given.sizes.get(name)}")
            # What else may be wrong is checked as for sizes of 1; a view of one zero takes no memory.
            if not array.size:
                sizes = tuple(max(size, 1) for size in array.shape)
                operands[name] = np.broadcast_to(np.zeros((), array.dtype), sizes)
    problem = Problem(
        kind=kind,
        x=operands["x"].shape,
        w=operands["w"].shape,
        bias=bias is not None,
        dtype=_dtype_name(operands["x"].dtype),
        out=_dtype_name(dtype) if dtype is not None else "",
    )
    _like(np.empty(0, numpy_dtype(problem.out)), x)
    if is_empty:
        check_operands(problem, operands)
        check_result_fits(problem)
        values = np.zeros(given.sizes["y"], numpy_dtype(problem.out))
        if bias is not None and values.size:
            # A sum of nothing is +0, so an exact zero is +0 with any bias.
            values += round_all_to_nearest(operands["bias"].astype(np.float64), problem.out)
        return _like(values, x)
    return _like(compute_truth(problem, operands).values, x)


@default_float_environment()
def _convolve(
    kind: Kind,
    x: Any,
    w: Any,
    bias: Any,
    stride: Size,
    padding: Size | str,
    dilation: Size,
    groups: int,
    dtype: Any,
    output_padding: Size = 0,
) -> Any:
    rank = int(kind[-2])
    operands = _read_operands(kind, x, w, bias)
    unbatched = operands["x"].ndim == rank + 1
    if unbatched:
        operands["x"] = operands["x"][None]
    is_empty = operands["x"].shape[:1] == (0,)
    if is_empty:
        # Shapes and dtypes are checked as for one item of a batch; a view of one zero takes no memory.
        operands["x"] = np.broadcast_to(np.zeros((), operands["x"].dtype), (1, *operands["x"].shape[1:]))
    strides, dilations = _per_axis(stride, rank, "stride"), _per_axis(dilation, rank, "dilation")
    problem = Problem(
        kind=kind,
        x=operands["x"].shape,
        w=operands["w"].shape,
        bias=bias is not None,
        stride=strides,
        padding=_pad_pairs(padding, kind, operands["w"].shape[2:], dilations, strides),
        dilation=dilations,
        output_padding=_per_axis(output_padding, rank, "output_padding"),
        groups=_whole_number(groups, "groups"),
        dtype=_dtype_name(operands["x"].dtype),
        out=_dtype_name(dtype) if dtype is not None else "",
    )
    # Before anything is computed: whether the person's own kind of array can hold the result.
    _like(np.empty(0, numpy_dtype(problem.out)), x)
    if is_empty:
        check_operands(problem, operands)
        check_result_fits(problem)
        return _like(np.empty((0, *problem.out_shape[1:]), numpy_dtype(problem.out)), x)
    values = compute_truth(problem, operands).values
    return _like(values[0] if unbatched else values, x)


def _whole_number(value: Any, name: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise ProblemShapeError(f"{name} must be whole numbers, not {value!r}")
    if abs(number) > LARGEST_SIZE:
        raise ProblemShapeError(f"{name}: numbers beyond 2^40 are not supported")
    return number


def _per_axis(value: Any, rank: int, name: str) -> Shape:
    """One number per axis from a number, or a list or tuple of one or of `rank` of them, as torch takes them."""
    values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    if len(values) == 1:
        values *= rank
    if len(values) != rank:
        raise ProblemShapeError(f"{name} must be a whole number or {rank} of them, not {value!r}")
    return tuple(_whole_number(v, name) for v in values)


def _pad_pairs(padding: Any, kind: Kind, kernel: Shape, dilation: Shape, stride: Shape) -> tuple[tuple[int, int], ...]:
    rank = len(stride)
    if not isinstance(padding, str):
        return tuple((p, p) for p in _per_axis(padding, rank, "padding"))
    if padding not in ("valid", "same"):
        raise ProblemShapeError(f"padding must be numbers, 'valid' or 'same', not {padding!r}")
    if kind.startswith("conv_transpose"):
        raise ProblemShapeError(f"{kind} takes padding as numbers, not {padding!r}, as in torch")
    if padding == "valid":
        return ((0, 0),) * rank
    if any(s != 1 for s in stride):
        raise ProblemShapeError("padding='same' needs stride 1, as in torch; give the padding as numbers")
    totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=False)]
    return tuple((total // 2, total - total // 2) for total in totals)


def _read_operands(kind: str, x: Any, w: Any, bias: Any) -> dict[str, np.ndarray]:
    """The operands as NumPy's arrays; raises OperandError for what is none, or would lose its gradient silently."""
    return _read_named(kind, {"x": x, "w": w} | ({} if bias is None else {"bias": bias}))


def _read_named(kind: str, given: dict[str, Any]) -> dict[str, np.ndarray]:
    """Arrays of any library, by name, as NumPy's."""
    for name, array in given.items():
        if getattr(array, "requires_grad", False) and sys.modules["torch"].is_grad_enabled():
            raise OperandError(
                f"{name} requires a gradient, and samebits.{kind} passes none on: samebits.torch has layers that do;"
                " for the value alone, call it under torch.no_grad()"
            )
    return {name: read_array(array, name) for name, array in given.items()}


def read_array(array: Any, name: str) -> np.ndarray:
    """The values of any library's array as NumPy's, no bit changed; torch's formats that NumPy lacks travel as bits.

    Raises OperandError, which calls the array by `name`, for what is no numeric array.
    """
    refuse_mask(array, name)
    try:
        if hasattr(array, "detach") and hasattr(array, "resolve_neg"):
            tensor = array.detach().cpu().resolve_conj().resolve_neg()
            own_name = str(tensor.dtype).removeprefix("torch.")
            if own_name in DTYPES and own_name not in _NUMPYS_OWN:
                torch, own = sys.modules["torch"], numpy_dtype(own_name)
                # As bits: NumPy does not know the format, and a conversion would be arithmetic of this thread.
                codes = torch.uint8 if own.itemsize == 1 else torch.int16
                return tensor.contiguous().view(codes).numpy().view(own)
            return tensor.numpy()
        converted = np.asarray(array)
    except (TypeError, ValueError, RuntimeError) as error:
        raise OperandError(f"{name} is no array that NumPy can read: {_first_line(error)}") from None
    if converted.dtype == object:
        raise OperandError(f"{name} is no numeric array: {type(array).__name__}")
    return converted


def _dtype_name(dtype: Any) -> str:
    text = getattr(dtype, "name", None) or str(dtype)
    name = dtype if isinstance(dtype, str) else text
    name = name.removeprefix("torch.").removeprefix("tf.")
    if name not in DTYPES:
        with contextlib.suppress(TypeError):
            name = np.dtype(dtype).name
    if name not in DTYPES:
        raise OperandError(f"dtype {name} is not supported; one of {', '.join(DTYPES)}")
    return name


def _like(values: np.ndarray, example: Any) -> Any:
    """`values` as the kind of array that `example` is; OperandError where that kind cannot hold their dtype."""
    if isinstance(example, (np.ndarray, np.generic, list, tuple, int, float)):
        return values
    try:
        converted = _convert(values, example)
        held = _dtype_name(converted.dtype)
    except Exception as error:  # Libraries raise whatever they like for a dtype that they lack.
        raise OperandError(_say_not_held(values, example, _first_line(error))) from None
    if held != values.dtype.name:
        raise OperandError(_say_not_held(values, example, f"it would come back as {held}"))
    return converted


def _convert(values: np.ndarray, example: Any) -> Any:
    library = type(example).__module__.partition(".")[0]
    if library == "tensorflow":
        return sys.modules[library].convert_to_tensor(values)
    if array_api_compat.is_torch_array(example):
        torch = sys.modules["torch"]
        known = values
        if values.dtype.name not in _NUMPYS_OWN:
            known = values.view(np.uint8 if values.dtype.itemsize == 1 else np.int16)
        return torch.from_numpy(known).view(getattr(torch, values.dtype.name)).to(example.device)
    try:
        namespace = array_api_compat.array_namespace(example)
    except TypeError:
        # It says only how it becomes a NumPy array.
        return values
    return namespace.asarray(values)


def _say_not_held(values: np.ndarray, example: Any, why: str) -> str:
    x64 = 'switch it on with jax.config.update("jax_enable_x64", True), or '
    advice = x64 if array_api_compat.is_jax_array(example) and values.dtype == np.float64 else ""
    kind = f"{type(example).__module__.partition('.')[0]}'s {type(example).__name__}"
    return f"{kind} cannot hold a {values.dtype.name} result here ({why}); {advice}pass NumPy arrays to get it"


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
