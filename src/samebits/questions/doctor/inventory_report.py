"""The inventory for people: engines, the settings that decide their bits, what is missing and how to get it."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table
from rich.text import Text

from samebits.display.page_layout import Page, Remark, add_row, indent, open_console
from samebits.display.visible_text import make_visible
from samebits.questions.doctor.inventory_schema import AskedEngine, Inventory


def show_inventory(found: Inventory, console: Console | None = None) -> None:
    """Prints an inventory to the console (standard output by default)."""
    found, console = make_visible(found), console or open_console()
    page = Page()
    page.add(
        Text(f"samebits {found.samebits_version}", style="bold").append(f" on Python {found.python}", style="not bold"),
        Text(f"{found.platform}, {found.processor}, {found.cores} cores, {found.memory_gib:g} GiB"),
        *(Text(f"GPU {number}: {name}") for number, name in enumerate(found.gpus)),
        Text("features  " + " ".join(found.features), style="dim"),
        Text("packages  " + ", ".join(f"{n} {v}" for n, v in found.packages.items()), style="dim"),
    )
    page.add(indent(_make_engines_table(found)))
    variables = _make_variables_table(found)
    if variables is not None:
        page.add(indent(variables))
    missing = [e for e in found.engines if e.version is None]
    if found.plugins:
        page.add([Remark(one.text, f"of {one.brought_by}: {say_asked(one)}") for one in found.plugins])
    if found.log_readers:
        readers = [(f"logs: {one.name}", one.brought_by, one.failure) for one in found.log_readers]
        page.add([Remark(name, f"of {of}" + (f": {why}" if why else "")) for name, of, why in readers])
    if found.processors:
        says = f"as another processor, cpu=MODEL, by {found.emulator}: {', '.join(found.processors)}"
        page.add([Remark("processors", says)])
    if found.asked:
        page.add([Remark(one.text, say_asked(one)) for one in found.asked])
    remarks = [Remark("missing", f"{e.name}: {e.install}", verbatim=True) for e in missing]
    if found.emulator and not found.processors:
        remarks.append(Remark("missing", f"other processors: {found.emulator}"))
    if not missing:
        remarks.append(Remark("missing", "none: all engines that samebits knows are installed"))
    command = 'samebits compare "conv2d x=1x3x32x32 w=8x3x3x3 padding=1"'
    page.add([*remarks, Remark("next", command, verbatim=True)])
    page.print_to(console)


def say_asked(one: AskedEngine) -> str:
    """The version, device and settings of a named engine, or why it is not there."""
    if one.failure:
        return f"not there: {one.failure}"
    settings = ", ".join(f"{name}={value}" for name, value in one.settings.items())
    return f"{one.version or 'no version'} on {one.device}" + (f"; {settings}" if settings else "")


def _make_engines_table(found: Inventory) -> Table:
    table = _make_folding_table(
        "engine", "version", "what it runs; settings, with their defaults (also env.NAME=value)"
    )
    for engine in found.engines:
        version = Text(engine.version, style="green") if engine.version else Text("missing", style="yellow")
        said = [", ".join(names) for names in (engine.takes, engine.settings) if names]
        add_row(table, engine.name, version, "; ".join(said))
    return table


def _make_variables_table(found: Inventory) -> Table | None:
    rows = [(engine.name, v) for engine in found.engines if engine.version for v in engine.variables]
    rows += [("all", v) for v in found.variables]
    if not rows:
        return None
    table = _make_folding_table("effective setting", "value", "from", "what it does")
    for engine, variable in rows:
        add_row(table, f"{engine} {variable.name}", Text(variable.value), variable.origin, variable.says)
    return table


def _make_folding_table(*headings: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0), header_style="dim")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    return table
