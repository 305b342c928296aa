"""Every command that the documents show can be typed as it stands: no option is unknown."""

import pytest
import typer
from typer.core import TyperGroup

from relay_int8.cli import app
from tests.docs.pages import ROOT, steps

pytestmark = pytest.mark.fast

UsageError = typer.BadParameter.__base__


def documented():
    """Return the commands in code blocks, those of several lines joined, comments left out."""
    commands = []
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))):
        commands += [step.words for step in steps(path) if step.kind == "command"]
    return commands


def parsed(words):
    """Return the context of a command, parsed but not called; a UsageError if it is wrong."""
    command = typer.main.get_command(app)
    context = typer.Context(command)
    while isinstance(command, TyperGroup):
        name, command, words = command.resolve_command(context, list(words))
        context = (
            typer.Context(command, parent=context)
            if isinstance(command, TyperGroup)
            else command.make_context(name, words, parent=context)
        )
    return context


def test_there_are_many():
    found = {words[0] for words in documented()}
    assert {command.name or command.callback.__name__ for command in app.registered_commands} == {
        name.replace("-", "_") for name in found - {"table", "tuning-logs"}
    }


@pytest.mark.parametrize("words", documented(), ids=" ".join)
def test_it_can_be_typed(words):
    given = parsed(words).params
    folder = given.get("data") is not None and given["data"].suffix == ""
    assert not folder or given["preprocess"] or words[0] == "evaluate", "pictures need --preprocess"


@pytest.mark.parametrize(
    "words", [["inspect", "a.ri8", "what", "it"], ["bench", "a.ri8", "--no-such"], ["nonsense"]]
)
def test_what_cannot_be_typed_is_found(words):
    with pytest.raises(UsageError):
        parsed(words)
