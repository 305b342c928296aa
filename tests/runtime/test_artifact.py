"""Artifacts: what is saved is what runs; whatever is damaged or foreign is refused before loading."""

import copy
import dataclasses
import hashlib
import io
import json
import pickle
import platform
import resource
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

import relay_int8
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import ArtifactError
from relay_int8.runtime.artifact import extract, extracted, read_manifest, save_artifact
from relay_int8.runtime.manifest import FORMAT_VERSION, Manifest
from schedules.cpu_flags import cpu_flags

pytestmark = pytest.mark.fast

X = np.arange(8, dtype="float32").reshape(2, 4)
Q = np.array([[-3, 2, -1, 0]], "int8")


@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor(("n", 4), "float32"), q: R.Tensor((1, 4), "int8")):
        with R.dataflow():
            y = R.add(x, x)
            p = R.maximum(q, R.const([[0, 0, 0, 0]], "int8"))
            R.output(y, p)
        return (y, p)


@I.ir_module
class OneInput:
    @R.function
    def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
        with R.dataflow():
            y = R.add(x, x)
            R.output(y)
        return y


def manifest(**changes):
    return Manifest(
        **{
            "inputs": (
                TensorInfo(name="x", shape=(-1, 4), dtype="float32"),
                TensorInfo(name="q", shape=(1, 4), dtype="int8"),
            ),
            "outputs": (
                TensorInfo(name="y", shape=(-1, 4), dtype="float32"),
                TensorInfo(name="p", shape=(1, 4), dtype="int8"),
            ),
            "machine": platform.machine(),
            "cpu_flags": (),
            "target": {"kind": "llvm"},
            "model_digest": "0" * 64,
            "preprocessing": {"mean": [0.5]},
            "settings": {"scheme": "int8"},
            "coverage": {"int8": 2},
        }
        | changes
    )


def compiled(mod, folder):
    path = folder / "library.so"
    executable = tvm.compile(relax.get_pipeline("zero")(mod), tvm.target.Target({"kind": "llvm"}))
    executable.export_library(str(path))
    return path


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return compiled(Net, tmp_path_factory.mktemp("library"))


@pytest.fixture
def artifact(library, tmp_path):
    save_artifact(tmp_path / "net.ri8", library.read_bytes(), manifest())
    return tmp_path / "net.ri8"


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, contents):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in contents.items():
            archive.writestr(name, content)


def sealed(path, **changes):
    """Change manifest entries of an artifact and make its hash right again."""
    contents = members(path)
    text = json.dumps(json.loads(contents["manifest.json"]) | changes).encode()
    digest = hashlib.sha256(text).hexdigest().encode()
    rewrite(path, contents | {"manifest.json": text, "manifest.sha256": digest})


def test_what_is_saved_runs(artifact):
    module = relay_int8.load(artifact)
    out = module.run({"x": X, "q": Q})
    assert list(out) == ["y", "p"]
    np.testing.assert_array_equal(out["y"], X + X)
    np.testing.assert_array_equal(out["p"], np.maximum(Q, 0))
    assert module.run({"x": X[:1], "q": Q})["y"].shape == (1, 4)


def test_outputs_outlive_the_next_run(artifact):
    module = relay_int8.load(artifact)
    first = module.run({"x": X, "q": Q})["y"]
    for _ in range(5):
        module.run({"x": X * 100, "q": Q})
    np.testing.assert_array_equal(first, X + X)


def test_the_single_input_needs_no_name(tmp_path):
    info = TensorInfo(name="x", shape=(2, 4), dtype="float32")
    one = manifest(inputs=(info,), outputs=(dataclasses.replace(info, name="y"),))
    save_artifact(tmp_path / "one.ri8", compiled(OneInput, tmp_path).read_bytes(), one)
    out = relay_int8.load(tmp_path / "one.ri8").run(X[:, ::-1])  # not contiguous
    np.testing.assert_array_equal(out["y"], 2 * X[:, ::-1])


def test_manifest_comes_back(artifact, library):
    found = read_manifest(artifact)
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    assert found == manifest(library_sha256=digest)
    assert found.format_version == FORMAT_VERSION


def test_time_counts_the_repeats(artifact):
    times_ms = relay_int8.load(artifact).time({"x": X, "q": Q}, repeats=4)
    assert len(times_ms) == 4
    assert all(time_ms > 0 for time_ms in times_ms)


def test_profile_lists_the_kernels_in_order(artifact):
    module = relay_int8.load(artifact)
    kernels = module.profile({"x": X, "q": Q}, repeats=3)
    # The open batch makes TVM compute a shape first.
    assert [name for name, _ in kernels] == ["shape_func", "add", "maximum"]
    assert all(0 < time_us < 1e5 for _, time_us in kernels)
    np.testing.assert_array_equal(module.run({"x": X, "q": Q})["y"], X + X)


