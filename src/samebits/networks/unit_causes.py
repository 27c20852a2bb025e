"""Why a unit deviates: its product explained as a recorded case, then what follows the product, then its format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from samebits import thresholds
from samebits.errors import SamebitsError
from samebits.findings import Evidence, Side, is_agreement
from samebits.findings.causes import CauseCode
from samebits.judging.verdict_rules import Mechanism
from samebits.mechanisms.search.recalled import Recalled
from samebits.mechanisms.search.recorded_case import explain_case
from samebits.networks.inner_values import list_inner
from samebits.networks.model_sentences import (
    say_fused,
    say_inside,
    say_observed_inside,
    say_right_inside,
)
from samebits.networks.negative_indices import find_negative_indices
from samebits.networks.network import Network, Node
from samebits.networks.product_nodes import PRODUCTS, find_product
from samebits.networks.turned_units import turn_unit
from samebits.networks.unit_alternatives import Alternative, Alternatives
from samebits.networks.unit_formats import count_displaced, find_narrow
from samebits.networks.unit_judging import UnitJudgement, judge_unit
from samebits.networks.unit_reference import OutputReference, refer_unit
from samebits.networks.unit_rows import explain_rows
from samebits.networks.units import Unit
from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem
from samebits.problems.case_file import Case
from samebits.problems.problem import Epilogue
from samebits.progress import Progress
from samebits.sums.bounds import bound_errors
from samebits.sums.truth import compute_truth

# Observes values that are inside units: what the network's runner returns for them.
Observe = Callable[[list[str]], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class ProductCase:
    """A product of a unit as a case: its problem, what it was fed, what it returned, and how much of the unit it is."""

    case: Case
    whole: bool


@dataclass(frozen=True)
class UnitCauses:
    """Finds out why one unit of one side deviates. `observe` may change what engines fuse."""

    network: Network
    folded: Mapping[str, np.ndarray]
    unit: Unit
    side: str
    seen: Mapping[str, np.ndarray]
    references: Mapping[str, OutputReference]
    observe: Observe
    progress: Progress
    # What was proved of this side in other units.
    recalled: Recalled = field(default_factory=Recalled)
    # Asked before the values inside a unit are observed.
    may_look_inside: Callable[[], bool] = lambda: True

    def find(self, judged: UnitJudgement) -> tuple[UnitJudgement, ProductCase | None]:
        """The judgement with its cause, where one was found, and the case of the product that shows it."""
        if any(self.seen[v].shape != r.truth.shape for v, r in self.references.items() if r.bound is not None):
            return self._find_shape(judged) or self._find_inside(judged) or judged, None
        nan = self._find_lost_nan(judged) if judged.beyond else None
        if nan is not None:
            return nan, next(self._list_cases(), None)
        shown: ProductCase | None = None
        for product in self._list_cases():
            side = self._explain(product.case)
            shown = product if shown is None or not product.whole else shown
            if side is not None and not is_agreement(side.verdict) and side.cause:
                # What only names a place gives way to what predicts every output.
                names_place = judged.beyond and side.cause == CauseCode.SHAPE_SPECIFIC_KERNEL
                other = self._find_behind(judged) if names_place else None
                return other or self._take(judged, side, product), product
        if not judged.beyond:
            return self._find_format(judged, shown) or judged, shown
        found = self._find_narrow_operands(judged) or self._find_behind(judged) or self._find_format(judged, shown)
        found = found or self._find_rows(judged) or self._find_negative(judged) or self._find_displaced(judged)
        return found or self._find_inside(judged) or judged, shown

    def _list_cases(self) -> Iterator[ProductCase]:
        """The unit as one problem where it is that; then each of its products, observed on its own."""
        if len(self.unit.products) == 1 and (whole := self._state_whole()) is not None:
            yield whole
            if len(self.unit.places) == 1:
                return
        nodes = [self.network.nodes[p] for p in self.unit.products]
        if not nodes:
            return
        missing = list_inner(self.network, self.folded, self.unit, self.seen)
        try:
            values = {**self.seen, **(self.observe(missing) if missing else {})}
        except SamebitsError:
            return
        for node in nodes:
            yield self._state(node, values[node.outputs[0]], values)

    def _state_whole(self) -> ProductCase | None:
        turned = turn_unit(self.network, self.folded, self.unit, self.seen)
        whole = state_whole(turned.network, turned.folded, turned.unit, turned.seen)
        if whole is None:
            return None
        return self._make_case(*whole, turned.seen[turned.unit.outputs[0]], whole=True)

    def _state(self, node: Node, result: np.ndarray, values: Mapping[str, np.ndarray]) -> ProductCase:
        inputs = [None if not v else self.folded[v] if v in self.folded else values[v] for v in node.inputs]
        product = find_product(node, inputs)
        return self._make_case(product.problem, product.arrange(inputs), result, whole=False)

    def _make_case(
        self, problem: Problem, operands: dict[str, np.ndarray], result: np.ndarray, *, whole: bool
    ) -> ProductCase:
        return ProductCase(Case(problem, operands, {self.side: result.astype(numpy_dtype(problem.out))}), whole)

    def _explain(self, case: Case) -> Side | None:
        try:
            return explain_case(case, recalled=self.recalled, progress=self.progress).sides[0]
        except SamebitsError:
            return None

    def _take(self, judged: UnitJudgement, side: Side, product: ProductCase) -> UnitJudgement:
        told = [e for e in side.evidence if e.kind in ("replay", "structure", "statistic")]
        evidence = [*judged.evidence, *told]
        if not product.whole:
            evidence.append(Evidence("structure", say_observed_inside()))
        return replace(
            judged,
            verdict=side.verdict,
            certainty=side.certainty or judged.certainty,
            cause=side.cause,
            cause_certainty=side.cause_certainty,
            says=side.says,
            recipe=side.recipe,
            # A recipe that reproduces the product alone does not replay the unit.
            replay=side.replay if product.whole else None,
            evidence=tuple(evidence),
        )

    def _find_lost_nan(self, judged: UnitJudgement) -> UnitJudgement | None:
        """The judgement where all deviating outputs should be NaN and are not; None elsewhere."""
        lost = False
        for output, beyond in judged.beyond.items():
            value, result = self.references[output].value, self.seen[output]
            if value.shape != result.shape or not np.isnan(value[beyond]).all():
                return None
            lost |= bool(np.isfinite(result[beyond].astype(np.float64)).all())
        if not lost:
            return None
        says = "turns NaN into a number; all other outputs are within their bound"
        return _wrong(judged, CauseCode.NAN_SEMANTICS, says, "bounds")

    def _find_narrow_operands(self, judged: UnitJudgement) -> UnitJudgement | None:
        """The unit's constants, or everything it is fed, rounded to a narrower format: checked on every output."""
        if judged.verdict == "wrong":
            return None
        constants = {
            v: self.folded[v] for p in self.unit.places for v in self.network.nodes[p].inputs if v in self.folded
        }
        for name in ("bfloat16", "float16"):
            folded = {**self.folded, **{v: _round_to(a, name) for v, a in constants.items()}}
            for what, seen in (
                ("constants", self.seen),
                ("operands", {v: _round_to(a, name) for v, a in self.seen.items()}),
            ):
                predicted = refer_unit(self.network, folded, self.unit, seen)
                if all(self._fits(v, predicted[v], judged) for v in self.unit.outputs):
                    return replace(
                        judged,
                        verdict="downgrade",
                        certainty="statistics",
                        cause=CauseCode.REDUCED_PRECISION_OPERANDS,
                        cause_certainty="statistics",
                        says=f"computes with {what} rounded to {name}",
                    )
        return None

    def _find_shape(self, judged: UnitJudgement) -> UnitJudgement | None:
        """The judgement on results of another shape, where a fault of one operator gives them."""
        for other in self._alternatives.list_all():
            predicted = self._refer(other)
            if predicted is not None and all(_equals(self.seen[v], predicted[v]) for v in self.unit.outputs):
                return _wrong(judged, other.cause, other.says, "statistics")
        return None

    def _find_inside(self, judged: UnitJudgement) -> UnitJudgement | None:
        """The judgement with what one operator of several does, each observed, or with that together they go wrong."""
        if len(self.unit.places) < 2 or not self.may_look_inside():
            return None
        nodes = [self.network.nodes[p] for p in self.unit.places]
        inner = [v for n in nodes for v in n.outputs if v and v not in self.folded and v not in self.seen]
        try:
            values = {**self.seen, **(self.observe([*inner, *self.unit.outputs]) if inner else {})}
        except SamebitsError:
            return None
        are_right = bool(inner)
        for place, node in zip(self.unit.places, nodes, strict=True):
            products = (place,) if place in self.unit.products else ()
            read = tuple(v for v in node.inputs if v and v not in self.folded)
            made = tuple(v for v in node.outputs if v in values)
            if not made or not all(v in values for v in read):
                are_right = False
                continue
            alone = Unit(node.name, (place,), read, made, (node.operator,), products)
            references = refer_unit(self.network, self.folded, alone, values)
            own = judge_unit(self.network, self.folded, alone, values, references)
            if own.beyond:
                found, _ = replace(self, unit=alone, seen=values, references=references).find(own)
                return self._take_inside(judged, found, node)
            are_right &= own.is_judged and is_agreement(own.verdict)
        if not are_right:
            return None
        told = Evidence("structure", say_right_inside())
        evidence = (told, *judged.evidence)
        return replace(
            judged, cause=CauseCode.FUSION, cause_certainty="statistics", says=say_fused(), evidence=evidence
        )

    def _take_inside(self, judged: UnitJudgement, found: UnitJudgement, node: Node) -> UnitJudgement:
        """The unit's judgement with what was found of one of its operators."""
        told = [Evidence(e.kind, say_inside(node.name, node.operator, e.says)) for e in found.evidence[:1]]
        known = judged.verdict == "undecided" and found.cause is not None
        return replace(
            judged,
            verdict=found.verdict if known else judged.verdict,
            certainty=found.certainty if known else judged.certainty,
            cause=found.cause,
            cause_certainty=found.cause_certainty,
            says=found.says,
            evidence=(*told, *judged.evidence),
        )

    @property
    def _alternatives(self) -> Alternatives:
        return Alternatives(self.network, self.folded, self.unit, self.seen)

    def _refer(self, other: Alternative) -> dict[str, OutputReference] | None:
        """What the unit returns in another network; None where that cannot be computed."""
        folded = {**self.folded, **other.constants} if other.constants else self.folded
        try:
            return refer_unit(replace(self.network, nodes=other.nodes), folded, self.unit, self.seen)
        except Exception:  # What cannot be computed explains nothing.
            return None

    def _find_behind(self, judged: UnitJudgement) -> UnitJudgement | None:
        """A node left out, a clip's bound lost, an attribute changed: predicted, and checked on every output."""
        for other in self._alternatives.list_all():
            predicted = self._refer(other)
            if predicted is not None and all(self._fits(v, predicted[v], judged) for v in self.unit.outputs):
                return _wrong(judged, other.cause, other.says, "statistics")
        return None

    def _find_rows(self, judged: UnitJudgement) -> UnitJudgement | None:
        """The judgement on a softmax, norm or Gelu that is explained as one."""
        found = explain_rows(self.network, self.folded, self.unit, self.seen)
        return None if found is None else _take_mechanism(judged, found)

    def _find_negative(self, judged: UnitJudgement) -> UnitJudgement | None:
        """The judgement where only what hangs on negative indices deviates."""
        try:
            operator = find_negative_indices(self.network, self.folded, self.unit, self.seen, judged.beyond)
        except Exception:  # What cannot be computed explains nothing.
            return None
        if operator is None:
            return None
        says = f"does not count negative indices of {operator} from the end: all else is right"
        return _wrong(judged, CauseCode.INDEX_OVERFLOW, says, "statistics")

    def _find_displaced(self, judged: UnitJudgement) -> UnitJudgement | None:
        """The judgement where whatever deviates is what is right elsewhere in the output, not by chance."""
        moved = [count_displaced(self.seen[v], self.references[v], mask) for v, mask in judged.beyond.items()]
        if not moved or not all(moved):
            return None
        says = "returns at some places what is right at others"
        return _wrong(judged, CauseCode.SHAPE_SPECIFIC_KERNEL, says, "statistics")

    def _fits(self, output: str, predicted: OutputReference, judged: UnitJudgement) -> bool:
        """Whether a result is within the bound of what is predicted, which leaves less room than what is explained."""
        result, reference = self.seen[output], self.references[output]
        if predicted.bound is None or not _equals(result, predicted):
            return False
        with np.errstate(invalid="ignore"):
            deviation = np.abs(result.astype(np.float64) - reference.value)
        # A bound as wide as the deviation, such as that of a variance which is all error, explains anything. Where both
        # functions cross, single deviations are small.
        beyond = judged.beyond.get(output, np.zeros(result.shape, bool)) & np.isfinite(deviation)
        return not beyond.any() or (predicted.bound[beyond] < deviation[beyond]).mean() > thresholds.TELLING_SHARE

    def _find_format(self, judged: UnitJudgement, shown: ProductCase | None) -> UnitJudgement | None:
        """The judgement where all values of the unit's or its product's result fit a narrower format, not by chance."""
        if judged.verdict == "wrong":
            return None
        outputs = [self.references[v] for v in self.unit.outputs]
        known = [(self.seen[v], r.value, r.bound) for v, r in zip(self.unit.outputs, outputs, strict=True)]
        if (found := find_narrow(known, several=len(self.unit.products) != 1)) is None and shown is not None:
            problem, operands = shown.case.problem, shown.case.operands
            truth = compute_truth(problem, operands).values
            bound = bound_errors(problem, operands, truth)
            result = shown.case.results[self.side]
            found = find_narrow([(result, truth.astype(np.float64), bound)], several=False)
        if found is None:
            return None
        cause, says = found
        return replace(
            judged,
            verdict="downgrade",
            certainty="statistics",
            cause=cause,
            cause_certainty="statistics",
            says=says,
        )


