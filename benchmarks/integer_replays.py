"""Random problems on 8-bit codes, profiled on every engine that takes them: how many codes are replayed.

`make integers`. Run by hand: some minutes. Engines that decline a problem are counted beside.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

from samebits.errors import SamebitsError
from samebits.questions.profile.profiling import profile

ENGINES = (
    "onnxruntime", "openvino", "litert", "litert:kernels=builtin", "litert:kernels=reference",
)  # fmt: skip


def make_problems(count: int, seed: int) -> list[str]:
    """Different texts."""
    rng = random.Random(seed)
    found: dict[str, None] = {}
    while len(found) < count:
        found[_draw(rng)] = None
    return list(found)


def _draw(rng: random.Random) -> str:
    signed = rng.random() < 0.6
    x = "int8" if signed else "uint8"
    w = "int8" if signed or rng.random() < 0.5 else "uint8"
    end = f"dtype={x} weights={w} out={x} scale={rng.choice(('tensor', 'channel'))}"
    bias = rng.choice((" bias", ""))
    if rng.random() < 0.5:
        length = rng.randint(3, 90)
        return f"linear x={rng.randint(1, 9)}x{length} w={rng.randint(1, 40)}x{length}{bias} {end}"
    channels, size, kernel = rng.choice((1, 3, 4, 8, 16)), rng.randint(5, 12), rng.choice((1, 2, 3, 5))
    groups = rng.choice((1, 1, channels))
    shape = (
        f"x={rng.randint(1, 2)}x{channels}x{size}x{size + 1} w={groups * rng.choice((1, 2, 4))}x{channels // groups}"
    )
    window = f"stride={rng.choice((1, 1, 2))} padding={rng.choice((0, kernel // 2))}"
    return f"conv2d {shape}x{kernel}x{kernel}{bias} groups={groups} {window} {end}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default=None)
    arguments = parser.parse_args()
    whole, taken, codes, right, declined = (Counter[str]() for _ in range(5))
    ways: dict[str, Counter[str]] = {engine: Counter() for engine in ENGINES}
    for number, text in enumerate(make_problems(arguments.count, arguments.seed)):
        for engine in ENGINES:
            try:
                found = profile(engine, text)
            except SamebitsError as error:
                print(f"{engine} {text}: {error}", file=sys.stderr)
                continue
            if found.replay is None:
                declined[engine] += 1
                print(f"{engine} {text}: {found.summary}", file=sys.stderr)
                continue
            taken[engine] += 1
            whole[engine] += found.replay.matched == 1
            codes[engine] += found.replay.elements
            right[engine] += found.replay.count
            ways[engine][found.summary.partition(":")[0].partition(";")[0]] += 1
            if found.replay.matched < 1:
                print(f"{engine} {text}: {found.replay.matched:.4%} {found.summary}", file=sys.stderr)
        print(f"{number + 1} of {arguments.count}", file=sys.stderr)
    lines = [
        "# Products of 8-bit codes, replayed\n",
        f"`make integers` profiles {arguments.count} random layers of 8-bit codes on every engine that takes them, with"
        " codes whose results lie at halves and a last bit beside them, and replays every code.\n",
        "| engine | layers taken | not taken | replayed whole | codes replayed |\n|---|---|---|---|---|",
        *(
            f"| {e} | {taken[e]} | {declined[e]} | {whole[e]} | {right[e]:,} of {codes[e]:,}"
            f" ({right[e] / max(codes[e], 1):.3%}) |"
            for e in ENGINES
        ),
        "\nHow they add and rescale:\n",
        *(f"- {e}: {says} ({count})" for e in ENGINES for says, count in ways[e].most_common()),
    ]
    text = "\n".join(lines) + "\n"
    if arguments.output:
        Path(arguments.output).write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
