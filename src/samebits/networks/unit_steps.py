"""A unit computed without its engine: the sums of its product by their recipe, all else in plain IEEE arithmetic.

A product of which no recipe is known is computed correctly rounded. Additions, maxima and moves have one result
wherever they are computed, but for NaN and the sign of zero; of functions, norms and means the manner says how their
library computes them, and what it does not know ONNX's reference computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from samebits.errors import EngineRaised, EngineUnsupported, SamebitsError
from samebits.networks.fused_forms import Candidate, apply_affine, emulate_onto, list_candidates
from samebits.networks.library_operators import PLAIN, Manner, apply_manner, find_fast_gelus
from samebits.networks.model_runners import run_node_by_reference, run_product
from samebits.networks.network import Network, Node
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.turned_units import TurnedUnit, turn_unit
from samebits.networks.unit_codes import compute_codes
from samebits.networks.units import Unit
from samebits.numbers.format import FORMATS
from samebits.numbers.ulps import mark_differing_bits
from samebits.problems import Problem
from samebits.sums.emulators import emulate
from samebits.sums.functions.mlas import compute_fast_gelu
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.truth import compute_truth

Arrays = Mapping[str, np.ndarray]

# The form of a unit that is computed node by node.
NODES = "nodes"
# The form of a product of codes between quantisers, computed in whole numbers.
CODES = "codes"


@dataclass(frozen=True)
class Step:
    """How a unit is computed: a fused form and its product's recipe, `NODES`, or `CODES`; the manner of the rest.

    `rescales` says how sums of codes are added and become codes.
    """

    form: str
    recipe: Recipe | None = None
    manner: Manner = PLAIN
    rescales: str = ""


def compute_unit(network: Network, folded: Arrays, unit: Unit, fed: Arrays, step: Step) -> dict[str, np.ndarray]:
    """A unit's outputs, by value, for what it is fed.

    Raises EngineRaised where a node cannot be computed, EngineUnsupported where the unit has no such form.
    """
    if step.form == NODES:
        nodes = [network.nodes[p] for p in unit.places]
        values = _compute_nodes(nodes, {**folded, **fed}, network.opset, step.manner)
        if missing := [v for v in unit.outputs if v not in values]:
            raise EngineUnsupported(f"{unit.name[:60]} does not make {missing[0][:60]!r}")
        return {v: values[v] for v in unit.outputs}
    if step.form == CODES:
        for _, codes in compute_codes(network, folded, unit, fed, step.rescales):
            return {unit.outputs[0]: codes}
    turned = turn_unit(network, folded, unit, fed)
    if step.recipe is not None:
        for candidate in list_candidates(turned):
            if candidate.form == step.form:
                made = finish_candidate(candidate, turned, sum_candidate(candidate, step.recipe), step.manner)
                return {unit.outputs[0]: turned.turn_back(made)}
    raise EngineUnsupported(f"{unit.name} cannot be computed as {step.form[:40]!r}")


def measure_step(network: Network, folded: Arrays, unit: Unit, step: Step, seen: Arrays) -> float:
    """The share of a unit's outputs that a step gives to the last bit; none where it cannot be computed."""
    try:
        made = compute_unit(network, folded, unit, {v: seen[v] for v in unit.inputs}, step)
    except SamebitsError:
        return 0.0
    return measure_same(made, {v: seen[v] for v in unit.outputs})


def measure_same(made: Arrays, seen: Arrays) -> float:
    """The share of elements that have the same bits; of all values together."""
    same = 0
    for name, array in seen.items():
        if made[name].shape != array.shape or made[name].dtype != array.dtype:
            continue
        is_float = array.dtype.name in FORMATS
        differs = mark_differing_bits(made[name], array) if is_float else made[name] != array
        same += int(array.size - np.count_nonzero(differs))
    return same / max(1, sum(array.size for array in seen.values()))


def sum_candidate(candidate: Candidate, recipe: Recipe, product: np.ndarray | None = None) -> np.ndarray:
    """What a candidate makes before its remaining nodes; `product` are its sums where they are known.

    Raises EngineUnsupported where the recipe leaves open how it adds to what comes next, RecipeError as `emulate` does.
    """
    if candidate.addend is None:
        made = emulate(candidate.problem, recipe, candidate.operands) if product is None else product
    else:
        made = emulate_onto(candidate.problem, recipe, candidate.operands, candidate.addend)
    if made is None:
        raise EngineUnsupported("the recipe does not say what is added to what")
    return made if candidate.affine is None else apply_affine(candidate, made)


def finish_candidate(candidate: Candidate, turned: TurnedUnit, made: np.ndarray, manner: Manner = PLAIN) -> np.ndarray:
    """The turned unit's output: the remaining nodes after what the candidate made."""
    values = {**turned.folded, **turned.seen, **candidate.constants, candidate.makes: made}
    (output,) = turned.unit.outputs
    made_there = _compute_nodes(candidate.rest, values, turned.network.opset, manner)
    if output not in made_there:
        raise EngineUnsupported(f"{turned.unit.name[:60]} does not make {output[:60]!r}")
    return made_there[output]


def _compute_nodes(nodes: Sequence[Node], values: Arrays, opset: int, manner: Manner) -> dict[str, np.ndarray]:
    """All values, with those that these nodes make."""
    held = dict(values)
    gelus = find_fast_gelus(nodes) if manner.fuses_gelu else {}
    for node in nodes:
        x = held.get(gelus.get(node.outputs[0], ""))
        if x is not None and x.dtype == np.float32:
            held[node.outputs[0]] = compute_fast_gelu(x)
        else:
            held |= _compute_node(node, held, opset, manner)
    return held


def _compute_node(node: Node, values: Arrays, opset: int, manner: Manner) -> dict[str, np.ndarray]:
    try:
        inputs = [values[v] if v else None for v in node.inputs]
    except KeyError as error:
        raise EngineRaised(f"node {node.name[:60]} reads a value that is not there: {error}") from None
    try:
        made = apply_manner(node, inputs, opset, manner)
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:  # Shapes that the operator does not take.
        raise EngineRaised(f"node {node.name[:60]} ({node.operator}) cannot be computed: {str(error)[:100]}") from None
    if made is not None:
        return {node.outputs[0]: made}
    if node.operator in PRODUCTS:
        return {node.outputs[0]: run_product(node, inputs, _compute_truly)}
    results = run_node_by_reference(node, inputs, opset)
    return dict(zip((v for v in node.outputs if v), results, strict=True))


def _compute_truly(problem: Problem, operands: Arrays) -> np.ndarray:
    return compute_truth(problem, operands).values
