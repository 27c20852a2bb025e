"""Where results differ, in words: at the borders, in one group, in a tail, everywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from samebits.engines.registry.known_engines import match_given_engine
from samebits.findings import Side
from samebits.findings.model_schema import ModelSide
from samebits.problems import Problem
from samebits.problems.any_problem import AnyProblem
from samebits.problems.attention import Attention
from samebits.problems.lowering import lower_problem
from samebits.problems.windows import mark_border, name_axes

# Beyond this share the few outputs that do not differ are no pattern.
_NEARLY_ALL = 0.98
_MOST_NAMED, _FEWEST_IN_EACH = 4, 4
_LEAST_TRIANGLE = 4
_PRODUCT_AXES = {"m": "row", "n": "column"}
_ATTENTION_AXES = ("item", "head", "query", "feature")


def describe_places(problem: AnyProblem, differing: npt.NDArray[np.bool_]) -> str | None:
    """One phrase for the set of differing outputs (a mask of `problem.out_shape`), or None where there are none."""
    if not isinstance(problem, Problem):
        return _describe_axes(differing, _ATTENTION_AXES if isinstance(problem, Attention) else _name_axes(problem.x))
    if problem.stated:
        differing = lower_problem(problem.stated).restore_result(differing)
        problem = problem.stated
    count = int(differing.sum())
    if count == 0:
        return None
    if count == differing.size:
        return "everywhere"
    is_product = problem.product is not None
    border, group = (None, None) if is_product else (_at_borders(problem, differing), _in_group(problem, differing))
    # Borders say where along the spatial axes, a group where along its own.
    said = {_group_axis(problem)} if group else set[int]()
    if border:
        said |= set(range(2, differing.ndim))
    if is_product and (triangle := find_triangle(differing)):
        return f"only {triangle[1]}"
    names = (_PRODUCT_AXES.get(name, name) for name in name_axes(problem)) if is_product else name_axes(problem)
    axes = [_along(name, differing, i) for i, name in enumerate(names) if i not in said]
    phrases = [p for p in (border, group, *axes) if p]
    if not phrases:
        share = count / differing.size
        return "nearly everywhere" if share > _NEARLY_ALL else f"scattered over {share:.1%} of the outputs"
    return "only in " + ", ".join(phrases)


def _name_axes(shape: tuple[int, ...]) -> tuple[str, ...]:
    """What the axes of a row function's result are called."""
    return ("row", "column")[2 - len(shape) :] if len(shape) < 3 else tuple(f"axis {i}" for i in range(len(shape)))


def _describe_axes(differing: npt.NDArray[np.bool_], names: Sequence[str]) -> str | None:
    """The same of a result whose axes have these names."""
    if not differing.any():
        return None
    if differing.all():
        return "everywhere"
    phrases = [_along(name, differing, axis) for axis, name in enumerate(names)]
    if any(phrases):
        return "only in " + ", ".join(p for p in phrases if p)
    share = float(differing.mean())
    return "nearly everywhere" if share > _NEARLY_ALL else f"scattered over {share:.1%} of the outputs"


def describe_indices(differing: npt.NDArray[np.bool_]) -> str | None:
    """The same of a result whose axes have no names: "axis 1 = 8"; None where nothing restricts them."""
    if triangle := find_triangle(differing):
        return f"only {triangle[1]}"
    phrases = [_along(f"axis {i}", differing, i) for i in range(differing.ndim)]
    return "only in " + ", ".join(p for p in phrases if p) if any(phrases) else None


def find_triangle(differing: npt.NDArray[np.bool_]) -> tuple[npt.NDArray[np.bool_], str] | None:
    """The side of a matrix's diagonal that all differing outputs lie on, as a mask and in words; None where none does.

    The last two axes are rows and columns. Every row and every column of the triangle has one, so that a few outputs
    that happen to lie there, or a block in the corner, are none.
    """
    if differing.ndim < 2 or min(differing.shape[-2:]) < _LEAST_TRIANGLE:
        return None
    rows, columns = (int(size) for size in differing.shape[-2:])
    below = np.arange(rows)[:, None] - np.arange(columns)[None, :]
    seen = differing.reshape(-1, rows, columns).any(axis=0)
    for sign, where in ((1, "below"), (-1, "above")):
        for least, side in ((1, where), (0, f"on and {where}")):
            triangle = sign * below >= least
            if (seen & ~triangle).any():
                continue
            if np.array_equal(seen.any(axis=0), triangle.any(axis=0)) and np.array_equal(
                seen.any(axis=-1), triangle.any(axis=-1)
            ):
                return np.broadcast_to(triangle, differing.shape), f"{side} the diagonal"
    return None


