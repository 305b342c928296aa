"""Pages as tests see them: read as HTML, and drawn by a headless browser."""

import html
import re
import shutil
import subprocess
from html.parser import HTMLParser
from typing import NamedTuple

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell")
VOID = {"meta", "input", "br", "link", "img"}


class Reader(HTMLParser):
    """Collects tables, text outside of scripts, what would be fetched, and tags that do not fit."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.text, self.fetched, self.open, self.wrong = [], "", [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.fetched += [value for name, value in attrs if name in ("src", "href", "srcset")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)

    def handle_data(self, data):
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        if not {"script", "style"} & set(self.open):
            self.text += data

    def rows(self, *first, place=0):
        """Return the rows of the table whose heading begins so, as dicts; of several, by place."""
        tables = [found for found in self.tables if found[0][: len(first)] == [*first]]
        header, *rows = tables[place]
        return [dict(zip(header, row, strict=True)) for row in rows]

    def require_whole(self):
        """Require tags that fit, and nothing to fetch."""
        assert (self.wrong, self.open, self.fetched) == ([], [], [])


class Drawn(NamedTuple):
    """A document as a browser has it in the end, and what ``script`` left in ``result``."""

    text: str
    result: str | None


def drawn(path, script=None, width=1280):
    """Return what a headless browser makes of a page; skip where there is none.

    ``script`` runs when the page is whole, as a user who sets ``result`` to what it saw.
    """
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no headless browser")
    if script is not None:
        text = path.read_text(encoding="utf-8").removesuffix("</body></html>\n")
        path = path.with_suffix(".used.html")
        used = f"{script}; document.title = JSON.stringify(result);"
        path.write_text(f"{text}<script>{{ {used} }}</script></body></html>", encoding="utf-8")
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--window-size={width},800",
         "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    title = re.search("<title>(.*?)</title>", done.stdout, re.DOTALL)
    return Drawn(done.stdout, html.unescape(title[1]) if title and script else None)
