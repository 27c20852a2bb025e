"""The catalog: enough problems, all different, small enough to run, and shaped as torch and the papers say."""

import itertools
import math
from typing import Any

import pytest

from samebits.errors import ProblemTextError
from samebits.problems.catalog import catalog, find
from samebits.problems.problem import DIRECTIONS, DTYPES, KINDS, Problem
from samebits.problems.problem_text import format_problem, parse_problem_text

WIDTH_BYTES = {"float64": 8, "float32": 4, "bfloat16": 2, "float16": 2, "float8_e4m3fn": 1, "float8_e5m2": 1}
NAMES = list(catalog())


def count_bytes(problem: Problem) -> int:
    operands = sum(math.prod(shape) for shape in problem.operand_shapes.values()) * WIDTH_BYTES[problem.dtype]
    return operands + math.prod(problem.out_shape) * WIDTH_BYTES[problem.out]


def shape_by_torch(problem: Problem) -> tuple[int, ...]:
    """The forward result's shape from torch on meta tensors; uneven padding is padded or cropped here."""
    torch = pytest.importorskip("torch")
    x, w = (torch.empty(shape, device="meta") for shape in (problem.x, problem.w))
    if problem.product:
        multiply = torch.matmul if problem.kind == "matmul" else torch.nn.functional.linear
        return tuple(multiply(x, w).shape)
    convolve = getattr(torch.nn.functional, problem.kind)
    shared: dict[str, Any] = {"stride": problem.stride, "dilation": problem.dilation, "groups": problem.groups}
    if problem.is_transposed:
        shared["output_padding"] = transposed_extra(problem)
    if not isinstance(problem.padding, str) and all(begin == end for begin, end in problem.padding):
        return tuple(convolve(x, w, padding=[begin for begin, _ in problem.padding], **shared).shape)
    if problem.is_transposed:
        return crop(tuple(convolve(x, w, **shared).shape), problem)
    pads = [pad for begin, end in reversed(expected_padding(problem)) for pad in (begin, end)]
    return tuple(convolve(torch.nn.functional.pad(x, pads), w, **shared).shape)


def same_total(problem: Problem, a: int) -> int:
    """All padding of one axis under SAME: TensorFlow's rule; for transposed kinds ONNX's, negative where it adds."""
    size, stride = problem.x[2 + a], problem.stride[a]
    reach = (problem.w[2 + a] - 1) * problem.dilation[a] + 1
    if problem.is_transposed:
        return reach - stride
    return max(reach - stride if size % stride == 0 else reach - size % stride, 0)