def _at_borders(problem: Problem, differing: npt.NDArray[np.bool_]) -> str | None:
    border = mark_border(problem)
    spatial = np.any(differing, axis=(0, 1), keepdims=True)[0, 0]
    if border.all() or not border.any() or spatial[~border].any():
        return None
    return "borders, where the window reaches outside"


def _in_group(problem: Problem, differing: npt.NDArray[np.bool_]) -> str | None:
    if problem.groups == 1:
        return None
    axis = _group_axis(problem)
    others = tuple(i for i in range(differing.ndim) if i != axis)
    channels = np.flatnonzero(differing.any(axis=others))
    size = differing.shape[axis] // problem.groups
    groups = np.unique(channels // size)
    if size == 1 or len(groups) == problem.groups or len(groups) != 1:
        return None
    return f"group {groups[0]} of {problem.groups} (channels {groups[0] * size}..{(groups[0] + 1) * size - 1})"


def _group_axis(problem: Problem) -> int:
    """The axis of the result that groups divide."""
    return 0 if problem.direction == "grad_weight" else 1


def _along(name: str, differing: npt.NDArray[np.bool_], axis: int) -> str | None:
    """How the differing indices of one axis are restricted, or None if all of them occur."""
    others = tuple(i for i in range(differing.ndim) if i != axis)
    present = np.flatnonzero(differing.any(axis=others))
    size = differing.shape[axis]
    if len(present) == size or size == 1:
        return None
    first, last = int(present[0]), int(present[-1])
    if len(present) == 1:
        # Symbols equal numbers, words are followed by them.
        return f"{name} {first}" if name in (*_PRODUCT_AXES.values(), *_ATTENTION_AXES) else f"{name} = {first}"
    if len(present) == last - first + 1:
        if last == size - 1:
            return f"{name} from {first} on (the tail)"
        return f"{name} up to {last}" if first == 0 else f"{name} {first}..{last}"
    steps = np.diff(present)
    if len(present) > 2 and (steps == steps[0]).all():
        return f"{name} {first}..{last}, every {int(steps[0])}"
    # A few by name, where each holds more than a stray output or two.
    if len(present) <= _MOST_NAMED and int(differing.sum(axis=others)[present].min()) >= _FEWEST_IN_EACH:
        return f"{name} {list_in_words(present)}"
    return None


def list_in_words(numbers: npt.NDArray[np.intp], most: int = 3) -> str:
    """Indices in words: "3", "0 and 5", "8 to 15", "0, 3, 7 and 12 more"."""
    values = [int(n) for n in numbers]
    if len(values) > 2 and values[-1] - values[0] + 1 == len(values):
        return f"{values[0]} to {values[-1]}"
    if len(values) > most + 1:
        return f"{', '.join(map(str, values[:most]))} and {len(values) - most} more"
    if len(values) < 2:
        return "".join(map(str, values))
    return f"{', '.join(map(str, values[:-1]))} and {values[-1]}"


EMULATE = "emulate"


def _find_base(name: str) -> str:
    """What an engine's text begins with; of a file's class or function its own name."""
    given = match_given_engine(name)
    return given[0].rpartition(":")[2] if given else name.partition(":")[0]


def shorten_names(sides: Sequence[Side | ModelSide]) -> dict[str, str]:
    """A name for each side's name: the engine's where no other side has the same; emulators are numbered.

    Releases of one engine have their versions as names: "onnxruntime 1.18.1". A recipe is too long for a sentence; it
    stands in full in the finding. Recorded results keep their names.
    """
    bases = [_find_base(s.name) for s in sides]
    released = [f"{base} {s.version}" for s, base in zip(sides, bases, strict=True)]
    names: dict[str, str] = {}
    for number, (side, base) in enumerate(zip(sides, bases, strict=True)):
        alone = bases.count(base) == 1
        if side.engine and alone and not _names_release(side.name):
            names[side.name] = base
        elif base == EMULATE:
            names[side.name] = f"{base} {bases[: number + 1].count(base)}"
        elif side.engine and side.version and released.count(released[number]) == 1:
            names[side.name] = released[number]
        else:
            names[side.name] = side.name
    return names


_RELEASE = "version="


def _names_release(name: str) -> bool:
    return any(part.startswith(_RELEASE) for part in name.partition(":")[2].split(","))


def name_engine(side: Side | ModelSide, name: str) -> str:
    """A side's engine with its version for a table, each setting in a line of its own; `name` is without a file."""
    base, _, settings = name.partition(":")
    version = f" {side.version}" if side.version and base != "truth" else ""
    parts = [part for part in settings.split(",") if part and not (side.version and part.startswith(_RELEASE))]
    return "\n".join([f"{base}{version}", *(f"  {part}" for part in parts)])
