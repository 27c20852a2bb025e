"""Guards over networks in training: is anything found where nothing is wrong, how soon are faults found, what it costs.

`make guard`; also --write FILE.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from built_networks import NETWORKS, build_network
from pages import write_page
from torch import Tensor, nn

from samebits.torch import guard

ABOUT = (
    "Networks in training under `samebits.torch.guard`. Nothing may be found where nothing is wrong; a fault put into"
    " one layer's result is to be found within the steps after which the documented probability is 99 %; and a"
    " training step of ResNet-18 costs so much more, in turns."
)
_SHARE, _DRAWS = 0.03125, 16
_CONV = nn.functional.conv2d


def make_step(
    name: str, batch: int | None = None, size: int | None = None, cast: bool = False
) -> tuple[nn.Module, Callable[[int], None]]:
    """A network in training mode, and a function that does its n-th step, on request in bfloat16."""
    net, x = build_network(name)
    net.train()
    shape = (batch or max(2, x.shape[0]), *(x.shape[1:] if size is None else (x.shape[1], size, size)))
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)

    def step(number: int) -> None:
        given = torch.randn(shape, generator=torch.Generator().manual_seed(number))
        optimizer.zero_grad()
        # One step long: autocast keeps its copies of weights until it ends, whatever becomes of them.
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=cast):
            loss = net(given).square().mean()
        loss.backward()
        optimizer.step()

    return net, step


def survey_sound(steps: int) -> Iterator[str]:
    """Every network, every result of every step: rows of a table, and the sum of outputs."""
    yield "| network | dtype | outputs checked | breaches | of the worst-case bound | of the likely bound |"
    yield "|---|---|---|---|---|---|"
    total = breaches = 0
    for name in NETWORKS:
        for cast in (False, True):
            net, step = make_step(name, cast=cast)
            with guard(net, share=1.0) as watch:
                for number in range(steps):
                    step(number)
            found = watch.report()
            total, breaches = total + found.outputs, breaches + sum(r.breaches for r in found.results)
            bound = max(r.max_over_bound or 0 for r in found.results)
            likely = max(r.max_over_likely or 0 for r in found.results)
            kind = "bfloat16" if cast else "float32"
            yield f"| {name} | {kind} | {found.outputs:,} | {len(found.breaches)} | {bound:.2g} | {likely:.2g} |"
    yield f"\n{total:,} outputs checked in {len(NETWORKS)} networks, {breaches} breaches."


def _flip(bit: int) -> Callable[..., Tensor]:
    def flip(x: Tensor, w: Tensor, y: Tensor, turn: int, padding: tuple[int, int]) -> Tensor:
        wrong = y.clone()
        flat = wrong.view(torch.int32).view(-1)
        flat[(turn * 7919) % flat.numel()] ^= 1 << bit
        return wrong

    return flip


def _tf32(tensor: Tensor) -> Tensor:
    bits = tensor.detach().contiguous().view(torch.int32)
    return ((bits + 0xFFF + ((bits >> 13) & 1)) & ~0x1FFF).view(torch.float32)


def _multiply_tf32(x: Tensor, w: Tensor, y: Tensor, turn: int, padding: tuple[int, int]) -> Tensor:
    return _CONV(_tf32(x), _tf32(w), padding=padding)


def _add_in_half(x: Tensor, w: Tensor, y: Tensor, turn: int, padding: tuple[int, int]) -> Tensor:
    total = torch.zeros_like(y, dtype=torch.float16)
    for c in range(0, x.shape[1], 16):
        total = (total.float() + _CONV(x[:, c : c + 16], w[:, c : c + 16], padding=padding)).half()
    return total.float()


def _shift_tile(x: Tensor, w: Tensor, y: Tensor, turn: int, padding: tuple[int, int]) -> Tensor:
    wrong = y.clone()
    wrong[..., :4, :4] = y[..., 1:5, :4]
    return wrong


FAULTS: dict[str, tuple[Callable[..., Tensor], float]] = {
    "one number's highest exponent bit flipped, elsewhere each step": (_flip(30), 1.0),
    "operands rounded to TF32": (_multiply_tf32, 1.0),
    "sums kept in float16 every 16 channels": (_add_in_half, 1.0),
    "a tile of 4 x 4 shifted by a row": (_shift_tile, 16 / 784),
}


def survey_faults(runs: int) -> Iterator[str]:
    """Each fault in one layer of a ResNet-18 of 3 x 112 x 112: within how many steps it is found."""
    yield "| fault in the output of one layer | seen in one check | 99 % within | found within it | median step |"
    yield "|---|---|---|---|---|"
    for name, (fault, faulty) in FAULTS.items():
        chance = 1 - (1 - faulty) ** _DRAWS
        steps = math.ceil(math.log(0.01) / math.log(1 - _SHARE * chance))
        found = [_find(fault, steps * 4, seed) for seed in range(runs)]
        within = sum(step is not None and step <= steps for step in found)
        median = statistics.median(step if step is not None else math.inf for step in found)
        yield f"| {name} | {chance:.2g} | {steps} steps | {within} of {runs} | {median:g} |"


def _find(fault: Callable[..., Tensor], most: int, seed: int) -> int | None:
    net = build_network("resnet18", seed)[0]
    victim = [m for m in net.modules() if isinstance(m, nn.Conv2d) and m.stride == (1, 1)][3]
    turn = 0

    def conv2d(x: Tensor, w: Tensor, bias: Tensor | None, *rest: Any) -> Tensor:
        y = _CONV(x, w, bias, *rest)
        return fault(x, w, y, turn, padding=rest[1]) if w is victim.weight else y

    nn.functional.conv2d = conv2d  # type: ignore[assignment]  (put back below)
    try:
        with guard(net, share=_SHARE, seed=seed) as watch, torch.no_grad():
            for turn in range(most):
                net(torch.randn(1, 3, 112, 112, generator=torch.Generator().manual_seed(turn)))
                if watch.breaches:
                    return turn + 1
    finally:
        nn.functional.conv2d = _CONV
    return None


def survey_cost(turns: int) -> Iterator[str]:
    """ResNet-18's training step with and without the guard, in turns: medians and their ratio."""
    yield "| training step of ResNet-18 | without | with | ratio |"
    yield "|---|---|---|---|"
    for batch, size in ((8, 224), (8, 128), (4, 64)):
        net, step = make_step("resnet18", batch, size)
        times: dict[bool, list[float]] = {False: [], True: []}
        for number in range(2 * turns + 4):
            guarded = number % 2 == 1
            watch = guard(net, seed=number) if guarded else None
            start = time.perf_counter()
            step(number)
            if number >= 4:
                times[guarded].append(time.perf_counter() - start)
            if watch is not None:
                watch.close()
        plain, with_guard = statistics.median(times[False]), statistics.median(times[True])
        ratio = statistics.median(b / a for a, b in zip(times[False], times[True], strict=True))
        yield f"| {batch} x 3 x {size} x {size} | {plain * 1e3:.0f} ms | {with_guard * 1e3:.0f} ms | {ratio:.3f} |"


def main() -> int:
    """Prints the tables, or writes the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--turns", type=int, default=25)
    options = parser.parse_args()
    tables: list[str] = []
    for part in (survey_cost(options.turns), survey_faults(options.runs), survey_sound(options.steps)):
        for line in part:
            print(line, flush=True)
            tables.append(line)
        tables.append("")
    if options.write:
        write_page(options.write, "Guards over networks", ABOUT, "\n".join(tables))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