def test_equal_contents_make_equal_files(artifact, library, tmp_path):
    save_artifact(tmp_path / "again.ri8", library.read_bytes(), manifest())
    assert artifact.read_bytes() == (tmp_path / "again.ri8").read_bytes()


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"x": X}, "inputs x given; x, q expected"),
        ({"x": X, "q": Q, "z": Q}, "inputs q, x, z given; x, q expected"),
        ({}, "inputs none given"),
        (X, "one array given, 2 inputs expected"),
        ({"x": X.astype("float64"), "q": Q}, "type float64 given, float32 expected"),
        ({"x": X.astype(">f4"), "q": Q}, "type >f4 given, float32 expected"),
        ({"x": X.T.copy(), "q": Q}, "shape 4 x 2 given, any x 4 expected"),
        ({"x": X[0], "q": Q}, "shape 4 given"),
        ({"x": X.tolist(), "q": Q}, "list given, a NumPy array expected"),
    ],
)
def test_misfit_inputs_are_named(artifact, inputs, message):
    with pytest.raises(ArtifactError, match=message):
        relay_int8.load(artifact).run(inputs)


def test_absent(tmp_path):
    with pytest.raises(ArtifactError, match="no such file"):
        relay_int8.load(tmp_path / "none.ri8")


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"\x7fELF" + bytes(99)])
def test_not_a_zip(tmp_path, content):
    (tmp_path / "net.ri8").write_bytes(content)
    with pytest.raises(ArtifactError, match="damaged, or not an artifact"):
        relay_int8.load(tmp_path / "net.ri8")


def test_foreign_zip(tmp_path):
    rewrite(tmp_path / "net.ri8", {"README": b"hello"})
    with pytest.raises(ArtifactError, match=r"a zip of \['README'\], without manifest.json"):
        relay_int8.load(tmp_path / "net.ri8")


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.999])
def test_truncated(artifact, keep):
    content = artifact.read_bytes()
    artifact.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(ArtifactError, match="damaged"):
        relay_int8.load(artifact)


@pytest.mark.parametrize("name", ["library.so", "manifest.json"])
def test_altered_member(artifact, name):
    contents = members(artifact)
    content = bytearray(contents[name])
    content[len(content) // 2] ^= 1
    rewrite(artifact, contents | {name: bytes(content)})
    with pytest.raises(ArtifactError, match=f"{name} was altered"):
        relay_int8.load(artifact)


def test_exchanged_library(artifact):
    rewrite(artifact, members(artifact) | {"library.so": b"\x7fELF"})
    with pytest.raises(ArtifactError, match=r"library\.so was altered"):
        relay_int8.load(artifact)


def test_every_flipped_byte_is_found_or_harmless(artifact):
    """A flip either raises ArtifactError or hits a byte that no content depends on."""
    content, whole = artifact.read_bytes(), read_manifest(artifact)
    code = members(artifact)["library.so"]
    # All of the headers; of the manifest every 7th byte, of the library every 499th.
    places = set(range(len(content)))
    for member, step in ((members(artifact)["manifest.json"], 7), (code, 499)):
        start = content.index(member)
        places -= {place for place in range(start, start + len(member)) if place % step}
    for place in sorted(places):
        altered = bytearray(content)
        altered[place] ^= 0x20
        artifact.write_bytes(altered)
        try:
            assert read_manifest(artifact) == whole, place
        except ArtifactError:
            continue
        with zipfile.ZipFile(io.BytesIO(altered)) as archive:
            assert archive.read("library.so") == code, place


def test_newer_format(artifact):
    sealed(artifact, format_version=FORMAT_VERSION + 1, library_sha256=None)
    with pytest.raises(ArtifactError, match=f"artifact format {FORMAT_VERSION + 1}; this relay"):
        relay_int8.load(artifact)


def test_manifest_with_unknown_entries(artifact):
    sealed(artifact, surprise=1)
    with pytest.raises(ArtifactError, match="surprise"):
        relay_int8.load(artifact)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cpu_flags": ["amx_imaginary"]}, "a CPU with amx_imaginary, which this one lacks"),
        ({"machine": "riscv128"}, f"built for riscv128, this computer is {platform.machine()}"),
        ({"tvm_version": "0.26.1"}, "built with apache-tvm 0.26.1, running 0.27"),
        ({"tvm_ffi_version": "0.1.15"}, "built with apache-tvm-ffi 0.1.15, running 0.1.14"),
    ],
)
def test_made_for_another_computer(artifact, changes, message):
    sealed(artifact, **changes)
    with pytest.raises(ArtifactError, match=message):
        relay_int8.load(artifact)
    assert read_manifest(artifact).model_digest == "0" * 64  # it can still be looked at