def state_whole(
    network: Network, folded: Mapping[str, np.ndarray], unit: Unit, seen: Mapping[str, np.ndarray]
) -> tuple[Problem, dict[str, np.ndarray]] | None:
    """A unit as one problem with its operands: a product, a bias added to it, relu or clip; None where it is more."""
    head, *behind = [network.nodes[p] for p in unit.places]
    if head.operator not in PRODUCTS or len(unit.outputs) != 1:
        return None
    inputs = [None if not v else folded[v] if v in folded else seen[v] for v in head.inputs]
    product = find_product(head, inputs)
    if product.alpha != 1.0 or product.adds_third:
        return None
    output, bias, then = head.outputs[0], None, None
    for node in behind:
        if node.operator == "Add" and bias is None and then is None and not product.problem.bias:
            others = [v for v in node.inputs if v != output]
            bias = find_row(product.problem, folded.get(others[0])) if len(others) == 1 else None
            if bias is None:
                return None
        elif node.operator in ("Relu", "Clip") and then is None:
            then = _find_epilogue(node, folded)
        else:
            return None
        output = node.outputs[0]
    problem, operands = product.problem, product.arrange(inputs)
    if bias is not None:
        problem, operands = add_bias(product.problem, operands, bias)
    return replace(problem, then=then), operands


