"""Help pages in a pipe: options in the groups that a terminal shows as panels."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand

MAX_WIDTH = 200  # columns; COLUMNS says fewer, and without it a page has 80


class GroupedCommand(TyperCommand):
    """A command whose plain help page has a section for each ``rich_help_panel``."""

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
