"""Small networks under guards, their training, and kernels with a fault, in plain torch."""

import pytest

torch = pytest.importorskip("torch")
from torch import nn  # noqa: E402  (torch may be missing)


def make_network() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, groups=64, padding=1),
        nn.ConvTranspose2d(64, 16, 2, stride=2), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip


def train(net: nn.Module, steps: int, cast: bool = False, scale: float = 1.0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(6)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for _ in range(steps):
        x = torch.randn(4, 3, 24, 24, generator=generator) * scale
        wanted = torch.randint(0, 10, (4,), generator=generator)
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
            loss = nn.functional.cross_entropy(net(x).float(), wanted)
        loss.backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


# Faults: what a kernel does to its result, given its operands. Plain torch, on the result's data.


def round_to_tf32(tensor):
    bits = tensor.detach().contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def with_tf32(x, w, y, **options):
    return CONV(round_to_tf32(x), round_to_tf32(w), **options)


def with_half_sums(x, w, y, **options):
    total = torch.zeros_like(y, dtype=torch.float16)
    for c in range(x.shape[1]):
        total = (total.float() + CONV(x[:, c : c + 1], w[:, c : c + 1], **options)).half()
    return total.float()


def with_wrong_tile(x, w, y, **options):
    wrong = y.clone()
    wrong[..., :8, :8] = y[..., 1:9, :8]
    return wrong


def with_lost_channel(x, w, y, **options):
    return CONV(x[:, :-1], w[:, :-1], **options)


CONV = nn.functional.conv2d


def make_faulty(monkeypatch, fault):
    """Convolutions of 32 channels in one group return what `fault` makes; their gradients stay torch's."""

    def conv2d(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
        y = CONV(x, w, bias, stride, padding, dilation, groups)
        if groups == 1 and w.shape[1] == 32:
            with torch.no_grad():
                y.data = fault(x, w, y, stride=stride, padding=padding, dilation=dilation)
        return y

    monkeypatch.setattr(nn.functional, "conv2d", conv2d)


def make_pair() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 40, 3, padding=1, bias=False))


def with_nnpack(x, w, y, padding, **options):
    """Winograd's transform as a library has it, which rounds more than a sum of products can."""
    return torch._nnpack_spatial_convolution(x, w, None, padding)
