"""Every operator that units are judged by, as a rule on arrays with error bounds; products stand in `product_nodes`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from samebits.limits import STEPS
from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded, Floats
from samebits.networks.deciding_operations import DECISIONS
from samebits.networks.deciding_operations import RULES as DECIDING
from samebits.networks.fourier_operations import RULES as FOURIER
from samebits.networks.network import Node
from samebits.networks.operator_writer import ONLY_IF
from samebits.networks.pooling import NoReferenceError, count_taps, evaluate_plainly, view_windows
from samebits.networks.product_nodes import SATURATES
from samebits.networks.quantising_operations import RULES as QUANTISING
from samebits.networks.quantising_operations import WHOLE_PRODUCTS
from samebits.networks.reducing_operations import RULES as REDUCING
from samebits.networks.reducing_operations import reduce_whole, take_logarithm, take_norm
from samebits.networks.region_operations import RULES as REGIONS
from samebits.networks.resampling import RULES as RESAMPLING
from samebits.networks.scattering_operations import is_reducing_scatter, scatter
from samebits.networks.values import Rule, Value, as_value, list_floats, make_plain
from samebits.numbers.format import FORMATS, numpy_dtype

# The largest slope, units of relative and of absolute error allowed. Relative ones are those that OpenCL's
# specification (section 7.4, full profile) allows its functions; absolute ones count units of 1 where engines end
# their approximations at the value that the function tends to.
SMOOTH: dict[str, tuple[Callable[[Floats], Floats], float | None, float, float]] = {
    # By tanh, (1 + tanh(x / 2)) / 2, half of the ten units of tanh are absolute, and one is the sum's.
    "Sigmoid": (lambda x: 1 / (1 + np.exp(-x)), 0.25, 12.0, 6.0),
    "Tanh": (np.tanh, 1.0, 10.0, 2.0),
    "Erf": (np.vectorize(math.erf, otypes=[float]), 1.1284, 32.0, 2.0),
    "Softplus": (lambda x: np.logaddexp(0, x), 1.0, 16.0, 4.0),
    "Softsign": (lambda x: x / (1 + np.abs(x)), 1.0, 4.0, 0.0),
    "Sin": (np.sin, 1.0, 8.0, 8.0),
    "Cos": (np.cos, 1.0, 8.0, 8.0),
    "Abs": (np.abs, 1.0, 0.0, 0.0),
    "Neg": (np.negative, 1.0, 0.0, 0.0),
    "Floor": (np.floor, None, 0.0, 0.0),
    "Ceil": (np.ceil, None, 0.0, 0.0),
    "Round": (np.rint, None, 0.0, 0.0),
}
# The slope by the value of the function itself.
_FLATTENS: dict[str, Callable[[Floats], Floats]] = {"Sigmoid": lambda y: y * (1 - y), "Tanh": lambda y: 1 - y * y}
# Functions that only rise, or fall, between what an error may take their argument to: relative units (twice the units
# in the last place that OpenCL allows), and the ends of where they are defined.
MONOTONE: dict[str, tuple[Callable[[Floats], Floats], float, float, float]] = {
    "Acos": (np.arccos, 8.0, -1.0, 1.0),
    "Acosh": (np.arccosh, 8.0, 1.0, np.inf),
    "Asin": (np.arcsin, 8.0, -1.0, 1.0),
    "Asinh": (np.arcsinh, 8.0, -np.inf, np.inf),
    "Atan": (np.arctan, 10.0, -np.inf, np.inf),
    "Atanh": (np.arctanh, 10.0, -1.0, 1.0),
    "Cosh": (np.cosh, 8.0, -np.inf, np.inf),
    "Sinh": (np.sinh, 8.0, -np.inf, np.inf),
    "Tan": (np.tan, 10.0, -np.inf, np.inf),
}
KINKED = ("Relu", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "HardSwish", "Swish", "Mish", "Gelu")


def apply_smooth(a: Arithmetic, node: Node, x: Bounded) -> Bounded:
    """Functions of `SMOOTH`, by their largest slope; of those that flatten away from 0 it is the one nearest to 0."""
    function, slope, relative, absolute = SMOOTH[node.operator]
    if slope is None:
        return bounded.step(function, x)
    if node.operator in _FLATTENS:
        with np.errstate(all="ignore"):
            slope = _FLATTENS[node.operator](function(np.maximum(np.abs(x.value) - x.error, 0.0)))
    return bounded.apply_slope(a, x, function, slope, relative=relative, absolute=absolute)


def apply_monotone(a: Arithmetic, node: Node, x: Bounded) -> Bounded:
    """Functions of `MONOTONE`: what they may return lies between their values at both ends of what was fed."""
    function, relative, least, most = MONOTONE[node.operator]
    with np.errstate(all="ignore"):
        value = function(x.value)
        ends = [function(np.clip(x.value + sign * x.error, least, most)) for sign in (-1.0, 1.0)]
        error = np.maximum(*(np.abs(end - value) for end in ends))
        if node.operator == "Cosh":  # Smallest at 0, which may lie between the ends.
            error = np.where(x.error >= np.abs(x.value), np.maximum(error, value - 1.0), error)
        if node.operator == "Tan":  # Beyond a pole it begins again.
            error = np.where((ends[1] < ends[0]) | (x.error >= np.pi / 2), np.inf, error)
        return bounded.rounded(a, value, np.where(x.error > 0, error, 0.0), relative)


def apply_kinked(a: Arithmetic, node: Node, x: Bounded) -> Bounded:
    """Functions with a kink, each piece within a few roundings; slopes of all pieces at most `slope`."""
    given = node.attributes
    # Attributes are float32, and so are the defaults of those that are left out.
    usual = {"Elu": 1.0, "HardSigmoid": 0.2, "Swish": 1.0, "Selu": 1.67326319217681884765625}.get(node.operator, 0.01)
    gamma = float(np.float32(given.get("gamma", 1.05070102214813232421875))) if node.operator == "Selu" else 1.0
    alpha, beta = float(np.float32(given.get("alpha", usual))), float(np.float32(given.get("beta", 0.5)))
    sigmoid = SMOOTH["Sigmoid"][0]
    erf = SMOOTH["Erf"][0]
    by_tanh = given.get("approximate", "none") == "tanh"
    gelus = {
        True: lambda v: 0.5 * v * (1 + np.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))),
        False: lambda v: 0.5 * v * (1 + erf(v / math.sqrt(2))),
    }
    functions: dict[str, tuple[Callable[[Floats], Floats], float, float]] = {
        "Relu": (lambda v: np.maximum(v, 0), 1.0, 0.0),
        "LeakyRelu": (lambda v: np.where(v < 0, alpha * v, v), max(1.0, abs(alpha)), 2.0),
        "Elu": (lambda v: np.where(v < 0, alpha * np.expm1(np.minimum(v, 0)), v), max(1.0, abs(alpha)), 12.0),
        "Selu": (
            lambda v: gamma * np.where(v < 0, alpha * np.expm1(np.minimum(v, 0)), v),
            gamma * max(1.0, abs(alpha)),
            14.0,
        ),
        "HardSigmoid": (lambda v: np.clip(alpha * v + beta, 0, 1), abs(alpha), 4.0),
        "HardSwish": (lambda v: v * np.clip(v / 6 + 0.5, 0, 1), 1.5, 6.0),
        "Swish": (lambda v: v * sigmoid(alpha * v), 1.1, 16.0),
        "Mish": (lambda v: v * np.tanh(np.logaddexp(0, v)), 1.1, 40.0),
        "Gelu": (gelus[by_tanh], 1.13, 34.0),
    }
    function, slope, relative = functions[node.operator]
    found = bounded.apply_slope(a, x, function, slope, relative=relative)
    if node.operator in ("Elu", "Selu"):
        # ONNX defines it as alpha (exp(x) - 1): near zero the parts cancel, and leave what exp lost of one.
        own = np.where(x.value - x.error < 0, relative * a.unit * abs(alpha * gamma), 0.0)
        return Bounded(found.value, found.error + own, found.magnitude)
    if relative:
        # Where parts cancel (1 + erf, alpha x + beta) what they lose is a share of x.
        own = relative * a.unit * np.abs(x.value)
        found = Bounded(found.value, found.error + own, found.magnitude)
    return found


MOVES = (
    "Concat", "DepthToSpace", "Dropout", "Expand", "Flatten", "Gather", "GatherElements", "GatherND",
    "Identity", "Pad", "Reshape", "Scatter", "ScatterElements", "ScatterND", "Slice", "SpaceToDepth", "Split",
    "Squeeze", "Tile", "Transpose", "Unsqueeze", "Where", "CenterCropPad", "Compress", "MaxUnpool", "OneHot",
    "ReverseSequence", "TensorScatter", "Trilu",
)  # fmt: skip
# Marks a normalisation whose mean and variance are taken over the batch, too.
JOINS_BATCH = "samebits.joins_batch"
# What they return follows from sizes alone.
OF_SIZES = ("ConstantOfShape", "EyeLike", "Shape", "Size")
# Of truth values and whole numbers, which carry no error.
_OF_TRUTH = ("And", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Not", "Or", "Xor")
_OPSET_OF_PLAIN_SOFTMAX = 13
ELEMENTWISE = (
    *SMOOTH, *KINKED, "Add", "BatchNormalization", "Clip", "Div", "Exp", "Max", "Min", "Mul", "PRelu", "Pow",
    "Reciprocal", "Sqrt", "Sub", "Sum",
)  # fmt: skip

# They take large inputs to nearly the same values.
FLATTENING = ("Erf", "Sigmoid", "Softsign", "Tanh")

_DRAWS = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")


def begins_unit(node: Node) -> bool:
    """Whether a node's inputs are to be seen: it decides something by them, or makes or multiplies codes."""
    return node.operator in (*DECISIONS, *WHOLE_PRODUCTS, "DynamicQuantizeLinear")


