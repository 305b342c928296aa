"""The page of the command line, made from what ``--help`` says when the site is built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sphinx.application import Sphinx
from typer.main import get_command

from relay_int8.cli import app as commands

PAGE = "reference/cli"
PLACE = "<!-- commands -->"
SPECIAL = "\\*_`[]<>|"
"""Characters that Markdown gives a meaning."""


def setup(app: Sphinx) -> dict[str, bool]:
    """Let Sphinx call ``insert`` for each page that it reads."""
    app.connect("source-read", insert)
    return {"parallel_read_safe": True}


def insert(app: Sphinx, page: str, content: list[str]) -> None:
    """Put the reference in its place, if this is its page."""
    if page == PAGE:
        content[0] = content[0].replace(PLACE, "\n".join(reference()))


def reference() -> Iterator[str]:
    """Yield the lines of a section for each command, as Markdown."""
    root = get_command(commands)
    context = root.make_context("relay-int8", ["--help"], resilient_parsing=True)
    for names, command, inner in _leaves(root, context, ("relay-int8",)):
        yield f"## {' '.join(names[1:])}\n"
        usage = " ".join(command.collect_usage_pieces(inner))
        yield f"```\n{' '.join(names)} {usage}\n```\n"
        yield from (f"{_paragraph(text)}\n" for text in (command.help or "").split("\n\n"))
        yield from _parameters(command, inner)


def _leaves(command: Any, context: Any, names: tuple[str, ...]) -> Iterator[tuple[Any, Any, Any]]:
    """Yield names, command and context of each command that is not a group of others."""
    if not hasattr(command, "commands"):
        yield names, command, context
        return
    for name, child in command.commands.items():
        inner = type(context)(child, info_name=name, parent=context)
        yield from _leaves(child, inner, (*names, name))


def _parameters(command: Any, context: Any) -> Iterator[str]:
    """Yield a table for each group of options, in the order of the help page."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        group = getattr(parameter, "rich_help_panel", None) or "Arguments and options"
        if record is not None and parameter.name != "help":
            groups.setdefault(group, []).append(record)
    for group, records in groups.items():
        yield f"| {group} | |\n|---|---|"
        yield from (f"| `{name}` | {_escaped(text)} |" for name, text in records)
        yield ""


def _paragraph(text: str) -> str:
    """Return a paragraph of help as Markdown; the command at its end, if any, as code."""
    words, _, example = " ".join(text.split()).partition(": relay-int8 ")
    return f"{_escaped(words)}:\n\n```\nrelay-int8 {example}\n```" if example else _escaped(words)


def _escaped(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return "".join(f"\\{character}" if character in SPECIAL else character for character in text)
