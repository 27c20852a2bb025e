"""Time of the truth over torch's convolutions, ResNet-50's distinct layers, and the memory it takes.

Torch lives in a process of its own (two thread pools in one process disturb each other); the two take turns, and what
counts is the median of the ratios of neighbouring turns. Run by `make bench`; options: --batch, --turns, --threads.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import statistics
import subprocess
import sys
import time

from samebits.problems import Problem
from samebits.problems.catalog import catalog
from samebits.problems.operands import make_normal
from samebits.sums.truth import compute_truth

# Long enough for an idle pool's threads to stop spinning before the other side is timed.
_PAUSE_S = 0.02


def list_layers(batch: int) -> list[tuple[str, Problem]]:
    """ResNet-50's distinct forward layers in float32 without bias, as published, at one batch size."""
    layers: dict[Problem, str] = {}
    for name, p in catalog().items():
        if name.startswith("resnet50/") and p.direction == "forward" and p.dtype == "float32" and not p.then:
            problem = Problem(p.kind, (batch, *p.x[1:]), p.w, stride=p.stride, padding=p.padding, groups=p.groups)
            layers.setdefault(problem, name)
    return [(name, problem) for problem, name in layers.items()]


class TorchTimer:
    """Torch in another process: told a layer, then asked for one timed run at a time."""

    def __init__(self, threads: int):
        command = [sys.executable, __file__, "--serve", str(threads)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request: dict) -> float:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def close(self) -> None:
        self.process.kill()


def serve(threads: int) -> None:
    """The other process: reads requests, answers with seconds."""
    import torch

    torch.set_num_threads(threads)
    layer: dict = {}
    operands: dict = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "x" in request:
            layer = request
            x, w = torch.randn(layer["x"]), torch.randn(layer["w"])
            operands = {"float32": (x, w), "float64": (x.double(), w.double())}
            print(0.0, flush=True)
            continue
        x, w = operands[request["dtype"]]
        with torch.no_grad():
            start = time.perf_counter()
            torch.nn.functional.conv2d(x, w, stride=layer["stride"], padding=layer["padding"], groups=layer["groups"])
            print(time.perf_counter() - start, flush=True)


def time_layer(problem: Problem, torch_timer: TorchTimer, turns: int, threads: int) -> dict[str, float]:
    operands = make_normal(problem)
    padding = [begin for begin, _ in problem.padding] if not isinstance(problem.padding, str) else []
    torch_timer.ask({
        "x": problem.x, "w": problem.w, "stride": problem.stride, "padding": padding, "groups": problem.groups,
    })  # fmt: skip
    times: dict[str, list[float]] = {"truth": [], "float32": [], "float64": []}
    for turn in range(turns + 2):
        for name, measured in times.items():
            time.sleep(_PAUSE_S)
            if name == "truth":
                start = time.perf_counter()
                compute_truth(problem, operands, threads=threads)
                seconds = time.perf_counter() - start
            else:
                seconds = torch_timer.ask({"dtype": name})
            if turn >= 2:
                measured.append(seconds)
    ratios = {
        name: statistics.median(t / o for t, o in zip(times["truth"], times[name], strict=True))
        for name in ("float32", "float64")
    }
    return {"truth_s": statistics.median(times["truth"]), **ratios}


def measure_extra_memory(problem: Problem) -> float:
    """MiB that the truth of a large problem takes beyond operands and result, in a fresh process."""
    code = (
        "import resource, numpy as np\n"
        "from samebits.problems import parse_problem_text\n"
        "from samebits.sums.truth import compute_truth\n"
        f"p = parse_problem_text({str_of(problem)!r})\n"
        "small = parse_problem_text('conv2d x=1x2x8x8 w=2x2x3x3')\n"
        "make = lambda q: {n: np.ones(s, np.float32) for n, s in q.operand_shapes.items()}\n"
        "compute_truth(small, make(small))\n"
        "operands = make(p)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "result = compute_truth(p, operands).values\n"
        "after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "print((after - before) / 1024 - result.nbytes / 2**20)\n"
    )
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def str_of(problem: Problem) -> str:
    from samebits.problems import format_problem

    return format_problem(problem)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--serve", type=int)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return
    print(f"{platform.machine()}, {options.threads} threads, batch {options.batch}, medians of {options.turns} turns")
    print(f"{'layer':<28}{'GFLOP':>7}{'truth ms':>10}{'GFLOP/s':>9}{'/float64':>10}{'/float32':>10}")
    torch_timer = TorchTimer(options.threads)
    rows = []
    for name, problem in list_layers(options.batch):
        row = time_layer(problem, torch_timer, options.turns, options.threads)
        work = 2 * problem.multiply_adds / 1e9
        rate = work / row["truth_s"]
        rows.append(row)
        print(
            f"{name.removeprefix('resnet50/'):<28}{work:>7.2f}{row['truth_s'] * 1e3:>10.2f}{rate:>9.0f}"
            f"{row['float64']:>10.2f}{row['float32']:>10.2f}",
            flush=True,
        )
    torch_timer.close()
    for dtype, goal in (("float64", 1.0), ("float32", 3.0)):
        mean = math.exp(statistics.fmean(math.log(row[dtype]) for row in rows))
        print(f"truth / torch {dtype}: {mean:.2f} (geometric mean of {len(rows)} layers; goal at most {goal})")
    large = Problem("conv2d", (16, 64, 512, 512), (64, 64, 3, 3), padding=((1, 1), (1, 1)))
    print(f"extra memory of {str_of(large)}: {measure_extra_memory(large):.0f} MiB (goal at most 512)")
    long = Problem("conv2d", (8, 16, 512, 512), (16, 16, 3, 3), direction="grad_weight", padding=((1, 1), (1, 1)))
    print(f"extra memory of {str_of(long)}: {measure_extra_memory(long):.0f} MiB (goal at most 512)")


if __name__ == "__main__":
    main()
