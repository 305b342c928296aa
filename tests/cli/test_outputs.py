"""No command writes over what it reads, or two results to one file."""

import os
import shutil

import numpy as np
import pytest

import relay_int8
from relay_int8.demo import MODEL, load_images
from relay_int8.errors import ConfigError
from relay_int8.files import require_folder, require_outputs, write_atomic
from relay_int8.report.contents import Report

pytestmark = pytest.mark.fast


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODEL, "m.onnx")
    np.save("x.npy", load_images().calibration[:2])
    (tmp_path / "t.json").write_text('{"input": 2.5}')
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        "quantize m.onnx --data x.npy -o m.onnx",
        "quantize m.onnx --data x.npy -o a.ri8 --qdq ../{folder}/m.onnx",
        "quantize m.onnx --data x.npy -o a.ri8 --save-table x.npy",
        "quantize m.onnx --table t.json -o a.ri8 --save-table t.json",
        "quantize m.onnx --plan t.json -o t.json",
        "calibrate m.onnx --data x.npy -o x.npy",
        "export-qdq m.onnx --data x.npy -o m.onnx",
        "export-qdq m.onnx --table t.json -o t.json",
        "sensitivity m.onnx --data x.npy --report m.onnx",
        "table convert t.json t.json",
        "table convert t.json m.onnx --to ranges --model m.onnx",
        "report t.json -o t.json",
        "plot t.json --tensor input -o t.json",
    ],
)
def test_what_is_read_is_not_written(invoke, folder, arguments):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    code, _, err = invoke(*arguments.format(folder=folder.name).split())
    assert code == 1
    assert "it would be read and written over; write to another file" in err
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_two_results_are_two_files(invoke, folder):
    arguments = ("--data", "x.npy", "-o", "a.ri8", "--report", "./a.ri8")
    code, _, err = invoke("quantize", "m.onnx", *arguments)
    assert code == 1
    assert "two results would be written to it" in err
    assert not (folder / "a.ri8").exists()


def test_a_link_to_what_is_read_is_the_same_file(folder):
    (folder / "link.onnx").symlink_to("m.onnx")
    with pytest.raises(ConfigError, match=r"link\.onnx: it would be read"):
        require_outputs("link.onnx", read=("m.onnx",))


def test_links_that_lead_to_each_other_are_links_to_nothing(invoke, folder):
    (folder / "loop.onnx").symlink_to("loop.onnx")
    code, _, err = invoke("quantize", "loop.onnx", "--data", "x.npy", "-o", "a.ri8")
    assert code == 1
    assert "loop.onnx: a link to nothing; expected an ONNX model" in err


def test_a_pipe_is_no_model(invoke, folder):
    os.mkfifo(folder / "pipe.onnx")
    code, _, err = invoke("quantize", "pipe.onnx", "--data", "x.npy", "-o", "a.ri8")
    assert code == 1
    assert "pipe.onnx: a pipe or a device, not a file; expected an ONNX model" in err


def test_files_of_their_own_may_be_written(folder):
    (folder / "dead.ri8").symlink_to("nowhere/x.ri8")
    with pytest.raises(
        ConfigError, match=r"dead\.ri8: there is no folder .*nowhere to write it to"
    ):
        require_outputs("dead.ri8")
    require_outputs("new.ri8", None, "old.json", folder / "x.json", read=("m.onnx", None, "x.npy"))


def test_a_folder_is_no_file_to_write(folder):
    with pytest.raises(ConfigError, match="it is a folder; name a file"):
        require_outputs(folder)


@pytest.mark.parametrize("command", ["quantize", "inspect"])
def test_a_folder_is_no_model(invoke, folder, command):
    output = ("-o", "a.ri8", "--data", "x.npy") if command == "quantize" else ()
    code, _, err = invoke(command, folder, *output)
    assert code == 2
    assert "is a directory" in err


def test_a_folder_that_cannot_be_written_to_is_found_first(folder):
    with pytest.raises(ConfigError, match=r"x\.ri8: cannot be written \("):
        require_outputs("/proc/x.ri8")
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def test_no_room_is_found_before_anything_is_compiled(invoke, folder, monkeypatch):
    usage = shutil.disk_usage(folder)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    code, _, err = invoke("quantize", "m.onnx", "--data", "x.npy", "-o", "a.ri8")
    assert code == 1
    assert "1 MB are free, some 2 MB are needed for this model; make room" in err
    assert "ranges" not in err and not (folder / "a.ri8").exists()


def test_a_report_that_cannot_be_written_does_not_cost_the_artifact(folder, monkeypatch):
    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Report, "save", full)
    with pytest.raises(ConfigError, match=r"^no space left on device; a\.ri8 is written"):
        relay_int8.compile_model(
            "m.onnx", "x.npy", "a.ri8", imports=relay_int8.ImportOptions(batch=1), samples=0,
            report="r.json",
        )  # fmt: skip
    assert relay_int8.read_manifest("a.ri8").coverage["float_layers"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bench", "m.onnx"], "m.onnx is a model, and an artifact is expected: make one with"),
        (["run", "net-symbol.json", "-i", "x.npy"], "IMAGES -o net.ri8"),
        (["bench", "net"], "with relay-int8 quantize net-symbol.json --data IMAGES -o net.ri8"),
        (["bench", "net-0000.params"], "net-0000.params is of an MXNet model, and an artifact is"),
        (["quantize", "net", "-o", "a.ri8"], "is the prefix of an MXNet model: give its graph"),
        (["inspect", "net"], "is the prefix of an MXNet model: give its graph, net-symbol.json"),
        (["tune", "net-0000.params"], "holds the weights of an MXNet model alone"),
        (["quantize", "a.ri8", "-o", "b.ri8"], "is an artifact, which quantize made of a model"),
    ],
)
def test_another_kind_of_file_is_named(invoke, folder, arguments, message):
    (folder / "net-symbol.json").write_text("{}")
    (folder / "net-0000.params").write_bytes(b"")
    code, out, err = invoke(*arguments)
    assert (code, out) == (2, "")
    assert message in " ".join(err.replace("\u2502", " ").split())


def test_what_is_no_file_is_written_to_and_not_exchanged(tmp_path):
    """As /dev/null and /dev/stdout: a file moved there would take its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_atomic(pipe, b"content")
        assert os.read(reader, 100) == b"content"
    finally:
        os.close(reader)
    assert pipe.is_fifo() and [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_link_stays_one(tmp_path):
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_atomic(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


def test_a_folder_that_cannot_be_made_is_found_first(folder):
    require_folder("new/of/several")
    assert not (folder / "new").exists()
    with pytest.raises(ConfigError, match=r"x\.npy/logs: a file found at .*x\.npy, a folder"):
        require_folder("x.npy/logs")
    with pytest.raises(ConfigError, match=r"/proc/logs: cannot be written"):
        require_folder("/proc/logs")


def test_a_full_disk_is_named_with_the_file(folder, invoke, monkeypatch):
    def full(file):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (folder / "x.json").write_text('{"a": 1}')
    code, _, err = invoke("table", "convert", "x.json", "y.trt")
    assert (code, err) == (1, "error: y.trt: no space left on device\n")
    assert not [*folder.glob("*y.trt*")]
