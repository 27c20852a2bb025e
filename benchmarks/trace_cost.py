"""What recording costs a training step of ResNet-18: steps with and without it, in turns.

`make runs` (also --batch N, --size N, --turns N).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch
from built_networks import build_network

import samebits
from samebits.questions.runs.run_reading import read_trace


def main() -> int:
    """Prints both times and what the file takes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--turns", type=int, default=15)
    given = parser.parse_args()
    net, _ = build_network("resnet18")
    net.train()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    x = torch.randn(given.batch, 3, given.size, given.size)
    y = torch.arange(given.batch)

    def step() -> float:
        started = time.perf_counter()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
        return time.perf_counter() - started

    step()
    plain: list[float] = []
    traced: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.trace"
        for _ in range(given.turns):
            plain += [step(), step()]
            with samebits.trace(path):
                step()
                # What is known of tensors is known from the first step on.
                traced += [step(), step()]
        operations = len(next(iter(read_trace(path).processes.values())).operations)
        size = os.path.getsize(path)
    ratio = statistics.median(traced) / statistics.median(plain)
    print(
        f"a step takes {statistics.median(plain) * 1e3:.0f} ms, recorded {statistics.median(traced) * 1e3:.0f} ms:"
        f" {ratio:.2f} times; {operations / 3:.0f} operations a step, {size / operations:.0f} bytes each"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
