"""LSTM, GRU and RNN, step by step as ONNX defines them: products of the step, then the gates' functions.

Errors of a state go into the next step, so bounds grow with the sequence; where the states that an engine returned
are known, each step is judged by the state that the engine had before it. Sources: ONNX operators LSTM, GRU and RNN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from samebits.networks import bounded
from samebits.networks.bounded import Arithmetic, Bounded
from samebits.networks.network import Node
from samebits.networks.operations import SMOOTH, apply_kinked, apply_smooth
from samebits.networks.operator_writer import CODES_OF_8_BITS
from samebits.networks.values import Value, list_floats, read_whole

RECURRENT = ("GRU", "LSTM", "RNN")
_GATES = {"GRU": 3, "LSTM": 4, "RNN": 1}
_FUNCTIONS = {"GRU": ["Sigmoid", "Tanh"], "LSTM": ["Sigmoid", "Tanh", "Tanh"], "RNN": ["Tanh"]}
_KNOWN = (*SMOOTH, "Relu", "LeakyRelu", "Elu", "HardSigmoid")


def is_judged_stepwise(node: Node) -> bool:
    """Whether a node's functions are known, and it does nothing that is left out here (clipping, coupled gates)."""
    given = node.attributes
    names = [_as_text(n) for n in given.get("activations", _FUNCTIONS[node.operator])]
    plain = not given.get("clip") and not given.get("input_forget") and not given.get("layout")
    return plain and all(n in _KNOWN for n in names) and not given.get("activation_alpha")


def returns_states(node: Node) -> bool:
    """Whether a node returns the state after every step."""
    return node.operator in RECURRENT and bool(node.outputs[0])


def apply_recurrent(
    a: Arithmetic, node: Node, inputs: Sequence[Value | None], returned: np.ndarray | None = None
) -> list[Value] | None:
    """Those of Y, Y_h and, of an LSTM, Y_c that the node has a name for; `returned` is the Y that an engine made."""
    given = [*inputs, *[None] * (8 - len(inputs))]
    x, w, r = list_floats(given[:3])
    x = _pass_codes(node, x)
    both = _as_text(node.attributes.get("direction", "forward"))
    directions = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[both]
    found: list[tuple[Bounded, Bounded, Bounded]] = []
    for number, is_reverse in enumerate(directions):
        cell = _Cell.make(a, node, number, w, r, given, x.value.shape[1])
        states = _take_states(returned, number, (*x.value.shape[:2], r.value.shape[2]))
        found.append(cell.run(x, read_whole(given[4]), states, is_reverse=is_reverse))
    outputs = [_stack([f[i] for f in found], 1 if i == 0 else 0) for i in range(3)]
    return [output for output, name in zip(outputs, node.outputs, strict=False) if name]


def _take_states(returned: np.ndarray | None, number: int, shape: tuple[int, ...]) -> np.ndarray | None:
    """A direction's states [steps, batch, hidden] of [steps, directions, batch, hidden]; none where they are broken."""
    if returned is None or returned.ndim != 4 or number >= returned.shape[1]:
        return None
    states = returned[:, number].astype(np.float64)
    return states if states.shape == shape and np.isfinite(states).all() else None


def _as_text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _stack(values: Sequence[Bounded], axis: int) -> Bounded:
    value, error, sizes = (np.stack([getattr(v, n) for v in values], axis) for n in ("value", "error", "magnitude"))
    return Bounded(value, error, sizes)


def multiply_matrices(a: Arithmetic, x: Bounded, w: Bounded) -> Bounded:
    """x w^T with the bound of sums in any order."""
    with np.errstate(over="ignore", invalid="ignore"):
        value, sizes = x.value @ w.value.T, np.abs(x.value) @ np.abs(w.value).T
        carried = np.abs(x.value) @ w.error.T + x.error @ np.abs(w.value).T + x.error @ w.error.T
        growth = (x.value.shape[1] + 2) * a.unit
        return Bounded(value, carried + growth * (sizes + carried), sizes + carried, growth)


