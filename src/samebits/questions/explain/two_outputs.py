"""Two results of anything, without operands: how they differ. Which is right cannot be told, and is not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec
import numpy as np
import numpy.typing as npt

from samebits import thresholds
from samebits.errors import CaseFileError
from samebits.findings import Certainty, Comparison, Difference, Evidence, Side, Verdict
from samebits.findings.causes import CauseCode
from samebits.findings.words.place_words import describe_indices
from samebits.judging.measuring import measure_absolute, measure_norm
from samebits.numbers.format import find_format
from samebits.numbers.ulps import count_ulps, has_same_bits
from samebits.problems.array_files import Given
from samebits.problems.printed_numbers import PrintedNumbers
from samebits.problems.problem import DTYPES
from samebits.questions.explain.output_relations import Relation, find_relation
from samebits.questions.explain.part_relations import find_part_relation
from samebits.version import VERSION

# What stands where other findings name their problem.
NO_PROBLEM = "(results without operands)"
_MOST_AXES = 5
_OPERANDS = (
    "with operands it can be told which is right: samebits explain x=FILE w=FILE {}=FILE {}=FILE names the problems"
    " that their shapes allow"
)

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Measured:
    """Two results of one shape, and how they differ element by element; `ulps` where both are of one format.

    `printed` says the unit of the last digits where a result is known by digits that do not say its bits.
    """

    names: tuple[str, str]
    first: np.ndarray
    second: np.ndarray
    differing: npt.NDArray[np.bool_]
    away: Floats
    format_name: str
    ulps: Floats | None
    printed: str = ""

    @property
    def same_bits(self) -> bool:
        return not self.printed and self.first.dtype == self.second.dtype and has_same_bits(self.first, self.second)

    @property
    def where(self) -> str | None:
        """Where some of the values differ, in words; None where all do, or they lie anyhow."""
        some = self.differing.any() and not self.differing.all()
        return describe_indices(self.differing) if some else None


def explain_two_outputs(outputs: Mapping[str, Given]) -> Comparison:
    """How two results of one shape differ: by how much, where, and whether a rule makes one of the other.

    The verdict is `identical` where all bits are the same, else `undecided`: nothing says what either should be.
    Raises CaseFileError for shapes that are not each other's in another sequence, and for anything but numbers.
    """
    units = [a.units if isinstance(a, PrintedNumbers) else np.zeros(a.shape) for a in outputs.values()]
    arrays = {name: a.values if isinstance(a, PrintedNumbers) else a for name, a in outputs.items()}
    (first_name, first), (second_name, second) = arrays.items()
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub" and array.dtype.name not in DTYPES:
            raise CaseFileError(f"{name} holds {array.dtype}, and only real numbers are compared")
    turned = _turn((first_name, second_name), first, second)
    turned_first = first if turned is None else first.transpose(turned)
    turned_units = units[0] if turned is None else units[0].transpose(turned)
    measured = _measure((first_name, second_name), turned_first, second, (turned_units, units[1]))
    if measured.same_bits and turned is None:
        return _conclude(measured, None, [f"{first.size:,} values, all bits the same"], same=True)
    facts = [] if measured.same_bits else list(_list_facts(measured))
    if turned is not None:
        order = ", ".join(map(str, turned))
        facts.insert(0, f"{first_name} is compared with its axes in the sequence {order}")
        if measured.same_bits:
            says = f"has {{other}}'s values with the axes in the sequence {order}"
            exchanged = Relation(1, says, CauseCode.AXIS_ORDER, f"all {first.size:,} bit for bit")
            return _conclude(measured, exchanged, facts)
    if measured.printed:
        return _conclude(measured, None, facts)
    a, b = (np.asarray(array, np.float64).ravel() for array in (measured.first, measured.second))
    parts = find_part_relation(measured.first, measured.second)
    return _conclude(measured, find_relation((a, b)) or parts or _find_reordered(a, b), facts)


def _measure(names: tuple[str, str], first: np.ndarray, second: np.ndarray, units: tuple[Floats, Floats]) -> _Measured:
    away = measure_absolute(first, second)
    lasts = np.unique(np.concatenate([unit[unit > 0] for unit in units]))
    if lasts.size:
        printed = f"{lasts[-1]:g}" + (f" (of small numbers {lasts[0]:g})" if lasts.size > 1 else "")
        # Each may be off by half of its last digit; both decimals, and their difference, were rounded to float64.
        with np.errstate(invalid="ignore"):
            rounded = 2.0**-52 * (np.abs(np.asarray(first, np.float64)) + np.abs(np.asarray(second, np.float64)))
        away = np.where(away <= (units[0] + units[1]) / 2 + rounded, 0.0, away)
        return _Measured(names, first, second, away > 0, away, "", None, printed)
    dtypes = {array.dtype.name for array in (first, second)} & set(DTYPES)
    name = dtypes.pop() if first.dtype == second.dtype and dtypes else ""
    ulps = count_ulps(first, second, find_format(name)) if name else None
    return _Measured(names, first, second, away > 0, away, name, ulps)


def _turn(names: tuple[str, str], first: np.ndarray, second: np.ndarray) -> tuple[int, ...] | None:
    """How the first result's axes must be exchanged to be compared; None where they need not be."""
    orders: list[tuple[int, ...]] = []
    if first.ndim == second.ndim and 2 <= first.ndim <= _MOST_AXES and sorted(first.shape) == sorted(second.shape):
        orders = [o for o in itertools.permutations(range(first.ndim)) if first.transpose(o).shape == second.shape]
    unchanged = tuple(range(first.ndim))
    if first.shape == second.shape and np.array_equal(first, second, equal_nan=_has_nan(first)):
        return None
    for order in orders:
        if order != unchanged and np.array_equal(first.transpose(order), second, equal_nan=_has_nan(first)):
            return order
    if first.shape == second.shape:
        return None
    if len(orders) != 1:
        shapes = " and ".join("x".join(map(str, array.shape)) or "one number" for array in (first, second))
        raise CaseFileError(f"{names[0]} and {names[1]} have the shapes {shapes}, and cannot be compared")
    return orders[0]


