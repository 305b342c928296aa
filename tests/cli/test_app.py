"""relay-int8 as a whole: help, version, exit codes, plain text in a pipe."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

import relay_int8
from relay_int8.cli import app
from relay_int8.cli.exits import ErrorGroup
from relay_int8.demo import MODEL

pytestmark = pytest.mark.fast

COMMANDS = ("quantize", "evaluate", "bench", "inspect", "run")


def test_help_names_every_command(invoke):
    code, out, _ = invoke("--help")
    assert code == 0
    assert all(f"\n  {command}" in out for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(invoke, command):
    code, out, _ = invoke(command, "--help")
    assert code == 0
    found = typer.main.get_command(app).commands[command]
    assert found.help.split()[:5] == out.partition("\n\n")[2].split()[:5]
    for parameter in found.params:
        assert parameter.help, parameter.name


def test_version(invoke):
    assert invoke("--version") == (0, f"relay-int8 {relay_int8.__version__}\n", "")


@pytest.mark.parametrize(
    "arguments",
    [
        ["convert"],
        ["run"],
        ["bench", "x.ri8", "--repeats", "0"],
        ["bench", "x.ri8", "--threads", "100000"],
        ["quantize", "m.onnx", "-o", "m.ri8", "--data", "x.npz", "--table", "t.json"],
        ["evaluate", "x.ri8", "--data", "x.npz"],
        ["evaluate", "x.ri8", "--data", "x.npz", "--fp32", "m.onnx", "--min-top1", "0.5"],
        ["evaluate", "x.ri8", "--data", "x.npz", "--labels", "l.npy", "--max-drop", "1"],
        ["evaluate", "x.ri8", "--data", "x.npz", "--labels", "l.npy", "--min-top1", "nan"],
        ["tune", "m.onnx", "--minutes", "nan"],
        ["table", "diff", "a.json", "b.json", "--max-relative", "nan"],
        ["bench", "x.ri8", "--streams", "100000"],
        ["deploy", "x.ri8", "--rpc", "127.0.0.1:9", "--timeout", "inf"],
    ],
)
def test_wrong_usage_is_2(invoke, arguments):
    code, _, err = invoke(*arguments)
    assert code == 2
    assert "Usage:" in err or "found, a number expected" in err


@pytest.fixture
def heeded():
    """Heed SIGINT, which a process that a script starts in its background ignores."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("is_interrupted", [True, False])
@pytest.mark.usefixtures("heeded")
def test_ctrl_c_is_one_also_where_tvm_makes_another_error_of_it(is_interrupted):
    """A pass that is interrupted raises a RuntimeError when it comes back from C++."""

    def command():
        try:
            if is_interrupted:
                signal.raise_signal(signal.SIGINT)
        finally:
            raise RuntimeError("lost in C++")

    group = typer.Typer(cls=ErrorGroup, pretty_exceptions_enable=False)
    group.command()(command)
    group.command("other")(command)
    result = CliRunner().invoke(group, ["command"])
    assert result.exit_code == (130 if is_interrupted else 1)
    assert isinstance(result.exception, SystemExit if is_interrupted else RuntimeError)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_memory_that_is_exhausted_is_a_message():
    def command():
        raise MemoryError

    group = typer.Typer(cls=ErrorGroup, pretty_exceptions_enable=False)
    group.command()(command)
    group.command("other")(command)
    result = CliRunner().invoke(group, ["command"])
    assert result.exit_code == 1
    assert result.stderr.startswith("error: there is no memory left; end other programs")


