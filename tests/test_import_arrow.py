"""schedules/ knows loops and instructions; it never imports the compiler or Relax."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[1]
FORBIDDEN = ("relay_int8", "tvm.relax", "tvm.script.relax")


def imported(source):
    """Return the dotted names that a module's import statements bring, wherever they stand."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            names += [base, *(f"{base}.{alias.name}" for alias in node.names)]
    return names


def offences(source):
    return [
        name
        for name in imported(source)
        if any(name == banned or name.startswith(f"{banned}.") for banned in FORBIDDEN)
    ]


@pytest.mark.parametrize(
    "line",
    [
        "import relay_int8",
        "from relay_int8.errors import Int8Error",
        "from tvm import relax",
        "import tvm.relax as r",
        "from tvm.script import relax as R",
        "def f():\n    from tvm.relax import op",
    ],
)
def test_the_check_sees_each_form(line):
    assert offences(line)


def test_schedules_never_imports_the_compiler():
    files = sorted((ROOT / "schedules").rglob("*.py"))
    assert len(files) > 5
    found = {str(file.relative_to(ROOT)): offences(file.read_text()) for file in files}
    assert {file: names for file, names in found.items() if names} == {}


def test_schedules_stands_alone():
    """Importing every module of schedules/ loads nothing of relay_int8."""
    files = [path.relative_to(ROOT) for path in sorted((ROOT / "schedules").rglob("*.py"))]
    names = [".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in files]
    code = "import importlib, sys\n" + "".join(
        f"importlib.import_module({name!r})\n" for name in names
    )
    code += "assert not [name for name in sys.modules if name.split('.')[0] == 'relay_int8']"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
