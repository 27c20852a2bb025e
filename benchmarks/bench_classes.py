"""Time of the truth over torch by class of problem: depthwise and grouped, gradients, transposed, 1-D, 3-D, products.

Torch lives in a process of its own; truth and torch take turns, and what counts is the median of the ratios of
neighbouring turns. Run by `make bench`; options: --only CLASS, --turns, --threads.
"""

from __future__ import annotations

import argparse
import math
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from types import ModuleType

import numpy as np

from samebits.problems import Problem, parse_problem_text
from samebits.problems.operands import make_normal
from samebits.sums.truth import compute_truth

# Long enough for an idle pool's threads to stop spinning before the other side is timed.
_PAUSE_S = 0.02
# OpenBLAS's threads, in this process, spin for 2^26 cycles.
_LONG_PAUSE_S = 0.15
_LAYERS = {
    "depthwise and grouped": (
        "conv2d x=4x96x56x56 w=96x1x3x3 padding=1 groups=96",
        "conv2d x=4x144x56x56 w=144x1x3x3 stride=2 padding=1 groups=144",
        "conv2d x=4x384x14x14 w=384x1x5x5 padding=2 groups=384",
        "conv2d x=4x128x56x56 w=128x4x3x3 padding=1 groups=32",
        "conv2d x=4x256x28x28 w=256x8x3x3 padding=1 groups=32",
    ),
    "grad_input": (
        "conv2d.grad_input x=4x64x56x56 w=64x64x3x3 padding=1",
        "conv2d.grad_input x=4x128x56x56 w=128x128x3x3 stride=2 padding=1",
        "conv2d.grad_input x=4x256x14x14 w=1024x256x1x1",
        "conv2d.grad_input x=4x512x7x7 w=512x512x3x3 padding=1",
    ),
    "grad_weight": (
        "conv2d.grad_weight x=4x64x56x56 w=64x64x3x3 padding=1",
        "conv2d.grad_weight x=4x128x56x56 w=128x128x3x3 stride=2 padding=1",
        "conv2d.grad_weight x=4x256x14x14 w=1024x256x1x1",
        "conv2d.grad_weight x=4x512x7x7 w=512x512x3x3 padding=1",
    ),
    "transposed": (
        "conv_transpose2d x=4x256x16x16 w=256x128x4x4 stride=2 padding=1",
        "conv_transpose2d x=4x64x32x32 w=64x32x4x4 stride=2 padding=1",
        "conv_transpose2d x=4x128x28x28 w=128x64x2x2 stride=2",
    ),
    "1-D": (
        "conv1d x=4x1x160000 w=256x1x400 stride=160",
        "conv1d x=4x512x1600 w=512x512x3 stride=2",
        "conv1d x=4x80x3000 w=384x80x3 padding=1",
        "conv1d x=4x64x4000 w=128x64x2 dilation=512",
    ),
    "3-D": (
        "conv3d x=2x3x16x112x112 w=64x3x3x7x7 stride=1x2x2 padding=1x3x3",
        "conv3d x=2x64x8x28x28 w=64x64x3x3x3 padding=1",
        "conv3d x=2x128x4x14x14 w=256x128x1x1x1",
    ),
    "products": (
        "linear x=1x768 w=3072x768 bias",
        "linear x=128x768 w=3072x768 bias",
        "linear x=8x4096 w=1000x4096 bias",
        "matmul x=12x128x64 w=12x64x128",
        "matmul x=12x128x128 w=12x128x64",
        "matmul x=1024x1024 w=1024x1024",
        "linear.grad_weight x=128x768 w=3072x768",
    ),
}
_FORMATS = (
    "conv2d x=4x64x56x56 w=64x64x3x3 padding=1",
    "conv2d x=4x256x14x14 w=1024x256x1x1",
    "linear x=128x768 w=3072x768",
)


def serve(threads: int) -> None:
    """The other process: reads problems, answers each empty line with the seconds that torch takes for the last one."""
    import torch

    torch.set_num_threads(threads)
    call = None
    for line in sys.stdin:
        if line.strip():
            call = prepare(torch, parse_problem_text(line.strip()))
            print(0.0, flush=True)
            continue
        assert call
        with torch.no_grad():
            start = time.perf_counter()
            call()
            print(time.perf_counter() - start, flush=True)


