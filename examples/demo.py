"""What `make demo` shows: two real reports, answered on the engines that are installed.

1. One filter over inputs of length 7, 8 and 9 (a TensorFlow of 2017 changed its first outputs with the length).
2. An XLA log that says two cuDNN algorithms disagree, "likely a bug": 95.25 against 80.8125.
"""

from __future__ import annotations

import sys
from pathlib import Path

from samebits.cli import main as run_samebits
from samebits.engines.registry.known_engines import ENGINES
from samebits.questions.compare.comparing import compare

HERE = Path(__file__).parent
LENGTHS = (7, 8, 9)


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


def answer_autotuner_report() -> int:
    print("XLA's autotuner says two algorithms disagree, 95.25 against 80.8125. Which is right?\n")
    print("$ samebits explain examples/xla_mismatch.log")
    return run_samebits(["explain", str(HERE / "xla_mismatch.log")])


if __name__ == "__main__":
    exit_status = answer_length_report()
    differs = answer_autotuner_report()
    # The second report is of two results that differ.
    sys.exit(exit_status or (0 if differs == 1 else differs))
