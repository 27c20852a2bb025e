"""How networks are divided: what engines fuse together, and what hangs together in between."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from networks.network_building import make_model, node, random, residual
from samebits.networks.observing import list_flattened
from samebits.networks.onnx_reading import make_network
from samebits.networks.units import divide_network, fold_constants, list_addends, merge_divisions


def divide(model, **options):
    network = make_network(model, "test")
    return network, divide_network(network, fold_constants(network), **options)


def test_products_take_what_follows_elementwise_with_them():
    _, units = divide(residual())
    assert [u.operators for u in units] == [
        ("Conv", "Relu"),
        ("Conv", "Add", "Relu"),
        ("GlobalAveragePool", "Flatten"),
        ("MatMul", "Add"),
        ("Softmax",),
    ]
    assert units[1].inputs == ("r1",)
    assert [u.outputs for u in units] == [("r1",), ("r2",), ("f",), ("l",), ("p",)]


def test_what_two_ways_read_ends_a_unit_and_what_comes_back_together_does_not():
    silu = [
        node("Conv", ["x", "w"], ["c"]),
        node("Sigmoid", ["c"], ["s"]),
        node("Mul", ["c", "s"], ["y"]),
        node("Relu", ["y"], ["z"]),
    ]
    constants = {"w": random((2, 2, 1, 1), 1)}
    _, units = divide(make_model(silu, {"x": [1, 2, 4, 4]}, ["z"], constants))
    assert [u.operators for u in units] == [("Conv", "Sigmoid", "Mul", "Relu")]
    # The convolution's own value is an output: it must be seen.
    _, units = divide(make_model(silu, {"x": [1, 2, 4, 4]}, ["z", "c"], constants))
    assert [u.operators for u in units] == [("Conv",), ("Sigmoid", "Mul", "Relu")]


@pytest.mark.parametrize(("behind", "flattened"), [("Tanh", ["c"]), ("Relu", []), ("Exp", [])])
def test_what_is_only_flattened_is_listed(behind, flattened):
    nodes = [node("Conv", ["x", "w"], ["c"]), node(behind, ["c"], ["y"])]
    model = make_model(nodes, {"x": [1, 2, 4, 4]}, ["y"], {"w": random((2, 2, 1, 1), 1)})
    network, units = divide(model)
    assert list_flattened(network, units) == flattened
    _, units = divide(model, apart=flattened)
    assert len(units) == 1 + len(flattened)


def test_what_something_else_reads_too_is_not_flattened():
    nodes = [
        node("Conv", ["x", "w"], ["c"]),
        node("Sigmoid", ["c"], ["s"]),
        node("Mul", ["c", "s"], ["y"]),
    ]
    model = make_model(nodes, {"x": [1, 2, 4, 4]}, ["y"], {"w": random((2, 2, 1, 1), 1)})
    assert list_flattened(*divide(model)) == []


def test_a_scale_from_elsewhere_is_no_part_of_a_product():
    nodes = [
        node("GlobalAveragePool", ["x"], ["g"]),
        node("Conv", ["x", "w"], ["c"]),
        node("Mul", ["c", "g"], ["y"]),
    ]
    _, units = divide(make_model(nodes, {"x": [1, 2, 4, 4]}, ["y"], {"w": random((2, 2, 1, 1), 1)}))
    assert sorted(u.operators for u in units) == [("Conv",), ("GlobalAveragePool",), ("Mul",)]


def test_divisions_of_several_sides_come_in_one_sequence_with_names_of_their_own():
    network, units = divide(residual())
    _, joined = divide(residual(), unobserved=["r1", "l"])
    merged = merge_divisions(network, {"a": units, "b": joined})
    for side, own in (("a", units), ("b", joined)):
        assert [s.unit.places for s in merged if side in s.sides] == [u.places for u in own]
    assert [s.sides for s in merged if s.unit.operators == ("GlobalAveragePool", "Flatten")] == [("a", "b")]
    assert len({s.unit.name for s in merged}) == len(merged)
    first, longer = (s.unit for s in merged if s.unit.name.startswith(units[0].name))
    assert (first.name, first.places) == (units[0].name, units[0].places)
    assert longer.name == f"{units[0].name} to {network.nodes[longer.places[-1]].name}"


def test_sides_whose_units_cross_are_merged_nonetheless():
    """a joins 1 with 2 and b joins 3 with 4, so that each of these waits for the other."""
    nodes = [
        node("Exp", ["x"], ["s"]),
        *(node("MatMul", [i, "w"], [o]) for i, o in (("s", "p"), ("p", "t"), ("t", "q"), ("x", "r"))),
        node("Add", ["r", "s"], ["u"]),
        node("Add", ["u", "q"], ["y"]),
    ]
    constants = {"w": random((2, 2), 1)}
    network, apart = divide(make_model(nodes, {"x": [2, 2]}, ["y", "t"], constants))
    a = [u for u in apart if 1 not in u.places and 4 not in u.places]
    b = [u for u in apart if 3 not in u.places and 0 not in u.places]
    crossed = {
        "a": [*a, replace(apart[0], places=(1, 4), inputs=("s", "x"), outputs=("p", "r"))],
        "b": [*b, replace(apart[0], places=(0, 3), inputs=("x", "t"), outputs=("s", "q"))],
    }
    merged = merge_divisions(network, crossed)
    assert {s.unit.places for s in merged} == {u.places for units in crossed.values() for u in units}


def two_added():
    nodes = [
        node("Conv", ["x", "w1"], ["a"]),
        node("Conv", ["x", "w2"], ["b"]),
        node("Add", ["a", "b"], ["s"]),
        node("Relu", ["s"], ["y"]),
    ]
    return make_model(nodes, {"x": [1, 2, 4, 4]}, ["y"], {"w1": random((2, 2, 1, 1), 1), "w2": random((2, 2, 1, 1), 2)})


def test_of_two_products_that_are_added_either_may_have_the_sum():
    network, units = divide(two_added())
    assert [(u.operators, u.inputs) for u in units] == [(("Conv",), ("x",)), (("Conv", "Add", "Relu"), ("x", "a"))]
    addends = list_addends(network, units)
    assert addends == ["a"]
    _, others = divide(two_added(), preferred=addends)
    assert [(u.operators, u.inputs) for u in others] == [(("Conv",), ("x",)), (("Conv", "Add", "Relu"), ("x", "b"))]


def test_what_must_not_be_observed_joins_the_units_around_it():
    _, units = divide(residual(), unobserved=["r2", "l"])
    assert [u.operators for u in units] == [
        ("Conv", "Relu"),
        ("Conv", "Add", "Relu", "GlobalAveragePool", "Flatten"),
        ("MatMul", "Add", "Softmax"),
    ]


def test_what_makes_an_unobserved_value_is_in_every_unit_that_reads_it():
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("MatMul", ["e", "w"], ["m"]),
        node("Softmax", ["m"], ["p"]),
        node("Mul", ["p", "e"], ["y"]),
    ]
    _, units = divide(make_model(nodes, {"x": [2, 3]}, ["y"], {"w": random((3, 3), 1)}), unobserved=["p", "e"])
    assert [(u.operators, u.inputs, u.outputs) for u in units] == [
        (("Exp", "MatMul"), ("x",), ("m",)),
        (("Exp", "Softmax", "Mul"), ("x", "m"), ("y",)),
    ]


def test_units_that_have_most_of_their_nodes_in_common_become_one_unless_something_lies_between():
    """Nothing of a chain can be observed but its two ends: these differ by a node each."""
    chain = [node("Exp", ["x"], ["a"]), node("Softmax", ["a"], ["b"]), node("Relu", ["b"], ["c"])]
    split = [*chain, node("Softmax", ["c"], ["y"]), node("Exp", ["c"], ["z"])]
    _, units = divide(make_model(split, {"x": [2, 3]}, ["y", "z"], {}), unobserved=["a", "b", "c"])
    assert [u.outputs for u in units] == [("y", "z")]
    # A product that lies between the ends is seen by itself, so that they cannot be one.
    behind = [node("MatMul", ["y", "w"], ["m"]), node("Softmax", ["m"], ["s"]), node("Add", ["c", "s"], ["z"])]
    constants = {"w": random((3, 3), 1)}
    between = make_model([*split[:4], *behind], {"x": [2, 3]}, ["z"], constants)
    _, units = divide(between, unobserved=["a", "b", "c"])
    assert [u.outputs for u in units] == [("y",), ("m",), ("z",)]
    assert units[2].operators == ("Exp", "Softmax", "Relu", "Softmax", "Add")


def test_weights_that_are_computed_of_weights_are_no_part_of_any_unit():
    nodes = [node("Transpose", ["w"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])]
    network, units = divide(make_model(nodes, {"x": [2, 3]}, ["y"], {"w": random((4, 3), 1)}))
    assert [u.operators for u in units] == [("MatMul",)]
    assert np.array_equal(fold_constants(network)["t"], random((4, 3), 1).T)


@pytest.mark.parametrize("seed", range(20))
def test_every_node_is_in_one_unit_and_units_stand_behind_what_they_read(seed):
    rng = np.random.default_rng(seed)
    values, nodes, constants = ["x"], [], {}
    for i in range(25):
        operator = rng.choice(["MatMul", "Relu", "Add", "Mul", "Softmax", "Sigmoid"])
        inputs = [str(rng.choice(values[-4:]))]
        if operator == "MatMul":
            constants[f"w{i}"] = random((3, 3), i)
            inputs.append(f"w{i}")
        elif operator in ("Add", "Mul"):
            inputs.append(str(rng.choice(values)))
        nodes.append(node(operator, inputs, [f"v{i}"]))
        values.append(f"v{i}")
    hidden = [str(v) for v in rng.choice(values[1:], 3, replace=False)]
    # Nothing is made in vain: what no node reads is an output.
    ends = [v for v in values[1:] if not any(v in n.input for n in nodes)]
    network, units = divide(make_model(nodes, {"x": [2, 3]}, ends, constants), unobserved=hidden)
    assert {p for u in units for p in u.places} == set(range(len(network.nodes)))
    # What is in several units makes nothing that could be observed.
    makers = Counter(p for u in units for p in u.places)
    several = {v for p, count in makers.items() if count > 1 for v in network.nodes[p].outputs}
    assert not several & {v for u in units for v in (*u.inputs, *u.outputs)}
    made = {"x"}
    for unit in units:
        assert set(unit.inputs) <= made
        made |= set(unit.outputs)
