"""The order probe beside FPRev's algorithm, one pair of one sum to a call, on the same torch convolution: `make bench`.

Both run in turns in one process on one worker; medians are printed.
"""

from __future__ import annotations

import statistics
import time

import numpy as np

from samebits.engines.probes.session import ProbeSession
from samebits.engines.probes.summation_order import find_summation_orders
from samebits.engines.probes.tree_shape import join_parts
from samebits.engines.registry.runners import open_runner
from samebits.problems import parse_problem_text
from samebits.sums.recipes.tree import Item, canonical_tree

PROBLEM = "conv2d x=1x64x28x28 w=64x64x3x3 padding=1 dtype=float32"
MASK = 2.0**100
RUNS = 3


def reveal_one_sum(session: ProbeSession) -> Item:
    """FPRev's recursion (Xie et al., USENIX ATC 2025): a pivot against every other term, one pair to a call."""
    terms = session.terms
    position = int(np.prod(terms.outputs)) // 2 + terms.outputs[-1] // 2

    def count_inside(i: int, j: int) -> int:
        operands = session.make_operands()
        values = np.ones(terms.count, session.dtype)
        values[i], values[j] = MASK, -MASK
        session.view_rows(operands)[0, 0] = values.reshape(terms.depth, terms.volume)
        return terms.count - int(session.ask_by_row(operands)[0, position])

    def reveal(members: list[int]) -> Item:
        pivot, others = members[0], members[1:]
        current: Item = pivot
        inside = {j: count_inside(pivot, j) for j in others}
        for size in sorted(set(inside.values())):
            current = join_parts([current, reveal([j for j in others if inside[j] == size])])
        return current

    return reveal(list(range(terms.count)))


def main() -> None:
    problem = parse_problem_text(PROBLEM)
    runner = open_runner("torch")
    runner.identify()
    results: dict[str, list[tuple[int, float]]] = {"one pair per call": [], "samebits": []}
    trees: list[Item] = []
    try:
        find_summation_orders(ProbeSession(runner, problem))
        for _ in range(RUNS):
            for name in results:
                session = ProbeSession(runner, problem, most_calls=100_000, most_time_s=600)
                started = time.perf_counter()
                tree = reveal_one_sum(session) if name != "samebits" else find_summation_orders(session).trees[0]
                results[name].append((session.calls, time.perf_counter() - started))
                trees.append(tree)
    finally:
        runner.close()
    assert len({str(canonical_tree(t)) for t in trees}) == 1, "the two disagree about the order"
    calls = {n: statistics.median(c for c, _ in r) for n, r in results.items()}
    times = {n: statistics.median(t for _, t in r) for n, r in results.items()}
    print(f"{PROBLEM}: K = {problem.reduction_length}, same tree from both")
    for name in results:
        print(f"  {name:<18} {calls[name]:7.0f} calls {times[name]:8.3f} s")
    one, ours = "one pair per call", "samebits"
    print(f"  {calls[one] / calls[ours]:.0f} times fewer calls, {times[one] / times[ours]:.0f} times faster")


if __name__ == "__main__":
    main()
