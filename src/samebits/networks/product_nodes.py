"""Conv, ConvTranspose, Gemm and MatMul nodes as problems, their operands, and as a rule with error bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from samebits.errors import ProblemShapeError
from samebits.mechanisms.quantised.integer_pairs import saturate_pairs
from samebits.mechanisms.quantised.integer_sums import PairOrder
from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded, Floats
from samebits.networks.network import Node
from samebits.networks.values import Value
from samebits.numbers.format import find_format, numpy_dtype
from samebits.problems import Problem
from samebits.problems.languages.onnx_node import problem_from_onnx_node
from samebits.sums.bounds import accumulator_format, bound_errors, bound_narrowest_errors
from samebits.sums.tiles.magnitudes import sum_magnitudes, sum_plainly
from samebits.sums.truth import compute_truth

PRODUCTS = ("Conv", "ConvTranspose", "Gemm", "MatMul")


@dataclass(frozen=True)
class Product:
    """The problem of a node, and how its inputs become the problem's operands.

    `turned` names operands that are transposed on the way; a Gemm's scales and an addend that is no row stay outside.
    """

    problem: Problem
    turned: tuple[str, ...] = ()
    alpha: float = 1.0
    beta: float = 1.0
    adds_third: bool = False

    def arrange(self, inputs: Sequence[np.ndarray | None]) -> dict[str, np.ndarray]:
        """The problem's operands from the node's inputs; contiguous."""
        names: list[str] = ["x", "w", "bias"]
        named = dict(zip(names, inputs, strict=False))
        operands: dict[str, np.ndarray] = {}
        for name, shape in self.problem.operand_shapes.items():
            array = named[name]
            assert array is not None
            array = array.T if name in self.turned else array
            if name == "bias" and array.size not in (1, shape[0]):
                raise ProblemShapeError(f"a bias of shape {array.shape} does not go with {shape[0]} outputs")
            # A row to add may stand as a scalar, or with an axis of its own.
            operands[name] = np.ascontiguousarray(
                np.broadcast_to(array.reshape(-1), shape) if name == "bias" else array
            )
        return operands


def find_product(node: Node, inputs: Sequence[np.ndarray | None]) -> Product:
    """The problem that a node computes on inputs of these shapes and dtypes; raises ProblemShapeError."""
    x, w = inputs[0], inputs[1]
    assert x is not None
    assert w is not None
    third = inputs[2] if len(inputs) > 2 else None
    dtype = x.dtype.name
    if node.operator != "Gemm":
        problem = problem_from_onnx_node(
            node.operator, node.attributes, x.shape, w.shape, bias=third is not None, dtype=dtype
        )
        return Product(problem)
    given = node.attributes
    alpha, beta = float(given.get("alpha", 1.0)), float(given.get("beta", 1.0))
    columns = w.shape[0] if given.get("transB") else w.shape[1]
    is_row = third is not None and third.size in (1, columns) and (third.ndim < 2 or third.shape[0] == 1)
    plain = alpha == 1.0 and (third is None or (beta == 1.0 and is_row))
    attributes = {k: v for k, v in given.items() if k not in ("alpha", "beta")}
    bias = plain and third is not None
    problem = problem_from_onnx_node("Gemm", attributes, x.shape, w.shape, bias=bias, dtype=dtype)
    turns_w = bool(given.get("transB")) != (problem.kind == "linear")
    turned = (*(("x",) if given.get("transA") else ()), *(("w",) if turns_w else ()))
    return Product(problem, turned, alpha, beta, third is not None and not bias)


def apply_product(
    a: Arithmetic, node: Node, inputs: Sequence[Value | None], dtype: str, *, rounds: bool = False
) -> list[Value]:
    """A product with its bound; inputs that carry errors themselves pass them on through the sums.

    `dtype` is that of the operands as the network declares them. With `rounds` the value is the correctly rounded
    result, else the sum in float64, and what that is off by is in the bound.
    """
    given = [v if v is None or isinstance(v, Bounded) else bounded.exactly(v) for v in inputs]
    # Values that were fed fit their format; values computed inside the unit keep all their digits.
    is_inner = any(v is not None and v.error.any() for v in given)
    kept = np.dtype(np.float64) if is_inner else numpy_dtype(dtype)
    arrays = [None if v is None else v.value.astype(kept) for v in given]
    product = find_product(node, arrays)
    operands = product.arrange(arrays)
    declared = replace(product.problem, dtype=dtype, out=dtype)
    # A product that is scaled or added to afterwards must not be rounded before.
    is_last = rounds and not is_inner and product.alpha == 1.0 and not product.adds_third
    computed = replace(product.problem, dtype=kept.name, out=dtype if is_last else "float64")
    magnitudes = sum_magnitudes(computed, operands)
    is_narrow = find_format(dtype).precision <= find_format("float32").precision
    value, off = _compute(computed, operands, magnitudes, exactly=is_last or not is_narrow)
    error, growth = _bound_own(a, declared, operands, value, magnitudes)
    error = error + off
    if node.attributes.get(SATURATES):
        value = _saturate(node, computed, operands, value)
    # The inputs' errors are added up like all else, with roundings of their own.
    carried = _carry_errors(product, given, operands)
    with np.errstate(invalid="ignore"):
        again = np.where(carried > 0, carried * (1.0 + growth), 0.0)
    found = Bounded(value, error + again, magnitudes + carried, growth)
    if product.alpha != 1.0:
        found = bounded.multiply(a, found, bounded.exactly(np.array(product.alpha)))
    if product.adds_third:
        third = given[2]
        assert third is not None
        found = bounded.add(a, found, bounded.multiply(a, third, bounded.exactly(np.array(product.beta))))
    return [found]


def _saturate(node: Node, problem: Problem, operands: dict[str, np.ndarray], value: Floats) -> Floats:
    """The product as processors without VNNI compute it of codes; as it is where operands are none."""
    order, lift = PairOrder(str(node.attributes[SATURATES])), float(node.attributes[LIFT])
    found = saturate_pairs(problem, operands, order, lift)
    return value if found is None else found


# Attributes of our own: how older processors multiply codes (by which sequence of pairs), and what makes the first
# operand's codes unsigned there.
SATURATES, LIFT = "samebits.saturates", "samebits.lift"


def _compute(
    problem: Problem, operands: dict[str, np.ndarray], magnitudes: Floats, *, exactly: bool
) -> tuple[Floats, Floats | float]:
    """The product's values, and what they may be off by beyond their own rounding."""
    if exactly or not all(np.isfinite(array).all() for array in operands.values()):
        return compute_truth(problem, operands).values.astype(np.float64), 0.0
    return sum_plainly(problem, operands), (problem.reduction_length + 3) * 2.0**-52 * magnitudes


