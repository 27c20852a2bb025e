"""A unit computed without its engine: the sums of its product by their recipe, all else in plain IEEE arithmetic.

What no recipe is known of is computed correctly rounded. Additions, maxima and moves have one result wherever they are
computed; of functions, norms and means the manner says how their library computes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from samebits.errors import EngineRaised, EngineUnsupported
from samebits.networks.fused_forms import Candidate, apply_affine, emulate_onto, list_candidates
from samebits.networks.library_operators import PLAIN, Manner, apply_manner
from samebits.networks.model_runners import run_node_by_reference, run_product
from samebits.networks.network import Network, Node
from samebits.networks.product_nodes import PRODUCTS
from samebits.networks.turned_units import TurnedUnit, turn_unit
from samebits.networks.units import Unit
from samebits.problems import Problem
from samebits.sums.emulators import emulate
from samebits.sums.recipes.recipe import Recipe
from samebits.sums.truth import compute_truth

Arrays = Mapping[str, np.ndarray]

# The form of a unit that is computed node by node.
NODES = "nodes"


@dataclass(frozen=True)
class Step:
    """How a unit is computed: the name of a fused form and its product's recipe, or `NODES`; the manner of the rest."""

    form: str
    recipe: Recipe | None = None
    manner: Manner = PLAIN


def compute_unit(network: Network, folded: Arrays, unit: Unit, fed: Arrays, step: Step) -> dict[str, np.ndarray]:
    """A unit's outputs, by value, for what it is fed.

    Raises EngineRaised where a node cannot be computed, EngineUnsupported where the unit has no such form.
    """
    if step.form == NODES:
        values = {**folded, **fed}
        for place in unit.places:
            values |= _compute_node(network.nodes[place], values, network.opset, step.manner)
        return {v: values[v] for v in unit.outputs}
    turned = turn_unit(network, folded, unit, fed)
    if step.recipe is not None:
        for candidate in list_candidates(turned):
            if candidate.form == step.form:
                made = finish_candidate(candidate, turned, sum_candidate(candidate, step.recipe), step.manner)
                return {unit.outputs[0]: turned.turn_back(made)}
    raise EngineUnsupported(f"{unit.name} cannot be computed as {step.form[:40]!r}")


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
    for node in candidate.rest:
        values |= _compute_node(node, values, turned.network.opset, manner)
    return values[turned.unit.outputs[0]]


def _compute_node(node: Node, values: Arrays, opset: int, manner: Manner) -> dict[str, np.ndarray]:
    try:
        inputs = [values[v] if v else None for v in node.inputs]
    except KeyError as error:
        raise EngineRaised(f"node {node.name[:60]} reads a value that is not there: {error}") from None
    made = apply_manner(node, inputs, opset, manner)
    if made is not None:
        return {node.outputs[0]: made}
    if node.operator in PRODUCTS:
        return {node.outputs[0]: run_product(node, inputs, _compute_truly)}
    results = run_node_by_reference(node, inputs, opset)
    return dict(zip((v for v in node.outputs if v), results, strict=True))


def _compute_truly(problem: Problem, operands: Arrays) -> np.ndarray:
    return compute_truth(problem, operands).values
