"""The wheel installs one package: no module of it imports a top-level ``schedules``."""

import ast
import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[1]
LAYOUT = runpy.run_path(str(ROOT / "scripts" / "wheel_layout.py"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from schedules.spec import Spec\n", "from relay_int8.schedules.spec import Spec\n"),
        ("    from schedules import catalog\n", "    from relay_int8.schedules import catalog\n"),
        ("import schedules.peak\n", "import relay_int8.schedules.peak\n"),
        ("from schedules_of_mine import x\n", "from schedules_of_mine import x\n"),
        ('x = "from schedules"\n', 'x = "from schedules"\n'),
    ],
)
def test_imports_are_moved(text, expected):
    assert LAYOUT["moved"](text) == expected


def imported(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def test_no_module_imports_the_outer_name():
    files = dict(LAYOUT["wheel_files"](ROOT))
    assert "relay_int8/schedules/catalog.py" in files and "relay_int8/api/build.py" in files
    for path in (ROOT / "relay_int8").rglob("*.py"):
        files.setdefault(path.relative_to(ROOT).as_posix(), path.read_text("utf-8"))
    for name, text in files.items():
        assert name.startswith("relay_int8/")
        assert not [module for module in imported(text) if module.split(".")[0] == "schedules"], (
            name
        )


def test_no_module_names_it_in_a_string():
    """Such a name would be looked up when the program runs, and found in the repository alone."""
    for folder in ("relay_int8", "schedules"):
        for path in (ROOT / folder).rglob("*.py"):
            strings = {
                node.value
                for node in ast.walk(ast.parse(path.read_text("utf-8")))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            }
            assert not [text for text in strings if text.startswith("schedules.")], path
