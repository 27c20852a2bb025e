"""Functions of single elements with bounds: smooth ones, and those with a kink."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded, Floats
from samebits.networks.network import Node

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
KINKED = ("Relu", "LeakyRelu", "Elu", "Selu", "HardSigmoid", "HardSwish", "Swish", "Mish", "Gelu")


def apply_smooth(a: Arithmetic, node: Node, x: Bounded) -> Bounded:
    """Functions of `SMOOTH`, by their largest slope."""
    function, slope, relative, absolute = SMOOTH[node.operator]
    if slope is None:
        return bounded.step(function, x)
    return bounded.apply_slope(a, x, function, slope, relative=relative, absolute=absolute)


def apply_kinked(a: Arithmetic, node: Node, x: Bounded) -> Bounded:
    """Functions with a kink, each piece within a few roundings; slopes of all pieces at most `slope`."""
    given = node.attributes
    # Attributes are float32, and so are what stands for those that are left out.
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
