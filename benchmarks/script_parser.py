"""The command-line parser of a script whose help page begins with its module's docstring."""

from __future__ import annotations

import argparse


def script_parser(prog: str, doc: str | None) -> argparse.ArgumentParser:
    """Return a parser of the program ``prog``, which shows ``doc`` with its line breaks."""
    return argparse.ArgumentParser(
        prog=prog, description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
