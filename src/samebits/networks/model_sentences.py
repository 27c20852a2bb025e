"""What is said of a network, its units and its sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from samebits.findings import Verdict, is_agreement
from samebits.findings.causes import CauseCode
from samebits.findings.model_schema import ModelComparison, ModelSide, OutputDifference, UnitFinding
from samebits.findings.words.place_words import shorten_names

# So many units are named of those that were not judged.
_MOST_NAMED = 3


def say_meaning(unit: str, sides: Sequence[str], exported: str, *, alike: bool) -> str:
    """Sides that compute another function of a unit than its graph says."""
    named = " and ".join(sides)
    if alike:
        one_another = "each other" if len(sides) == 2 else "one another"
        return f"{unit} means something else on {named}, which agree with {one_another}, than on {exported}"
    verb = "computes" if len(sides) == 1 else "compute"
    return f"In {unit} {named} {verb} another function than the graph that {exported} made: which is meant is open"


def say_meanings(
    meanings: Sequence[str], units: int, unjudged: Sequence[UnitFinding], sides: Sequence[ModelSide]
) -> str:
    """The answer where nothing but what a module means is open."""
    said = f"{meanings[0]}."
    if len(meanings) > 1:
        said += f" The same holds of {len(meanings) - 1:,} more unit{'' if len(meanings) == 2 else 's'}."
    if units > len(meanings) + len(unjudged):
        said += f" Every other {'judged ' if unjudged else ''}unit is within its bound."
    return " ".join(filter(None, [said, say_unjudged(unjudged, [s for s in sides if s.failure is None])]))


def say_out_of_time(left: int) -> str:
    """What was not looked at within the time limit."""
    units = "unit was" if left == 1 else "units were"
    return f"the time limit ended the search for causes: {left:,} {units} not looked at"


def say_joined(side: str, products: int) -> str:
    """A recorded side that is inside a bound which shows little."""
    return (
        f"{side} is within the bound of its {products:,} products together, which is wide: without the values in"
        " between less precision, or a fault, could hide in it."
    )


def say_unknown_values(side: str, names: Sequence[str], known: Sequence[str]) -> str:
    """Recorded values that the network does not have."""
    return (
        f"{side}: the network has no values called {_name_some(names)}, and these were left out; its own are called"
        f" {_name_some(known)}"
    )


def say_files_differ(first: str, others: int) -> str:
    """What two files say otherwise, though the results on these inputs show nothing of it that rounding could not."""
    more = f" and {others} more" if others else ""
    return f"But the second file says something else: {first}{more}. On other inputs that may show."


def say_nothing_saved() -> str:
    """Where cases were asked for and none could be made."""
    return "no case was written: none of the units that deviate was explained as one problem"


def say_unit_within(share: float | None) -> str:
    """Every output inside its bound."""
    return f"every output is within its bound; the largest error is {share or 0.0:.2g} of it"


def say_other_shape(given: tuple[int, ...], right: tuple[int, ...]) -> str:
    """A result of another shape, which no rounding makes."""
    shapes = ("x".join(map(str, shape)) or "one number" for shape in (given, right))
    return "it returns the shape {} where {} is right".format(*shapes)


def say_unit_beyond(count: int, total: int, share: float | None, where: str) -> str:
    """Outputs beyond their bound, by no more than narrower arithmetic could take them; `where` if they are a part."""
    times = f", by up to {share:.3g} times" if share is not None and share != float("inf") else ""
    return f"{count:,} of {total:,} outputs are beyond the bound for what the unit was fed{times}{_add(where)}"


def say_digits_kept(sides: int = 1) -> str:
    """What a side, or several, does whose values are not rounded between operations."""
    return f"keep{'s' if sides == 1 else ''} more digits between operations than declared (more exact, not less)"


def say_unit_unrounded(count: int, total: int) -> str:
    """Outputs that fit inputs with more digits than were seen of them."""
    return (
        f"{count:,} of {total:,} outputs are beyond the bound for the inputs as they are rounded when seen; all are"
        " within it for inputs that were not rounded"
    )


def say_unit_proved(count: int, total: int, where: str) -> str:
    """Outputs that no rounding explains."""
    return (
        f"bounds prove that the unit computes another function: {count:,} of {total:,} outputs are beyond their bound,"
        f" some farther than rounding everything to bfloat16 could take them{_add(where)}"
    )


def say_unit_moved(count: int, total: int, operators: Sequence[str], where: str) -> str:
    """Operations that do not round returned something else."""
    return f"{' + '.join(operators)} cannot round, but {count:,} of {total:,} outputs differ{_add(where)}"


def _add(where: str) -> str:
    return f" ({where})" if where else ""


def say_refolded() -> str:
    """What a side computes with whose file folded something into weights in another way."""
    return "has weights that were folded otherwise: they differ in their last bits"


def say_other_sequence(products: Sequence[str]) -> str:
    """What is said of a second file whose channels lie otherwise, and are read so."""
    named = ", ".join(products[:3]) + (f" and {len(products) - 3} more" if len(products) > 3 else "")
    return f"the second file has the channels of {named} in another sequence, and reads them in that one"


def say_rewritten(first: str, nodes: int) -> str:
    """What is said of a part that a second file computes otherwise on purpose."""
    return (
        f"from {first} on, over {nodes} nodes of the first file, the second file computes other values, and the same at"
        " their end: with the first file's values in their place its outputs would be other ones"
    )


def say_unmatched(products: int) -> str:
    """Why nothing is said of a unit of the second file."""
    return f"joins {products:,} products that could not be found one by one in the second file: its bound says little"


def say_odd_weights() -> str:
    """What is odd about weights that no conversion of the first file's makes."""
    return "has weights that are none of the first file's, rounded or quantised"


