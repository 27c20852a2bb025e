"""Seals checked under other settings and engines, beside brute force: python benchmarks/seal_pairs.py.

Each problem is sealed with one text and checked with another; the bits of both are compared on further operands, too. A
check that says "same" (for every input) where any of these differ is a fault, and so is "different" where all of them
are the same.
"""

from __future__ import annotations

import contextlib
from collections import Counter

from samebits.engines.registry.known_engines import ENGINES
from samebits.engines.registry.runners import open_runner
from samebits.numbers.ulps import has_same_bits
from samebits.problems import parse_problem_text
from samebits.problems.operands import make_normal
from samebits.questions.seal.checking import check
from samebits.questions.seal.sealing import seal

PROBLEMS = (
    "linear x=8x768 w=768x768 bias",
    "linear x=1x512 w=128x512",
    "matmul x=4x33x40 w=4x40x21",
    "conv2d x=1x16x14x14 w=32x16x3x3 padding=1",
    "conv2d x=2x24x9x9 w=48x24x1x1 bias",
    "conv2d x=1x32x12x12 w=32x1x3x3 padding=1 groups=32",
    "conv1d x=1x8x60 w=12x8x5 bias stride=2",
    "linear x=16x256 w=64x256 dtype=float16",
)
PAIRS = (
    ("onnxruntime", "onnxruntime"),
    ("onnxruntime", "onnxruntime:threads=1"),
    ("onnxruntime", "onnxruntime:optimization=disable"),
    ("onnxruntime", "onnxruntime:weights=runtime"),
    ("torch", "torch:threads=1"),
    ("torch", "torch:mkldnn=off"),
    ("torch", "torch:layout=channels_last"),
    ("torch", "torch:env.ONEDNN_MAX_CPU_ISA=AVX2"),
    ("torch", "onnxruntime"),
    ("openvino:INFERENCE_PRECISION_HINT=f32", "openvino"),
    ("openvino:INFERENCE_PRECISION_HINT=f32", "openvino:INFERENCE_PRECISION_HINT=f32,INFERENCE_NUM_THREADS=1"),
    ("jax", "jax:jit=off"),
    ("numpy", "numpy:env.OPENBLAS_CORETYPE=Haswell"),
    ("numpy", "numpy:threads=1"),
)  # fmt: skip
_SEEDS = range(100, 106)


def main() -> None:
    """Prints a line for each pair that is not as brute force has it, and the counts."""
    counts: Counter[str] = Counter()
    for there, here in PAIRS:
        if any(ENGINES[text.partition(":")[0]].find_version() is None for text in (there, here)):
            continue
        for text in PROBLEMS:
            problem = parse_problem_text(text)
            with contextlib.closing(open_runner(there)) as a, contextlib.closing(open_runner(here)) as b:
                try:
                    equal = [
                        has_same_bits(a.run(problem, operands), b.run(problem, operands))
                        for operands in (make_normal(problem, seed) for seed in _SEEDS)
                    ]
                    unit = check(seal(text, there), here).units[0]
                except Exception as error:
                    counts["refused"] += 1
                    print(f"{text} {there} {here}: {error}")
                    continue
            counts[f"{unit.outcome}, bits {'same' if all(equal) else 'others'}"] += 1
            if (unit.outcome == "same" and not all(equal)) or (unit.outcome == "different" and all(equal)):
                print(f"WRONG {text} {there} {here}: {unit.says} {equal}")
    print(dict(counts))


if __name__ == "__main__":
    main()