def prepare(torch: ModuleType, problem: Problem) -> Callable[[], object]:
    """Torch's own operator on tensors that are ready; gradients by the operator that autograd calls."""
    arrays = {name: torch.from_numpy(array) for name, array in make_normal(problem).items()}
    bias = arrays.get("bias")
    if problem.product:
        if problem.direction == "grad_weight":
            return lambda: torch.matmul(arrays["dy"].T, arrays["x"])
        if problem.kind == "linear":
            return lambda: torch.nn.functional.linear(arrays["x"], arrays["w"], bias)
        return lambda: torch.matmul(arrays["x"], arrays["w"])
    stride, padding, dilation = (
        [getattr(a, name) for a in problem.axes] for name in ("stride", "pad_begin", "dilation")
    )
    transposed = problem.kind.startswith("conv_transpose")
    common = (stride, padding, dilation, transposed, [0] * problem.rank, problem.groups)
    if problem.direction == "forward":
        return lambda: torch.ops.aten.convolution(arrays["x"], arrays["w"], bias, *common)
    wanted = [problem.direction == "grad_input", problem.direction == "grad_weight", False]
    shaped = {name: arrays.get(name, torch.empty(getattr(problem, name), dtype=arrays["dy"].dtype)) for name in "xw"}
    backward = torch.ops.aten.convolution_backward
    return lambda: backward(arrays["dy"], shaped["x"], shaped["w"], None, *common, wanted)


class Torch:
    """Torch in another process, told a problem and then asked for one timed run at a time."""

    def __init__(self, threads: int):
        command = [sys.executable, __file__, "--serve", str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, text: str = "") -> float:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def time_truth(problem: Problem, operands: dict[str, np.ndarray], threads: int) -> float:
    start = time.perf_counter()
    compute_truth(problem, operands, threads=threads)
    return time.perf_counter() - start


def compare(text: str, torch: Torch, options: argparse.Namespace) -> tuple[float, float]:
    """Median seconds of the truth, and the median ratio to torch."""
    problem = parse_problem_text(text)
    operands = make_normal(problem)
    torch.ask(text)
    times, ratios = [], []
    for turn in range(options.turns + 2):
        time.sleep(_PAUSE_S)
        own = time_truth(problem, operands, options.threads)
        time.sleep(_PAUSE_S)
        other = torch.ask()
        if turn >= 2:
            times.append(own)
            ratios.append(own / other)
    return statistics.median(times), statistics.median(ratios)


def compare_formats(text: str, dtype: str, options: argparse.Namespace) -> float:
    """The median ratio of the truth in a format to that in float32, in turns."""
    problems = [parse_problem_text(f"{text} dtype={name}") for name in (dtype, "float32")]
    operands = [make_normal(p) for p in problems]
    ratios = []
    for turn in range(options.turns + 2):
        one, other = (time_truth(p, o, options.threads) for p, o in zip(problems, operands, strict=True))
        if turn >= 2:
            ratios.append(one / other)
    return statistics.median(ratios)


def compare_numpy(size: int, options: argparse.Namespace) -> float:
    """The median ratio of a square float32 product's truth to NumPy's own float64 product of the same numbers."""
    problem = parse_problem_text(f"matmul x={size}x{size} w={size}x{size}")
    operands = make_normal(problem)
    x, w = (operands[n].astype(np.float64) for n in "xw")
    ratios = []
    for turn in range(options.turns + 2):
        time.sleep(_LONG_PAUSE_S)
        own = time_truth(problem, operands, options.threads)
        time.sleep(_LONG_PAUSE_S)
        start = time.perf_counter()
        np.matmul(x, w)
        if turn >= 2:
            ratios.append(own / (time.perf_counter() - start))
    return statistics.median(ratios)


def _mean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(r) for r in ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="one class, as far as its name begins so")
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--serve", type=int)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    print(f"{platform.machine()}, {options.threads} threads, medians of {options.turns} turns")
    torch = Torch(options.threads)
    for name, texts in _LAYERS.items():
        if options.only and not name.startswith(options.only):
            continue
        ratios = []
        for text in texts:
            seconds, ratio = compare(text, torch, options)
            rate = 2 * parse_problem_text(text).multiply_adds / seconds / 1e9
            ratios.append(ratio)
            print(f"  {text:<80}{seconds * 1e3:>9.2f} ms{rate:>6.0f} GFLOP/s{ratio:>7.2f}", flush=True)
        print(f"{name}: truth / torch float32 {_mean(ratios):.2f} (geometric mean; goal at most 2.5)", flush=True)
    if options.only and not "formats".startswith(options.only):
        return
    for dtype in ("float16", "bfloat16"):
        mean = _mean([compare_formats(text, dtype, options) for text in _FORMATS])
        print(f"{dtype}: truth / truth of float32 {mean:.2f} (goal at most 1.2)", flush=True)
    wide = [compare(f"{text} dtype=float64", torch, options)[1] for text in _FORMATS]
    print(f"float64: truth / torch float64 {_mean(wide):.2f} (goal at most 10)")
    print(
        f"matmul of 1024 x 1024 x 1024: truth / NumPy's float64 product {compare_numpy(1024, options):.2f} (goal 1.3)"
    )


if __name__ == "__main__":
    main()