def say_own_file(beyond: Sequence[str] | None, odd: Sequence[str]) -> str:
    """Whether an engine computes what the other file says, and whether that is the first file's."""
    if odd:
        return f"moreover, weights of {_name_some(odd)} are none of the first file's"
    if beyond is None:
        return "whether the engine computes what the other file says was not judged"
    if not beyond:
        return "the engine computes what the other file says: every unit of it is within its own bound"
    return f"moreover, {_name_some(beyond)} of the other file deviate from what that file says"


def _name_some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more


def say_equal() -> str:
    """Operators that nobody can bound, with one result."""
    return "every side made the same bits of the same inputs"


def say_unjudged(units: Sequence[UnitFinding], sides: Sequence[ModelSide]) -> str:
    """The units that were not judged, each alone; nothing where there are none. `sides` are those that ran."""
    count = max((side.unjudged_operations for side in sides), default=0)
    if not units or not count:
        return ""
    where = [shorten_names(sides)[side.name] for side in sides if side.unjudged_operations]
    on = "" if len(where) == len(sides) else f" on {' and '.join(where)}"
    what = "operation was" if count == 1 else "operations were"
    return f"{count:,} {what} not judged{on}: {_name_some([say_unit_name(u.name, u.operators) for u in units])}."


def say_no_bound(operators: Sequence[str]) -> str:
    """Operators whose error samebits cannot bound."""
    return f"no bound is known for {', '.join(dict.fromkeys(operators))}: not judged"


def say_unlimited(operators: Sequence[str]) -> str:
    """Values from which rounding may take the result anywhere: a variance that is all error, a quotient by zero."""
    named = ", ".join(dict.fromkeys(operators))
    return f"for some of these values rounding has no bound in {named}: not judged"


def say_unit_name(name: str, operators: Sequence[str]) -> str:
    """A unit as a person reads it."""
    shown = list(operators) if len(operators) <= 4 else [*operators[:3], "..."]
    return f"{name} ({'+'.join(shown)})"


def say_observed_inside() -> str:
    """The product alone was looked at."""
    return "seen with the product's own output observed, which may change what the engine fuses"


def say_inside(name: str, operator: str, says: str) -> str:
    """What one operator of a unit did, looked at alone."""
    return f"{name} ({operator}), observed inside the unit: {says}"


def say_right_inside() -> str:
    """Why a fusion is taken for the fault."""
    return "with the values inside the unit observed, which keeps them from being fused, all of its operators are right"


def say_fused() -> str:
    """A unit whose operators are right one by one."""
    return "computes something else where it fuses these operators"


def say_share(share: float, others: int) -> str:
    """What becomes of the final difference without this unit's own error, where so many others deviate."""
    if share >= 0.995 and others:
        rest = "one more unit deviates" if others == 1 else f"{others:,} more units deviate"
        return (
            "with the truth in place of this unit's output, nearly all of the difference at the outputs goes away;"
            f" {rest}"
        )
    if share >= 0.995:
        return "with the truth in place of this unit's output, the difference at the outputs is gone"
    if share <= 0:
        return "with the truth in place of this unit's output, the difference at the outputs does not shrink"
    return f"with the truth in place of this unit's output, {share:.0%} of the difference at the outputs goes away"


