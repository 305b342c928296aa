"""The frame of every page: a title, facts, and sections of tables and figures.

The parts of a section are HTML that :func:`table`, :func:`figure` and :func:`paragraph` made.
Plotly's JavaScript lies in the file, once, and only where there is a figure: nothing is fetched.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from relay_int8.errors import ConfigError
from relay_int8.files import write_atomic

STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1200px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.2em; margin-top: 2em; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 3px 10px; border-bottom: 1px solid #ddd; text-align: left; }
th.number, td.number { text-align: right; font-variant-numeric: tabular-nums; }
th { position: sticky; top: 0; background: #fff; }
dl { display: grid; grid-template-columns: max-content auto; gap: 2px 1.5em; }
dt { color: #666; } dd { margin: 0; }
dd, p { overflow-wrap: anywhere; }
dl.verdict { background: #f3f6fa; border-left: 4px solid #3b6ea5; padding: 0.8em 1em; }
dl.verdict dt { color: #222; font-weight: 600; }
.wide { overflow-x: auto; }
.sortable .wide { max-height: 75vh; overflow: auto; }
select, input[type=search] { max-width: 100%; font-size: 15px; margin: 2px 0; }
@media (max-width: 700px) {
  body { margin: 1em auto; padding: 0 0.7em; }
  h1 { font-size: 1.3em; overflow-wrap: anywhere; }
  dl { display: block; } dd { margin-bottom: 0.5em; }
  table, tbody { display: block; }
  thead tr { display: flex; flex-wrap: wrap; }
  th { position: static; padding: 1px 6px; border-bottom: none; font-weight: 400; }
  .sortable th { text-decoration: underline dotted; }
  tbody tr { display: flex; flex-wrap: wrap; gap: 0 1em; padding: 5px 0; }
  tbody tr { border-bottom: 1px solid #bbb; }
  tbody tr[hidden] { display: none; }
  td, td.number { border: none; padding: 0; text-align: left; overflow-wrap: anywhere; }
  td::before { content: attr(data-name) " "; color: #666; font-size: 11px; }
  td:empty { display: none; }
}
"""
CONFIG = {"displaylogo": False, "responsive": True}
HEIGHT_PX = 420


@dataclass(frozen=True, kw_only=True)
class Section:
    """A heading, and the HTML of what is below it."""

    title: str
    parts: tuple[str, ...]


def write_page(
    path: Path | str,
    title: str,
    facts: Mapping[str, str],
    sections: Sequence[Section],
    verdict: Mapping[str, str] | None = None,
) -> None:
    """Write a page; nothing but whole files appears at ``path``."""
    write_atomic(Path(path), page(title, facts, sections, verdict).encode())


def page(
    title: str,
    facts: Mapping[str, str],
    sections: Sequence[Section],
    verdict: Mapping[str, str] | None = None,
) -> str:
    """Return a page as text; ``verdict`` is what it comes to, which stands above the facts."""
    first = f'<dl class="verdict">\n{_entries(verdict)}</dl>\n' if verdict else ""
    body = "\n".join(
        "\n".join([f"<section><h2>{escape(section.title)}</h2>", *section.parts, "</section>"])
        for section in sections
    )
    script = f"<script>{_plotly_js()}</script>" if "plotly-graph-div" in body else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n{script}</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{first}<dl>\n{_entries(facts)}</dl>\n{body}\n</body></html>\n"
    )


def _entries(facts: Mapping[str, str]) -> str:
    return "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>\n" for k, v in facts.items())


def require_plotly() -> None:
    """Raise a ConfigError if figures cannot be made: better before hours of work than after."""
    _plotly("plotly.io")


def paragraph(text: str) -> str:
    """Return a paragraph of plain text."""
    return f"<p>{escape(text)}</p>"


def table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, right: Sequence[str] = ()
) -> str:
    """Return a table of plain text; the columns named in ``right`` are numbers."""
    kinds = ["number" if name in right else "text" for name in header]
    head = "".join(
        f'<th class="{kind}">{escape(name)}</th>' for kind, name in zip(kinds, header, strict=True)
    )
    lines = [
        "".join(
            f'<td class="{kind}" data-name="{escape(name)}">{escape(cell)}</td>'
            for kind, name, cell in zip(kinds, header, row, strict=True)
        )
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>\n" for line in lines)
    inner = f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody>"
    return f'<div class="wide"><table>{inner}</table></div>'


def figure(traces: Sequence[Mapping[str, Any]], *, name: str, x: str, y: str, **axes: Any) -> str:
    """Return a figure.

    Parameters
    ----------
    traces
        As Plotly has them: ``{"type": "scatter", "x": ..., "y": ..., "name": ...}``.
    name
        Identifies it within the page.
    x, y
        Titles of the axes.
    axes
        Anything else of Plotly's layout.
    """
    layout = {
        "height": HEIGHT_PX,
        "margin": {"l": 60, "r": 15, "t": 20, "b": 50},
        "legend": {
            "orientation": "h",
            "yanchor": "bottom",
            "y": 1.02,
            "x": 0,
            **axes.pop("legend", {}),
        },
        "xaxis": {"title": {"text": x}, **axes.pop("xaxis", {})},
        "yaxis": {"title": {"text": y}, **axes.pop("yaxis", {})},
        "hovermode": "closest",
        **axes,
    }
    content = {"data": [dict(trace) for trace in traces], "layout": layout}
    html: str = _plotly("plotly.io").to_html(
        content, config=CONFIG, include_plotlyjs=False, full_html=False, div_id=name
    )
    return html


def _plotly_js() -> str:
    text: str = _plotly("plotly.offline").get_plotlyjs()
    return text


def _plotly(module: str) -> Any:
    import importlib

    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            "pages with figures need Plotly; pip install 'relay-int8[pages]'"
        ) from error
