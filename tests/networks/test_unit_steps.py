"""Units computed without their engine: sums onto what comes next, codes in whole numbers, and steps of a network."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from networks.network_building import make_model, node, random
from samebits.networks.fused_forms import emulate_onto
from samebits.networks.model_runners import open_model_runner
from samebits.networks.network_steps import find_steps, run_steps
from samebits.networks.onnx_reading import make_network
from samebits.networks.unit_codes import compute_codes, state_codes
from samebits.networks.units import divide_network, fold_constants
from samebits.numbers.ulps import mark_differing_bits
from samebits.problems import parse_problem_text
from samebits.progress import ignore_progress
from samebits.sums.recipes.recipe_text import parse_recipe

POINTWISE = parse_problem_text("conv2d x=1x12x2x3 w=4x12x1x1")


@pytest.mark.parametrize("order", ["c/8|c", "tree:0:8+(8:12)"])
def test_blocks_are_added_to_what_comes_next(order: str) -> None:
    """However its order is written: the addend, then each block of 8 channels by itself, every product rounded."""
    recipe = parse_recipe(f"direct product=rounded acc=float32 order={order}")
    x, w, addend = random((1, 12, 2, 3), 1), random((4, 12, 1, 1), 2), random((1, 4, 2, 3), 3)
    wanted = addend.copy()
    for block in (range(8), range(8, 12)):
        total = np.zeros_like(addend)
        for c in block:
            total = total + w[None, :, c] * x[:, c][:, None]
        wanted = wanted + total
    found = emulate_onto(POINTWISE, recipe, {"x": x, "w": w}, addend)
    assert found is not None
    assert not mark_differing_bits(found, wanted).any()


def test_blocks_that_are_no_ranges_are_one_block() -> None:
    recipe = parse_recipe("direct product=rounded acc=float32 order=k%2|k")
    x, w, addend = random((1, 12, 2, 3), 1), random((4, 12, 1, 1), 2), random((1, 4, 2, 3), 3)
    found = emulate_onto(POINTWISE, recipe, {"x": x, "w": w}, addend)
    assert found is not None
    halves = [np.zeros_like(addend), np.zeros_like(addend)]
    for c in range(12):
        halves[c % 2] = halves[c % 2] + w[None, :, c] * x[:, c][:, None]
    assert not mark_differing_bits(found, addend + (halves[0] + halves[1])).any()


def _quantised(zero: int = 3) -> onnx.ModelProto:
    """One QLinearConv with a bias, per channel."""
    rng = np.random.default_rng(0)
    constants = {
        "xs": np.array(0.04, np.float32), "xz": np.array(120, np.uint8),
        "w": rng.integers(0, 255, (5, 3, 3, 3)).astype(np.uint8), "ws": np.array(0.01, np.float32),
        "wz": np.array(128, np.uint8), "ys": np.array(0.07, np.float32), "yz": np.array(zero, np.uint8),
        "b": rng.integers(-900, 900, (5,)).astype(np.int32),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", ["x", "xs", "xz"], ["q"]),
        node("QLinearConv", ["q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["r"]),
        node("DequantizeLinear", ["r", "ys", "yz"], ["y"]),
    ]
    return make_model(nodes, {"x": (2, 3, 7, 7)}, ["y"], constants, 13)


def test_codes_are_added_and_rescaled_in_whole_numbers() -> None:
    """By plain whole numbers: the sum, one float32 factor, to the nearest, halves to even, within a byte."""
    model = _quantised()
    network = make_network(model, "codes")
    folded = fold_constants(network)
    unit = next(u for u in divide_network(network, folded) if u.products)
    x = random((2, 3, 7, 7), 1, 3.0)
    codes = np.clip(np.rint(x / np.float32(0.04)) + 120, 0, 255)
    held = {t.name: onnx.numpy_helper.to_array(t).astype(np.int64) for t in model.graph.initializer}
    windows = np.lib.stride_tricks.sliding_window_view(codes.astype(np.int64) - 120, (3, 3), (2, 3))
    sums = np.einsum("nchwij,ocij->nohw", windows, held["w"] - 128) + held["b"][None, :, None, None]
    factor = np.float32(0.04) * np.float32(0.01) / np.float32(0.07)
    wanted = np.clip(np.rint(sums.astype(np.float32) * factor).astype(np.int64) + 3, 0, 255).astype(np.uint8)
    made = [array for _, array in compute_codes(network, folded, unit, {"x": x})]
    assert any((array == wanted).all() for array in made)
    # The text that names a way finds it again.
    text = next(t for t, a in compute_codes(network, folded, unit, {"x": x}) if (a == wanted).all())
    ((again, array),) = compute_codes(network, folded, unit, {"x": x}, text)
    assert again == text
    assert (array == wanted).all()


def test_floats_are_no_codes() -> None:
    network = make_network(
        make_model([node("MatMul", ["x", "w"], ["y"])], {"x": (2, 4)}, ["y"], {"w": random((4, 3), 1)}), "plain"
    )
    (unit,) = divide_network(network, fold_constants(network))
    assert state_codes(network, fold_constants(network), unit, {"x": random((2, 4), 2)}) is None
    assert list(compute_codes(network, fold_constants(network), unit, {"x": random((2, 4), 2)})) == []


@pytest.mark.needs("onnxruntime")
def test_steps_give_the_engines_bits_on_inputs_they_were_not_found_on() -> None:
    """Products, sums, maxima and codes: what has one result on every processor, but for pairs that saturate."""
    networks = [make_network(_quantised(), "codes")]
    constants = {"w": random((8, 4, 3, 3), 1), "v": random((8, 8, 1, 1), 2), "m": random((128, 5), 3)}
    nodes = [
        node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
        node("Relu", ["a"], ["b"]),
        node("Conv", ["b", "v"], ["c"]),
        node("Add", ["c", "b"], ["d"]),
        node("MaxPool", ["d"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["e"], ["f"]),
        node("MatMul", ["f", "m"], ["y"]),
    ]
    networks.append(make_network(make_model(nodes, {"x": (1, 4, 8, 8)}, ["y"], constants), "floats"))
    for network in networks:
        shape = next(iter(network.inputs.values())).shape
        sets = [{"x": random(shape, seed)} for seed in range(3)]
        runner = open_model_runner("onnxruntime", time_limit_s=120)
        try:
            found = find_steps(network, sets, runner, ignore_progress)
            assert [one.unit.name for one in found if one.matched < 1] == [], network.name
            other = {"x": random(shape, 99)}
            made = run_steps(network, other, [(one.unit, one.step) for one in found], ignore_progress)
            wanted = runner.run_network(network, other, [], ["y"], {})
        finally:
            runner.close()
        assert not mark_differing_bits(made["y"], wanted["y"]).any(), network.name
