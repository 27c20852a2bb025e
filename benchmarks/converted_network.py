"""A ResNet-18 converted by samebits.torch: do its bits stay, and what does it cost against torch's float32?

`make layers` (also --size N, --turns N). In evaluation mode, so that items do not meet in batch norms.
"""

from __future__ import annotations

import argparse
import copy
import itertools
import statistics
import sys
import time
from collections.abc import Callable, Iterator

import torch
from built_networks import build_network
from torch import Tensor, nn

import samebits.torch

BATCHES = range(1, 9)


def main() -> int:
    """Prints what changed, and the ratios; the status is 1 where a bit changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=96)
    parser.add_argument("--turns", type=int, default=7)
    given = parser.parse_args()
    plain, _ = build_network("resnet18")
    x = torch.randn(len(BATCHES), 3, given.size, given.size, generator=torch.Generator().manual_seed(1))
    for name, net in (("torch", plain), ("samebits.torch", samebits.torch.convert(copy.deepcopy(plain)))):
        changed = list(list_changes(net, x))
        print(f"{name}: {len(changed)} ways of running it change a bit{''.join(f'; {c}' for c in changed[:4])}")
    print(time_in_turns(plain, net, x[:4], given.turns))
    return 1 if changed else 0


def list_changes(net: nn.Module, x: Tensor) -> Iterator[str]:
    """The batches, threads, layouts and positions that change an output's or a gradient's bits."""
    torch.set_num_threads(1)
    y, dx, dw = run(net, x)
    for threads, memory in itertools.product((1, 2), (torch.contiguous_format, torch.channels_last)):
        torch.set_num_threads(threads)
        named = f"{threads} threads, {str(memory).removeprefix('torch.')}"
        other = copy.deepcopy(net).to(memory_format=memory)  # type: ignore[call-overload]  (torch's stubs want a tensor)
        for batch in BATCHES:
            some = run(other, x[:batch].contiguous(memory_format=memory))
            if not torch.equal(some[0], y[:batch]):
                yield f"outputs, batch {batch}, {named}"
            if not torch.equal(some[1], dx[:batch]):
                yield f"input gradients, batch {batch}, {named}"
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(threads))
        mixed = run(other, x[order].contiguous(memory_format=memory), order)
        if not torch.equal(mixed[0], y[order]) or not torch.equal(mixed[1], dx[order]):
            yield f"shuffled positions, {named}"
        for i, (a, b) in enumerate(zip(dw, mixed[2], strict=True)):
            if not torch.equal(a, b):
                yield f"gradient of layer {i}, shuffled, {named}"
    torch.set_num_threads(2)


def run(net: nn.Module, x: Tensor, order: Tensor | None = None) -> tuple[Tensor, Tensor, list[Tensor]]:
    """Outputs, gradients by the input, and by the weights of convolutions and linear layers.

    The gradient that comes in belongs to an item, wherever it stands.
    """
    net.zero_grad()
    x = x.detach().requires_grad_()
    y = net(x)
    dy = torch.randn(len(BATCHES), y.shape[1], generator=torch.Generator().manual_seed(2))
    y.backward(dy[: len(x)] if order is None else dy[order])
    assert x.grad is not None
    layers = [m for m in net.modules() if isinstance(m, (nn.Conv2d, nn.Linear))]
    found = [m.weight.grad.contiguous() for m in layers if m.weight.grad is not None]
    return y.detach(), x.grad.contiguous(), [g.clone() for g in found]


def time_in_turns(plain: nn.Module, exact: nn.Module, x: Tensor, turns: int) -> str:
    """Medians of both, forward and backward, in turns; the first of each is not counted."""
    times: dict[str, list[float]] = {name: [] for name in ("plain f", "plain b", "exact f", "exact b")}
    for turn in range(turns + 1):
        for name, net in (("plain", plain), ("exact", exact)):
            forward, result = clock(lambda net=net: net(x).square().sum())
            backward, _ = clock(result.backward)
            if turn:
                times[f"{name} f"].append(forward)
                times[f"{name} b"].append(backward)
    m = {name: statistics.median(taken) for name, taken in times.items()}
    return (
        f"forward {m['plain f'] * 1e3:.0f} and {m['exact f'] * 1e3:.0f} ms: {m['exact f'] / m['plain f']:.1f} times;"
        f" backward {m['plain b'] * 1e3:.0f} and {m['exact b'] * 1e3:.0f} ms: {m['exact b'] / m['plain b']:.1f} times"
    )


def clock(call: Callable[[], Tensor | None]) -> tuple[float, Tensor]:
    """Seconds of one call, and what it returned."""
    started = time.perf_counter()
    result = call()
    return time.perf_counter() - started, result  # type: ignore[return-value]  (of backward nobody looks at it)


if __name__ == "__main__":
    sys.exit(main())
