"""What `make demo` shows: two real reports, answered on the engines that are installed.

1. One filter over inputs of length 7, 8 and 9 (a TensorFlow of 2017 changed its first outputs with the length).
2. The convolution of an XLA log that says two cuDNN algorithms disagree, "likely a bug": 95.25 against 80.8125.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from samebits.cli import main as run_samebits
from samebits.diagnosis import compare
from samebits.engines.catalog import ENGINES
from samebits.problems import format_problem
from samebits.problems.operands import make_uniform
from samebits.problems.reading import read_problem
from samebits.truth import compute_truth

HERE = Path(__file__).parent
LENGTHS = (7, 8, 9)
LOGGED = {"1+TC": 95.25, "0+TC": 80.8125}
HLO = (
    "%custom-call.20 = (f16[1,5,24,24]{2,1,0,3}, u8[0]{0}) custom-call(f16[3778,1,50,24]{3,2,1,0} %bitcast.237, "
    "f16[3778,1,10,24]{3,2,1,0} %arg45.46), window={size=1x5 stride=1x5}, dim_labels=b01f_01io->b01f, "
    'custom_call_target="__cudnn$convBackwardFilter"'
)


def answer_length_report() -> int:
    print("A convolution changes when its input grows: the first outputs of lengths 7, 8 and 9 are the same sums.\n")
    engines = [name for name, spec in ENGINES.items() if spec.find_version()]
    # OpenVINO's default precision is the hardware's; the report is about float32.
    engines = ["openvino:INFERENCE_PRECISION_HINT=f32" if e == "openvino" else e for e in engines]
    arguments = [argument for engine in engines for argument in ("--on", engine)]
    print("$ samebits compare examples/length7.npz " + " ".join(arguments))
    status = run_samebits(["compare", str(HERE / "length7.npz"), *arguments])
    firsts: dict[str, set[tuple[float | None, ...]]] = {engine: set() for engine in engines}
    for length in LENGTHS:
        for side in compare(HERE / f"length{length}.npz", engines).sides:
            firsts[side.name].add(tuple((side.values or [])[:3]))
    steady = [engine for engine, answers in firsts.items() if len(answers) == 1]
    print(f"\nThe first three outputs have the same bits at lengths 7, 8 and 9 on: {', '.join(steady) or 'none'}.")
    changing = [engine for engine in engines if engine not in steady]
    print(f"They change with the length on: {', '.join(changing) or 'none of them'}.\n")
    return status


def answer_autotuner_report() -> None:
    print("XLA's autotuner says two algorithms disagree. What is the right answer?\n")
    problem = read_problem(HLO)
    print(format_problem(problem))
    print(f"{problem.reduction_length:,} products per output. XLA fills its buffers with numbers from 0 to 0.1.")
    truth = compute_truth(problem, make_uniform(problem, seed=0, low=0.0, high=0.1)).values.astype(np.float64)
    print(f"Correctly rounded, such data give {truth.min():g} to {truth.max():g} in all {truth.size:,} outputs.")
    for side, value in LOGGED.items():
        share = value / truth.mean() - 1
        verdict = "right: among them" if truth.min() <= value <= truth.max() else f"not: {share:+.1%} from their mean"
        print(f"  {side}  logged {value:g}: {verdict}")


if __name__ == "__main__":
    exit_status = answer_length_report()
    answer_autotuner_report()
    sys.exit(exit_status)
