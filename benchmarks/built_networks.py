"""Networks built in code, with seeded weights of realistic scales: what tests and surveys of whole models run.

`build_network(name)` gives a torch module in evaluation mode and an example input; batch norms have statistics as if
trained. Each is the published architecture, small where only repetition is lost.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """Two ways added: what ResNet, MobileNetV2 and ConvNeXt are made of."""

    def __init__(self, way: nn.Module, shortcut: nn.Module | None = None, last: nn.Module | None = None):
        super().__init__()
        self.way, self.shortcut, self.last = way, shortcut or nn.Identity(), last or nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.way(x) + self.shortcut(x))


def _conv(c_in: int, c_out: int, kernel: int, stride: int = 1, groups: int = 1, act: nn.Module | None = None):
    layers: list[nn.Module] = [
        nn.Conv2d(c_in, c_out, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(c_out),
    ]
    return nn.Sequential(*layers, *([act] if act else []))


def _basic(c_in: int, c_out: int, stride: int) -> nn.Module:
    way = nn.Sequential(_conv(c_in, c_out, 3, stride, act=nn.ReLU()), _conv(c_out, c_out, 3))
    shortcut = _conv(c_in, c_out, 1, stride) if stride > 1 or c_in != c_out else None
    return Residual(way, shortcut, nn.ReLU())


def _bottleneck(c_in: int, c_out: int, stride: int) -> nn.Module:
    inner = c_out // 4
    way = nn.Sequential(
        _conv(c_in, inner, 1, act=nn.ReLU()), _conv(inner, inner, 3, stride, act=nn.ReLU()), _conv(inner, c_out, 1)
    )
    shortcut = _conv(c_in, c_out, 1, stride) if stride > 1 or c_in != c_out else None
    return Residual(way, shortcut, nn.ReLU())


def _resnet(block: Callable[[int, int, int], nn.Module], depths: tuple[int, ...], widths: tuple[int, ...]) -> nn.Module:
    layers: list[nn.Module] = [_conv(3, 64, 7, 2, act=nn.ReLU()), nn.MaxPool2d(3, 2, 1)]
    c_in = 64
    for i, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        for j in range(depth):
            layers.append(block(c_in, width, 2 if i and not j else 1))
            c_in = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c_in, 1000))


def _mobilenet() -> nn.Module:
    layers: list[nn.Module] = [_conv(3, 32, 3, 2, act=nn.ReLU6())]
    c_in = 32
    for expand, c_out, count, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 2, 2), (6, 64, 2, 2), (6, 96, 1, 1)):
        for j in range(count):
            inner, step = c_in * expand, stride if j == 0 else 1
            way = nn.Sequential(
                *([_conv(c_in, inner, 1, act=nn.ReLU6())] if expand > 1 else []),
                _conv(inner, inner, 3, step, inner, nn.ReLU6()),
                _conv(inner, c_out, 1),
            )
            layers.append(Residual(way) if step == 1 and c_in == c_out else way)
            c_in = c_out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c_in, 1000))


class SqueezeExcite(nn.Module):
    """Channels scaled by what their means say."""

    def __init__(self, channels: int):
        super().__init__()
        inner = channels // 4
        self.gate = nn.Sequential(
            nn.AdaptiveAvgPool2d(1),
            nn.Conv2d(channels, inner, 1),
            nn.SiLU(),
            nn.Conv2d(inner, channels, 1),
            nn.Sigmoid(),
        )

    def forward(self, x: Tensor) -> Tensor:
        return x * self.gate(x)


def _efficientnet() -> nn.Module:
    layers: list[nn.Module] = [_conv(3, 32, 3, 2, act=nn.SiLU())]
    c_in = 32
    for expand, c_out, kernel, stride in ((1, 16, 3, 1), (6, 24, 3, 2), (6, 24, 3, 1), (6, 40, 5, 2), (6, 40, 5, 1)):
        inner = c_in * expand
        way = nn.Sequential(
            *([_conv(c_in, inner, 1, act=nn.SiLU())] if expand > 1 else []),
            _conv(inner, inner, kernel, stride, inner, nn.SiLU()),
            SqueezeExcite(inner),
            _conv(inner, c_out, 1),
        )
        layers.append(Residual(way) if stride == 1 and c_in == c_out else way)
        c_in = c_out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(c_in, 1000))


class UNet(nn.Module):
    """Down by pools, up by transposed convolutions, each level joined to its mirror image."""

    def __init__(self):
        super().__init__()
        widths = (16, 32, 64)
        self.down = nn.ModuleList(self._pair(a, b) for a, b in zip((3, *widths), (*widths, 128), strict=True))
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in reversed(widths))
        self.joined = nn.ModuleList(self._pair(2 * w, w) for w in reversed(widths))
        self.last = nn.Conv2d(widths[0], 2, 1)

    @staticmethod
    def _pair(c_in: int, c_out: int) -> nn.Module:
        return nn.Sequential(_conv(c_in, c_out, 3, act=nn.ReLU()), _conv(c_out, c_out, 3, act=nn.ReLU()))

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for i, pair in enumerate(self.down):
            x = pair(nn.functional.max_pool2d(x, 2) if i else x)
            kept.append(x)
        for up, joined, skipped in zip(self.up, self.joined, reversed(kept[:-1]), strict=True):
            x = joined(torch.cat([skipped, up(x)], 1))
        return self.last(x)


class ChannelNorm(nn.Module):
    """Layer norm over the channels of an image."""

    def __init__(self, channels: int):
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNeXtBlock(nn.Module):
    """A depthwise 7x7, then a perceptron along the channels."""

    def __init__(self, channels: int):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels))
        self.scale = nn.Parameter(torch.full((channels,), 0.3))

    def forward(self, x: Tensor) -> Tensor:
        y = self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + (self.scale * y).permute(0, 3, 1, 2)


def _convnext() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 48, 4, 4), ChannelNorm(48), ConvNeXtBlock(48), ConvNeXtBlock(48),
        ChannelNorm(48), nn.Conv2d(48, 96, 2, 2), ConvNeXtBlock(96),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LayerNorm(96), nn.Linear(96, 100),
    )  # fmt: skip


def _wav2vec() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv1d(1, 64, 10, 5, bias=False), nn.GroupNorm(64, 64), nn.GELU()]
    for kernel in (3, 3, 2):
        layers += [nn.Conv1d(64, 64, kernel, 2, bias=False), nn.GELU()]
    return nn.Sequential(*layers, nn.Conv1d(64, 64, 16, padding=8, groups=4), nn.GELU(), nn.Conv1d(64, 32, 1))


def _three_dimensional() -> nn.Module:
    def conv(c_in: int, c_out: int, stride: int) -> nn.Module:
        layers = [nn.Conv3d(c_in, c_out, 3, stride, 1, bias=False), nn.BatchNorm3d(c_out), nn.ReLU()]
        return nn.Sequential(*layers)

    way = nn.Sequential(conv(32, 32, 1), nn.Conv3d(32, 32, 3, 1, 1, bias=False), nn.BatchNorm3d(32))
    return nn.Sequential(
        conv(3, 16, 1), conv(16, 32, 2), Residual(way, last=nn.ReLU()), nn.AdaptiveAvgPool3d(1), nn.Flatten(),
        nn.Linear(32, 10),
    )  # fmt: skip


def _dcgan() -> nn.Module:
    layers: list[nn.Module] = []
    for c_in, c_out, stride, pad in ((64, 128, 1, 0), (128, 64, 2, 1), (64, 32, 2, 1), (32, 16, 2, 1)):
        layers += [nn.ConvTranspose2d(c_in, c_out, 4, stride, pad, bias=False), nn.BatchNorm2d(c_out), nn.ReLU()]
    return nn.Sequential(*layers, nn.ConvTranspose2d(16, 3, 4, 2, 1), nn.Tanh())


class Attention(nn.Module):
    """Heads that attend to each other's tokens, spelled out."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        n, length, width = x.shape
        split = self.into(x).reshape(n, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = split[0], split[1], split[2]
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width // self.heads), -1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, length, width))


def _transformer() -> nn.Module:
    layers: list[nn.Module] = [nn.Linear(40, 128)]
    for _ in range(2):
        mlp = nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 128))
        layers += [Residual(nn.Sequential(nn.LayerNorm(128), Attention(128, 4))), Residual(mlp)]
    return nn.Sequential(*layers, nn.LayerNorm(128), nn.Linear(128, 32))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "resnet18": (lambda: _resnet(_basic, (2, 2, 2, 2), (64, 128, 256, 512)), (1, 3, 96, 96)),
    "resnet50": (lambda: _resnet(_bottleneck, (3, 4, 6, 3), (256, 512, 1024, 2048)), (1, 3, 224, 224)),
    "mobilenet_v2": (_mobilenet, (1, 3, 96, 96)),
    "efficientnet": (_efficientnet, (1, 3, 80, 80)),
    "unet": (UNet, (1, 3, 64, 64)),
    "convnext": (_convnext, (1, 3, 64, 64)),
    "wav2vec": (_wav2vec, (1, 1, 2000)),
    "conv3d": (_three_dimensional, (1, 3, 8, 24, 24)),
    "dcgan": (_dcgan, (2, 64, 1, 1)),
    "transformer": (_transformer, (2, 24, 40)),
}


def build_network(name: str, seed: int = 0) -> tuple[nn.Module, Tensor]:
    """A network of NETWORKS in evaluation mode, and an example input."""
    build, shape = NETWORKS[name]
    torch.manual_seed(seed)
    net = build().eval()
    with torch.no_grad():
        for module in net.modules():
            if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
                # As after training: the statistics of what flows there, scales about one.
                module.running_mean.normal_(0.0, 0.1)  # type: ignore[union-attr]  (tracked by default)
                module.running_var.uniform_(0.3, 1.2)  # type: ignore[union-attr]  (tracked by default)
                module.weight.uniform_(0.5, 1.3)
                module.bias.normal_(0.0, 0.1)
    return net, torch.randn(shape)


def __getattr__(name: str) -> Callable[[], tuple[nn.Module, Tensor]]:
    """`networks.py:resnet18` for `samebits compare`: a function for every network."""
    if name not in NETWORKS:
        raise AttributeError(name)
    return lambda: build_network(name)


def export_network(name: str, path: str, seed: int = 0) -> None:
    """The network as an ONNX file, by torch's own exporter."""
    net, x = build_network(name, seed)
    torch.onnx.export(net, (x,), path, dynamo=True, external_data=False, verbose=False)
