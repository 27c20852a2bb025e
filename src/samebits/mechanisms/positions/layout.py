"""Hypotheses that take elements for others: operands or results read in another layout, groups and channels in
another sequence.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from samebits.findings.causes import CauseCode
from samebits.mechanisms.facts.observation import Floats, Hypothesis, Observation, Sample
from samebits.problems import Problem
from samebits.problems.problem import SPATIAL_AXES
from samebits.problems.terms import find_terms

Change = Callable[[np.ndarray], np.ndarray]
_MOST_COMPARED = 100_000
_TILES = (2, 4, 8, 16)
# Multiples that rows begin at, in elements.
_ALIGNED = (4, 8, 16, 32, 64)
# An index of 15 bits and a sign, or of 16; longer ones meet no array that is recorded.
_INDEX_BITS = (15, 16, 24)


def list_layout_hypotheses(problem: Problem) -> Iterator[Hypothesis]:
    """Misread operands first, then misplaced results."""
    seen: set[bytes] = set()
    for name, shape in problem.operand_shapes.items():
        if name == "bias":
            continue
        for says, cause, change in itertools.chain(
            _list_changes(problem, name, shape), _list_first_groups(problem, name)
        ):
            if _is_new(seen, name, shape, change):
                yield _misread(name, says, cause, change)
    yield from _list_dense(problem)
    for says, cause, change in _list_result_changes(problem):
        if _is_new(seen, "result", problem.out_shape, change):
            yield _misplaced(says, cause, change)


def _is_new(seen: set[bytes], name: str, shape: tuple[int, ...], change: Change) -> bool:
    """Whether a change differs from all earlier ones on an array of this shape; True for large arrays, unchecked."""
    count = math.prod(shape)
    if count > _MOST_COMPARED:
        return True
    numbers = np.arange(count, dtype=np.int64).reshape(shape)
    seen.add(name.encode() + numbers.tobytes())
    key = name.encode() + change(numbers).tobytes()
    new = key not in seen
    seen.add(key)
    return new


def _misread(name: str, says: str, cause: CauseCode, change: Change) -> Hypothesis:
    def alter(observation: Observation) -> dict[str, np.ndarray]:
        return {**observation.operands, name: np.ascontiguousarray(change(observation.operands[name]))}

    def predict(observation: Observation, sample: Sample) -> Floats:
        return observation.sum_instead(alter(observation), sample)

    return Hypothesis(cause, "wrong", says, predict, lambda observation: (observation.problem, alter(observation)))


def _misplaced(says: str, cause: CauseCode, change: Change) -> Hypothesis:
    def predict(observation: Observation, sample: Sample) -> Floats:
        return sample.pick(change(observation.truth.astype(np.float64)))

    return Hypothesis(cause, "wrong", says, predict)


def _relaid(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[Change, Change]:
    """Memory laid out with the axes in some order, read as if in the declared one; and the reverse."""

    def forth(array: np.ndarray) -> np.ndarray:
        return array.transpose(order).reshape(shape)

    def back(array: np.ndarray) -> np.ndarray:
        return array.reshape([shape[i] for i in order]).transpose(np.argsort(order))

    return forth, back


def _list_changes(problem: Problem, name: str, shape: tuple[int, ...]) -> Iterator[tuple[str, CauseCode, Change]]:
    spatial = tuple(range(2, len(shape)))
    is_weight = name == "w"
    if is_weight:
        orders = [(*spatial, 1, 0), (*spatial, 0, 1), (0, *spatial, 1), (1, 0, *spatial), (1, *spatial, 0)]
        texts = [_letters(o, "OI") for o in orders]
        causes = [CauseCode.AXIS_ORDER] * len(orders)
    else:
        orders = [(0, *spatial, 1), (1, 0, *spatial), (*spatial, 1, 0), (1, *spatial, 0)]
        texts = [_letters(o, "NC") for o in orders]
        causes = [CauseCode.STRIDED_VIEW] * len(orders)
    for order, text, cause in zip(orders, texts, causes, strict=True):
        forth, back = _relaid(shape, order)
        declared = _letters(tuple(range(len(shape))), "OI" if is_weight else "NC")
        yield f"reads the memory of {name}, laid out as {text}, as {declared}", cause, forth
        yield f"reads the memory of {name}, laid out as {declared}, as {text}", cause, back
    for i, j in itertools.combinations(range(len(shape)), 2):
        if shape[i] == shape[j] and shape[i] > 1:
            letters = _letters(tuple(range(len(shape))), "OI" if is_weight else "NC")
            yield (
                f"exchanges {letters[i]} and {letters[j]} of {name}",
                CauseCode.AXIS_ORDER,
                lambda a, i=i, j=j: a.swapaxes(i, j),
            )
    if shape[0] > 1:
        yield (
            f"uses the first of {name} for all (stride 0)",
            CauseCode.STRIDED_VIEW,
            lambda a: np.broadcast_to(a[:1], a.shape),
        )
        yield f"takes the next of {name} in place of each", CauseCode.STRIDED_VIEW, lambda a: np.roll(a, -1, axis=0)
        yield f"takes {name} in reverse", CauseCode.AXIS_ORDER, lambda a: a[::-1]
    if not is_weight and shape[1] > 1:
        yield f"takes the channels of {name} in reverse", CauseCode.AXIS_ORDER, lambda a: a[:, ::-1]
    for axes in _list_mirrors(shape, spatial) if not is_weight else ():
        says = f"takes {name} mirrored along {_say_axes(axes)}"
        yield says, CauseCode.AXIS_ORDER, lambda a, axes=axes: np.flip(a, axes)
    for pitch in _list_pitches(problem, shape) if not is_weight else ():
        says = f"reads the rows of {name} {pitch} elements apart, where {shape[-1]} are"
        yield says, CauseCode.STRIDED_VIEW, lambda a, pitch=pitch: _read_apart(a, pitch)
    for size in _list_wraps(shape):
        says = (
            f"reads {name} from its beginning again after every {size:,} elements, as an index that wraps around does"
        )
        yield (
            says,
            CauseCode.INDEX_OVERFLOW,
            lambda a, size=size: a.reshape(-1)[np.arange(a.size) % size].reshape(a.shape),
        )
    what = "the filters" if is_weight else f"the channels of {name}"
    yield from _shuffles(what, shape, problem.groups, is_weight=is_weight)


def _list_result_changes(problem: Problem) -> Iterator[tuple[str, CauseCode, Change]]:
    shape = problem.out_shape
    spatial = tuple(range(2, len(shape)))
    is_weight = problem.direction == "grad_weight"
    for i, j in itertools.combinations(range(len(shape)), 2):
        if shape[i] == shape[j] and shape[i] > 1:
            yield (
                f"exchanges axes {i} and {j} of the result",
                CauseCode.AXIS_ORDER,
                lambda a, i=i, j=j: a.swapaxes(i, j),
            )
    for order in ((0, *spatial, 1), (1, 0, *spatial), (*spatial, 1, 0)):
        forth, back = _relaid(shape, order)
        text = _letters(order, "OI" if is_weight else "NC")
        cause = CauseCode.AXIS_ORDER if is_weight else CauseCode.STRIDED_VIEW
        yield f"returns the result laid out as {text}", cause, forth
        yield f"returns the result as if its memory were {text}", cause, back
    what = "the filters of the result" if is_weight else "the channels of the result"
    yield from _shuffles(what, shape, problem.groups, is_weight=is_weight)
    yield from _list_moved_results(problem, is_weight=is_weight)
    for axis, size in enumerate(shape):
        if size > 1:
            for by in (1, -1):
                says = f"returns the result shifted by {by} along axis {axis}"
                yield says, CauseCode.SHAPE_SPECIFIC_KERNEL, lambda a, axis=axis, by=by: np.roll(a, by, axis=axis)


def _list_moved_results(problem: Problem, *, is_weight: bool) -> Iterator[tuple[str, CauseCode, Change]]:
    """Mirrored, turned, exchanged within tiles or in phases, written by an index that wraps around."""
    shape = problem.out_shape
    for axes in _list_mirrors(shape, tuple(range(len(shape)))):
        says = f"returns the result mirrored along {_say_axes(axes)}"
        yield says, CauseCode.AXIS_ORDER, lambda a, axes=axes: np.flip(a, axes)
    height, width = shape[len(shape) - 2], shape[len(shape) - 1]
    if len(shape) > 3 and height == width > 1:
        for turns, way in ((1, "against the clock"), (3, "with the clock")):
            says = f"returns the result turned by a quarter {way}"
            yield says, CauseCode.AXIS_ORDER, lambda a, turns=turns: np.rot90(a, turns, (-2, -1))
    if dilated := _find_dilated(problem):
        along = " and ".join(SPATIAL_AXES[problem.rank][i] for i in dilated)
        says = f"returns the phases of its dilation along {along} one after the other, not interleaved"
        yield says, CauseCode.AXIS_ORDER, lambda a: _take_phases(a, problem, dilated)
    for tile in _TILES if len(shape) > 3 and not is_weight else ():
        if not width % tile and not height % tile and height * width > tile * tile:
            says = f"returns the result with rows and columns exchanged in each tile of {tile} x {tile}"
            yield says, CauseCode.AXIS_ORDER, lambda a, tile=tile: _transpose_tiles(a, tile)
    for size in _list_wraps(shape):
        says = (
            f"writes its result from the beginning again after every {size:,} elements, as an index that wraps around"
        )
        yield says, CauseCode.INDEX_OVERFLOW, lambda a, size=size: _wrap_writes(a, size)


def _list_mirrors(shape: tuple[int, ...], axes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Each axis by itself, then all spatial ones."""
    yield from ((axis,) for axis in axes if shape[axis] > 1)
    spatial = tuple(axis for axis in range(2, len(shape)) if shape[axis] > 1)
    if len(spatial) > 1:
        yield spatial


