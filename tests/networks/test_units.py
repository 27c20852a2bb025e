"""How networks are divided: what engines fuse together, and what hangs together in between."""

import numpy as np
import pytest

from networks.network_building import make_model, node, random, residual
from samebits.networks.onnx_reading import make_network
from samebits.networks.units import divide_network, fold_constants, list_addends


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


def test_a_scale_from_elsewhere_is_no_part_of_a_product():
    nodes = [
        node("GlobalAveragePool", ["x"], ["g"]),
        node("Conv", ["x", "w"], ["c"]),
        node("Mul", ["c", "g"], ["y"]),
    ]
    _, units = divide(make_model(nodes, {"x": [1, 2, 4, 4]}, ["y"], {"w": random((2, 2, 1, 1), 1)}))
    assert sorted(u.operators for u in units) == [("Conv",), ("GlobalAveragePool",), ("Mul",)]


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


def test_units_that_would_wait_for_each_other_become_one():
    nodes = [
        node("Exp", ["x"], ["e"]),
        node("MatMul", ["e", "w"], ["m"]),
        node("Softmax", ["m"], ["p"]),
        node("Mul", ["p", "e"], ["y"]),
    ]
    network, units = divide(make_model(nodes, {"x": [2, 3]}, ["y"], {"w": random((3, 3), 1)}), unobserved=["p", "e"])
    made = {}
    for number, unit in enumerate(units):
        assert all(made.get(v, -1) < number for v in unit.inputs)
        made |= dict.fromkeys(unit.outputs, number)
    assert sum(len(u.places) for u in units) == len(network.nodes)


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
    places = sorted(p for u in units for p in u.places)
    assert places == list(range(len(network.nodes)))
    made = {"x"}
    for unit in units:
        assert set(unit.inputs) <= made
        made |= set(unit.outputs)
