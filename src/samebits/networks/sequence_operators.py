"""Lists of tensors, and values that may be absent: written out where the file itself says what such a list holds.

Exporters write them for code that splits a tensor and takes parts of it. Which element is taken then stands in the
file, so that a list is a row of names and nothing is left to compute but slices and joins.
"""

from __future__ import annotations

import numpy as np

from samebits.networks.operator_writer import OperatorWriter, Write

# A split of more parts is left as it is: a few bytes may ask for any number.
_MOST_PARTS = 1024


def _read_place(w: OperatorWriter, place: int, count: int, default: int) -> int:
    """A place in a list of `count`, as an input has it, from the end if below 0; the default where that is left out."""
    if not w.take(place):
        return default
    found = int(w.find_constant(w.take(place)).reshape(-1)[0])
    return found + count if found < 0 else found


def _construct(w: OperatorWriter) -> None:
    w.make_list([] if w.node.op_type == "SequenceEmpty" else list(w.node.input))


def _insert(w: OperatorWriter) -> None:
    parts = list(w.find_list(w.take(0)))
    place = _read_place(w, 2, len(parts), len(parts))
    w.refuse_unless(0 <= place <= len(parts))
    parts.insert(place, w.take(1))
    w.make_list(parts)


def _erase(w: OperatorWriter) -> None:
    parts = list(w.find_list(w.take(0)))
    place = _read_place(w, 1, len(parts), len(parts) - 1)
    w.refuse_unless(0 <= place < len(parts))
    del parts[place]
    w.make_list(parts)


def _take_at(w: OperatorWriter) -> None:
    parts = w.find_list(w.take(0))
    place = _read_place(w, 1, len(parts), 0)
    w.refuse_unless(0 <= place < len(parts))
    w.end(parts[place])


def _count(w: OperatorWriter) -> None:
    w.end(w.keep(len(w.find_list(w.take(0)))))


def _join(w: OperatorWriter) -> None:
    parts, axis = w.find_list(w.take(0)), int(w.given["axis"])
    w.refuse_unless(bool(parts))
    if w.given.get("new_axis"):
        parts = [w.add_axis(part, axis) for part in parts]
    w.add("Concat", *parts, axis=axis, makes=w.node.output[0])


def _split(w: OperatorWriter) -> None:
    x, axis = w.take(0), int(w.given.get("axis", 0))
    size = w.find_size(x, axis)
    given = w.find_constant(w.take(1)) if w.take(1) else np.array(1)
    if given.ndim:
        sizes = given
    else:
        each = int(given)
        w.refuse_unless(each > 0 and -(-size // each) <= _MOST_PARTS)
        sizes = np.diff([*range(0, size, each), size])
    w.refuse_unless(int(sizes.sum()) == size and len(sizes) <= _MOST_PARTS)
    ends = np.cumsum(sizes)
    parts = [w.slice(x, axis, int(end - one), int(end)) for one, end in zip(sizes, ends, strict=True)]
    if not w.take(1) and not w.given.get("keepdims", 1):
        parts = [w.drop_axis(part, axis) for part in parts]
    w.make_list(parts)


def _pass_on(w: OperatorWriter) -> None:
    """Optional, and what takes its value out again: the tensor or the list itself."""
    if w.is_list(w.take(0)):
        w.make_list(w.find_list(w.take(0)))
    else:
        w.find_dtype(w.take(0))
        w.end(w.take(0))


def _is_there(w: OperatorWriter) -> None:
    is_there = bool(w.take(0))
    if is_there and not w.is_list(w.take(0)):
        w.find_dtype(w.take(0))
    w.end(w.keep(is_there, np.bool_))


SEQUENCES: dict[str, Write] = {
    **dict.fromkeys(("SequenceConstruct", "SequenceEmpty"), _construct),
    "SequenceInsert": _insert,
    "SequenceErase": _erase,
    "SequenceAt": _take_at,
    "SequenceLength": _count,
    "ConcatFromSequence": _join,
    "SplitToSequence": _split,
    **dict.fromkeys(("Optional", "OptionalGetElement"), _pass_on),
    "OptionalHasElement": _is_there,
}
# What these make is no tensor: where everything that reads it was written out, nothing is left of them.
LIST_MAKERS = (
    "SequenceConstruct", "SequenceEmpty", "SequenceInsert", "SequenceErase", "SplitToSequence", "Optional",
    "OptionalGetElement",
)  # fmt: skip