def is_whole_product(node: Node) -> bool:
    """Whether a node multiplies whole numbers."""
    return node.operator in WHOLE_PRODUCTS


def is_known(node: Node, opset: int) -> bool:
    """Whether a node can be judged: it has a rule, moves values, or follows from what carries no error."""
    if is_random(node.operator):
        return False
    return find_rule(node, opset) is not None or node.operator in (*MOVES, *OF_SIZES, *_OF_TRUTH)


def is_random(operator: str) -> bool:
    """Whether an operator draws what it returns, something else each time."""
    return operator in _DRAWS


def find_rule(node: Node, opset: int) -> Rule | None:
    """The rule of a node's operator; None where there is none, or none for these attributes."""
    if node.operator in ("Softmax", "LogSoftmax") and opset < _OPSET_OF_PLAIN_SOFTMAX:
        return _softmax_of_rows
    if node.operator == "Hardmax" and opset < _OPSET_OF_PLAIN_SOFTMAX:
        return None
    if node.operator == "BatchNormalization" and node.attributes.get("training_mode"):
        return None
    if is_reducing_scatter(node):
        return scatter
    return _RULES.get(node.operator)


def _affine(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    x, y = list_floats(inputs)
    operation = {"Add": bounded.add, "Mul": bounded.multiply, "Div": bounded.divide}
    if node.operator == "Sub":
        return [bounded.add(a, x, y, -1.0)]
    return [operation[node.operator](a, x, y)]


def _sum(a: Arithmetic, _: Node, inputs: Sequence[Value | None]) -> list[Value]:
    first, *others = list_floats(inputs)
    for other in others:
        first = bounded.add(a, first, other)
    # In any sequence: each addition may round what all terms come to.
    more = max(len(others) - 1, 0) * len(others) * a.unit * first.magnitude
    return [Bounded(first.value, first.error + more, first.magnitude, first.growth)]


def _batch_norm(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    x, scale, shift, mean, variance = list_floats(inputs)
    shape = (1, -1) + (1,) * (x.value.ndim - 2)
    epsilon = float(np.float32(node.attributes.get("epsilon", 1e-5)))
    factor = scale.value / np.sqrt(variance.value + epsilon)
    scaled = bounded.multiply(a, _less(a, x, mean, shape), bounded.exactly(factor.reshape(shape)))
    # The factor itself is rounded thrice: sum, root and quotient.
    error = scaled.error + 4 * a.unit * scaled.magnitude
    scaled = Bounded(scaled.value, error, scaled.magnitude, scaled.growth)
    return [bounded.add(a, scaled, bounded.exactly(shift.value.reshape(shape)))]


def _less(a: Arithmetic, x: Bounded, mean: Bounded, shape: tuple[int, ...]) -> Bounded:
    # Folded, shift - mean * factor is rounded before anything is added: the mean's magnitude stays in the sum's.
    plain = Bounded(x.value, x.error, x.magnitude, x.growth or a.unit)
    return bounded.add(a, plain, bounded.exactly(mean.value.reshape(shape)), -1.0)


def _clip(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    x = list_floats(inputs[:1])[0]
    low = _limit(inputs[1] if len(inputs) > 1 else None, float(node.attributes.get("min", -math.inf)))
    high = _limit(inputs[2] if len(inputs) > 2 else None, float(node.attributes.get("max", math.inf)))
    return [bounded.choose(lambda v, least, most: np.minimum(np.maximum(v, least), most), x, low, high)]


def _limit(value: Value | None, default: float) -> Bounded:
    """A bound of Clip: a single number, which may have been computed in the unit itself."""
    if value is None:
        return bounded.exactly(np.array(default))
    return bounded.move(lambda v: v.reshape(-1)[0], value if isinstance(value, Bounded) else bounded.exactly(value))


def _extreme(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    function = np.maximum if node.operator == "Max" else np.minimum
    first, *others = list_floats(inputs)
    for other in others:
        first = bounded.choose(function, first, other)
    return [first]


def _powers(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    x, *others = list_floats(inputs)
    if node.operator == "Sqrt":
        return [bounded.take_root(a, x)]
    if node.operator == "Reciprocal":
        return [bounded.divide(a, bounded.exactly(np.ones(1)), x)]
    if node.operator == "Pow":
        return [bounded.raise_power(a, x, others[0])]
    with np.errstate(all="ignore"):
        if node.operator == "Exp":
            value = np.exp(x.value)
            lost = np.where((value > 0) & (value < a.least_power), a.least_power, 0.0)
            return [bounded.rounded(a, value, value * np.expm1(x.error) + lost, 6.0)]
    return [take_logarithm(a, x)]


def _prelu(a: Arithmetic, _: Node, inputs: Sequence[Value | None]) -> list[Value]:
    x, slope = list_floats(inputs)
    scaled = bounded.multiply(a, x, slope)
    negative = x.value < 0
    error = np.where(negative, scaled.error, x.error) + np.where(x.error > np.abs(x.value), scaled.error + x.error, 0)
    value = np.where(negative, scaled.value, x.value)
    return [Bounded(value, error, np.abs(value))]


def _pool(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    x, given = list_floats(inputs[:1])[0], node.attributes
    axes = tuple(range(-len(given["kernel_shape"]), 0))
    if node.operator == "MaxPool":
        value = view_windows(x.value, given, -np.inf).max(axes)
        return [Bounded(value, view_windows(x.error, given, 0.0).max(axes), np.abs(value))]
    counted = count_taps(x.value, given)
    windows = view_windows(x.value, given, 0.0)
    growth = (windows.shape[-1] * math.prod(windows.shape[axes[0] : -1]) + 3) * a.unit
    value, size = windows.sum(axes) / counted, np.abs(windows).sum(axes) / counted
    error = view_windows(x.error, given, 0.0).sum(axes) / counted
    return [Bounded(value, error + growth * (size + error) + a.least, np.abs(value))]


def _pool_norms(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """The norm of each window: what lies outside is 0."""
    x = list_floats(inputs[:1])[0]
    axes = tuple(range(-len(node.attributes["kernel_shape"]), 0))
    windows = bounded.move(lambda v: np.ascontiguousarray(view_windows(v, node.attributes, 0.0)), x)
    axes = tuple(i % windows.value.ndim for i in axes)
    found = take_norm(a, windows, axes, float(node.attributes.get("p", 2)))
    return [bounded.move(lambda v: np.squeeze(v, axes), found)]


def _sum_letters(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """Einsum of any operands: products of all of them, added up in any order."""
    given = list_floats(inputs)
    equation = str(node.attributes["equation"]).replace(" ", "")

    def run(arrays: Sequence[Floats]) -> Floats:
        # Without a plan, as a product of many operands may take more memory than they do.
        return np.asarray(np.einsum(equation, *arrays), np.float64)

    value, sizes = run([v.value for v in given]), run([np.abs(v.value) for v in given])
    most = run([np.abs(v.value) + v.error for v in given])
    terms = run([np.ones_like(v.value) for v in given])
    growth = (float(terms.max(initial=1.0)) + len(given) + 1) * a.unit
    return [Bounded(value, most - sizes + growth * most, most, growth)]


def _normalize(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    x, scale, *shift = list_floats(inputs)
    rank, epsilon = x.value.ndim, float(np.float32(node.attributes.get("epsilon", 1e-5)))
    joined = (0,) if node.attributes.get(JOINS_BATCH) else ()
    if node.operator == "LayerNormalization":
        axis = int(node.attributes.get("axis", -1)) % rank
        found = bounded.standardize(a, x, tuple(range(axis, rank)), epsilon)
    elif node.operator == "InstanceNormalization":
        found = bounded.standardize(a, x, (*joined, *range(2, rank)), epsilon)
        scale, *shift = [bounded.move(lambda v: v.reshape(1, -1, *(1,) * (rank - 2)), s) for s in (scale, *shift)]
    else:
        groups = int(node.attributes["num_groups"])
        # Before opset 21 a scale and a shift were given by group.
        each = x.value.shape[1] // groups if scale.value.size == groups else 1
        scale, *shift = [bounded.move(lambda v: np.repeat(v, each), s) for s in (scale, *shift)]
        split = bounded.move(lambda v: v.reshape(v.shape[0], groups, -1), x)
        standard = bounded.standardize(a, split, (*joined, 2), epsilon)
        found = bounded.move(lambda v: v.reshape(x.value.shape), standard)
        scale, *shift = [bounded.move(lambda v: v.reshape(1, -1, *(1,) * (rank - 2)), s) for s in (scale, *shift)]
    # The factor may be put together with 1 / sqrt(variance) first.
    found = Bounded(found.value, found.error, found.magnitude, a.unit)
    found = bounded.multiply(a, found, scale)
    return [bounded.add(a, found, shift[0]) if shift else found]


def _softmax(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    return [_take_softmax(a, node, list_floats(inputs)[0], int(node.attributes.get("axis", -1)))]


def _take_softmax(a: Arithmetic, node: Node, x: Bounded, axis: int) -> Bounded:
    return (bounded.take_softmax if node.operator == "Softmax" else bounded.take_log_softmax)(a, x, axis)


def _softmax_of_rows(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value]:
    """Softmax before opset 13: over all axes from one on, the second if none is named."""
    x = list_floats(inputs)[0]
    shape = x.value.shape
    axis = int(node.attributes.get("axis", 1))
    rows = math.prod(shape[: axis % len(shape) if axis < 0 else axis])
    found = _take_softmax(a, node, bounded.move(lambda v: v.reshape(rows, -1), x), 1)
    return [bounded.move(lambda v: v.reshape(shape), found)]


def _cast(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    import onnx

    value = inputs[0]
    target = onnx.helper.tensor_dtype_to_np_dtype(int(node.attributes["to"]))
    if target.name not in FORMATS:
        if not isinstance(value, Bounded):
            return [np.asarray(value).astype(target)]
        low, high = ((value.value + sign * value.error).astype(target) for sign in (-1.0, 1.0))
        # Which whole number it becomes is not known within the bound.
        return [value.value.astype(target)] if np.array_equal(low, high) else None
    x = list_floats(inputs)[0]
    if not x.error.any() and np.array_equal(x.value, x.value.astype(target).astype(np.float64), equal_nan=True):
        return [x]
    found = bounded.rounded(bounded.arithmetic_in(FORMATS[target.name]), x.value, x.error)
    with np.errstate(over="ignore", invalid="ignore"):
        least, most = (np.isinf((np.abs(x.value) + sign * x.error).astype(target)) for sign in (-1.0, 1.0))
    if not most.any():
        return [found]
    # Beyond the largest number there is infinity.
    value = np.where(least, np.copysign(np.inf, x.value), found.value)
    error = np.where(least, 0.0, np.where(most, np.inf, found.error))
    return [Bounded(value, error, np.abs(value))]


def _cast_like(_: Arithmetic, __: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """A value as another's kind: floating ones keep their digits, which only a wider format would do."""
    value, like = inputs
    assert value is not None
    if isinstance(like, Bounded):
        return [value if isinstance(value, Bounded) else bounded.exactly(np.asarray(value))]
    if isinstance(value, Bounded) and value.error.any():
        return None
    array = value.value if isinstance(value, Bounded) else value
    return None if like is None else [array.astype(like.dtype)]


def _take_bits(a: Arithmetic, node: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """BitCast of values that are known exactly; which of the floating formats they have, the unit roundoff says."""
    import onnx

    (value,), target = list_floats(inputs), onnx.helper.tensor_dtype_to_np_dtype(int(node.attributes["to"]))
    if value.error.any():
        return None
    own = (numpy_dtype(f.name) for f in FORMATS.values() if float(f.unit_roundoff) == a.unit)
    fitting = next((d for d in own if d.itemsize == target.itemsize), None)
    return None if fitting is None else [as_value(value.value.astype(fitting).view(target))]


def _range(a: Arithmetic, _: Node, inputs: Sequence[Value | None]) -> list[Value] | None:
    """Numbers from a start on; whole ones are exact, others a product and a sum away from that."""
    start, limit, delta = (v.value.reshape(-1)[0] for v in list_floats(inputs))
    if any(v.error.any() for v in list_floats(inputs)):
        return None
    count = max(int(np.ceil((limit - start) / delta)), 0)
    STEPS.check(count, "numbers of a Range")
    value = start + np.arange(count) * delta
    if float(start).is_integer() and float(delta).is_integer():
        return [bounded.exactly(value)]
    return [bounded.rounded(a, value, 2 * a.unit * np.abs(value - start), 2.0)]


_RULES: dict[str, Rule] = {
    **dict.fromkeys(SMOOTH, lambda a, node, inputs: [apply_smooth(a, node, list_floats(inputs)[0])]),
    **dict.fromkeys(("Add", "Sub", "Mul", "Div"), _affine),
    "Sum": _sum,
    "BatchNormalization": _batch_norm,
    "Clip": _clip,
    **dict.fromkeys(("Max", "Min"), _extreme),
    **dict.fromkeys(KINKED, lambda a, node, inputs: [apply_kinked(a, node, list_floats(inputs[:1])[0])]),
    **dict.fromkeys(MONOTONE, lambda a, node, inputs: [apply_monotone(a, node, list_floats(inputs)[0])]),
    **DECIDING,
    **QUANTISING,
    **REDUCING,
    **RESAMPLING,
    **FOURIER,
    **REGIONS,
    "Range": _range,
    **dict.fromkeys(("Exp", "Sqrt", "Reciprocal", "Log", "Pow"), _powers),
    "PRelu": _prelu,
    **dict.fromkeys(("MaxPool", "AveragePool"), _pool),
    **dict.fromkeys(("LayerNormalization", "InstanceNormalization", "GroupNormalization"), _normalize),
    **dict.fromkeys(("Softmax", "LogSoftmax"), _softmax),
    "LpPool": _pool_norms,
    "Einsum": _sum_letters,
    "Cast": _cast,
    "CastLike": _cast_like,
    "BitCast": _take_bits,
    ONLY_IF: lambda _, __, inputs: [inputs[0]] if inputs[0] is not None and np.all(make_plain(inputs[1])) else None,
}


def apply_node(a: Arithmetic, node: Node, inputs: Sequence[Value | None], opset: int) -> list[Value] | None:
    """A node's outputs for these inputs; None where no rule bounds their error, or nothing here can compute them."""
    if is_random(node.operator):
        return None
    rule = find_rule(node, opset)
    try:
        if rule is not None and (node.attributes.get(SATURATES) or any(isinstance(v, Bounded) for v in inputs)):
            return rule(a, node, inputs)
        return _apply_reference(node, inputs, opset)
    except NoReferenceError:
        return None


def _apply_reference(node: Node, inputs: Sequence[Value | None], opset: int) -> list[Value] | None:
    """The outputs of ONNX's reference, where they have no error or just that of their inputs; else None."""
    floats = [v for v in inputs if isinstance(v, Bounded)]
    if not floats and node.operator.startswith("Reduce"):
        return [reduce_whole(node, inputs, opset)]
    if not floats:
        return [as_value(v) for v in evaluate_plainly(node, [make_plain(v) for v in inputs], opset)]
    if node.operator in OF_SIZES:
        return [as_value(v) for v in evaluate_plainly(node, [make_plain(v) for v in inputs], opset)]
    return _move_each(node, inputs, opset) if node.operator in MOVES and _only_moves(node, inputs) else None


def _only_moves(node: Node, inputs: Sequence[Value | None]) -> bool:
    """Whether a node of MOVES computes nothing here: no sum of what is scattered, nothing dropped at random."""
    if node.operator == "Dropout" and len(inputs) > 2:
        return inputs[2] is None or not np.any(make_plain(inputs[2]))
    return not is_reducing_scatter(node)


def _move_each(node: Node, inputs: Sequence[Value | None], opset: int) -> list[Value]:
    """Values, errors and magnitudes moved alike, in float64."""

    def run(part: Mapping[str, Any] | str) -> list[np.ndarray]:
        arrays = [getattr(v, str(part)) if isinstance(v, Bounded) else v for v in inputs]
        return evaluate_plainly(node, arrays, opset)

    parts = [run(name) for name in ("value", "error", "magnitude")]
    growth = max(v.growth for v in inputs if isinstance(v, Bounded))
    # A mask next to what is moved has no error.
    return [
        Bounded(value, error, magnitude, growth) if value.dtype == np.float64 else value
        for value, error, magnitude in zip(*parts, strict=True)
    ]
