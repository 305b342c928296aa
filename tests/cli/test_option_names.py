"""The library names settings as Python does; the command line says its options in their place."""

import ast
import re

import numpy as np
import pytest
import typer
from typer.core import TyperGroup

import relay_int8
from relay_int8.cli import app
from relay_int8.cli.option_names import WHOLE, with_options
from relay_int8.demo import MODEL
from relay_int8.errors import ConfigError
from tests.docs.pages import ROOT

pytestmark = pytest.mark.fast

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")


@pytest.mark.parametrize(
    ("python", "option"),
    [
        ("pass ImportOptions(batch=N) for another", "pass --batch N for another"),
        ("ImportOptions(inputs={'x': (1, 3)}): it has", "--input x=1,3: it has"),
        ("ImportOptions(inputs={'an x': (1,)})", "--input 'an x=1'"),
        ("ImportOptions(values={'rate': 16000})", "--input rate==16000"),
        ("ImportOptions(values={'rate': (1, -2)})", "--input rate==1,-2"),
        ("ImportOptions(values={'flag': True})", "--input flag==True"),
        ("ImportOptions(values={'NAME': NUMBER})", "--input NAME==NUMBER"),
        ("(ImportOptions(outputs=['a)', 'b', ...]))", "(--cut 'a)' --cut b ...)"),
        ("BuildOptions(target='cuda', arch=...)", "--target cuda --arch"),
        ("BuildOptions(cuda_graphs=False)", "--no-cuda-graphs"),
        ("TuneOptions(resume=True) or tune(name=...)", "--resume or --name"),
        ("Preprocessing(...); Preprocessing()", "--preprocess; --preprocess raw"),
        ("BuildOptions(max_batch=2, then tune(name=...)", "BuildOptions(max_batch=2, then --name"),
        ("quantize the model", "quantize the model"),
    ],
)
def test_settings_become_options(python, option):
    assert with_options(python) == option


def texts():
    """Return the strings of the library that are no docstrings, f-strings with ``0`` for values."""
    for path in sorted((ROOT / "relay_int8").rglob("*.py")):
        if "cli" in path.relative_to(ROOT).parts:
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        skipped = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Expr | ast.FormattedValue):
                skipped.add(node.value)
            if isinstance(node, ast.JoinedStr):
                skipped |= set(node.values)
            if node in skipped:
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path, node.value
            elif isinstance(node, ast.JoinedStr):
                parts = (
                    part.value if isinstance(part, ast.Constant) else 0 for part in node.values
                )
                yield path, "".join(map(str, parts))


def options(command):
    """Return all options of a command and of those below it."""
    if isinstance(command, TyperGroup):
        return set().union(*map(options, command.commands.values()))
    return {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
    }


def test_the_library_names_no_option():
    found = [
        f"{path}: {text}"
        for path, text in texts()
        if OPTION.search(text) and not re.search(r"relay-int8 \w+|docker run", text)
    ]
    assert found == []


def test_settings_that_messages_name_exist_here_and_there():
    known, named = options(typer.main.get_command(app)), 0
    for path, text in texts():
        said = with_options(text)
        if said == text or re.search(r"relay-int8 \w+", text):
            continue
        named += 1
        assert set(OPTION.findall(said)) <= known, f"{path}: {text}"
        for owner, setting in re.findall(r"\b([A-Za-z]\w+)\((\w+)=", text):
            assert setting in _settings(owner), f"{path}: {text}"
    assert named > 20


def _settings(owner):
    call = getattr(relay_int8, owner)
    return getattr(call, "__dataclass_fields__", None) or call.__annotations__


def test_whole_objects_are_public():
    assert {text.partition("(")[0] for text in WHOLE} <= set(relay_int8.__all__)


def test_one_error_in_both_languages(invoke, tmp_path):
    shape = {"image": (1, 8, 8)}
    with pytest.raises(ConfigError) as raised:
        relay_int8.load_model(MODEL, relay_int8.ImportOptions(inputs=shape))
    fault = "a shape of rank 3 given, 4 expected; the file has [N, 1, 8, 8]"
    assert str(raised.value) == f"ImportOptions(inputs={{'image': (1, 8, 8)}}): {fault}"
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), "float32"))
    arguments = ["--data", tmp_path / "x.npy", "-o", tmp_path / "x.ri8", "--input", "image=1,8,8"]
    assert invoke("quantize", MODEL, *arguments)[2] == f"error: --input image=1,8,8: {fault}\n"


def test_one_notice_in_both_languages(invoke):
    with pytest.warns(
        relay_int8.notices.Notice, match=r"pass ImportOptions\(batch=N\) for another"
    ):
        relay_int8.load_model(MODEL)
    assert "pass --batch N for another" in invoke("inspect", MODEL)[2]