def summarize_model(
    verdict: Verdict,
    sides: Sequence[ModelSide],
    first: UnitFinding | None,
    outputs: Sequence[OutputDifference],
    amplification: float | None,
    unjudged: Sequence[UnitFinding] = (),
    alike: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The answer in one or two sentences, and what was not judged.

    `alike` has, by side, what all of its units do that deviate, where that is the same.
    """
    said = _summarize_judged(verdict, sides, first, outputs, amplification, alike, every="judged " if unjudged else "")
    return " ".join(filter(None, [said, say_unjudged(unjudged, [s for s in sides if s.failure is None])]))


def _summarize_judged(
    verdict: Verdict,
    sides: Sequence[ModelSide],
    first: UnitFinding | None,
    outputs: Sequence[OutputDifference],
    amplification: float | None,
    alike: Mapping[str, str],
    *,
    every: str,
) -> str:
    ran = [s for s in sides if s.failure is None]
    if not ran:
        return (
            f"No side returned a result: {sides[0].failure.says if sides and sides[0].failure else 'none was asked'}."
        )
    deviating = [s for s in ran if not is_agreement(s.verdict)]
    if deviating:
        short = shorten_names(ran)
        said = _join_alike([(short[s.name], _summarize_deviating(s, ran, first, alike)) for s in deviating])
        right = [short[s.name] for s in ran if is_agreement(s.verdict)]
        if right:
            plural = "are" if len(right) > 1 else "is"
            said.append(f"{' and '.join(right)} {plural} right: every {every}unit is within its bound.")
        shares = [d.rel_l2 for d in outputs if d.rel_l2 is not None]
        if shares and any(s.file for s in deviating):
            # Files may compute the same in another way: channels in another sequence, undone by the next layer.
            said.append(f"At the outputs the files differ by {max(shares):.2g} of their L2 norm.")
        return " ".join(said)
    if verdict == "identical":
        return "The same bits from every side." if len(ran) > 1 else f"Every {every}unit is correctly rounded."
    largest = max((d.rel_l2 or 0.0 for d in outputs), default=0.0)
    said = f"Every {every}unit on every side is within its bound: what differs is rounding."
    if len(ran) < 2:
        return f"Every {every}unit is within its bound."
    if first is not None and amplification is not None:
        said += f" It begins in {first.name}; at the outputs it is {largest:.2g} of their L2 norm, {amplification:.2g}"
        said += " times what it was there."
    keeping = [shorten_names(ran)[s.name] for s in ran if s.cause == CauseCode.EXCESS_PRECISION]
    if keeping:
        said += f" {' and '.join(keeping)} {say_digits_kept(len(keeping))} (inferred)."
    return said


def _summarize_deviating(
    side: ModelSide, ran: Sequence[ModelSide], first: UnitFinding | None, alike: Mapping[str, str]
) -> str:
    name = shorten_names(ran)[side.name]
    own = next((s for s in first.sides if s.name == side.name), None) if first else None
    if not side.deviating and side.joined:
        return say_joined(name, side.joined)
    if not side.deviating:
        return f"{name} cannot be judged."
    more = f"; {side.deviating} units deviate" if side.deviating > 1 else ""
    if side.name in alike:
        return f"{name} {alike[side.name]}, from {side.first} on{more}."
    if first is None or own is None or own.verdict != side.verdict or side.first != first.name:
        return f"{name} is {side.verdict} from {side.first} on{more}."
    unit = say_unit_name(first.name, first.operators)
    is_inferred = own.cause_certainty == "statistics"
    # Of a difference of two files the file itself is the proof.
    of_file = any(e.kind == "file" for e in own.evidence)
    if own.says and is_inferred and own.verdict == "wrong" and own.certainty == "bounds" and not of_file:
        return f"{name} computes another function in {unit}, proved by bounds; inferred: it {own.says}{more}."
    if own.says:
        level = " (inferred)" if is_inferred else ""
        return f"{name}, in {unit}, {own.says}{level}{more}."
    over = own.own.max_over_bound if own.own else None
    open_ = "is beyond its bound" if over is not None and over > 1 else "cannot be judged"
    verdicts = {"wrong": "is wrong", "downgrade": "loses precision", "undecided": open_}
    return f"{name} {verdicts[own.verdict]} in {unit}{more}."


def _join_alike(said: Iterable[tuple[str, str]]) -> list[str]:
    """Sentences that begin with a side's name, those that are the same but for the name as one."""
    names: dict[str, list[str]] = {}
    for name, sentence in said:
        names.setdefault(sentence.removeprefix(name), []).append(name)
    return [
        (own[0] if len(own) == 1 else f"Each of {', '.join(own[:-1])} and {own[-1]}") + rest
        for rest, own in names.items()
    ]


def say_size(found: ModelComparison) -> str:
    """How many operations a network has, and in how many units it was judged, by side where these are not the same."""
    said = f"{found.operations:,} operation{'' if found.operations == 1 else 's'}"
    counts = Counter(side.name for unit in found.units for side in unit.sides)
    if len(set(counts.values())) > 1:
        named = [f"{count:,} on {shorten_names(found.sides)[name]}" for name, count in counts.items()]
        return f"{said}, in units: {', '.join(named)}"
    count = max(counts.values(), default=0)
    return f"{said} in {count:,} unit{'' if count == 1 else 's'}"


def say_unit_replayed(count: int, total: int) -> str:
    """How much of a unit its recipe reproduces from what it was fed."""
    return f"its recipe, executed on what the unit was fed, reproduces {count:,} of {total:,} outputs bit for bit"


def say_network_replayed(count: int, total: int) -> str:
    """How much of a network is explained."""
    if count == total:
        return (
            f"every bit of this network is explained: recipes reproduce all {total:,} units with products; what lies"
            " between them is the engine's own, run by itself"
        )
    return f"recipes reproduce {count:,} of {total:,} units with products bit for bit"


def say_exact_integers(right: int, tried: int) -> str:
    """What a side's products did where nothing can round."""
    if right == tried:
        return f"all {tried:,} different products of the network are right on exact integers, each by itself"
    return (
        f"{tried - right:,} of {tried:,} different products of the network are wrong on exact integers, each by itself"
    )
