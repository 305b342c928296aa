"""Weights beside a library: mapped where they lie, shared by processes, checked before use."""

import contextlib
import hashlib
import platform
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
from relay_int8.runtime.artifact import WEIGHTS, extract, extracted, read_manifest, save_artifact
from relay_int8.runtime.manifest import Manifest
from relay_int8.runtime.weight_entry import WeightEntry
from relay_int8.runtime.weights import arrays_in, map_bytes, pack

pytestmark = pytest.mark.fast

ROWS = 1 << 18
X = np.array([3, 0, ROWS - 1, 77], "int64")
WIDE = np.arange(ROWS * 16, dtype="float32").reshape(ROWS, 16)  # 16 MiB
BYTES = np.arange(-8, 8, dtype="int8").reshape(1, 16)


@I.ir_module
class Net:
    """``main`` as the compiler leaves it: weights follow the input."""

    @R.function
    def main(
        x: R.Tensor((4,), "int64"),
        q: R.Tensor((1, 16), "int8"),
        wide: R.Tensor((ROWS, 16), "float32"),
    ):
        with R.dataflow():
            y = R.add(R.take(wide, x, axis=0), R.astype(q, "float32"))
            R.output(y)
        return y


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    path = tmp_path_factory.mktemp("library") / "library.so"
    target = tvm.target.Target({"kind": "llvm"})
    tvm.compile(relax.get_pipeline("zero")(Net), target).export_library(str(path))
    return path.read_bytes()


@pytest.fixture(scope="module")
def saved(library, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "net.ri8"
    manifest = Manifest(
        inputs=(TensorInfo(name="x", shape=(4,), dtype="int64"),),
        outputs=(TensorInfo(name="y", shape=(4, 16), dtype="float32"),),
        machine=platform.machine(),
        cpu_flags=(),
        target={"kind": "llvm"},
        model_digest="0" * 64,
    )
    save_artifact(path, library, manifest, [BYTES, WIDE])
    return path


@pytest.fixture
def artifact(saved, tmp_path):
    path = tmp_path / "net.ri8"
    path.write_bytes(saved.read_bytes())
    return path


def assert_right(network, x=X):
    np.testing.assert_array_equal(network.run(x)["y"], WIDE[x] + BYTES)


def python(code, *arguments):
    root = Path(relay_int8.__file__).parents[1]
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    )


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def test_arrays_lie_aligned_one_behind_the_other():
    content, entries = pack([BYTES, WIDE[:2], np.int32(7).reshape(1, 1), WIDE.T[:, :1]])
    assert entries == (
        WeightEntry(offset=0, shape=(1, 16), dtype="int8"),
        WeightEntry(offset=64, shape=(2, 16), dtype="float32"),
        WeightEntry(offset=192, shape=(1, 1), dtype="int32"),
        WeightEntry(offset=256, shape=(16, 1), dtype="float32"),
    )
    assert len(content) == entries[-1].end == 320
    found = arrays_in(np.frombuffer(content, np.uint8), entries)
    for array, wanted in zip(found, (BYTES, WIDE[:2], [[7]], WIDE.T[:, :1]), strict=True):
        np.testing.assert_array_equal(array, wanted)
    assert pack([]) == (b"", ())


def test_a_file_is_mapped_from_any_byte_and_never_written(tmp_path):
    content = bytes(range(256)) * 64
    (tmp_path / "file").write_bytes(content)
    with (tmp_path / "file").open("rb") as file:
        found = map_bytes(file, 4160, 100)
        with pytest.raises(ValueError, match="greater than file size"):
            map_bytes(file, 4160, len(content))
    np.testing.assert_array_equal(found, np.frombuffer(content, np.uint8)[4160:4260])
    found[:] = 0  # stays in this process
    assert (tmp_path / "file").read_bytes() == content


def test_it_runs_with_its_weights(saved):
    network = relay_int8.load(saved)
    for x in (X, X[::-1]):
        assert_right(network, x)
        assert_right(network.twin(), x)
    assert len(network.time(X, repeats=2)) == 2
    assert network.profile(X, repeats=1)


def test_the_manifest_says_where_they_lie(saved):
    manifest = read_manifest(saved)
    assert manifest.weights == pack([BYTES, WIDE])[1]
    assert manifest.weights_sha256 == hashlib.sha256(pack([BYTES, WIDE])[0]).hexdigest()
    assert Manifest.from_json(manifest.to_json()) == manifest


def test_the_archive_is_an_ordinary_one_with_the_weights_aligned(saved):
    content = pack([BYTES, WIDE])[0]
    assert members(saved)[WEIGHTS] == content
    with zipfile.ZipFile(saved) as archive:
        assert archive.testzip() is None
    assert saved.read_bytes().index(content) % 64 == 0


def test_they_are_mapped_and_not_copied(saved):
    with extracted(saved) as contents:
        ends = [array.ctypes.data % 64 for array in contents.weights]
        ranges = Path("/proc/self/maps").read_text()
    assert ends == [0, 0] and str(saved) in ranges