def _has_nan(array: np.ndarray) -> bool:
    return array.dtype.kind not in "iub"


def _find_reordered(a: Floats, b: Floats) -> Relation | None:
    """The same numbers in another sequence."""
    if np.array_equal(a, b, equal_nan=True):
        return None
    if np.unique(a).size >= thresholds.FEWEST_TELLING and np.array_equal(np.sort(a), np.sort(b), equal_nan=True):
        return Relation(1, "has {other}'s values in another sequence", CauseCode.AXIS_ORDER, f"all {a.size:,} values")
    return None


def _list_facts(measured: _Measured) -> Iterator[str]:
    """How many values differ, by how much and where."""
    a, b = (np.asarray(array, np.float64) for array in (measured.first, measured.second))
    count = int(measured.differing.sum())
    if measured.printed:
        yield f"as printed, {f'{count:,} of {a.size:,} values differ' if count else f'all {a.size:,} values agree'}"
        yield f"what differs by less than {measured.printed} was not printed; np.save keeps all of it"
    else:
        yield f"{count:,} of {a.size:,} values differ"
    if not count and measured.printed:
        return
    if not count:
        dtypes = list(dict.fromkeys(array.dtype.name for array in (measured.first, measured.second)))
        yield "the values are equal, the bits are not" + (f" ({' and '.join(dtypes)})" if len(dtypes) > 1 else "")
        return
    if measured.where:
        yield f"they differ {measured.where}"
    at = np.unravel_index(int(measured.away.argmax()), a.shape)
    index = ", ".join(map(str, map(int, at)))
    told = np.isfinite(a) & np.isfinite(b)
    share = measure_norm(a[told] - b[told]) / (measure_norm(a[told]) or 1.0)
    largest = f"the largest difference is {measured.away.max():.6g}, at [{index}]: {a[at]:.9g} and {b[at]:.9g}"
    yield f"{largest}; in norm {share:.3g}{_say_roundings(measured, share)}"
    if measured.ulps is not None:
        far, usual = measured.ulps.max(), np.median(measured.ulps)
        yield f"they are up to {far:,.0f} numbers of {measured.format_name} apart, {usual:,.0f} in the median"


def _say_roundings(measured: _Measured, share: float) -> str:
    """Whether results that each rounded every value once may be so far from each other."""
    if measured.ulps is None or not 0 < share <= 2 * float(find_format(measured.format_name).unit_roundoff):
        return ""
    return f", no more than two results differ that round each value once to {measured.format_name}"


def _conclude(measured: _Measured, relation: Relation | None, facts: list[str], *, same: bool = False) -> Comparison:
    names = measured.names
    says: str | None = None
    if same:
        summary = f"{names[0]} and {names[1]} hold the same bits."
    elif relation is not None:
        other = names[1 - relation.side]
        says = relation.says.format(other=other)
        counted = relation.counted.format(other=other)
        summary = f"{names[relation.side]} {says} ({counted}). Which is right, operands would tell."
    else:
        told = "; ".join(facts[: 3 if measured.where else 2])
        differs = "Which is right, operands would tell." if measured.differing.any() else "Only their bits differ."
        summary = f"{told[0].upper()}{told[1:]}. {differs}"
    verdict: Verdict = "identical" if same else "undecided"
    certainty: Certainty = "bits" if same else "open"
    sides: list[Side] = []
    for number, name in enumerate(names):
        side = Side(name=name, engine=None, verdict=verdict, certainty=certainty)
        if relation is not None and relation.side == number:
            known: Certainty | None = "statistics" if relation.cause else None
            side = msgspec.structs.replace(side, cause=relation.cause, says=says, cause_certainty=known)
        sides.append(side)
    asks = (_OPERANDS.format(*names),) if measured.differing.any() else ()
    return Comparison(
        problem=NO_PROBLEM,
        verdict=verdict,
        cause=relation.cause if relation else None,
        summary=summary,
        data="not given",
        outputs=0,
        reduction_length=0,
        settled={},
        sides=sides,
        differences=[] if same else [_describe(measured)],
        evidence=[Evidence("statistic", fact) for fact in (*facts, *asks)],
        samebits_version=VERSION,
    )


def _describe(measured: _Measured) -> Difference:
    ulps = None if measured.ulps is None else float(measured.ulps.max(initial=0.0))
    return Difference(
        a=measured.names[0],
        b=measured.names[1],
        differing=int(measured.differing.sum()),
        max_abs=float(measured.away.max(initial=0.0)),
        max_ulp=ulps,
    )
