"""Summation orders in words and as lines to draw: "4 blocks of 144 in order, then left to right"."""

from __future__ import annotations

from samebits.problems.terms import Terms
from samebits.recipes.order import EVERY_AXIS, KeyedOrder, Level, Order
from samebits.recipes.tree import Chain, Fused, Item, list_terms

_FEW_TERMS = 4
_RULE_WORDS = {
    "chain": "left to right",
    "pairs": "adjacent pairs, then pairs of those",
    "halves": "upper half onto lower half, again and again",
    "splits": "halves summed apart, then added",
    "fused": "in one multi-term addition",
}


def describe_order(order: Order, tree: Item, terms: Terms) -> str:
    """One line: what is added first, and how that is put together."""
    own = [
        f"products {order.own.product}" if order.own.product else "",
        f"bias {order.own.bias}" if order.own.bias else "",
    ]
    ways = ", ".join(w for w in own if w)
    said = _describe_levels(order, tree, terms) if isinstance(order, KeyedOrder) else _describe_tree(tree)
    return f"{said}; {ways}" if ways else said


def _describe_levels(order: KeyedOrder, tree: Item, terms: Terms) -> str:
    if len(order.levels) == 1:
        level = order.levels[0]
        return f"{terms.count:,} products {_say_rule(level)}, by {_say_keys(level)}"
    inner = order.levels[-1]
    blocks = _count_blocks(order, terms)
    largest = -(-terms.count // blocks) if blocks else terms.count
    said = f"{blocks:,} sums of {largest:,} products, each {_say_rule(inner)} by {_say_keys(inner)}"
    for level in order.levels[-2::-1]:
        said += f"; then {_say_rule(level)} by {_say_keys(level)}"
    return said


def _count_blocks(order: KeyedOrder, terms: Terms) -> int:
    sizes = dict(zip(terms.axis_names, terms.axis_sizes, strict=True)) | {EVERY_AXIS: terms.count}
    blocks = 1
    for level in order.levels[:-1]:
        for key in level.keys:
            count = -(-sizes[key.axis] // key.block)
            blocks *= min(count, key.modulus) if key.modulus else count
    return blocks


def _say_rule(level: Level) -> str:
    words = _RULE_WORDS[level.rule]
    return f"{words}, kept in {level.format}" if level.format else words


def _say_keys(level: Level) -> str:
    return ", ".join(
        ("falling " if k.descending else "")
        + (f"{k.axis} in blocks of {k.block}" if k.block > 1 and not k.modulus else k.axis)
        + (f" mod {k.modulus}" if k.modulus else "")
        for k in level.keys
    )


def _describe_tree(tree: Item) -> str:
    if isinstance(tree, Fused):
        return f"{len(tree.terms)} products in one multi-term addition"
    if isinstance(tree, int):
        return "one product"
    sums = [p for p in tree.items if isinstance(p, Chain) and len(p.items) > 1]
    singles = len([p for p in tree.items if isinstance(p, int)])
    apart = len([p for p in tree.items if isinstance(p, Chain) and len(p.items) == 1])
    groups = [p for p in tree.items if isinstance(p, Fused)]
    parts = [f"{singles:,} products one by one"] if singles else []
    if apart:
        parts.append(f"{apart:,} more, each rounded first")
    if groups:
        parts.append(f"{len(groups):,} multi-term additions of up to {max(len(g.terms) for g in groups)}")
    if sums:
        sizes = sorted({len(list_terms(s)) for s in sums})
        spread = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
        parts.append(f"{len(sums):,} finished sums of {spread} products")
    return "left to right: " + ", ".join(parts)


def draw_tree(tree: Item, most_lines: int = 8) -> list[str]:
    """The tree as lines: one for every finished sum that joins the running sum, collapsed where they repeat."""
    items = tree.items if isinstance(tree, Chain) else (tree,)
    runs: list[tuple[str, int]] = []
    for text in _label_items(items):
        if runs and runs[-1][0] == text:
            runs[-1] = (text, runs[-1][1] + 1)
        else:
            runs.append((text, 1))
    lines = [f"{text} x{count}" if count > 1 else text for text, count in runs]
    if len(lines) > most_lines:
        lines = [*lines[: most_lines - 2], f"... {len(lines) - most_lines + 1} more ...", lines[-1]]
    if len(lines) == 1:
        return [f"{lines[0]} \u2500 y"]
    width = max(len(line) for line in lines)
    drawn = [f"{line.ljust(width)} \u2500{chr(0x2510 if i == 0 else 0x2524)}" for i, line in enumerate(lines)]
    drawn[-1] = f"{lines[-1].ljust(width)} \u2500\u2534\u2500 y"
    return drawn


def _label_run(run: list[int]) -> str:
    """Terms that are added one after the other: each by its number where they are few."""
    if len(run) <= _FEW_TERMS:
        return " ".join(map(str, run))
    return f"{len(run):,} products in order" if run == sorted(run) else f"{len(run):,} products one after the other"


def _label_items(items: tuple[Item, ...]) -> list[str]:
    labels: list[str] = []
    run: list[int] = []

    def close() -> None:
        if run:
            labels.append(_label_run(run))
            run.clear()

    for item in items:
        if isinstance(item, int):
            run.append(item)
            continue
        close()
        if isinstance(item, Fused):
            labels.append(f"{{{len(item.terms)} products at once}}")
        elif len(item.items) == 1:
            labels.append("1 product, rounded first")
        elif all(isinstance(p, int) for p in item.items):
            inner = [p for p in item.items if isinstance(p, int)]
            labels.append(f"({_label_run(inner)})")
        else:
            labels.append(f"(sum of {len(list_terms(item)):,} products in {len(item.items):,} parts)")
    close()
    return labels
