"""Convolutions between transpositions, as channels last are exported, and Einsum: judged and explained as products."""

import numpy as np
import pytest

from networks.model_sides import ReferenceSide
from networks.network_building import make_model, node, random, refer
from samebits.networks.model_comparing import compare_model
from samebits.networks.onnx_reading import make_network

F = np.float32
torch = pytest.importorskip("torch")


def channels_last():
    constants = {"w": random((8, 3, 3, 3), 1, 0.3), "b": random((8,), 2), "pads": np.array([0, 1, 1, 0, 0, 1, 1, 0])}
    nodes = [
        node("Pad", ["x", "pads"], ["padded"]), node("Transpose", ["padded"], ["t"], perm=[0, 3, 1, 2]),
        node("Conv", ["t", "w"], ["c"]), node("Transpose", ["c"], ["u"], perm=[0, 2, 3, 1]),
        node("Add", ["u", "b"], ["s"]), node("Add", ["s", "x2"], ["r"]), node("Relu", ["r"], ["y"]),
    ]  # fmt: skip
    return make_model(nodes, {"x": [2, 6, 6, 3], "x2": [2, 6, 6, 8]}, ["y"], constants)


def compare_hidden(model, change, hidden, **options):
    """The reference, which shows nothing inside the layer, beside one with a fault, which shows nothing either."""
    sides = [ReferenceSide(n, c, alters_when_observed=hidden) for n, c in (("plain", None), ("faulty", change))]
    return compare_model(make_network(model, "test"), sides, **options)


def half(name, result, values):
    if name != "c":
        return result
    x, w = (torch.from_numpy(np.array(values[v])).half().double() for v in ("t", "w"))
    return torch.nn.functional.conv2d(x, w).numpy()


def flipped(name, result, values):
    if name != "c":
        return result
    x, w = torch.from_numpy(np.array(values["t"])), torch.from_numpy(values["w"][:, :, ::-1, ::-1].copy())
    return torch.nn.functional.conv2d(x, w).numpy()


@pytest.mark.parametrize(
    ("change", "verdict", "cause"),
    [(half, "downgrade", "reduced-precision-operands"), (flipped, "wrong", "axis-order")],
)
def test_a_convolution_between_transpositions_is_explained_by_what_the_layer_shows(change, verdict, cause):
    model = channels_last()
    del model.graph.node[5:]
    model.graph.output[0].name = "s"
    del model.graph.input[1:]
    found = compare_hidden(model, change, ["padded", "t", "c", "u"])
    assert found.units[0].operators == ["Pad", "Transpose", "Conv", "Transpose", "Add"]
    assert found.units[0].problem == "conv2d x=2x3x8x8 w=8x3x3x3 dtype=float32"
    assert (found.sides[1].verdict, found.cause) == (verdict, cause)
    assert found.sides[0].verdict in ("rounding", "identical")
    assert "observed" not in " ".join(e.says for u in found.units for s in u.sides for e in s.evidence)


def test_what_is_added_in_other_axes_stays_with_the_convolution():
    found = compare_hidden(channels_last(), None, ["padded", "t", "c", "u", "s", "r"])
    assert len(found.units) == 1
    assert found.verdict in ("rounding", "identical")


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ij,jk->ik", [(3, 4), (4, 5)]),
        ("btd,dhk->bthk", [(2, 3, 4), (4, 5, 6)]),
        ("bthk,bshk->bhts", [(2, 3, 4, 5), (2, 6, 4, 5)]),
        ("bhts,bshk->bthk", [(2, 4, 3, 6), (2, 6, 4, 5)]),
        ("abc,acd", [(2, 3, 4), (2, 4, 5)]),
        ("i,j->ij", [(3,), (4,)]),
        ("abc,abc->b", [(2, 3, 4), (2, 3, 4)]),
        ("i,i->", [(7,), (7,)]),
        ("cab,bdc->dac", [(2, 3, 4), (4, 5, 2)]),
    ],
)
def test_einsum_is_the_product_that_it_says(equation, shapes):
    a, b = (random(s, i) for i, s in enumerate(shapes))
    found = refer([node("Einsum", ["a", "b"], ["y"], equation=equation)], {"a": a, "b": b})
    expected = np.einsum(equation, a.astype(np.float64), b.astype(np.float64))
    assert found.value.shape == expected.shape
    # Of a product alone the reference is the rounded truth.
    assert np.abs(found.value - expected).max() < (1e-7 if equation == "ij,jk->ik" else 1e-14)
    made = np.einsum(equation, a, b)
    assert (np.abs(made - expected) <= found.bound).all()
    assert found.bound.max() < 1e-4


@pytest.mark.parametrize("equation", ["ii,ij->j", "...i,ij->...j", "ij,k->i", "ij,jk,kl->il"])
def test_other_einsums_are_sums_of_products_in_any_order(equation):
    names = ["a", "b", "c"][: equation.count(",") + 1]
    fed = {n: random((4,) if n == "b" and ",k-" in equation else (4, 4), i) for i, n in enumerate(names)}
    found = refer([node("Einsum", names, ["y"], equation=equation)], fed)
    expected = np.einsum(equation, *(array.astype(np.float64) for array in fed.values()))
    assert np.abs(found.value - expected).max() < 1e-12
    for way in (False, "greedy"):
        made = np.einsum(equation, *fed.values(), optimize=way)
        assert (np.abs(made - expected) <= found.bound).all()
    assert found.bound.max() < 1e-4


def test_an_engine_runs_an_einsum_as_its_file_has_it():
    pytest.importorskip("onnxruntime")
    model = make_model(
        [node("Einsum", ["x", "w"], ["p"], equation="bij,bkj->bik"), node("Softmax", ["p"], ["y"], axis=-1)],
        {"x": [2, 3, 8], "w": [2, 5, 8]}, ["y"], {},
    )  # fmt: skip
    found = compare_model(make_network(model, "test"), ["onnxruntime", "numpy"])
    assert found.verdict in ("rounding", "identical")
    assert found.units[0].problem.startswith("matmul x=2x3x8 w=2x8x5")
    assert found.units[0].outputs == ["p"]
