"""``relay-int8 --version``."""

from typing import Annotated

import typer

from relay_int8 import __version__


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"relay-int8 {__version__}")
        raise typer.Exit()


def version(
    _version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Options that stand before the command."""
