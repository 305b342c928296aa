"""Tables as HTML for notebooks, which show what an object's ``_repr_html_`` returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def html_table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table as HTML, all text escaped.

    Examples
    --------
    >>> html_table("Layers", ["name"], [["conv<1>"]])
    '<table><caption>Layers</caption><tr><th>name</th></tr><tr><td>conv&lt;1&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><caption>{escape(caption)}</caption><tr>{head}</tr>{body}</table>"
