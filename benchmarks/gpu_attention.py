"""Attention on a GPU: which blocks its kernels add values in, and whether an item's bits depend on its batch.

`python benchmarks/gpu_attention.py FILE.json`. With queries of zeros all weights are equal, so that the output times
the number of keys is the sum of the values: its order can be asked for as that of a product's.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from samebits.engines.probes.session import ProbeSession
from samebits.engines.probes.summation_order import find_summation_orders
from samebits.engines.recipe_search.order_names import name_orders
from samebits.numbers.format import numpy_dtype
from samebits.problems import Problem, parse_problem_text
from samebits.sums.emulators import emulate
from samebits.sums.recipes.recipe_text import format_order, parse_recipe

BACKENDS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
FORMATS = ("float16", "bfloat16")
KEYS = (64, 256, 1024, 4096)
QUERIES = (1, 128)
HEAD = 64
BATCHES = (*range(1, 65), 96, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096)


class ValueSums:
    """Attention with equal weights as the product ones x values: out[q, d] = the sum over keys of v[key, d]."""

    name, text = "attention", "attention"

    def __init__(self, backend: str, dtype: str, queries: int):
        self.backend, self.dtype, self.queries = getattr(SDPBackend, backend), getattr(torch, dtype), queries

    def run(self, problem: Problem, operands: Mapping[str, np.ndarray]) -> np.ndarray:
        x, w = operands["x"], operands["w"]
        if not np.all(x.astype(np.float64) == 1):
            raise ValueError("all weights of this attention are one")
        keys, columns = w.shape
        values = torch.from_numpy(w.astype(np.float32)).cuda().to(self.dtype)
        zeros = torch.zeros(1, 1, self.queries, HEAD, device="cuda", dtype=self.dtype)
        other = torch.zeros(1, 1, keys, HEAD, device="cuda", dtype=self.dtype)
        parts: list[np.ndarray] = []
        for first in range(0, columns, HEAD):
            v = torch.zeros(1, 1, keys, HEAD, device="cuda", dtype=self.dtype)
            part = values[:, first : first + HEAD]
            v[0, 0, :, : part.shape[1]] = part
            with sdpa_kernel(self.backend):
                out = torch.nn.functional.scaled_dot_product_attention(zeros, other, v, scale=1.0)
            parts.append(out[0, 0, : x.shape[0], : part.shape[1]].double().cpu().numpy() * keys)
        return np.concatenate(parts, 1).astype(np.float32).astype(operands["w"].dtype)


def ask_order(backend: str, dtype: str, keys: int, queries: int) -> dict[str, Any]:
    row: dict[str, Any] = {"backend": backend, "dtype": dtype, "keys": keys, "queries": queries}
    problem = parse_problem_text(f"matmul x=1x{keys} w={keys}x{HEAD} dtype={dtype}")
    sums = ValueSums(backend, dtype, queries)
    asked: Any = sums
    session = ProbeSession(asked, problem, most_time_s=25)
    orders = find_summation_orders(session, may_guess=True)
    row["notes"], row["calls"] = list(orders.notes)[:3], session.calls
    if orders.trees:
        named, _ = name_orders(list(orders.trees), session.terms)
        row["orders"] = [format_order(o)[:600] for o in named[:2]]
        values = np.random.default_rng(1).normal(size=(keys, HEAD)).astype(numpy_dtype(dtype))
        operands = {"x": np.ones((1, keys), values.dtype), "w": values}
        real = sums.run(problem, operands)
        row["replayed"] = {}
        for text in ("acc=float32/toward_zero fused=25", "acc=float32 fused=25/toward_zero", "acc=float32"):
            try:
                recipe = parse_recipe(f"direct {text} order={format_order(named[0])}")
                made = emulate(problem, recipe, operands)
                row["replayed"][text] = float((made == real).mean())
            except Exception as error:
                row["replayed"][text] = f"{type(error).__name__}: {error}"[:120]
    return row


def map_batches(backend: str, dtype: str, keys: int, queries: int) -> dict[str, Any]:
    """Classes of batch sizes at which the first item of the batch has the same bits."""
    generator = torch.Generator("cuda").manual_seed(3)
    most = max(b for b in BATCHES if b * 4 * (keys + queries) * HEAD * 2 < 2**32)
    q, k, v = (
        torch.randn(most, 4, n, HEAD, device="cuda", generator=generator).to(getattr(torch, dtype))
        for n in (queries, keys, keys)
    )
    classes: dict[bytes, list[int]] = {}
    for batch in (b for b in BATCHES if b <= most):
        with sdpa_kernel(getattr(SDPBackend, backend)):
            out = torch.nn.functional.scaled_dot_product_attention(q[:batch], k[:batch], v[:batch])
        classes.setdefault(out[0].float().cpu().numpy().tobytes(), []).append(batch)
    return {
        "backend": backend,
        "dtype": dtype,
        "keys": keys,
        "queries": queries,
        "classes": list(classes.values()),
        "to": most,
    }


def main() -> None:
    found: dict[str, list[dict[str, Any]]] = {"orders": [], "batches": []}
    for ask, key in ((map_batches, "batches"), (ask_order, "orders")):
        for backend in BACKENDS:
            for dtype in FORMATS:
                for queries in QUERIES:
                    for keys in KEYS if key == "orders" else (1024,):
                        try:
                            found[key].append(ask(backend, dtype, keys, queries))
                        except Exception as error:
                            said = f"{type(error).__name__}: {error}"[:300]
                            found[key].append(
                                {"backend": backend, "dtype": dtype, "keys": keys, "queries": queries, "error": said}
                            )
                        Path(sys.argv[1]).write_text(json.dumps(found, indent=0))


if __name__ == "__main__":
    main()
