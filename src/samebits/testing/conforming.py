"""A kernel checked for everything that it promises: one test per property and problem."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from samebits.errors import SamebitsError
from samebits.numbers.float_environment import default_float_environment
from samebits.numbers.ulps import has_same_bits
from samebits.problems import Problem, format_problem
from samebits.problems.languages.any_language import read_problem
from samebits.problems.operands import make_exact, make_normal, make_uniform
from samebits.sums.recipes import parse_recipe
from samebits.sums.truth import compute_truth
from samebits.sums.truth.functional import read_array
from samebits.testing.assertions import assert_conv_close, describe_failure

# exact: small integers, where nothing rounds; bounds: data of three kinds; special: NaN and infinities reach what they
# should; repeat: the same bits again; batch: an item's bits do not depend on its company; recipe: the declared one.
PROPERTIES = ("exact", "bounds", "special", "repeat", "batch", "recipe")
_REPEATS = 4
# A failing test of pytest's shows no line of these functions.
__tracebackhide__ = True

Kernel = Callable[[Problem, Mapping[str, np.ndarray]], Any]


@dataclass(frozen=True)
class Promise:
    """What a kernel is held to."""

    accumulator: str | None = None
    recipe: str | None = None
    seed: int = 0


def conformance(
    kernel: Kernel | Any,
    problems: Sequence[Problem | str],
    *,
    accumulator: str | None = None,
    recipe: str | None = None,
    batch_invariant: bool = False,
    exact: bool = True,
    seed: int = 0,
) -> Callable[[str, str], None]:
    """A parametrised test of a kernel, for pytest to collect: assign it to a name that begins with `test_`.

    `kernel(problem, operands)` returns an array of any library of the problem's shape and dtype; operands are NumPy
    arrays by name (x, w, bias, dy), read-only. An object with such a `run` is a kernel as well. It is held to the bound
    of sums in `accumulator` (default: the declared format), to a `recipe` bit for bit if one is given, to the same bits
    for an item alone with `batch_invariant`, and to exact integers unless `exact` is False, as for transforms, which
    round there. Raises SamebitsError for a text that is no problem or recipe.

    >>> def kernel(problem, operands):
    ...     return operands["x"] @ operands["w"]
    >>> test_kernel = conformance(kernel, ["matmul x=3x8 w=8x4"])
    """
    import pytest

    texts = [format_problem(p if isinstance(p, Problem) else read_problem(p)) for p in problems]
    if recipe is not None:
        parse_recipe(recipe)
    left_out = {
        *(() if exact else ("exact",)), *(() if recipe else ("recipe",)), *(() if batch_invariant else ("batch",)),
    }  # fmt: skip
    chosen = [p for p in PROPERTIES if p not in left_out]
    promise = Promise(accumulator, recipe, seed)

    @pytest.mark.parametrize("promised", chosen)
    @pytest.mark.parametrize("problem", texts)
    def test(problem: str, promised: str) -> None:
        check_property(kernel, problem, promised, promise)

    return test


def check_property(kernel: Kernel | Any, problem: Problem | str, promised: str, promise: Promise | None = None) -> None:
    """Asserts one of PROPERTIES of a kernel on a problem; the message of a failure is a verdict with its cause.

    >>> check_property(lambda problem, operands: operands["x"] @ operands["w"], "matmul x=3x8 w=8x4", "exact")
    """
    promise = promise or Promise()
    stated = read_problem(problem) if isinstance(problem, str) else problem
    call: Kernel = getattr(kernel, "run", kernel)
    checks = {
        "exact": _check_exact,
        "bounds": _check_bounds,
        "special": _check_special,
        "repeat": _check_repeat,
        "batch": _check_batch,
        "recipe": _check_recipe,
    }
    if promised not in checks:
        raise SamebitsError(f"properties are {', '.join(PROPERTIES)}, not {promised[:40]!r}")
    # Not as a decorator, whose frame a failing test would show.
    with default_float_environment():
        checks[promised](call, stated, promise)


def _run(call: Kernel, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
    """The kernel's result on operands that it cannot change, in memory of its own."""
    given: dict[str, np.ndarray] = {}
    for name, array in operands.items():
        given[name] = array.copy()
        given[name].setflags(write=False)
    return np.array(read_array(call(problem, given), "kernel"), subok=False)


