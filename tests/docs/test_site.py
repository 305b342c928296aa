"""The site builds, and what it and the README are made from is complete."""

import re
import subprocess
import sys

import pytest

import relay_int8
from benchmarks.figures import figures, main
from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
README_LINES = 120

pytestmark = pytest.mark.fast


def test_it_builds_without_a_warning(tmp_path):
    """A broken link, a page that no other leads to, a docstring that is not markup: all of them."""
    for package in ("sphinx", "myst_parser", "furo"):
        pytest.importorskip(package, reason="needs the extra docs")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    built = subprocess.run(
        [*command, "-d", tmp_path / "trees", DOCS, tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    reference = tmp_path / "site" / "reference"
    assert "--require-int8" in (reference / "cli.html").read_text()
    assert 'id="relay_int8.load_model"' in (reference / "python.html").read_text()
    loaded = ('src="http', '<link rel="stylesheet" type="text/css" href="http', "@import url(http")
    pages = [path.read_text() for path in (tmp_path / "site").rglob("*.html")]
    assert not any(word in page for page in pages for word in loaded), "needs a network"


def test_every_public_name_is_in_the_reference():
    text = (DOCS / "reference" / "python.md").read_text()
    listed = {
        line.split("relay_int8.")[1] for line in text.splitlines() if line.startswith(".. auto")
    }
    assert listed == set(relay_int8.__all__) - {"__version__"}


def test_pictures_are_those_of_the_tables(capsys):
    assert main(["--check"]) == 0, capsys.readouterr().out


def test_a_table_that_is_missing_is_named():
    page = (DOCS / "benchmarks.md").read_text()
    with pytest.raises(ValueError, match="a table below '### Beside other tools', found none"):
        figures(page.replace("### Beside other tools", "### Elsewhere"))
    with pytest.raises(ValueError, match="the accuracy table has no row NNCF"):
        figures(page.replace("\n| NNCF |", "\n| PPQ |"))


def test_the_readme_is_short_and_its_links_lead_somewhere():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < README_LINES
    links = [link for link in re.findall(r"\]\(([^)#]+)", text) if "://" not in link]
    assert len(links) > 10 and not [link for link in links if not (ROOT / link).exists()]
