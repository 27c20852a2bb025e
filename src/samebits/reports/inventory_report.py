"""The inventory for people."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from samebits.findings import Inventory


def show_inventory(found: Inventory, console: Console | None = None) -> None:
    """Prints an inventory to the console (standard output by default)."""
    console = console or Console(highlight=False)
    console.print(Text(f"samebits {found.samebits_version}", style="bold"), Text(f"on Python {found.python}"))
    console.print(Text(f"{found.platform}, {found.processor}, {found.cores} cores, {found.memory_gib:g} GiB"))
    console.print(Text("features  " + " ".join(found.features), style="dim"))
    console.print(Text("packages  " + ", ".join(f"{n} {v}" for n, v in found.packages.items()), style="dim"))
    console.print()
    console.print(Padding(_engines(found), (0, 0, 0, 2), expand=False))
    _variables(found, console)
    missing = [e for e in found.engines if e.version is None]
    console.print()
    if missing:
        console.print(Text("missing").append("".join(f"\n  {e.name:<12} {e.install}" for e in missing)))
    else:
        console.print(Text("All engines that samebits knows are installed."))
    console.print(Text('next      samebits compare "conv2d x=1x3x32x32 w=8x3x3x3 padding=1"', style="dim"))


def _engines(found: Inventory) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("engine", "version", "settings it takes, with their defaults (env.NAME=value besides)"):
        table.add_column(heading, overflow="fold")
    for engine in found.engines:
        version = Text(engine.version, style="green") if engine.version else Text("missing", style="yellow")
        table.add_row(engine.name, version, ", ".join(engine.settings))
    return table


def _variables(found: Inventory, console: Console) -> None:
    rows = [(engine.name, v) for engine in found.engines if engine.version for v in engine.variables]
    rows += [("all", v) for v in found.variables]
    if not rows:
        return
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for heading in ("effective", "value", "from", "what it does"):
        table.add_column(heading, overflow="fold")
    for engine, variable in rows:
        table.add_row(f"{engine} {variable.name}", Text(variable.value), variable.origin, variable.says)
    console.print()
    console.print(Padding(table, (0, 0, 0, 2), expand=False))
