"""The truth on a GPU: its bits against the CPU's, and its time against strict float32 and float64.

`python benchmarks/gpu_truth.py times|bits FILE.json`; times are medians of runs in turns, batch 64, ResNet-50's layers.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpu_truth_trial import compute_on_gpu

from samebits.problems import Problem, format_problem, parse_problem_text
from samebits.problems.catalog import catalog
from samebits.problems.operands import make_exact, make_normal, make_uniform
from samebits.sums.truth import compute_truth

BATCH, RUNS = 64, 7
# The distinct convolutions of ResNet-50: channels in, size, channels out, taps, stride, padding.
LAYERS = (
    (3, 224, 64, 7, 2, 3), (64, 56, 64, 1, 1, 0), (64, 56, 64, 3, 1, 1), (64, 56, 256, 1, 1, 0),
    (256, 56, 64, 1, 1, 0), (256, 56, 128, 1, 1, 0), (128, 56, 128, 3, 2, 1), (128, 28, 512, 1, 1, 0),
    (256, 56, 512, 1, 2, 0), (512, 28, 128, 1, 1, 0), (128, 28, 128, 3, 1, 1), (512, 28, 256, 1, 1, 0),
    (256, 28, 256, 3, 2, 1), (256, 14, 1024, 1, 1, 0), (512, 28, 1024, 1, 2, 0), (1024, 14, 256, 1, 1, 0),
    (256, 14, 256, 3, 1, 1), (1024, 14, 512, 1, 1, 0), (512, 14, 512, 3, 2, 1), (512, 7, 2048, 1, 1, 0),
    (1024, 14, 2048, 1, 2, 0), (2048, 7, 512, 1, 1, 0), (512, 7, 512, 3, 1, 1),
)  # fmt: skip
MOST_PRODUCTS, WANTED = 3e8, 100
MORE = (
    "linear x=64x768 w=3072x768 bias", "matmul x=256x512 w=512x128", "linear x=32x1024 w=1000x1024 dtype=float16",
    "conv2d x=2x64x28x28 w=64x64x3x3 padding=1 dtype=bfloat16", "conv3d x=1x8x12x14x14 w=16x8x3x3x3 padding=1",
    "conv2d x=2x64x28x28 w=64x64x3x3 padding=1 dtype=float16", "conv1d x=4x64x400 w=64x64x9 padding=4 bias",
    "conv2d.grad_weight x=4x32x28x28 w=32x32x3x3 padding=1",
    "conv2d.grad_input x=4x32x28x28 w=32x32x3x3 padding=1 stride=2",
    "conv_transpose2d x=2x32x14x14 w=32x16x4x4 stride=2 padding=1",
)  # fmt: skip


def time_layers() -> list[dict[str, Any]]:
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    rows: list[dict[str, Any]] = []
    for c, size, o, k, stride, pad in LAYERS:
        x, w = torch.randn(BATCH, c, size, size, device="cuda"), torch.randn(o, c, k, k, device="cuda")
        text = f"conv2d x={BATCH}x{c}x{size}x{size} w={o}x{c}x{k}x{k} stride={stride} padding={pad}"
        problem = parse_problem_text(text)
        wide = x.double(), w.double()
        ways: dict[str, Callable[[], Any]] = {
            "truth": lambda p=problem, a=x, b=w: compute_on_gpu(p, {"x": a, "w": b}),
            "float32": lambda a=x, b=w, s=stride, d=pad: torch.nn.functional.conv2d(a, b, None, s, d),
            "float64": lambda a=wide, s=stride, d=pad: torch.nn.functional.conv2d(*a, None, s, d),
        }
        times: dict[str, list[float]] = {name: [] for name in ways}
        for run in range(RUNS + 2):
            for name, way in ways.items():
                torch.cuda.synchronize()
                started = time.perf_counter()
                way()
                torch.cuda.synchronize()
                if run > 1:
                    times[name].append(1e3 * (time.perf_counter() - started))
        rows.append({"problem": text, **{name: statistics.median(t) for name, t in times.items()}})
    return rows


def list_problems() -> list[Problem]:
    """Problems of the catalog, by other people's layers, that the CPU computes in seconds; and of other kinds."""
    known = [
        p
        for p in catalog().values()
        if p.multiply_adds < MOST_PRODUCTS and p.dtype in ("float32", "float16", "bfloat16")
    ]
    more = [parse_problem_text(text) for text in MORE]
    step = max(len(known) // (WANTED - len(more)), 1)
    return [replace(p, then=None) for p in [*more, *known[::step]][:WANTED]]


def compare_bits() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for number, problem in enumerate(list_problems()):
        make = (make_normal, make_normal, make_uniform, make_exact)[number % 4]
        operands = make(problem, number)
        started = time.perf_counter()
        expected = compute_truth(problem, operands).values
        middle = time.perf_counter()
        made = compute_on_gpu(problem, {n: _send(a) for n, a in operands.items()})
        torch.cuda.synchronize()
        row = {
            "problem": format_problem(problem),
            "data": make.__name__,
            "cpu_s": middle - started,
            "gpu_s": time.perf_counter() - middle,
        }
        rows.append({**row, "same": _read(made).tobytes() == expected.tobytes()})
    return rows


def _send(array: np.ndarray) -> torch.Tensor:
    plain = (
        torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        if array.dtype.name == "bfloat16"
        else torch.from_numpy(array)
    )
    return plain.cuda()


def _read(tensor: torch.Tensor) -> np.ndarray:
    kept = tensor.cpu().contiguous()
    return (kept.view(torch.int16) if kept.dtype == torch.bfloat16 else kept).numpy()


def main() -> None:
    rows = time_layers() if sys.argv[1] == "times" else compare_bits()
    Path(sys.argv[2]).write_text(json.dumps(rows, indent=0))
    if sys.argv[1] == "times":
        sums = {name: sum(r[name] for r in rows) for name in ("truth", "float32", "float64")}
        worst = max(r["truth"] / r["float32"] for r in rows)
        print({name: round(value, 2) for name, value in sums.items()}, "worst layer over float32", round(worst, 2))
    else:
        print(sum(r["same"] for r in rows), "of", len(rows), "problems have the same bits")


if __name__ == "__main__":
    main()