def _bound_own(
    a: Arithmetic, problem: Problem, operands: dict[str, np.ndarray], value: Floats, magnitudes: Floats
) -> tuple[Floats, float]:
    """The bound of the sums themselves, and how much each term may have grown on its way."""
    terms = problem.reduction_length + (1 if problem.bias else 0)
    if a.unit <= float(find_format(problem.out).unit_roundoff):
        bound = bound_errors(problem, operands, value, magnitudes=magnitudes)
        return bound, terms * float(accumulator_format(problem).unit_roundoff)
    # Judged as if all were computed in a narrower format: see `bounds.bound_narrowest_errors`.
    bound = bound_narrowest_errors(problem, value, magnitudes)
    roundings = (terms + 3) * a.unit
    return bound, roundings / (1 - roundings) if roundings < 1 else np.inf


def _carry_errors(product: Product, inputs: Sequence[Bounded | None], operands: dict[str, np.ndarray]) -> Floats:
    """sum of |x| e_w + e_x |w| + e_x e_w, where operands have errors."""
    wide = replace(product.problem, dtype="float64", out="float64")
    total: Floats = np.zeros(wide.y_shape)
    sizes = {name: np.abs(array.astype(np.float64)) for name, array in operands.items()}
    for name, fed in zip(("x", "w", "bias"), inputs, strict=False):
        if fed is None or name not in sizes or not fed.error.any():
            continue
        errors = product.arrange([fed.error if n == name else np.zeros(s) for n, s in _list_shapes(product)])
        own = {n: array if n != "bias" else np.zeros_like(array) for n, array in sizes.items()} | {name: errors[name]}
        if name == "bias":
            own["x"] = np.zeros_like(sizes["x"])
        total += sum_magnitudes(wide, own)
        # The next operand meets this one's errors too.
        sizes[name] = sizes[name] + errors[name]
    return total


def _list_shapes(product: Product) -> list[tuple[str, tuple[int, ...]]]:
    """The operands in the node's sequence, with their shapes before they are turned."""
    shapes = product.problem.operand_shapes
    return [(name, shape[::-1] if name in product.turned else shape) for name, shape in shapes.items()]
