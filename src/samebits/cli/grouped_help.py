"""A command's help with its options in groups: those of every subject first, then those that only some have."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

_FIRST = "Options"


class GroupedCommand(TyperCommand):
    """A command whose help has a heading for every group that its options name (`rich_help_panel`)."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Arguments, options, and each group of options under its own heading."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for one in self.get_params(ctx):
            row = one.get_help_record(ctx)
            if row is not None:
                own = getattr(one, "rich_help_panel", None) or _FIRST
                groups.setdefault("Arguments" if one.param_type_name == "argument" else own, []).append(row)
        for heading in sorted(groups, key=lambda name: ("Arguments", _FIRST, name).index(name)):
            with formatter.section(heading):
                formatter.write_dl(groups[heading])
