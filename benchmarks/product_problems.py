"""A hundred matrix products: few rows and many, primes and powers of two, both layouts of w, batches, gradients."""

from __future__ import annotations

import random

from samebits.problems import Problem, parse_problem_text

_ROWS = (1, 1, 1, 2, 3, 4, 5, 7, 8, 13, 16, 31, 32, 64, 127, 128, 257, 512, 1021, 1024, 2048, 4096)
_LENGTHS = (5, 17, 64, 127, 256, 509, 768, 1021, 1024, 2048, 3072, 4093, 4096, 8192)
_COLUMNS = (1, 3, 8, 16, 33, 64, 127, 256, 768, 1000)
_MOST_PRODUCTS = 2**28
_SEED = 5


def list_products(count: int = 100) -> dict[str, Problem]:
    """Problems by name; the same ones every time."""
    chance = random.Random(_SEED)
    found: dict[str, Problem] = {}
    while len(found) < count:
        m, k, n = chance.choice(_ROWS), chance.choice(_LENGTHS), chance.choice(_COLUMNS)
        if m * k * n > _MOST_PRODUCTS:
            continue
        text = chance.choice(
            (
                f"linear x={m}x{k} w={n}x{k}",
                f"linear x={m}x{k} w={n}x{k} bias",
                f"matmul x={m}x{k} w={k}x{n}",
                f"matmul x=3x{m}x{k} w=3x{k}x{n}",
                f"linear.grad_input x={m}x{n} w={k}x{n}",
                f"linear.grad_weight x={k}x{n} w={m}x{n}",
            )
        )
        found[f"product-{len(found):03d}"] = parse_problem_text(text)
    return found
