"""What is looked at inside units to find causes: in few runs, and none of it said of another unit."""

import numpy as np
import pytest

from networks.model_sides import ReferenceSide
from networks.network_building import conv, make_model, node, random, round_to
from samebits.errors import EngineCrashed
from samebits.networks import model_judging
from samebits.networks.model_comparing import compare_model
from samebits.networks.onnx_reading import make_network

pytestmark = pytest.mark.usefixtures("warm_workers")


def compare(model, on):
    return compare_model(make_network(model, "test"), on)


def chain(count):
    """Convolutions, each with an addition of what came before and a relu behind it."""
    nodes, constants, value = [], {}, "x"
    for i in range(count):
        constants[f"w{i}"] = random((6, 6, 3, 3), i, 0.15)
        nodes.append(node("Conv", [value, f"w{i}"], [f"c{i}"], pads=[1, 1, 1, 1]))
        nodes.append(node("Add", [f"c{i}", value], [f"a{i}"]))
        nodes.append(node("Relu", [f"a{i}"], [f"r{i}"]))
        value = f"r{i}"
    return make_model(nodes, {"x": [1, 6, 9, 9]}, [value], constants)


def narrow_each(bits):
    """Every convolution's operands with so many significant bits, by its number; sums of plain NumPy in float32."""

    def change(name, result, values):
        if not name.startswith("c"):
            return result
        i = int(name[1:])
        x, w = values["x" if i == 0 else f"r{i - 1}"], values[f"w{i}"]
        if not bits[i]:
            return conv(x, w).astype(np.float32)
        return conv(round_to(bits[i])(x), round_to(bits[i])(w)).astype(np.float32)

    return change


def test_what_a_side_does_in_all_units_is_found_in_few_runs():
    side = ReferenceSide("faulty", narrow_each([8] * 7))
    found = compare(chain(7), [side, "truth"])
    assert [u.sides[0].says for u in found.units] == ["rounds x and w to bfloat16 before it multiplies"] * 7
    assert {u.sides[0].cause_certainty for u in found.units} <= {"bits", "bounds"}
    # Twice as it is, with all ends observed to try them, to judge and to explain, and once with all that lies inside.
    assert len(side.observed_sets) <= 7


def test_what_a_side_does_in_one_unit_is_not_said_of_the_next():
    bits = [8, 8, 11, 0, 11, 8, 0]
    found = compare(chain(7), [ReferenceSide("faulty", narrow_each(bits)), "truth"])
    said = [u.sides[0].says or "" for u in found.units]
    for text, own in zip(said, bits, strict=True):
        assert ("bfloat16" in text) == (own == 8)
        assert ("tf32" in text) == (own == 11)
    assert [u.sides[0].verdict for u in found.units] == ["downgrade" if own else "rounding" for own in bits]


class ShyWithin(ReferenceSide):
    """Returns its last sum one step off as soon as two of its products are observed, as where both are split."""

    def run_network(self, network, inputs, observed, wanted, given):
        found = super().run_network(network, inputs, observed, wanted, given)
        if sum(name.startswith("c") for name in observed) > 1:
            found |= {n: np.nextafter(found[n], np.float32(np.inf)) for n in ("r1",) if n in found}
        return found


def test_units_that_change_when_all_is_observed_are_looked_into_one_by_one():
    side = ShyWithin("faulty", narrow_each([8] * 3))
    found = compare(chain(3), [side, "truth"])
    assert [u.sides[0].says for u in found.units] == ["rounds x and w to bfloat16 before it multiplies"] * 3
    alone = [o for o in side.observed_sets if sum(name.startswith("c") for name in o) == 1]
    assert {name for o in alone for name in o if name.startswith("c")} == {"c1", "c2"}


class TiredWithin(ReferenceSide):
    """Ends, now and then or for good, as soon as so many products are observed at once."""

    def __init__(self, change, most, *, for_good):
        super().__init__("faulty", change)
        self.most, self.for_good, self.ended = most, for_good, False

    def run_network(self, network, inputs, observed, wanted, given):
        if self.ended or sum(name.startswith("c") for name in observed) > self.most:
            self.ended = self.for_good
            raise EngineCrashed("memory ran out")
        return super().run_network(network, inputs, observed, wanted, given)


def test_a_run_of_all_that_fails_costs_no_cause():
    found = compare(chain(3), [TiredWithin(narrow_each([8] * 3), 1, for_good=False), "truth"])
    assert [u.sides[0].says for u in found.units] == ["rounds x and w to bfloat16 before it multiplies"] * 3


def test_an_engine_that_ends_while_causes_are_looked_for_is_judged_all_the_same():
    found = compare(chain(3), [TiredWithin(narrow_each([8] * 3), 1, for_good=True), "truth"])
    assert len(found.units) == 3
    assert {u.sides[0].verdict for u in found.units} <= {"wrong", "undecided", "downgrade"}


def test_so_many_bytes_are_observed_at_once(monkeypatch):
    monkeypatch.setattr(model_judging, "_INNER_BYTES", 2 * 4 * 6 * 81)
    side = ReferenceSide("faulty", narrow_each([8] * 5))
    found = compare(chain(5), [side, "truth"])
    assert max(sum(name.startswith("c") for name in o) for o in side.observed_sets) == 2
    assert [u.sides[0].says for u in found.units] == ["rounds x and w to bfloat16 before it multiplies"] * 5
