"""The truth of attention beside mpmath at 200 bits: python benchmarks/attention_truth.py [OUTPUTS].

Rows are drawn at random from problems of all formats, masks and shapes; every output of a row is computed from the
definition with mpmath and rounded to the nearest number by its own code. Prints how many were compared and differ.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import mpmath
import numpy as np

from samebits.numbers.format import find_format
from samebits.problems.attention import Attention, make_normal_attention, make_uniform_attention, parse_attention
from samebits.sums.truth.attention import compute_attention

TEXTS = (
    "attention q=1x4x7x16 k=1x2x9x16 causal=lower_right dtype=float16",
    "attention q=2x2x16x8 k=2x2x16x8 mask=add dtype=float64",
    "attention q=1x2x16x8 k=1x2x16x8 v=1x2x16x30 softcap=5.0 mask=bool",
    "attention q=1x2x16x80 k=1x1x40x80 window=7 causal dtype=bfloat16",
    "attention q=1x2x16x8 k=1x2x16x8 softcap=2.5 dtype=float64",
    "attention q=1x4x32x64 k=1x4x128x64",
    "attention q=1x4x32x64 k=1x4x128x64 scale=1.0",
    "attention q=1x8x1x128 k=1x1x300x128 dtype=float16",
    "attention q=3x2x20x24 k=3x2x33x24 mask=add",
    "attention q=1x2x8x16 k=1x2x8x16 causal dtype=float8_e4m3fn",
)
_ROWS = 40


def compare(asked: Attention, seed: int, rng: np.random.Generator) -> tuple[int, int]:
    """How many outputs of some rows were compared, and how many are not the nearest number."""
    operands = (make_normal_attention if seed % 3 else make_uniform_attention)(asked, seed)
    truth = compute_attention(asked, operands)
    seen = np.broadcast_to(asked.sees_with(operands), asked.score_shape)
    rows = list(np.ndindex(asked.q[:3]))
    count, wrong = 0, 0
    for chosen in rng.choice(len(rows), min(_ROWS, len(rows)), replace=False):
        item, head, query = rows[chosen]
        if truth.empty[item, head, query]:
            continue
        expected = compute_row(asked, operands, seen, item, head, query)
        found = truth.values[item, head, query].astype(np.float64)
        count += len(expected)
        wrong += sum(1 for e, f in zip(expected, found, strict=True) if round_nearest(e, asked.dtype) != f)
    return count, wrong


def compute_row(
    asked: Attention, operands: dict[str, np.ndarray], seen: np.ndarray, item: int, head: int, query: int
) -> list[Any]:
    """One query's result, from the definition."""
    own = head // asked.group
    q = [mpmath.mpf(float(x)) for x in operands["q"][item, head, query]]
    scale = mpmath.mpf(asked.scale) if asked.scale is not None else 1 / mpmath.sqrt(asked.q[3])
    keys = np.flatnonzero(seen[item, head, query])
    scores = []
    for key in keys:
        score = scale * mpmath.fsum(
            a * mpmath.mpf(float(b)) for a, b in zip(q, operands["k"][item, own, key], strict=True)
        )
        if asked.softcap is not None:
            score = asked.softcap * mpmath.tanh(score / asked.softcap)
        if asked.mask == "add":
            score += mpmath.mpf(float(np.broadcast_to(operands["mask"], asked.score_shape)[item, head, query, key]))
        scores.append(score)
    most = max(scores)
    weights = [mpmath.exp(score - most) for score in scores]
    total = mpmath.fsum(weights)
    values = operands["v"][item, own][keys].astype(np.float64)
    return [
        mpmath.fsum(w * mpmath.mpf(float(x)) for w, x in zip(weights, column, strict=True)) / total
        for column in values.T
    ]


def round_nearest(value: Any, dtype: str) -> float:
    """The nearest number of a format, ties to even; these results are far from the largest."""
    format_ = find_format(dtype)
    if value == 0:
        return 0.0
    exponent = int(mpmath.floor(mpmath.log(abs(value), 2)))
    quantum = max(exponent - format_.precision + 1, format_.smallest_quantum_exponent)
    return float(mpmath.ldexp(mpmath.nint(mpmath.ldexp(value, -quantum)), quantum))


def main() -> None:
    """Compares as many outputs as were asked for."""
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    mpmath.mp.prec = 200
    rng, count, wrong, seed, began = np.random.default_rng(0), 0, 0, 0, time.time()
    while count < wanted:
        for text in TEXTS:
            more, bad = compare(parse_attention(text), seed, rng)
            count, wrong = count + more, wrong + bad
            if bad:
                print(f"{text} seed {seed}: {bad} differ")
        seed += 1
    print(f"{count:,} outputs compared, {wrong} differ; {time.time() - began:.0f} s")


if __name__ == "__main__":
    main()