def _say_axes(axes: tuple[int, ...]) -> str:
    return f"ax{'e' if len(axes) > 1 else 'i'}s {' and '.join(map(str, axes))}"


def _list_wraps(shape: tuple[int, ...]) -> Iterator[int]:
    """What an index of so many bits can count, where an array has more elements."""
    yield from (2**bits for bits in _INDEX_BITS if 2**bits < math.prod(shape))


def _list_first_groups(problem: Problem, name: str) -> Iterator[tuple[str, CauseCode, Change]]:
    """The first group's channels read in every group, as where the number of groups is lost."""
    if problem.groups > 1 and name != "w":
        says = f"reads the first group's channels of {name} in every group"
        yield says, CauseCode.DROPPED_ATTRIBUTE, lambda a: _repeat_first_group(a, problem.groups)


def _list_dense(problem: Problem) -> Iterator[Hypothesis]:
    """All input channels multiplied in every group, as where a kernel knows no groups.

    The weights it asks for are more than there are: it reads them from flat memory and on past the end, where zeros
    lie, or from the beginning again; or takes each filter's channels for those of all groups.
    """
    if problem.groups == 1 or problem.is_transposed or problem.direction != "forward":
        return
    (filters, own), taps = problem.w[:2], problem.w[2:]
    dense = replace(problem, w=(filters, own * problem.groups, *taps), groups=1)
    size = math.prod(dense.w)
    says = "multiplies the channels of all groups in every group, "
    ways: tuple[tuple[str, Change], ...] = (
        (
            "with the memory of w as if it held as many weights, zeros behind it",
            lambda a: np.concatenate([a.reshape(-1), np.zeros(size - a.size, a.dtype)]).reshape(dense.w),
        ),
        (
            "with the memory of w read from its beginning again and again",
            lambda a: np.resize(a.reshape(-1), size).reshape(dense.w),
        ),
        ("each with the filter of its own group", lambda a: np.concatenate([a] * problem.groups, axis=1)),
    )
    for text, change in ways:
        yield _read_densely(dense, f"{says}{text}", change)


