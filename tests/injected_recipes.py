"""Recipes to be injected in emulators and found again: a grid over orders, roundings, bias positions and algorithms."""

from __future__ import annotations

import itertools

ORDERS = (
    "c,kh,kw",
    "kh,kw,c",
    "c/8|kh,kw,c",
    "c/4,kh,kw,c",
    "kh,kw|c",
    "-kh,-kw,c",
    "-k",
    "halves:k%8|k",
    "halves:k%16|k",
    "pairs:k",
    "splits:k",
    "k/36|k",
    "k%4|k",
    "k/4|pairs:k",
    "tree:[0:144:9]*8@1+(8:144:9)",
)
SUMS = (
    "acc=float32",
    "acc=float32 product=rounded",
    "acc=float64",
    "acc=float16",
    "acc=float16 product=rounded",
    "acc=bfloat16",
    "acc=bfloat16 product=rounded",
)
OPERANDS = (
    "x=tf32/toward_zero w=tf32/toward_zero",
    "x=tf32 w=tf32",
    "x=bfloat16 w=bfloat16",
    "x=float16 w=float16",
    "w=float16",
)
FUSED = (
    "acc=float32/toward_zero fused=23 order=k/4|fused:k",
    "acc=float32/toward_zero fused=24 order=k/8|fused:k",
    "acc=float32/toward_zero fused=25 order=k/16|fused:k",
    "acc=float32 fused=24 order=k/8|fused:k",
    "acc=e8m13/toward_zero fused=13 order=k/32|fused:k",
    "acc=float16 fused=25 order=k/16|fused:k",
    # A matrix unit truncates; what it finished in blocks is joined by ordinary additions.
    "acc=float32 fused=25/float32/toward_zero order=k/48|k/8|fused:k",
    # One group of all channels at each tap.
    "acc=float32/toward_zero fused=25 order=kh,kw|fused:c",
)
# Blocks that store what they finished in the result's format, and add those in float32.
STORED = "direct acc=float32 fused=25/float32/toward_zero order=k/48|chain@{0}:k/48|k/16|fused:k bias=rounded"
LAYER = "conv2d x=2x16x14x14 w=16x16x3x3 padding=1 bias dtype={}"
ROW = "conv1d x=2x16x60 w=16x16x3 padding=1 bias dtype={}"


def list_injected() -> list[tuple[str, str]]:
    """Problem texts with recipe texts; every recipe differs from every other on its problem."""
    layer, half, brain = (LAYER.format(d) for d in ("float32", "float16", "bfloat16"))
    injected = [(layer, f"direct {s} order={o}") for o, s in itertools.product(ORDERS, SUMS)]
    injected += [(layer, f"direct {x} order={o}") for o, x in itertools.product(ORDERS, OPERANDS)]
    injected += [(layer, f"direct order={o} bias={b}") for o, b in itertools.product(ORDERS, ("first",))]
    injected += [(layer, f"direct product=rounded order={o} bias=first") for o in ORDERS]
    injected += [(layer, f"direct order={o} flush=operands,results") for o in ORDERS]
    injected += [(layer, f"direct order={o} start=product") for o in ORDERS[:4]]
    injected += [(layer, f"direct order={o} padding=multiplied") for o in ORDERS[:4]]
    injected += [(half, STORED.format("float16")), (brain, STORED.format("bfloat16"))]
    for problem in (half, brain):
        injected += [(problem, f"direct order={o} bias={b}") for o, b in itertools.product(ORDERS, ("rounded", "last"))]
    injected += [(layer, f"direct x={x} w={x} {f} bias={b}") for f in FUSED for b in ("first", "last")
                for x in ("tf32/toward_zero", "bfloat16", "float16")]  # fmt: skip
    channels = ("c", "c/4|c", "halves:c%8|c")
    for problem in (layer, ROW.format("float32")):
        injected += [(problem, f"winograd({t}) product={p} order={o}") for t in (2, 4, 6)
                    for p in ("fused", "rounded") for o in channels]  # fmt: skip
        injected.append((problem, "fft"))
    return injected