def test_this_cpu_has_its_own_flags(artifact):
    sealed(artifact, cpu_flags=sorted(cpu_flags()))
    relay_int8.load(artifact)


def test_failed_write_leaves_what_was_there(artifact, library, monkeypatch):
    before = artifact.read_bytes()

    def full(_handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(ArtifactError, match="no space left"):
        save_artifact(artifact, library.read_bytes(), manifest(coverage={"int8": 3}))
    assert artifact.read_bytes() == before
    assert [path.name for path in artifact.parent.iterdir()] == [artifact.name]


def test_no_folder(library, tmp_path):
    with pytest.raises(ArtifactError, match="cannot be written"):
        save_artifact(tmp_path / "none" / "net.ri8", library.read_bytes(), manifest())


def test_no_folder_is_left_where_no_file_can_be_opened(artifact):
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with extracted(artifact) as contents:
        resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert not contents.library.parent.exists()


def test_what_is_extracted_is_the_library(artifact, library, tmp_path):
    assert extract(artifact, tmp_path / "copy.so") == read_manifest(artifact)
    assert (tmp_path / "copy.so").read_bytes() == library.read_bytes()


def test_a_library_that_cannot_be_written_is_no_damage(artifact, tmp_path):
    with pytest.raises(ArtifactError, match=r"library\.so: .*written there \(No such file.*TMPDIR"):
        extract(artifact, tmp_path / "none" / "library.so")
    with pytest.raises(ArtifactError, match=r"No space left on device.*make room"):
        extract(artifact, Path("/dev/full"))


def test_threads(artifact):
    """In a process of its own: the runtime's pool never grows."""
    code = f"""
import os, pytest, relay_int8
from relay_int8.errors import ConfigError
os.environ.pop("TVM_NUM_THREADS", None)
for threads in (2, 1, 2):
    assert relay_int8.load({str(artifact)!r}, threads=threads).threads == threads
with pytest.raises(ConfigError, match="3 threads wanted, but .* with 2"):
    relay_int8.load({str(artifact)!r}, threads=3)
assert os.environ["TVM_NUM_THREADS"] == "2"  # every launch reads it
"""
    root = Path(relay_int8.__file__).parents[1]
    subprocess.run([sys.executable, "-c", code], check=True, cwd=root)


def test_loading_imports_no_compiler(artifact):
    code = f"""
import sys, numpy as np, relay_int8
module = relay_int8.load({str(artifact)!r})
out = module.run({{"x": np.ones((1, 4), "float32"), "q": np.ones((1, 4), "int8")}})
assert out["y"].tolist() == [[2, 2, 2, 2]]
assert "tvm" not in sys.modules and "onnx" not in sys.modules
"""
    root = Path(relay_int8.__file__).parents[1]
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, cwd=root)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("network.onnx", b"\x08\x07"),
        ("network.tflite", b""),
        ("network.pt2", b"PK\x05\x06" + bytes(18)),  # an empty zip
        ("network.onnx", None),
        ("network-symbol.json", b"{}"),
    ],
)
def test_a_model_is_told_from_a_damaged_artifact(tmp_path, name, content):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    for read in (relay_int8.load, read_manifest):
        with pytest.raises(
            ArtifactError, match=r"is a model, .* with relay_int8.compile_model, or"
        ):
            read(tmp_path / name)


def test_a_folder_is_no_artifact(tmp_path):
    with pytest.raises(ArtifactError, match="a folder; relay-int8 quantize writes artifacts"):
        relay_int8.load(tmp_path)


def test_a_loaded_network_is_neither_pickled_nor_copied(artifact):
    network = relay_int8.load(artifact)
    for call in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(ArtifactError, match="neither copied nor pickled; load the artifact ag"):
            call(network)
    assert network.twin().path == artifact


def test_a_disk_that_takes_a_part_is_full(artifact, monkeypatch):
    class Disk(io.RawIOBase):
        room = 5000

        def writable(self):
            return True

        def write(self, data):
            if not self.room:
                raise OSError(28, "No space left on device")
            taken = min(self.room, len(data))
            self.room -= taken
            return taken

    opened = Path.open
    monkeypatch.setattr(
        Path,
        "open",
        lambda path, mode="r", **how: Disk() if mode == "wb" else opened(path, mode, **how),
    )
    with pytest.raises(
        ArtifactError, match=r"No space left on device.; make room, or name another"
    ):
        relay_int8.load(artifact)


def test_a_folder_that_is_missing_is_named(library, tmp_path):
    with pytest.raises(
        ArtifactError, match=r"x\.ri8: cannot be written: there is no folder .*none$"
    ):
        save_artifact(tmp_path / "none" / "x.ri8", library.read_bytes(), manifest())
