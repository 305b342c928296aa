"""How commands are parsed and shown: numbers that are none refused, help pages in groups."""

from __future__ import annotations

import math
from typing import Any

import typer
from typer.core import TyperCommand

MOST = 2**31 - 1  # of a count
MAX_WIDTH = 200  # columns; COLUMNS says fewer, and without it a page has 80


class GroupedCommand(TyperCommand):
    """A command whose plain help page has a section for each ``rich_help_panel``.

    Its options take no NaN: no comparison with one holds, so that it would be within any bounds.
    Nor do they take integers that no count of anything is.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run the command; refuse NaN and integers of more than 32 bits."""
        for parameter in self.params:
            value = ctx.params.get(parameter.name)
            if isinstance(value, float) and math.isnan(value):
                hint = parameter.opts[0]
                raise typer.BadParameter(f"{value} found, a number expected", param_hint=hint)
            if isinstance(value, int) and abs(value) > MOST:
                hint = parameter.opts[0]
                raise typer.BadParameter(f"{value} found, at most {MOST} expected", param_hint=hint)
        return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options to ``formatter``, those without a group first."""
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            is_argument = parameter.param_type_name == "argument"
            default = "Arguments" if is_argument else "Options"
            panel = getattr(parameter, "rich_help_panel", None) or default
            if record is not None:
                sections.setdefault(panel, []).append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
