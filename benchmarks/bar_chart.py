"""A grouped bar chart as a small SVG file, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720  # of the picture, in pixels, as all lengths here
LABELS = 150  # left of the bars
VALUES = 110  # right of the longest bar
BAR, GAP = 11, 14  # height of a bar; between groups
TOP, BOTTOM = 66, 30  # title and legend above, note below
COLOURS = ("#0a7ea4", "#7cc4dc", "#b0703c", "#8a8f98")
"""Of the bars in a group, told apart in black and white and without red and green too."""
STYLE = """\
text { font: 12px system-ui, "Segoe UI", Helvetica, Arial, sans-serif; fill: #1f2328 }
.title { font-size: 14px; font-weight: 600 }
.value { font-size: 10px }
.note { font-size: 10px; fill: #59636e }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3 } .note { fill: #9198a1 } }"""


@dataclass(frozen=True)
class Bar:
    """One value, zero or more, and the words at its end."""

    value: float
    label: str


@dataclass(frozen=True)
class Group:
    """Bars side by side, one for each entry of the legend, with one name."""

    name: str
    bars: Sequence[Bar]


def bar_chart(*, title: str, note: str, legend: Sequence[str], groups: Sequence[Group]) -> str:
    """Return horizontal bars that start at zero, as SVG text."""
    height = TOP + sum(len(group.bars) * BAR + GAP for group in groups) + BOTTOM
    longest = max(bar.value for group in groups for bar in group.bars)
    scale = (WIDTH - LABELS - VALUES) / longest
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        f'width="{WIDTH}" height="{height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>\n{STYLE}\n</style>",
        _text(8, 20, title, "title"),
        *_legend(legend),
        *_groups(groups, scale),
        _text(8, height - 10, note, "note"),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _legend(names: Sequence[str]) -> Iterator[str]:
    x = 8
    for name, colour in zip(names, COLOURS, strict=False):
        yield f'<rect x="{x}" y="34" width="10" height="10" fill="{colour}"/>'
        yield _text(x + 15, 43, name)
        x += 34 + 7 * len(name)


def _groups(groups: Sequence[Group], scale: float) -> Iterator[str]:
    y = TOP
    for group in groups:
        middle = y + len(group.bars) * BAR / 2 + 4
        yield _text(LABELS - 10, middle, group.name, anchor="end")
        for bar, colour in zip(group.bars, COLOURS, strict=False):
            width = bar.value * scale
            yield (
                f'<rect x="{LABELS}" y="{y}" width="{width:.1f}" height="{BAR - 1}" '
                f'fill="{colour}"/>'
            )
            yield _text(LABELS + width + 5, y + 9, bar.label, "value")
            y += BAR
        y += GAP


def _text(x: float, y: float, words: str, style: str = "", anchor: str = "") -> str:
    attributes = (f' class="{style}"' if style else "") + (
        f' text-anchor="{anchor}"' if anchor else ""
    )
    return f'<text x="{x:.0f}" y="{y:.0f}"{attributes}>{escape(words)}</text>'
