"""Operators as one library computes them: the engine's very bits, and nothing said of what is not known."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

import numpy as np
import pytest

from networks.network_building import make_model, node, random
from samebits.machine import describe_machine
from samebits.networks.library_operators import (
    LIBRARIES,
    Manner,
    MeanOrder,
    apply_manner,
    find_fast_gelus,
    list_manners,
)
from samebits.networks.model_runners import open_model_runner
from samebits.networks.network import Network
from samebits.networks.onnx_reading import make_network
from samebits.networks.unit_steps import NODES, Step, compute_unit
from samebits.networks.units import Unit
from samebits.numbers.ulps import mark_differing_bits


def _build(operator: str, shape: tuple[int, ...], constants: Mapping[str, np.ndarray], opset: int, **given) -> Network:
    nodes = [node(operator, ["x", *constants], ["y"], **given)]
    return make_network(make_model(nodes, {"x": shape}, ["y"], dict(constants), opset), "one")


@pytest.fixture(scope="module")
def fused_runner():
    """onnxruntime with the kernels for AVX2 and FMA: here, or emulated where the processor has wider ones."""
    wide = any(name in describe_machine() for name in ("avx512", "amx"))
    plain = "avx2" not in describe_machine()
    if plain:
        pytest.skip("this processor has no AVX2")
    if wide and not any(shutil.which(name) for name in ("qemu-x86_64-static", "qemu-x86_64")):
        pytest.skip("kernels for AVX-512 are others, and there is no emulator")
    runner = open_model_runner("onnxruntime:cpu=Haswell" if wide else "onnxruntime", time_limit_s=300)
    yield runner
    runner.close()


@pytest.mark.needs("onnxruntime")
def test_the_engine_has_these_bits(fused_runner) -> None:
    """Every operator on values it was not made with, of lengths with and without a rest."""
    scale, shift = np.abs(random((37,), 5)), random((37,), 6)
    asked = [
        *((operator, (3, 1003), {}, {}) for operator in ("Sigmoid", "Tanh", "Exp", "Erf", "Gelu")),
        *(("Softmax", (7, n), {}, {"axis": -1}) for n in (1, 5, 8, 24, 37, 100)),
        ("Softmax", (3, 9, 5), {}, {"axis": 1}),
        ("LayerNormalization", (9, 37), {"s": scale, "b": shift}, {"epsilon": 1e-4}),
        ("LayerNormalization", (9, 7), {"s": scale[:7]}, {"epsilon": 1e-4}),
        ("InstanceNormalization", (2, 3, 4, 9), {"s": scale[:3], "b": shift[:3]}, {}),
    ]
    for operator, shape, constants, given in asked:
        network = _build(operator, shape, constants, 20, **given)
        x = random(shape, 11, 3.0)
        wanted = fused_runner.run_network(network, {"x": x}, [], ["y"], {})["y"]
        found = apply_manner(network.nodes[0], [x, *constants.values()], 20, Manner("mlas"))
        assert found is not None
        assert not mark_differing_bits(found, wanted).any(), (operator, shape)


def test_manners_say_nothing_of_what_they_do_not_know() -> None:
    network = _build("Sigmoid", (2, 3), {}, 17)
    one = network.nodes[0]
    x = random((2, 3), 1)
    assert apply_manner(one, [x], 17, Manner()) is None
    assert apply_manner(one, [x.astype(np.float64)], 17, Manner("mlas")) is None
    assert set(LIBRARIES) == {"mlas", "mlas-fused-norm", "mlas-one-pass-norm"}
    mean = _build("GlobalAveragePool", (1, 2, 3, 3), {}, 17)
    image = random((1, 2, 3, 3), 2)
    found = apply_manner(mean.nodes[0], [image], 17, Manner(means=MeanOrder(8, "halves")))
    assert found is not None
    wanted: list[float] = []
    for row in image.reshape(2, 9):
        four = [row[i] + row[i + 4] for i in range(4)]
        pair = [four[0] + four[2], four[1] + four[3]]
        wanted.append(float((pair[0] + pair[1] + row[8]) / np.float32(9)))
    assert found.reshape(-1).tolist() == wanted


def _write_gelu(*, halved_last: bool, cubic: float) -> Network:
    """A gelu by tanh, written out as exporters write it."""
    constants = {
        "three": np.array(3, np.float32), "c": np.array(cubic, np.float32), "b": np.array(0.7978845608, np.float32),
        "one": np.array(1, np.float32), "half": np.array(0.5, np.float32),
    }  # fmt: skip
    inner = [
        node("Pow", ["x", "three"], ["p"]), node("Mul", ["p", "c"], ["q"]), node("Add", ["x", "q"], ["r"]),
        node("Mul", ["r", "b"], ["s"]), node("Tanh", ["s"], ["t"]), node("Add", ["t", "one"], ["u"]),
    ]  # fmt: skip
    last = (
        [node("Mul", ["x", "u"], ["v"]), node("Mul", ["v", "half"], ["y"])]
        if halved_last
        else [node("Mul", ["x", "half"], ["v"]), node("Mul", ["v", "u"], ["y"])]
    )
    return make_network(make_model([*inner, *last], {"x": (40, 64)}, ["y"], constants, 17), "gelu")


@pytest.mark.parametrize("halved_last", [False, True])
def test_a_gelu_that_is_written_out_is_one_function(fused_runner, halved_last: bool) -> None:
    network = _write_gelu(halved_last=halved_last, cubic=0.044715)
    assert find_fast_gelus(network.nodes) == {"y": "x"}
    x = random((40, 64), 4, 2.0)
    wanted = fused_runner.run_network(network, {"x": x}, [], ["y"], {})["y"]
    unit = Unit("gelu", tuple(range(len(network.nodes))), ("x",), ("y",), (), ())
    made = {
        manner.functions: compute_unit(network, network.constants, unit, {"x": x}, Step(NODES, manner=manner))["y"]
        for manner in list_manners(network.nodes)
    }
    same = {name for name, array in made.items() if not mark_differing_bits(array, wanted).any()}
    # Whether it fuses what is written out is the engine's choice.
    assert same in ({"mlas", "mlas-fused-norm", "mlas-one-pass-norm"}, {n for n in made if n.endswith("+gelu")})
    plain = compute_unit(network, network.constants, unit, {"x": x}, Step(NODES))["y"]
    assert mark_differing_bits(plain, wanted).any(), "the control: node by node it has other bits"


def test_what_resembles_a_gelu_is_none() -> None:
    assert find_fast_gelus([]) == {}
    plain = make_network(make_model([node("Tanh", ["x"], ["y"])], {"x": (3,)}, ["y"], {}), "tanh")
    assert find_fast_gelus(plain.nodes) == {}