def _read_densely(dense: Problem, says: str, change: Change) -> Hypothesis:
    def alter(observation: Observation) -> dict[str, np.ndarray]:
        return {**observation.operands, "w": change(observation.operands["w"])}

    def predict(observation: Observation, sample: Sample) -> Floats:
        return observation.sum_instead(alter(observation), sample, find_terms(dense))

    return Hypothesis(
        CauseCode.DROPPED_ATTRIBUTE, "wrong", says, predict, lambda observation: (dense, alter(observation))
    )


def _repeat_first_group(array: np.ndarray, groups: int) -> np.ndarray:
    own = array[:, : array.shape[1] // groups]
    return np.concatenate([own] * groups, axis=1)


def _list_pitches(problem: Problem, shape: tuple[int, ...]) -> list[int]:
    """Rows as long as vectors, cache lines or padded rows make them, or one element more or less."""
    if len(shape) < 4 or shape[-2] == 1 or problem.stated is not None:
        return []
    width = shape[-1]
    axis = problem.axes[-1]
    padded = {width + axis.pad_begin, width + axis.pad_begin + axis.pad_end}
    aligned = {-(-width // size) * size for size in _ALIGNED}
    return sorted((padded | aligned | {width - 1, width + 1}) - {width, 0})


def _read_apart(array: np.ndarray, pitch: int) -> np.ndarray:
    """Reads planes from their beginnings with rows `pitch` apart, wrapping around after the array's last element."""
    planes = np.arange(array.size, step=array.shape[-1] * array.shape[-2])
    at = planes[:, None, None] + np.arange(array.shape[-2])[:, None] * pitch + np.arange(array.shape[-1])
    return array.reshape(-1)[at % array.size].reshape(array.shape)


def _wrap_writes(array: np.ndarray, size: int) -> np.ndarray:
    """Writes with an index that wraps at `size`: each place keeps its last value, places beyond stay zero."""
    flat, written = array.reshape(-1), np.zeros(array.size, array.dtype)
    last = (len(flat) - 1 - np.arange(size)) // size * size + np.arange(size)
    written[:size] = flat[last]
    return written.reshape(array.shape)


def _find_dilated(problem: Problem) -> tuple[int, ...]:
    """The axes that are dilated in a convolution whose places a batch could hold by phase."""
    if problem.direction != "forward" or problem.stated is not None:
        return ()
    return tuple(i for i, d in enumerate(problem.dilation) if 1 < d < problem.out_shape[2 + i])


def _take_phases(array: np.ndarray, problem: Problem, axes: tuple[int, ...]) -> np.ndarray:
    """Along each axis the places of the first phase, then those of the second, and so on."""
    for i in axes:
        order = np.concatenate(
            [np.arange(phase, array.shape[2 + i], problem.dilation[i]) for phase in range(problem.dilation[i])]
        )
        array = np.take(array, order, axis=2 + i)
    return array


def _transpose_tiles(array: np.ndarray, tile: int) -> np.ndarray:
    *outer, height, width = array.shape
    tiles = array.reshape(*outer, height // tile, tile, width // tile, tile)
    return tiles.swapaxes(-1, -3).reshape(array.shape)


def _shuffles(
    what: str, shape: tuple[int, ...], groups: int, *, is_weight: bool
) -> Iterator[tuple[str, CauseCode, Change]]:
    """Channels numbered within groups first, or groups first; groups in reverse.

    The channels of all groups stand along axis 1 of activations and their gradients, but along axis 0 of weights and
    theirs, whose axis 1 numbers the channels of one group.
    """
    axis = 0 if is_weight else 1
    if not 1 < groups < shape[axis]:
        return
    order = np.arange(shape[axis]).reshape(groups, -1)
    for text, sequence in (
        (f"interleaves {what} of the groups", order.T.reshape(-1)),
        (f"separates {what} as if groups were interleaved", np.argsort(order.T.reshape(-1))),
        (f"takes {what} with the groups in reverse", order[::-1].reshape(-1)),
    ):
        yield text, CauseCode.AXIS_ORDER, lambda a, s=sequence: np.take(a, s, axis=axis)


def _letters(order: tuple[int, ...], first_two: str) -> str:
    names = first_two + {3: "W", 4: "HW", 5: "DHW"}[len(order)]
    return "".join(names[i] for i in order)