def find_row(problem: Problem, row: np.ndarray | None) -> np.ndarray | None:
    """The bias that an Add adds to a product, one number for every column or channel; None where it is none."""
    if row is None or row.size != problem.c_out:
        return None
    if problem.kind == "matmul":
        # Batches of w have no `linear`.
        return row.reshape(-1) if row.ndim <= 1 and len(problem.w) == 2 and len(problem.x) > 1 else None
    if problem.product:
        return row.reshape(-1) if row.ndim <= 1 else None
    return row.reshape(-1) if row.shape[row.ndim - problem.rank :] == (1,) * problem.rank else None


def _find_epilogue(node: Node, folded: Mapping[str, np.ndarray]) -> Epilogue:
    if node.operator == "Relu":
        return Epilogue("relu")
    bounds = [folded.get(v) if v else None for v in (*node.inputs[1:], "", "")[:2]]
    given = [node.attributes.get("min", -np.inf), node.attributes.get("max", np.inf)]
    low, high = (float(g if b is None else b.reshape(-1)[0]) for b, g in zip(bounds, given, strict=True))
    return Epilogue("clip", low, high)


def add_bias(
    problem: Problem, operands: dict[str, np.ndarray], bias: np.ndarray
) -> tuple[Problem, dict[str, np.ndarray]]:
    """The problem with a bias; a matrix product with one row added is `linear`."""
    if problem.kind != "matmul":
        return replace(problem, bias=True), {**operands, "bias": np.ascontiguousarray(bias)}
    linear = replace(problem, kind="linear", w=problem.w[::-1], bias=True)
    turned = {**operands, "w": np.ascontiguousarray(operands["w"].T), "bias": np.ascontiguousarray(bias)}
    return linear, turned


