"""A case made of arrays that a person gives by name, and the problems that their shapes allow."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from samebits.errors import CaseFileError, OperandError, SamebitsError
from samebits.numbers.format import numpy_dtype
from samebits.problems.array_files import Given
from samebits.problems.case_file import OPERANDS, Case
from samebits.problems.operands import refuse_mask
from samebits.problems.printed_numbers import PrintedNumbers
from samebits.problems.problem import DTYPES, SPATIAL_AXES, Problem, Shape
from samebits.problems.problem_text import format_problem

_MOST_STRIDE, _MOST_DILATION, _MOST_OFFERED = 4, 3, 5
_NARROWEST_FIRST = tuple(reversed(DTYPES))


def make_case(problem: Problem, given: Mapping[str, Given]) -> Case:
    """The case of these arrays: the problem's operands by their names, whatever else is given as results.

    An array of another dtype is taken where it holds numbers of the problem's dtype only. Raises OperandError and
    CaseFileError for arrays that are missing, or do not fit.
    """
    _check_dtype(problem, given)
    operands: dict[str, np.ndarray] = {}
    results: dict[str, np.ndarray] = {}
    for name, array in given.items():
        if name in problem.operand_shapes:
            shapes = _find_shape(array), problem.operand_shapes[name]
            if shapes[0] != shapes[1]:
                reads = f"{format_problem(problem)!r} reads {_join(shapes[1])}"
                raise OperandError(f"{name} has the shape {_join(shapes[0])}, and {reads}")
            operands[name] = _fit(f"operand {name}", array, problem.dtype)
        elif name in OPERANDS:
            reads = ", ".join(problem.operand_shapes)
            raise OperandError(f"{name} is given, and {format_problem(problem)!r} reads {reads}")
        else:
            results[name] = _fit(f"result {name!r}", array, problem.out)
    return Case(problem, operands, results)


def _check_dtype(problem: Problem, given: Mapping[str, Given]) -> None:
    """Raises OperandError where operands are of a narrower dtype than the problem says: more than that is meant."""
    dtypes = {array.dtype.name for n, array in given.items() if n in OPERANDS and isinstance(array, np.ndarray)}
    if len(dtypes) == 1 and (dtype := dtypes.pop()) in DTYPES and DTYPES.index(dtype) > DTYPES.index(problem.dtype):
        out = dtype if problem.out == problem.dtype else problem.out
        meant = format_problem(replace(problem, dtype=dtype, out=out))
        raise OperandError(f"the operands are {dtype} and the problem says {problem.dtype}; did you mean {meant!r}?")


def _fit(name: str, array: Given, dtype: str) -> np.ndarray:
    if isinstance(array, PrintedNumbers):
        return array.round_to(name, dtype)
    refuse_mask(array, name)
    target = numpy_dtype(dtype)
    if array.dtype == target:
        return array
    if array.dtype.kind not in "fiub" and array.dtype.name not in DTYPES:
        raise OperandError(f"{name} has dtype {array.dtype}, and {dtype} is needed")
    with np.errstate(over="ignore", invalid="ignore"):
        fitted = array.astype(target)
        same = np.array_equal(fitted.astype(array.dtype), array, equal_nan=array.dtype.kind not in "iub")
    if not same:
        raise OperandError(f"{name} is {array.dtype} with numbers that {dtype} has not: round it, or change dtype=")
    return fitted


def offer_problems(given: Mapping[str, Given]) -> list[str]:
    """The problems whose operands and results have these shapes, as texts: the plainest first, and not many.

    Raises CaseFileError where x and w are not both given, or where no problem fits.
    """
    shapes = {name: _find_shape(array) for name, array in given.items()}
    results = {shape for name, shape in shapes.items() if name not in OPERANDS}
    if len(results) > 1:
        raise CaseFileError("the results have several shapes: " + ", ".join(sorted(map(_join, results))))
    operands = {name for name in OPERANDS if name in shapes}
    fitting = (
        problem
        for problem in _list_problems(shapes, results)
        if set(problem.operand_shapes) == operands
        and all(problem.operand_shapes[name] == shapes[name] for name in operands)
        and results <= {problem.out_shape}
    )
    dtype = _guess_dtype(given)
    offered = dict.fromkeys(format_problem(replace(p, dtype=dtype, out=dtype)) for p in fitting)
    if not offered:
        named = ", ".join(f"{name}={_join(shape)}" for name, shape in shapes.items())
        raise CaseFileError(f"no convolution or product has these shapes: {named}")
    return list(itertools.islice(offered, _MOST_OFFERED))


def _find_shape(array: Given) -> Shape:
    return array.values.shape if isinstance(array, PrintedNumbers) else array.shape


def _guess_dtype(given: Mapping[str, Given]) -> str:
    """The dtype of the operands; float32 where they do not say."""
    names = [a.dtype.name for n, a in given.items() if n in OPERANDS and isinstance(a, np.ndarray)]
    return next((n for n in _NARROWEST_FIRST if n in names), "float32")


def _list_problems(shapes: Mapping[str, Shape], results: Iterable[Shape]) -> Iterator[Problem]:
    """Problems that could have such operands, tried by making them: products, then convolutions.

    Of a gradient the result is shaped as the operand that is not read.
    """
    missing = next((name for name in ("x", "w") if name not in shapes), "")
    known = {**shapes, **(dict.fromkeys([missing], *results) if missing and "dy" in shapes and results else {})}
    x, w = known.get("x"), known.get("w")
    if x is None or w is None:
        raise CaseFileError(f"{missing} is needed to say which problem it is; or name the problem (--problem TEXT)")
    direction = {"": "forward", "x": "grad_input", "w": "grad_weight"}[missing]
    shared = {"x": x, "w": w, "direction": direction, "bias": "bias" in shapes}
    for kind in ("linear", "matmul"):
        yield from _try({**shared, "kind": kind})
    rank = len(w) - 2
    if rank not in SPATIAL_AXES or len(x) != rank + 2:
        return
    for turned in ("conv", "conv_transpose"):
        groups = x[1] // w[1] if turned == "conv" and w[1] and x[1] % w[1] == 0 else 1
        for dilation, stride, pad in itertools.product(
            range(1, _MOST_DILATION + 1), range(1, _MOST_STRIDE + 1), range(max(w[2:], default=0) + 1)
        ):
            window = {"stride": (stride,) * rank, "dilation": (dilation,) * rank, "padding": ((pad, pad),) * rank}
            yield from _try({**shared, **window, "kind": f"{turned}{rank}d", "groups": groups})


def _try(given: Mapping[str, object]) -> Iterator[Problem]:
    try:
        yield Problem(**given)  # type: ignore[arg-type]
    except SamebitsError:
        return


def _join(shape: Shape) -> str:
    return "x".join(map(str, shape)) or "one number"
