"""A summation tree as lines of text: one for every finished sum that joins the running sum."""

from __future__ import annotations

from samebits.sums.recipes.tree import Chain, Fused, Item, list_terms

_FEW_TERMS = 4


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
    return f"{len(run):,} products {'in order' if run == sorted(run) else 'one after the other'}"


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