def _pass_codes(node: Node, x: Bounded) -> Bounded:
    """What a quantised layer multiplies: codes of 8 bits over the values' range and 0, half a step off each way.

    Another half is what the rounded zero point moves all of them by, or the last one is cut by.
    """
    if not node.attributes.get(CODES_OF_8_BITS):
        return x
    low, high = (x.value - x.error).min(initial=0.0), (x.value + x.error).max(initial=0.0)
    return replace(x, error=x.error + (high - low) / 255.0)


@dataclass(frozen=True)
class _Cell:
    """One direction: weights [gates * hidden, ...], both biases, the states it begins with, its functions."""

    a: Arithmetic
    node: Node
    w: Bounded
    r: Bounded
    bias_w: Bounded
    bias_r: Bounded
    state: Bounded
    memory: Bounded
    peepholes: Bounded | None
    functions: tuple[Callable[[Bounded], Bounded], ...]

    @classmethod
    def make(
        cls,
        a: Arithmetic,
        node: Node,
        number: int,
        w: Bounded,
        r: Bounded,
        given: Sequence[Value | None],
        batch: int,
    ) -> _Cell:
        """The cell of one direction of a node."""
        hidden = r.value.shape[2]

        def pick(value: Value | None, shape: tuple[int, ...]) -> Bounded:
            if value is None:
                return bounded.exactly(np.zeros(shape))
            return bounded.move(lambda v: v[number], list_floats([value])[0])

        rows = _GATES[node.operator] * hidden
        bias = pick(given[3], (2 * rows,))
        names = [_as_text(n) for n in node.attributes.get("activations", _FUNCTIONS[node.operator])]
        own = names[number * len(_FUNCTIONS[node.operator]) :][: len(_FUNCTIONS[node.operator])]
        own = own if len(own) == len(_FUNCTIONS[node.operator]) else names[: len(_FUNCTIONS[node.operator])]
        functions = tuple(_make_function(a, node, name) for name in own)
        peepholes = None if node.operator != "LSTM" or given[7] is None else pick(given[7], ())
        return cls(
            a, node, pick(w, ()), pick(r, ()),
            bounded.move(lambda v: v[:rows], bias), bounded.move(lambda v: v[rows:], bias),
            pick(given[5], (batch, hidden)),
            pick(given[6] if node.operator == "LSTM" else None, (batch, hidden)), peepholes, functions,
        )  # fmt: skip

    def run(
        self, x: Bounded, lengths: tuple[int, ...] | None, states: np.ndarray | None, *, is_reverse: bool
    ) -> tuple[Bounded, Bounded, Bounded]:
        """All states [steps, batch, hidden], the last one, and the last memory; behind an item's length they are 0."""
        steps, batch = x.value.shape[:2]
        ends = np.array(lengths or (steps,) * batch)
        state, memory = self.state, self.memory
        made: list[Bounded | None] = [None] * steps
        for n in range(steps):
            # In reverse an item begins at its own end.
            place = (ends - 1 - n) if is_reverse else np.full(batch, n)
            is_there = n < ends
            fed = bounded.move(lambda v, place=place: v[np.maximum(place, 0), np.arange(batch)], x)
            new, kept = self._step(fed, state, memory)
            state, memory = _choose(is_there, new, state), _choose(is_there, kept, memory)
            made[n] = _choose(is_there, new, bounded.exactly(np.zeros_like(new.value)))
            if states is not None and n + 1 < steps:
                # It goes on as it was stored, or before it was rounded for that.
                stored = states[np.maximum(place, 0), np.arange(batch)]
                own = Bounded(stored, self.a.unit * np.abs(stored) + self.a.least, np.abs(stored))
                state = _choose(is_there, own, state)
        whole = _stack([m for m in made if m is not None], 0)
        if is_reverse:
            order = np.array([[e - 1 - n if n < e else n for e in ends] for n in range(steps)])
            whole = bounded.move(lambda v: v[order, np.arange(batch)[None, :]], whole)
        return whole, state, memory

    def _step(self, x: Bounded, state: Bounded, memory: Bounded) -> tuple[Bounded, Bounded]:
        fed = bounded.add(self.a, multiply_matrices(self.a, x, self.w), self.bias_w)
        kept = bounded.add(self.a, multiply_matrices(self.a, _pass_codes(self.node, state), self.r), self.bias_r)
        if self.node.operator == "RNN":
            return self.functions[0](bounded.add(self.a, fed, kept)), memory
        return (self._step_gru if self.node.operator == "GRU" else self._step_lstm)(fed, kept, state, memory)

    def _step_lstm(self, fed: Bounded, kept: Bounded, _: Bounded, memory: Bounded) -> tuple[Bounded, Bounded]:
        a = self.a
        i, o, f, c = self._split(bounded.add(a, fed, kept), 4)
        sigmoid, tanh, last = self.functions
        peepholes = bounded.exactly(np.zeros(3)) if self.peepholes is None else self.peepholes
        p_i, p_o, p_f = self._split(peepholes, 3)
        if self.peepholes is not None:
            i = bounded.add(a, i, bounded.multiply(a, memory, p_i))
            f = bounded.add(a, f, bounded.multiply(a, memory, p_f))
        new = bounded.add(
            a,
            _plainly(bounded.multiply(a, sigmoid(f), memory)),
            _plainly(bounded.multiply(a, sigmoid(i), tanh(c))),
        )
        if self.peepholes is not None:
            o = bounded.add(a, o, bounded.multiply(a, new, p_o))
        return _plainly(bounded.multiply(a, sigmoid(o), last(new))), _plainly(new)

    def _step_gru(self, fed: Bounded, kept: Bounded, state: Bounded, memory: Bounded) -> tuple[Bounded, Bounded]:
        a = self.a
        fed_z, fed_r, fed_h = self._split(fed, 3)
        kept_z, kept_r, kept_h = self._split(kept, 3)
        sigmoid, tanh = self.functions
        z, r = sigmoid(bounded.add(a, fed_z, kept_z)), sigmoid(bounded.add(a, fed_r, kept_r))
        if self.node.attributes.get("linear_before_reset"):
            gated = bounded.multiply(a, r, kept_h)
        else:
            rows = self._split(self.r.value.T, 3)[2].T, self._split(self.r.error.T, 3)[2].T
            weights = Bounded(rows[0], rows[1], np.abs(rows[0]))
            reset = _plainly(bounded.multiply(a, r, state))
            gated = bounded.add(a, multiply_matrices(a, reset, weights), self._split(self.bias_r, 3)[2])
        h = tanh(_plainly(bounded.add(a, fed_h, gated)))
        rest = bounded.add(a, bounded.exactly(np.ones(1)), z, -1.0)
        first, second = bounded.multiply(a, rest, h), bounded.multiply(a, z, state)
        return _plainly(bounded.add(a, _plainly(first), _plainly(second))), memory

    def _split(self, value: object, count: int) -> list:
        if isinstance(value, Bounded):
            parts = [np.split(getattr(value, n), count, axis=-1) for n in ("value", "error", "magnitude")]
            return [Bounded(v, e, m, value.growth) for v, e, m in zip(*parts, strict=True)]
        return list(np.split(np.asarray(value), count, axis=-1))


def _plainly(value: Bounded) -> Bounded:
    """A value that is stored: what follows is not added to its terms."""
    return replace(value, magnitude=np.abs(value.value) + value.error, growth=0.0)


def _choose(is_there: np.ndarray, new: Bounded, old: Bounded) -> Bounded:
    mark = is_there[:, None]
    return Bounded(*(np.where(mark, getattr(new, n), getattr(old, n)) for n in ("value", "error", "magnitude")))


def _make_function(a: Arithmetic, node: Node, name: str) -> Callable[[Bounded], Bounded]:
    plain = replace(node, operator=name, attributes={})
    apply = apply_smooth if name in SMOOTH else apply_kinked
    return lambda x: apply(a, plain, _plainly(x))