def _equals(result: np.ndarray, predicted: OutputReference) -> bool:
    """Whether a result is within the bound of what is predicted, its shape included."""
    if predicted.bound is None or predicted.truth.shape != result.shape:
        return False
    with np.errstate(invalid="ignore"):
        away = np.abs(result.astype(np.float64) - predicted.value)
    both_nan = np.isnan(predicted.value) & np.isnan(result.astype(np.float64))
    # Infinities are no distance apart.
    return bool(((away <= predicted.bound) | both_nan | (result == predicted.value)).all())


def _wrong(judged: UnitJudgement, cause: CauseCode, says: str, level: str) -> UnitJudgement:
    """Another function, proved by bounds; which one, as sure as `level`."""
    certainty = "bounds" if judged.verdict == "wrong" or level == "bounds" else "statistics"
    return replace(judged, verdict="wrong", certainty=certainty, cause=cause, cause_certainty="statistics", says=says)


def _take_mechanism(judged: UnitJudgement, found: Mechanism) -> UnitJudgement:
    """The judgement with what explains a function of rows, inferred."""
    proved = judged.verdict == "wrong" and found.verdict == "wrong"
    return replace(
        judged,
        verdict="wrong" if judged.verdict == "wrong" else found.verdict,
        certainty=judged.certainty if proved else "statistics",
        cause=found.cause,
        cause_certainty="statistics",
        says=found.says,
        evidence=(*judged.evidence, *found.evidence),
    )


def _round_to(array: np.ndarray, name: str) -> np.ndarray:
    """Numbers of float32 in a narrower format, which float32 holds; others as they are."""
    if array.dtype != np.float32:
        return array
    with np.errstate(over="ignore"):
        return array.astype(numpy_dtype(name)).astype(np.float32)