def test_they_are_written_to_a_file_for_those_who_send_them(saved, tmp_path):
    extract(saved, None, tmp_path / "weights")
    assert (tmp_path / "weights").read_bytes() == pack([BYTES, WIDE])[0]
    with pytest.raises(ArtifactError, match=r"weights: cannot be written there \(No such file"):
        extract(saved, None, tmp_path / "none" / "weights")


SHARE = """
import sys
import numpy as np
import relay_int8

def anonymous():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("RssAnon")).split()[1]) * 1024

x = np.arange(4)
relay_int8.load(sys.argv[1]).run(x)
before = anonymous()
network = relay_int8.load(sys.argv[1])
network.run(x)
print(anonymous() - before, flush=True)
sys.stdin.readline()  # the other has loaded it too
sums = {}
name = ""
for line in open("/proc/self/smaps"):
    key, _, value = line.partition(":")
    if "-" in key.split()[0] and "kB" not in line:
        name = line.split()[-1]
    elif key in ("Rss", "Pss", "Anonymous") and name == sys.argv[1]:
        sums[key] = sums.get(key, 0) + int(value.split()[0]) * 1024
print(sums["Rss"], sums["Pss"], sums["Anonymous"], flush=True)
sys.stdin.readline()
"""


def test_two_processes_have_them_once(artifact):
    with contextlib.ExitStack() as stack:
        pair = [stack.enter_context(python(SHARE, artifact)) for _ in range(2)]
        taken = [int(process.stdout.readline()) for process in pair]
        for process in pair:
            process.stdin.write("\n")
            process.stdin.flush()
        counted = [tuple(map(int, process.stdout.readline().split())) for process in pair]
        for process in pair:
            process.communicate("\n")
    # The weights are 16 MiB; where malloc asks for large pages, one of them alone is 2.
    assert all(growth < WIDE.nbytes // 2 for growth in taken)
    for resident, proportional, anonymous in counted:
        assert resident >= WIDE.nbytes
        assert proportional <= resident // 2 + 64 * 1024
        assert anonymous == 0


def test_a_file_that_is_replaced_leaves_a_loaded_network_as_it_was(artifact, tmp_path):
    network = relay_int8.load(artifact)
    (tmp_path / "other").write_bytes(b"another artifact")
    (tmp_path / "other").replace(artifact)
    assert_right(network)
    artifact.unlink()
    assert_right(network)


def test_altered_weights(artifact):
    content = bytearray(artifact.read_bytes())
    place = content.index(WIDE.tobytes()) + 12345
    content[place] ^= 1
    artifact.write_bytes(content)
    for look in (relay_int8.load, read_manifest):
        with pytest.raises(ArtifactError, match=r"weights\.bin was altered"):
            look(artifact)


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_an_archive_that_was_packed_anew(artifact, kind):
    contents = members(artifact)
    with zipfile.ZipFile(artifact, "w", kind, compresslevel=1) as archive:
        archive.writestr("a note", bytes(1))  # moves what follows by an odd number of bytes
        for name, content in contents.items():
            archive.writestr(name, content)
    with pytest.raises(ArtifactError, match="packed anew; copy or build the artifact again"):
        relay_int8.load(artifact)


def test_a_file_system_that_maps_nothing(saved, monkeypatch):
    def refuse(*_):
        raise OSError(19, "No such device")

    monkeypatch.setattr("relay_int8.runtime.artifact.map_bytes", refuse)
    with pytest.raises(ArtifactError, match=r"cannot be mapped into memory \(No such device\)"):
        relay_int8.load(saved)


def test_without_its_weights(artifact):
    contents = members(artifact)
    with zipfile.ZipFile(artifact, "w") as archive:
        for name, content in contents.items():
            if name != WEIGHTS:
                archive.writestr(name, content)
    with pytest.raises(ArtifactError, match=r"damaged.*weights\.bin"):
        relay_int8.load(artifact)


@pytest.mark.parametrize("keep", [0.3, 0.9, 0.9999])
def test_truncated(artifact, keep):
    content = artifact.read_bytes()
    artifact.write_bytes(content[: int(len(content) * keep)])
    with pytest.raises(ArtifactError, match="damaged"):
        relay_int8.load(artifact)


def test_every_flipped_byte_of_a_header_is_found_or_harmless(tmp_path):
    """Around small weights: a flip raises ArtifactError, or no content depends on the byte."""
    path = tmp_path / "net.ri8"
    manifest = Manifest(
        inputs=(), outputs=(), machine="any", cpu_flags=(), target={}, model_digest="0" * 64
    )
    save_artifact(path, b"library", manifest, [BYTES])
    content, whole = path.read_bytes(), read_manifest(path)
    first = content.index(b"weights.bin") - 30
    for place in range(first, len(content)):
        altered = bytearray(content)
        altered[place] ^= 0x20
        path.write_bytes(altered)
        try:
            assert read_manifest(path) == whole, place
        except ArtifactError:
            continue
