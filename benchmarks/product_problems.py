"""Matrix products: a hundred of all shapes, and those of real networks at several lengths and batch sizes.

Widths are those of BERT and GPT-2 (768, 1024, 1280), ViT (192, 768, 1024), MLP-Mixer (512, 768, 1024), of LSTMs for
Penn Treebank (200, 650, 1500) and of the usual classifier heads.
"""

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


def list_network_products() -> dict[str, Problem]:
    """Linear layers and products of real networks, by name."""
    texts: list[str] = []
    for length in (1, 7, 16, 33, 128):
        for width in (768, 1024, 1280):
            texts += [f"linear x=1x{length}x{width} w={rows}x{width} bias" for rows in (width, 3 * width, 4 * width)]
            texts.append(f"linear x=1x{length}x{4 * width} w={width}x{4 * width} bias")
            heads = width // 64
            texts.append(f"matmul x=1x{heads}x{length}x64 w=1x{heads}x64x{length}")
            texts.append(f"matmul x=1x{heads}x{length}x{length} w=1x{heads}x{length}x64")
    for width in (192, 768, 1024):
        texts += [f"linear x=1x197x{width} w={rows}x{width} bias" for rows in (width, 3 * width, 4 * width)]
        texts += [
            f"matmul x={width // 64}x197x64 w={width // 64}x64x197",
            f"linear x=197x{4 * width} w={width}x{4 * width}",
        ]
    for channels, tokens in ((512, 256), (768, 384), (1024, 512)):
        texts += [
            f"linear x=1x{channels}x196 w={tokens}x196 bias",
            f"linear x=1x{channels}x{tokens} w=196x{tokens} bias",
        ]
        texts.append(f"linear x=1x196x{channels} w={4 * channels}x{channels} bias")
    for batch in (1, 8, 20, 32):
        texts += [f"linear x={batch}x{width} w={4 * width}x{width} bias" for width in (200, 650, 1500)]
        texts += [f"linear x={batch}x{n} w=1000x{n} bias" for n in (512, 1024, 1280, 2048, 4096)]
        texts += [f"linear x={batch}x{n} w={m}x{n} bias then=relu" for n, m in ((256, 120), (120, 84), (84, 10))]
        texts += [f"linear x={batch}x768 w={classes}x768 bias" for classes in (2, 3, 768)]
    for rows in (32, 64, 128):
        for width in (200, 768, 1024):
            texts += [f"linear.{way} x={rows}x{width} w={2 * width}x{width}" for way in ("grad_input", "grad_weight")]
    for dtype in ("bfloat16", "float16"):
        texts += [f"linear x=1x{n}x768 w=768x768 bias dtype={dtype}" for n in (1, 20, 33, 128)]
        texts += [f"matmul x=12x{n}x64 w=12x64x{n} dtype={dtype}" for n in (33, 128)]
    return {text: parse_problem_text(text) for text in texts}
