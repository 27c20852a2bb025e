"""Regions of images, boxes, determinants, lists: as plain loops and engines compute them, and seen if not."""

import math

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from needed_engines import skip_without_engines
from networks.network_building import judge, node, random, run
from samebits.networks.onnx_reading import make_network
from samebits.networks.units import divide_network, fold_constants


def make(made, fed, outputs=("y",), constants=None, opset=18):
    """A model of nodes that takes what is fed, of any dtype."""
    inputs = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in fed.items()
    ]
    kept = [numpy_helper.from_array(a, n) for n, a in (constants or {}).items()]
    graph = helper.make_graph(made, "test", inputs, [onnx.ValueInfoProto(name=v) for v in outputs], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def tell(model, fed, results):
    return {j.verdict if j.is_judged else "not judged" for j in judge(model, {**fed, **results})}


SOUND = {"identical", "rounding"}


def take_between(image, y, x):
    """Between pixels; from a pixel outside on there is nothing."""
    height, width = image.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return 0.0
    y, x = min(max(y, 0.0), height - 1), min(max(x, 0.0), width - 1)
    i, j = int(y), int(x)
    k, m = min(i + 1, height - 1), min(j + 1, width - 1)
    top = image[i, j] * (1 - (x - j)) + image[i, m] * (x - j)
    return top * (1 - (y - i)) + (image[k, j] * (1 - (x - j)) + image[k, m] * (x - j)) * (y - i)


def align(x, rois, items, out, scale, samples, shift):
    found = np.zeros((len(rois), x.shape[1], *out))
    for r, (left, top, right, bottom) in enumerate(rois.astype(float) * scale - shift):
        bins = (bottom - top) / out[0], (right - left) / out[1]
        counts = [samples or math.ceil(size) for size in bins]
        for c in range(x.shape[1]):
            for i in range(out[0]):
                for j in range(out[1]):
                    total = [
                        take_between(
                            x[items[r], c].astype(float),
                            top + (i + (k + 0.5) / counts[0]) * bins[0],
                            left + (j + (m + 0.5) / counts[1]) * bins[1],
                        )
                        for k in range(counts[0])
                        for m in range(counts[1])
                    ]
                    found[r, c, i, j] = sum(total) / len(total)
    return found


ROIS = np.array([[1.3, 2.1, 9.4, 8.2], [0.2, 0.4, 11.5, 11.8], [5.5, 3.25, 6.1, 4.9]], np.float32)


@pytest.mark.parametrize("samples", [0, 2])
@pytest.mark.parametrize("way", ["half_pixel", "output_half_pixel"])
def test_regions_are_read_as_onnx_says(way, samples):
    fed = {"x": random((2, 3, 12, 12), 0), "rois": ROIS + 0.06, "items": np.array([0, 1, 1])}
    given = {"spatial_scale": 0.9, "sampling_ratio": samples, "output_height": 3, "output_width": 4}
    made = [node("RoiAlign", ["x", "rois", "items"], ["y"], coordinate_transformation_mode=way, **given)]
    rois = fed["rois"].copy()
    if way == "output_half_pixel":  # A region has at least one pixel.
        rois[:, 2:] = np.maximum(rois[:, 2:], rois[:, :2] + 1 / 0.9)
    shift = 0.5 if way == "half_pixel" else 0.0
    y = align(fed["x"], rois, fed["items"], (3, 4), float(np.float32(0.9)), samples, shift).astype(np.float32)
    model = make(made, fed, opset=16)
    assert tell(model, fed, {"y": y}) <= SOUND
    assert not tell(model, fed, {"y": np.where(y == y.max(), y * 1.5 + 1, y)}) & SOUND
    skip_without_engines(["onnxruntime"])
    assert tell(model, fed, run(model, fed)) <= SOUND


def test_how_often_a_region_is_read_may_hang_on_rounding():
    """0.3 wide in steps of 0.1: three samples or four."""
    fed = {"x": random((1, 1, 8, 8), 0), "rois": np.array([[0.1, 0.1, 0.4, 3.1]], np.float32), "items": np.array([0])}
    given = {"spatial_scale": 10.0, "output_height": 3, "output_width": 1}
    model = make([node("RoiAlign", ["x", "rois", "items"], ["y"], **given)], fed, opset=16)
    assert tell(model, fed, {"y": np.zeros((1, 1, 3, 1), np.float32)}) == {"not judged"}


def test_the_largest_of_a_region():
    """Corners on whole pixels: bins are whole where the size divides them."""
    x = random((1, 2, 8, 8), 0)
    fed = {"x": x, "rois": np.array([[0, 0, 0, 5, 5], [0, 2, 1, 7, 6]], np.float32)}
    model = make([node("MaxRoiPool", ["x", "rois"], ["y"], pooled_shape=[2, 3], spatial_scale=1.0)], fed, opset=16)
    y = np.zeros((2, 2, 2, 3), np.float32)
    for r, (top, left) in enumerate(((0, 0), (1, 2))):
        for i in range(2):
            for j in range(3):
                y[r, :, i, j] = x[0, :, top + 3 * i : top + 3 * i + 3, left + 2 * j : left + 2 * j + 2].max((1, 2))
    assert tell(model, {**fed, "rois": np.array([[0, 0, 0, 5, 5], [0, 2, 1, 7, 6]], np.float32)}, {"y": y}) <= SOUND
    assert not tell(model, fed, {"y": np.where(y == y.max(), y * 2 + 1, y)}) & SOUND
    skip_without_engines(["onnxruntime"])
    fed = {"x": x, "rois": np.array([[0, 0.4, 0.7, 6.2, 5.9], [0, 2.2, 1.1, 7.3, 3.8]], np.float32)}
    assert tell(model, fed, run(model, fed)) <= SOUND


def test_boxes_of_a_detector():
    skip_without_engines(["onnxruntime"])
    draw = np.random.default_rng(3)
    corners = draw.uniform(0, 50, (2, 60, 2))
    boxes = np.concatenate([corners, corners + draw.uniform(5, 25, (2, 60, 2))], -1).astype(np.float32)
    fed = {"boxes": boxes, "scores": draw.uniform(0, 1, (2, 3, 60)).astype(np.float32)}
    constants = {"most": np.array([7]), "overlap": np.array([0.4], np.float32), "least": np.array([0.2], np.float32)}
    for centred in (0, 1):
        made = [node("NonMaxSuppression", ["boxes", "scores", *constants], ["y"], center_point_box=centred)]
        model = make(made, fed, constants=constants)
        results = run(model, fed)
        assert tell(model, fed, results) == {"identical"}
        assert len(results["y"]) > 20
        assert "identical" not in tell(model, fed, {"y": results["y"][1:]})


def test_a_deformed_convolution_is_torchs_in_float64():
    """By a plain loop over taps: each reads between pixels, nothing lies outside."""
    x, w, b = random((1, 4, 7, 7), 0), random((6, 2, 3, 3), 1), random((6,), 2)
    offset, mask = random((1, 2 * 18, 4, 4), 3), np.abs(random((1, 2 * 9, 4, 4), 4))
    fed = {"x": x, "w": w, "o": offset, "b": b, "m": mask}
    given = {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 2, "offset_group": 2, "kernel_shape": [3, 3]}
    y = np.tile(b.astype(float)[None, :, None, None], (1, 1, 4, 4))
    padded = np.pad(x[0].astype(float), [(0, 0), (1, 1), (1, 1)])
    for o in range(6):
        for c in range(2):
            channel = 2 * (o // 3) + c
            for i in range(4):
                for j in range(4):
                    for tap in range(9):
                        place = 2 * 9 * (channel // 2) + 2 * tap
                        at_y = 2 * i - 1 + tap // 3 + float(offset[0, place, i, j])
                        at_x = 2 * j - 1 + tap % 3 + float(offset[0, place + 1, i, j])
                        # With a border of zeros, which are what lies outside.
                        inside = -1 < at_y < 7 and -1 < at_x < 7
                        read = take_between(padded[channel], at_y + 1, at_x + 1) if inside else 0.0
                        y[0, o, i, j] += w[o, c, tap // 3, tap % 3] * read * mask[0, 9 * (channel // 2) + tap, i, j]
    model = make([node("DeformConv", ["x", "w", "o", "b", "m"], ["y"], **given)], fed, opset=19)
    assert tell(model, fed, {"y": y.astype(np.float32)}) <= SOUND
    assert not tell(model, fed, {"y": np.where(y == y.max(), y * 1.01, y).astype(np.float32)}) & SOUND
    skip_without_engines(["onnxruntime"])
    assert tell(model, fed, run(model, fed)) <= SOUND


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_determinants(size):
    skip_without_engines(["onnxruntime"])
    fed = {"x": random((5, size, size), size)}
    model = make([node("Det", ["x"], ["y"])], fed)
    assert tell(model, fed, run(model, fed)) <= SOUND
    # Elimination may lose as many bits as there are rows.
    off = np.float32(0.01 if size < 4 else 1000)
    assert not tell(model, fed, {"y": np.linalg.det(fed["x"]).astype(np.float32) + off}) & SOUND


def test_a_list_is_what_the_file_says_it_holds():
    """A split into a list, parts taken, put in and out again, joined: slices and one join."""
    skip_without_engines(["onnxruntime"])
    fed = {"x": random((2, 6, 3), 0)}
    constants = {"two": np.array(2), "first": np.array(0), "last": np.array(-1)}
    made = [
        node("SplitToSequence", ["x", "two"], ["parts"], axis=1),
        node("SequenceAt", ["parts", "last"], ["end"]),
        node("Exp", ["end"], ["e"]),
        node("SequenceInsert", ["parts", "e", "first"], ["more"]),
        node("SequenceErase", ["more", "two"], ["fewer"]),
        node("ConcatFromSequence", ["fewer"], ["joined"], axis=1),
        node("SequenceLength", ["fewer"], ["n"]),
        node("Cast", ["n"], ["count"], to=onnx.TensorProto.FLOAT),
        node("Mul", ["joined", "count"], ["y"]),
    ]
    model = make(made, fed, constants=constants)
    network = make_network(model, "test")
    assert not {n.operator for n in network.nodes} & {"SplitToSequence", "SequenceInsert", "SequenceErase"}
    results = run(model, fed)
    assert tell(model, fed, results) <= SOUND
    x = fed["x"].astype(float)
    expected = 3 * np.concatenate([np.exp(x[:, 4:]), x[:, :2], x[:, 4:]], 1)
    assert tell(model, fed, {"y": expected.astype(np.float32)}) <= SOUND
    assert not tell(model, fed, {"y": expected.astype(np.float32)[:, ::-1].copy()}) & SOUND


def test_places_in_lists_may_be_counted_from_the_end():
    skip_without_engines(["onnxruntime"])
    fed = {"x": random((4, 3), 0)}
    made = [
        node("SplitToSequence", ["x"], ["parts"], axis=0, keepdims=0),
        node("SequenceAt", ["parts", "last"], ["end"]),
        node("Neg", ["end"], ["n"]),
        node("SequenceInsert", ["parts", "n", "last"], ["more"]),
        node("SequenceErase", ["more", "second"], ["fewer"]),
        node("ConcatFromSequence", ["fewer"], ["y"], axis=0, new_axis=1),
    ]
    model = make(made, fed, constants={"last": np.array(-1), "second": np.array(-4)})
    results = run(model, fed)
    x = fed["x"]
    assert np.array_equal(results["y"], np.stack([x[0], x[2], -x[3], x[3]]))
    assert tell(model, fed, results) == {"identical"}
    assert "identical" not in tell(model, fed, {"y": results["y"][::-1].copy()})


def test_a_list_of_unknown_places_is_not_judged_and_the_rest_is():
    fed = {"x": random((2, 6), 0), "i": np.array(1)}
    made = [
        node("SequenceConstruct", ["x", "x"], ["s"]),
        node("SequenceAt", ["s", "i"], ["t"]),
        node("Exp", ["t"], ["y"]),
    ]
    network = make_network(make(made, fed), "test")
    assert [n.operator for n in network.nodes] == ["SequenceConstruct", "SequenceAt", "Exp"]
    units = divide_network(network, fold_constants(network))
    assert units[-1].operators == ("Exp",)


def test_a_value_that_may_be_absent_is_there():
    fed = {"x": random((2, 6), 0)}
    made = [
        node("Optional", ["x"], ["o"]),
        node("OptionalHasElement", ["o"], ["has"]),
        node("OptionalGetElement", ["o"], ["v"]),
        node("Where", ["has", "v", "zero"], ["y"]),
    ]
    model = make(made, fed, constants={"zero": np.zeros(1, np.float32)})
    assert tell(model, fed, {"y": fed["x"]}) == {"identical"}
    assert "identical" not in tell(model, fed, {"y": -fed["x"]})


@pytest.mark.parametrize("opset", [16, 20])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_a_grid_is_sampled_as_torch_does(mode, padding, opset):
    """At the border ONNX's reference moves the point; PyTorch, and onnxruntime since 1.17, look up each pixel."""
    torch = pytest.importorskip("torch")
    name = {"linear": "bilinear", "cubic": "bicubic"}.get(mode, mode)
    draws = np.random.default_rng(6)
    for aligned in (0, 1):
        x = draws.standard_normal((2, 3, 5, 6)).astype(np.float32)
        grid = draws.uniform(-2.2, 2.2, (2, 4, 7, 2)).astype(np.float32)
        given = {"mode": name if opset == 16 else mode, "padding_mode": padding, "align_corners": aligned}
        model = make([node("GridSample", ["x", "grid"], ["y"], **given)], {"x": x, "grid": grid}, opset=opset)
        sample = torch.nn.functional.grid_sample
        y = sample(torch.tensor(x), torch.tensor(grid), name, padding, align_corners=bool(aligned)).numpy()
        assert tell(model, {"x": x, "grid": grid}, {"y": y}) <= SOUND
        y[1, 2, 3, 4] += 0.01
        assert not tell(model, {"x": x, "grid": grid}, {"y": y}) & SOUND


def test_volumes_are_sampled_as_torch_does():
    torch = pytest.importorskip("torch")
    draws = np.random.default_rng(7)
    x = draws.standard_normal((1, 2, 4, 5, 3)).astype(np.float32)
    grid = draws.uniform(-1.5, 1.5, (1, 3, 2, 4, 3)).astype(np.float32)
    model = make([node("GridSample", ["x", "grid"], ["y"], padding_mode="border")], {"x": x, "grid": grid}, opset=20)
    sample = torch.nn.functional.grid_sample
    y = sample(torch.tensor(x), torch.tensor(grid), "bilinear", "border", align_corners=False).numpy()
    assert tell(model, {"x": x, "grid": grid}, {"y": y}) <= SOUND
    y[0, 1, 2, 1, 3] += 0.01
    assert not tell(model, {"x": x, "grid": grid}, {"y": y}) & SOUND


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_between_two_pixels_either_is_the_nearest(padding):
    x = np.random.default_rng(3).standard_normal((1, 1, 8, 8)).astype(np.float32)
    ties = (2 * np.arange(8) + 2) / 8 - 1
    grid = np.stack(np.meshgrid(ties, ties), -1)[None].astype(np.float32)
    given = {"mode": "nearest", "padding_mode": padding}
    model = make([node("GridSample", ["x", "grid"], ["y"], **given)], {"x": x, "grid": grid}, opset=20)
    for step in (-1e-6, 0.0, 1e-6):
        moved = grid.astype(np.float64) + step
        places = np.rint(((moved + 1) * 8 - 1) / 2).astype(int)
        outside = (places > 7).any(-1)
        places = np.where(places > 7, 7, places)
        y = x[0, 0][places[..., 1], places[..., 0]]
        y = np.where(outside & (padding == "zeros"), 0, y)[:, None].astype(np.float32)
        assert tell(model, {"x": x, "grid": grid}, {"y": y}) <= SOUND


def test_points_that_are_no_numbers_are_not_judged():
    x = np.random.default_rng(4).standard_normal((1, 2, 4, 4)).astype(np.float32)
    grid = np.array([[[[np.inf, 0], [0.1, 0.2], [np.nan, 0]]]], np.float32)
    for mode in ("nearest", "linear", "cubic"):
        given = {"mode": mode, "padding_mode": "border"}
        model = make([node("GridSample", ["x", "grid"], ["y"], **given)], {"x": x, "grid": grid}, opset=20)
        y = run(model, {"x": x, "grid": grid})["y"]
        assert not tell(model, {"x": x, "grid": grid}, {"y": y}) & {"wrong", "downgrade"}