def expected_padding(problem: Problem) -> list[tuple[int, int]]:
    if not isinstance(problem.padding, str):
        return list(problem.padding)
    totals = [max(same_total(problem, a), 0) for a in range(problem.rank)]
    halves = [(total // 2, total - total // 2) for total in totals]
    return halves if problem.padding == "same_upper" else [(end, begin) for begin, end in halves]


def transposed_extra(problem: Problem) -> tuple[int, ...]:
    if not isinstance(problem.padding, str):
        return problem.output_padding
    return tuple(max(-same_total(problem, a), 0) for a in range(problem.rank))


def crop(shape: tuple[int, ...], problem: Problem) -> tuple[int, ...]:
    """The shape after taking away the padding at both ends: transposed padding is cropping."""
    cropped = (size - sum(pair) for size, pair in zip(shape[2:], expected_padding(problem), strict=True))
    return (*shape[:2], *cropped)


def test_there_are_at_least_300_problems_and_no_two_are_equal():
    assert len(NAMES) >= 300
    assert len(set(catalog().values())) == len(NAMES)


def test_a_name_is_a_family_and_a_layer():
    assert all(len(name.split("/")) == 2 and all(name.split("/")) and not name.split()[1:] for name in NAMES)


def test_the_order_is_the_same_every_time_and_the_dictionary_is_the_callers_own():
    mine = catalog()
    mine.clear()
    assert list(catalog()) == NAMES


def test_every_text_round_trips():
    for problem in catalog().values():
        assert parse_problem_text(format_problem(problem)) == problem


def test_every_problem_fits_the_limits():
    for name, problem in catalog().items():
        assert problem.multiply_adds <= 0.5e9, name
        assert count_bytes(problem) <= 64 * 2**20, name


def test_most_problems_are_small():
    small = sum(problem.multiply_adds < 100e6 for problem in catalog().values())
    assert small > 0.8 * len(NAMES)


@pytest.mark.parametrize(
    ("field", "values"), [("kind", KINDS), ("direction", DIRECTIONS), ("dtype", DTYPES), ("x batch", range(1, 9))]
)
def test_every_kind_direction_format_and_batch_up_to_8_occurs(field: str, values: tuple[Any, ...]):
    seen = {p.x[0] if field == "x batch" else getattr(p, field) for p in catalog().values()}
    assert set(values) <= seen


def test_every_kind_occurs_in_every_direction():
    seen = {(problem.kind, problem.direction) for problem in catalog().values()}
    # Gradients of a matmul are products themselves.
    assert seen == {(kind, d) for kind in KINDS for d in DIRECTIONS if kind != "matmul" or d == "forward"}


def test_at_least_40_are_backward_and_40_in_other_formats():
    problems = catalog().values()
    assert sum(problem.direction != "forward" for problem in problems) >= 40
    assert sum(problem.dtype in ("float16", "bfloat16", "float64") for problem in problems) >= 40


@pytest.mark.parametrize(
    "attribute",
    [
        lambda p: p.groups == p.c_in > 1,
        lambda p: 1 < p.groups < p.c_in,
        lambda p: any(d > 1 for d in p.dilation),
        lambda p: any(a.pad_begin < a.pad_end for a in p.axes),
        lambda p: any(a.pad_begin > a.pad_end for a in p.axes),
        lambda p: p.padding == "same_lower",
        lambda p: any(p.output_padding),
        lambda p: any(a.stride > a.kernel for a in p.axes),
        lambda p: any(a.kernel > size for a, size in zip(p.axes, p.x[2:], strict=False)),
        lambda p: p.reduction_length == 1,
        lambda p: p.reduction_length > 4096,
        lambda p: p.c_in == 1,
        lambda p: p.bias,
        lambda p: p.then is not None and p.then.name == "relu",
        lambda p: p.then is not None and p.then.name == "clip",
        lambda p: p.out != p.dtype,
    ],
    ids=[
        "depthwise",
        "grouped",
        "dilated",
        "more padding at the end",
        "more padding at the beginning",
        "same_lower",
        "output_padding",
        "stride over kernel",
        "kernel over input",
        "one product",
        "long sum",
        "single channel",
        "bias",
        "relu",
        "clip",
        "another result format",
    ],
)
def test_every_attribute_occurs_at_least_twice(attribute: Any):
    assert sum(bool(attribute(problem)) for problem in catalog().values()) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_forward_shape_is_the_one_that_torch_computes(name: str):
    assert find(name).y_shape == shape_by_torch(find(name))


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("lenet5/c1", (1, 6, 28, 28)),
        ("lenet5/c5", (1, 120, 1, 1)),
        ("alexnet/conv1", (1, 96, 55, 55)),
        ("alexnet/conv2", (1, 256, 27, 27)),
        ("resnet50/conv1", (1, 64, 112, 112)),
        ("resnet50/layer4.0.downsample", (1, 2048, 7, 7)),
        ("inception-v3/Conv2d_1a_3x3", (1, 32, 149, 149)),
        ("inception-v3/Mixed_6a.branch3x3", (1, 384, 17, 17)),
        ("inception-v3/Mixed_7a.branch3x3_2", (1, 320, 8, 8)),
        ("mobilenet-v1/depthwise.512-s2", (1, 512, 7, 7)),
        ("efficientnet-b0/stem", (1, 32, 112, 112)),
        ("vit/b16.patch_embed", (1, 768, 14, 14)),
        ("convnext/stem", (1, 96, 56, 56)),
        ("dcgan/generator.4", (1, 3, 64, 64)),
        ("deeplab/aspp.18", (1, 32, 33, 33)),
        ("unet/up4", (1, 128, 8, 8)),
        ("srcnn/conv1", (8, 64, 25, 25)),
        ("fsrcnn/upscale3", (1, 1, 120, 120)),
        ("wavenet/dilated.512", (1, 128, 1024)),
        ("wav2vec2/feature_extractor.0", (1, 512, 799)),
        ("wav2vec2/pos_conv", (1, 768, 13)),
        ("whisper/tiny.conv2", (1, 384, 150)),
        ("hifigan/ups.0", (1, 256, 256)),
        ("i3d/Conv3d_1a_7x7", (1, 64, 4, 28, 28)),
        ("slowfast/lateral.1", (1, 16, 4, 14, 14)),
        ("report/M11-12", (1, 1, 56, 56)),
        ("report/M11-01", (1, 1, 16, 16)),
    ],
)
def test_well_known_layers_have_the_shapes_that_their_papers_give(name: str, shape: tuple[int, ...]):
    assert find(name).y_shape == shape


def test_tensorflows_same_pads_efficientnets_stem_at_the_end_only():
    assert [(axis.pad_begin, axis.pad_end) for axis in find("efficientnet-b0/stem").axes] == [(0, 1), (0, 1)]


def test_the_layers_of_a_chain_fit_each_other():
    chains = {
        "wav2vec2": [f"feature_extractor.{i}" for i in range(7)],
        "dcgan": [f"generator.{i}" for i in (1, 2, 3, 4)],
        "srcnn": ["conv1", "conv2", "conv3"],
        "resnet50": ["layer2.0.conv1", "layer2.0.conv2", "layer2.0.conv3", "layer2.1.conv1", "layer2.1.conv2"],
        "hifigan": ["conv_pre", "ups.0"],
        "demucs": [f"encoder.{i}" for i in range(4)] + ["decoder.0"],
    }
    for family, layers in chains.items():
        for first, second in itertools.pairwise(layers):
            assert find(f"{family}/{first}").y_shape == find(f"{family}/{second}").x, (family, first)


def test_a_gradient_variant_keeps_the_shapes_and_drops_bias_and_epilogue():
    forward, backward = find("vgg16-cifar/conv1_2"), find("vgg16-cifar/conv1_2.grad_weight")
    assert (backward.x, backward.w, backward.padding) == (forward.x, forward.w, forward.padding)
    assert forward.bias
    assert not backward.bias
    assert backward.then is None


def test_an_unknown_name_is_answered_with_the_nearest_ones():
    with pytest.raises(ProblemTextError, match=r"resnet50/layer1\.0\.conv2"):
        find("resnet50/layer1.0.conv22")