def test_options_stand_in_groups_the_everyday_ones_first(invoke):
    out = invoke("quantize", "--help")[1]
    titles = [line for line in out.splitlines() if line.endswith(":") and line[0] != " "]
    assert titles == [
        "Arguments:",
        "Options:",
        "How integers are chosen:",
        "What accuracy is, and what is demanded:",
        "What the model file leaves open:",
        "For the target:",
        "Report and files:",
    ]
    everyday = out.partition("Options:")[2].partition("How integers")[0]
    assert all(name in everyday for name in ("--output", "--data", "--preprocess", "--batch"))
    assert "--float16" not in everyday


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("quantize --preset int8-", ["int8-symmetric", "int8-asymmetric", "int8-accurate"]),
        ("quantize --method kl-p", ["kl-pytorch-quantization", "kl-ppq"]),
        ("quantize --requantize ", ["float", "fixed"]),
        ("quantize --rounding t", ["tflite", "tpu-mlir"]),
        ("quantize --target x86", ["x86-vnni", "x86-avx2", "x86"]),
        ("quantize --preprocess im", ["imagenet", "imagenet-signed"]),
        ("quantize --pixels ", ["nchw", "nhwc"]),
        ("quantize --metric m", ["mean-iou"]),
        ("quantize --tool unify=", ["unify=yes", "unify=no"]),
        ("tune --search ", ["xgb", "random", "grid"]),
        ("tune --target a", ["aarch64"]),
        ("table convert --to t", ["tensorrt", "tpu-mlir"]),
        ("table show --form a", ["aimet"]),
        ("plot --kind l", ["layers"]),
        ("export-qdq --bias ", ["int32", "float"]),
    ],
)
def test_a_shell_completes_what_options_take(typed, offered):
    words = {"_TYPER_COMPLETE_ARGS": f"relay-int8 {typed}", "_RELAY_INT8_COMPLETE": "complete_bash"}
    completed = {"COMP_WORDS": f"relay-int8 {typed}", "COMP_CWORD": str(len(typed.split(" ")))}
    result = CliRunner().invoke(app, prog_name="relay-int8", env={**words, **completed})
    assert result.stdout.split() == offered


def test_columns_say_how_wide_a_pipe_is(invoke, artifact, monkeypatch):
    def widest():
        return max(map(len, invoke("bench", artifact, "--repeats", "1")[1].splitlines()[1:]))

    monkeypatch.setenv("COLUMNS", "40")
    assert widest() <= 40
    monkeypatch.setenv("COLUMNS", "not a number")
    assert 60 < widest() <= 160


@pytest.mark.parametrize("columns", [90, 130])
def test_columns_say_how_wide_a_help_page_is(columns):
    code = "from relay_int8.cli import app; app(prog_name='relay-int8')"
    done = subprocess.run(
        [sys.executable, "-c", code, "quantize", "--help"],
        capture_output=True,
        text=True,
        cwd=Path(relay_int8.__file__).parents[1],
        env={**os.environ, "COLUMNS": str(columns)},
    )
    assert 0.9 * columns < max(map(len, done.stdout.splitlines())) <= columns


def test_an_open_batch_is_a_line_on_standard_error(invoke):
    code, out, err = invoke("inspect", MODEL, "--json")
    assert code == 0 and json.loads(out)["layers"]
    (line,) = err.splitlines()
    assert line.startswith("note: input ") and "batch 1 is taken: pass --batch N" in line
    assert invoke("inspect", MODEL, "--batch", 1, "--json")[1:] == (out, "")


def test_public_names_exist():
    for name in relay_int8.__all__:
        assert getattr(relay_int8, name)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        relay_int8.nothing  # noqa: B018


def test_a_pipe_gets_plain_text(artifact):
    """In a process of its own, with standard output in a pipe: no escapes, no boxes."""
    code = "from relay_int8.cli import app; app(prog_name='relay-int8')"
    root = Path(relay_int8.__file__).parents[1]
    for arguments in (["--help"], ["inspect", str(artifact)]):
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, cwd=root
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.isascii(), done.stdout
        assert "\x1b" not in done.stdout


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="no /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("ends", "code", "said"),
    [
        (">&-", 0, ""),
        (">/dev/full", 1, "error: standard output: no space left on device\n"),
        ("2>&-", 0, ""),
    ],
)
def test_outputs_that_are_closed_or_full(ends, code, said, unbuffered):
    main = f"{sys.executable} -c 'from relay_int8.cli import main; main()'"
    done = subprocess.run(
        ["sh", "-c", f"{main} --help {ends}"],
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, said)


def test_names_that_the_terminal_has_no_letters_for(artifact, tmp_path):
    name = tmp_path / "\u00e9.ri8"
    name.symlink_to(artifact)
    done = subprocess.run(
        [sys.executable, "-c", "from relay_int8.cli import main; main()", "inspect", name],
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict"},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert b"\\xe9.ri8" in done.stdout


def test_python_runs_it_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "relay_int8", "--version"],
        capture_output=True,
        text=True,
        cwd=Path(relay_int8.__file__).parents[1],
    )
    assert (done.returncode, done.stdout) == (0, f"relay-int8 {relay_int8.__version__}\n")
