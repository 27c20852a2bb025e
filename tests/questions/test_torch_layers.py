"""Layers that cannot disagree: results and gradients are the exact sums rounded, whatever the batch or the threads."""

from fractions import Fraction

import numpy as np
import pytest

from samebits.errors import OperandError

torch = pytest.importorskip("torch")
layers = pytest.importorskip("samebits.torch")
nn = torch.nn

LAYERS = [
    (nn.Conv1d, (3, 4, 3), {"padding": 1, "stride": 2}, (2, 3, 9)),
    (nn.Conv2d, (4, 6, 3), {"padding": "same", "groups": 2, "dilation": 2}, (2, 4, 7, 6)),
    (nn.Conv2d, (2, 3, (2, 4)), {"padding": "same", "bias": False}, (2, 2, 5, 5)),
    (nn.Conv2d, (2, 3, 3), {"padding": 1, "padding_mode": "reflect"}, (2, 2, 5, 5)),
    (nn.Conv3d, (2, 3, 2), {}, (1, 2, 4, 3, 3)),
    (nn.ConvTranspose1d, (3, 2, 3), {"stride": 2, "padding": 1, "output_padding": 1}, (2, 3, 5)),
    (nn.ConvTranspose2d, (4, 4, 3), {"stride": 2, "groups": 2}, (2, 4, 4, 3)),
    (nn.ConvTranspose3d, (2, 2, 2), {}, (1, 2, 2, 3, 2)),
    (nn.Linear, (5, 4), {}, (2, 3, 5)),
    (nn.Linear, (5, 4), {"bias": False}, (5,)),
]


def run(layer, x):
    layer.zero_grad()
    x = x.clone().requires_grad_()
    y = layer(x)
    (y * torch.arange(1.0, y.numel() + 1, dtype=y.dtype).reshape(y.shape).cos()).sum().backward()
    return [y.detach(), x.grad, *(p.grad for p in layer.parameters())]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel lengths")
@pytest.mark.parametrize(("kind", "sizes", "options", "shape"), LAYERS)
def test_results_and_gradients_are_those_of_float64_rounded(kind, sizes, options, shape):
    """In float64 these small sums are off by less than what separates two float32, but for ties and near ones."""
    torch.manual_seed(0)
    plain = kind(*sizes, **options)
    exact = getattr(layers, kind.__name__)(*sizes, **options)
    exact.load_state_dict(plain.state_dict())
    x = torch.randn(shape)
    found = run(exact, x)
    wide = kind(*sizes, **options).double()
    wide.load_state_dict({k: v.double() for k, v in plain.state_dict().items()})
    y = found[0]
    factor = torch.arange(1.0, y.numel() + 1, dtype=torch.float32).reshape(y.shape).cos().double()
    wide_x = x.double().requires_grad_()
    wide_y = wide(wide_x)
    (wide_y * factor).sum().backward()
    expected = [wide_y.detach(), wide_x.grad, *(p.grad for p in wide.parameters())]
    if "padding_mode" in options:
        # Where values were mirrored torch adds their gradients itself.
        del found[1], expected[1]
    for a, b in zip(found, expected, strict=True):
        assert torch.equal(a, b.float())


def test_a_sum_that_float64_gets_wrong_is_right():
    layer = layers.Linear(4, 1, bias=False)
    terms = [2.0**60, 1.0, -(2.0**60), 2.0**-20]
    with torch.no_grad():
        layer.weight.copy_(torch.ones(1, 4))
    expected = float(sum(Fraction(t) for t in terms))
    assert layer(torch.tensor([terms])).item() == np.float32(expected)


def test_a_bias_gradient_is_one_exact_sum():
    layer = layers.Linear(2, 1)
    layer(torch.zeros(4, 2)).backward(torch.tensor([[2.0**30], [1.0], [-(2.0**30)], [0.5]]))
    assert layer.bias.grad.tolist() == [1.5]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_dtypes(dtype):
    layer = layers.Conv2d(2, 3, 3).to(getattr(torch, dtype))
    y = layer(torch.randn(1, 2, 5, 5).to(getattr(torch, dtype)))
    assert y.dtype == getattr(torch, dtype)
    y.sum().backward()
    assert layer.weight.grad.dtype == getattr(torch, dtype)


def test_a_converted_network_does_not_depend_on_batch_threads_or_layout():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, groups=8), nn.Flatten(), nn.Linear(288, 5)
    )
    state = {k: v.clone() for k, v in net.state_dict().items()}
    x = torch.randn(6, 3, 8, 8)
    converted = layers.convert(net)
    assert converted is net
    assert all(torch.equal(state[k], v) for k, v in net.state_dict().items())
    whole = run(net, x)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    one = run(net, x)
    torch.set_num_threads(threads)
    assert all(torch.equal(a, b) for a, b in zip(whole, one, strict=True))
    assert all(torch.equal(net(x[i : i + 1])[0], whole[0][i]) for i in range(6))
    order = torch.tensor([3, 0, 5, 1, 4, 2])
    assert torch.equal(net(x[order]), whole[0][order])
    assert torch.equal(net(x.to(memory_format=torch.channels_last)), whole[0])


def test_what_is_derived_from_torchs_layers_is_left_alone():
    class Mine(nn.Linear):
        pass

    net = layers.convert(nn.Sequential(Mine(2, 2), nn.Linear(2, 2)))
    assert [type(m).__module__.split(".")[0] for m in net] != ["samebits", "samebits"]
    assert type(net[0]) is Mine
    assert type(net[1]) is layers.Linear


def test_second_derivatives_are_refused_and_not_lost():
    layer, x = layers.Conv1d(2, 3, 3), torch.randn(1, 2, 9, requires_grad=True)
    (first,) = torch.autograd.grad(layer(x).pow(2).sum() + x.pow(3).sum(), x, create_graph=True)
    with pytest.raises(OperandError, match="differentiated once"):
        torch.autograd.grad(first.sum(), x)


def test_it_goes_on_under_compile():
    net = layers.convert(nn.Sequential(nn.Linear(4, 4), nn.ReLU()))
    x = torch.randn(3, 4)
    assert torch.equal(torch.compile(net, backend="eager")(x), net(x))