def _check_exact(call: Kernel, problem: Problem, promise: Promise) -> None:
    operands = make_exact(problem, promise.seed)
    result, truth = _run(call, problem, operands), compute_truth(problem, operands).values
    assert_conv_close(result, problem, operands, accumulator="float64", name="kernel")
    # Zeros of either sign are right.
    if not np.array_equal(result.astype(np.float64), truth.astype(np.float64)):
        complaint = "differs on exact integers, where no order of addition rounds"
        raise AssertionError(describe_failure(problem, operands, result, "kernel", complaint))


def _check_bounds(call: Kernel, problem: Problem, promise: Promise) -> None:
    for operands in _list_data(problem, promise.seed):
        result = _run(call, problem, operands)
        assert_conv_close(result, problem, operands, accumulator=promise.accumulator, name="kernel")


def _list_data(problem: Problem, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """Normal data; data of one sign, whose sums grow; and activations behind a relu."""
    normal = make_normal(problem, seed)
    yield normal
    yield make_uniform(problem, seed)
    yield {name: np.maximum(a, np.zeros(1, a.dtype)) if name == "x" else a for name, a in normal.items()}


def _check_special(call: Kernel, problem: Problem, promise: Promise) -> None:
    for operands in _list_special(problem, promise.seed):
        result = _run(call, problem, operands)
        assert_conv_close(result, problem, operands, accumulator=promise.accumulator, name="kernel")


def _list_special(problem: Problem, seed: int) -> Iterator[dict[str, np.ndarray]]:
    """One value of x (of dy in gradients) is NaN or infinite; all others are as they were.

    Infinite weights are not asked about: kernels may multiply them by the zeros of padding, or leave padding out.
    """
    rng = np.random.default_rng(seed)
    for value in (np.nan, np.inf, -np.inf):
        operands = make_normal(problem, seed)
        array = operands["dy" if "dy" in operands else "x"]
        array.reshape(-1)[int(rng.integers(array.size))] = value
        yield operands


def _check_repeat(call: Kernel, problem: Problem, promise: Promise) -> None:
    operands = make_normal(problem, promise.seed)
    first = _run(call, problem, operands)
    for _ in range(_REPEATS - 1):
        again = _run(call, problem, operands)
        if not has_same_bits(first, again):
            count = int((first != again).sum())
            complaint = f"{count:,} of {first.size:,} outputs have other bits in another run on the same operands"
            raise AssertionError(describe_failure(problem, operands, again, "kernel", complaint))


def _check_batch(call: Kernel, problem: Problem, promise: Promise) -> None:
    if problem.direction != "forward" or problem.x[0] < 2:
        import pytest

        pytest.skip("only forward problems with more than one item have company")
    operands = make_normal(problem, promise.seed)
    whole = _run(call, problem, operands)
    alone = replace(problem, x=(1, *problem.x[1:]))
    for item in range(problem.x[0]):
        own = {name: a[item : item + 1] if name == "x" else a for name, a in operands.items()}
        result = _run(call, alone, own)
        if not has_same_bits(result, whole[item : item + 1]):
            complaint = f"item {item} has other bits alone than among {problem.x[0]}"
            raise AssertionError(describe_failure(alone, own, result, "kernel", complaint))


def _check_recipe(call: Kernel, problem: Problem, promise: Promise) -> None:
    operands = make_normal(problem, promise.seed)
    assert_conv_close(_run(call, problem, operands), problem, operands, recipe=promise.recipe, name="kernel")
