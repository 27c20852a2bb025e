"""Blocks of outputs hold the terms of torch's own sums, in every form of a layer and its gradients."""

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402  (torch may be missing)

from samebits.torch.layer_calls import LayerResult, find_node, read_backward, read_forward  # noqa: E402  (as above)
from samebits.torch.sampled_sums import Geometry, draw_block  # noqa: E402  (torch may be missing)

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")


LAYERS = {
    "linear": (lambda: nn.Linear(7, 5), (6, 7)),
    "linear of rows": (lambda: nn.Linear(7, 5, bias=False), (2, 3, 7)),
    "linear of one row": (lambda: nn.Linear(7, 5), (7,)),
    "1-D": (lambda: nn.Conv1d(4, 6, 5, stride=2, padding=2), (2, 4, 19)),
    "2-D": (lambda: nn.Conv2d(3, 20, 3, padding=1), (2, 3, 9, 7)),
    "unbatched": (lambda: nn.Conv2d(3, 8, (3, 1), padding=(1, 0)), (3, 9, 7)),
    "3-D": (lambda: nn.Conv3d(2, 4, 3, stride=(1, 2, 1), padding=1, bias=False), (1, 2, 5, 6, 4)),
    "dilated": (lambda: nn.Conv2d(4, 4, 3, dilation=2, stride=3), (2, 4, 11, 12)),
    "groups": (lambda: nn.Conv2d(6, 9, 3, groups=3, padding=1), (2, 6, 8, 8)),
    "depthwise": (lambda: nn.Conv2d(6, 12, 3, groups=6, stride=2), (2, 6, 9, 9)),
    "same": (lambda: nn.Conv2d(3, 5, 3, padding="same", dilation=2), (2, 3, 9, 9)),
    "same, even": (lambda: nn.Conv2d(3, 5, (4, 3), padding="same"), (2, 3, 9, 9)),
    "circular": (lambda: nn.Conv2d(3, 5, 3, padding=1, padding_mode="circular"), (2, 3, 6, 6)),
    "transposed": (lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), (2, 4, 5, 6)),
    "transposed groups": (lambda: nn.ConvTranspose1d(4, 6, 4, stride=3, groups=2, dilation=2), (2, 4, 7)),
}


def set_integers(module: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(torch.randint(-4, 5, parameter.shape, generator=generator))


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_blocks_are_the_sums_of_torchs_outputs(name):
    """Small integers in float64: every sum is exact, and torch's own result is the expected value."""
    make, shape = LAYERS[name]
    layer = make().double()
    set_integers(layer, 1)
    x = torch.randint(-4, 5, shape, generator=torch.Generator().manual_seed(2)).double().requires_grad_()
    y = layer(x)
    forward = read_forward(layer, (x,), {}, y)
    assert isinstance(forward, LayerResult)
    found = [forward]
    dy = torch.randint(-4, 5, y.shape, generator=torch.Generator().manual_seed(3)).double()

    def hear(made, given):
        found.extend(read_backward(forward, which, made, given[0]) for which in ("grad_input", "grad_weight"))

    find_node(y).register_hook(hear)
    y.backward(dy)
    rng = np.random.default_rng(4)
    seen = [f for f in found if isinstance(f, LayerResult)]
    # The gradient of what was padded before is not the layer's input's.
    padded = name == "same, even"
    assert [f.direction for f in seen] == ["forward", *([] if padded else ["grad_input"]), "grad_weight"]
    assert len(found) == 3
    for result in seen:
        for _ in range(20):
            block = draw_block(
                result.form,
                result.source,
                result.factors,
                result.result,
                result.kernel,
                result.geometry,
                rng,
                result.bias,
            )
            sums = np.einsum("bpk,bgk->bpg", block.left, block.right)
            np.testing.assert_array_equal(sums, block.result, err_msg=result.direction)
            assert 1 <= block.draws <= block.result.size


def test_every_output_can_be_drawn():
    x, w = torch.arange(1.0, 13).reshape(1, 2, 6), torch.ones(3, 2, 2)
    y = nn.functional.conv1d(x, w)
    y += torch.arange(y.numel()).reshape(y.shape) * 1000.0
    result = LayerResult("forward", "gather", x, w, y, (2,), Geometry((1,), (0,), (1,)))
    rng = np.random.default_rng(0)
    drawn = {
        float(v) for _ in range(60) for v in draw_block(result.form, x, w, y, (2,), result.geometry, rng).result.ravel()
    }
    assert drawn == set(y.ravel().tolist())


def test_a_group_counts_once():
    layer = nn.Conv2d(64, 8, 3, groups=4)
    y = layer(torch.randn(1, 64, 6, 6))
    call = read_forward(layer, (torch.randn(1, 64, 6, 6),), {}, y)
    block = draw_block(
        call.form, call.source, call.factors, call.result, call.kernel, call.geometry, np.random.default_rng(0)
    )
    assert block.draws == block.left.shape[0]
