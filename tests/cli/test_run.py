"""relay-int8 run: arrays in, arrays out; pictures in, classes out."""

import dataclasses
import json
import platform

import numpy as np
import pytest
import tvm
from PIL import Image
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.calibration import Preprocessing
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.runtime.artifact import save_artifact
from relay_int8.runtime.manifest import Manifest

pytestmark = pytest.mark.fast

X = np.arange(6, dtype="float32").reshape(2, 3)


@pytest.fixture
def x(tmp_path):
    np.save(tmp_path / "x.npy", X)
    return tmp_path / "x.npy"


@pytest.mark.parametrize("name", ["", "x="])
def test_arrays_in_arrays_out(invoke, artifact, x, tmp_path, name):
    code, out, _ = invoke("run", artifact, "-i", f"{name}{x}", "-o", tmp_path / "y.npz")
    assert code == 0
    assert out == "scores: float32 (2, 3)\ntwice: float32 (2, 3)\n"
    with np.load(tmp_path / "y.npz") as saved:
        np.testing.assert_array_equal(saved["scores"], X)
        np.testing.assert_array_equal(saved["twice"], 2 * X)


@I.ir_module
class Pixels:
    """Three scores of each of two pictures of one pixel: its channels."""

    @R.function
    def main(x: R.Tensor((2, 3, 1, 1), "float32")):
        with R.dataflow():
            y = R.reshape(x, (2, 3))
            R.output(y)
        return y


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Return the folder of an artifact that takes pictures of one pixel, and of two of them."""
    folder = tmp_path_factory.mktemp("pictures")
    executable = tvm.compile(relax.get_pipeline("zero")(Pixels), tvm.target.Target("llvm"))
    executable.export_library(str(folder / "library.so"))
    manifest = Manifest(
        inputs=(TensorInfo(name="x", shape=(2, 3, 1, 1), dtype="float32"),),
        outputs=(TensorInfo(name="y", shape=(2, 3), dtype="float32"),),
        machine=platform.machine(),
        cpu_flags=(),
        target={"kind": "llvm"},
        model_digest="0" * 64,
    )
    library = (folder / "library.so").read_bytes()
    save_artifact(folder / "arrays.ri8", library, manifest)
    recipe = Preprocessing(resize=(1, 1), scale=2.0).to_dict()
    save_artifact(folder / "p.ri8", library, dataclasses.replace(manifest, preprocessing=recipe))
    for name, pixel in (("a.png", (1, 3, 2)), ("b.png", (9, 8, 7))):
        Image.new("RGB", (4, 4), pixel).save(folder / name)
    (folder / "classes.txt").write_text("ant\nbee\ncat\n")
    np.save(folder / "x.npy", X)
    return folder


def test_pictures_are_prepared_as_the_artifact_says(invoke, pictures, monkeypatch):
    monkeypatch.chdir(pictures)
    code, out, err = invoke("run", "p.ri8", "a.png", "b.png", "--classes", "classes.txt")
    assert code == 0, err
    assert [line.split() for line in out.splitlines()] == [
        ["a.png"], ["1", "6", "bee"], ["2", "4", "cat"], ["0", "2", "ant"],
        ["b.png"], ["0", "18", "ant"], ["1", "16", "bee"], ["2", "14", "cat"],
    ]  # fmt: skip
    code, out, err = invoke("run", "arrays.ri8", "a.png", "--preprocess", "unit")
    assert code == 1 and "shape 1 x 3 x 4 x 4 found, any x 3 x 1 x 1 expected" in err


def test_classes_as_json(invoke, pictures, monkeypatch):
    monkeypatch.chdir(pictures)
    code, out, err = invoke("run", "p.ri8", "a.png", "--classes", "classes.txt", "--json")
    assert code == 0, err
    (image,) = json.loads(out)
    assert image["image"] == "a.png"
    assert image["classes"][0] == {"index": 1, "value": 6.0, "name": "bee"}
    code, _, err = invoke("run", "p.ri8", "a.png", "--json", "-o", "y.npz")
    assert code == 2 and "give one of them" in err


def test_the_output_of_a_picture_is_saved(invoke, pictures, tmp_path):
    code, out, err = invoke("run", pictures / "p.ri8", pictures / "a.png", "-o", tmp_path / "y.npy")
    assert (code, out) == (0, "y: float32 (1, 3)\n"), err
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), [[2, 6, 4]])


def test_arrays_without_output_print_the_greatest(invoke, artifact, x):
    code, out, _ = invoke("run", artifact, "-i", x)
    assert code == 0
    lines = out.splitlines()
    assert lines[0] == "image 0" and lines[1].split() == ["2", "2"]
    assert lines[4] == "image 1" and lines[5].split() == ["2", "5"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a.png"], 1, "arrays.ri8 does not say how pictures become its input"),
        (["a.png", "-i", "x.npy"], 2, "give either pictures, or arrays"),
        ([], 2, "give either pictures, or arrays"),
        (["a.png", "b.png", "-o", "y.npz"], 2, "--output is for one picture"),
        (["x.npy"], 2, "x.npy holds arrays, not a picture: give it with --input"),
        (["none.png", "--preprocess", "raw"], 1, "none.png: cannot be read as a picture"),
        (["a.png", "--preprocess", "raw", "--classes", "none.txt"], 1, "as names of classes"),
    ],
)
def test_pictures_that_cannot_be_run(invoke, pictures, monkeypatch, arguments, code, message):
    monkeypatch.chdir(pictures)
    found, out, err = invoke("run", "arrays.ri8", *arguments)
    assert (found, out) == (code, "")
    assert message in " ".join(err.replace("\u2502", "").split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-i", "none.npy", "-o", "y.npz"], "none.npy: cannot be read as a NumPy array"),
        (["-i", "z={x}", "-o", "y.npz"], "inputs z given; x expected"),
        (["-i", "{x}", "-o", "y.npy"], "outputs are scores, twice; name a .npz file"),
        (["-i", "{x}", "-o", "y.txt"], "name a .npz file"),
        (["-i", "{x}", "-o", "none/y.npz"], "there is no folder none"),
        (["-i", "{x}", "-o", "{x}"], "it would be read and written over"),
        (["-i", "{x}", "-i", "x={x}", "-o", "y.npz"], "input x is given twice"),
    ],
)
def test_errors_are_messages(invoke, artifact, x, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = invoke("run", artifact, *(argument.format(x=x) for argument in arguments))
    assert code == 1
    assert err.startswith("error: ")
    assert message in err
    assert not out
    assert [path.name for path in tmp_path.iterdir()] == ["x.npy"]


def test_several_arrays_in_a_file_are_no_input(invoke, artifact, tmp_path):
    many, torn = tmp_path / "many.npz", tmp_path / "torn.npz"
    np.savez(many, x=X, z=X)
    torn.write_bytes(many.read_bytes()[:60])
    for file, message in ((many, "it holds several arrays"), (torn, "cannot be read as a NumPy")):
        code, _, err = invoke("run", artifact, "-i", file, "-o", tmp_path / "y.npz")
        assert code == 1
        assert message in err


def test_a_folder_is_no_artifact(invoke, x, tmp_path):
    code, _, err = invoke("run", tmp_path, "-i", x, "-o", tmp_path / "y.npz")
    assert code == 2
    assert "is a directory" in err


def test_damaged_artifact(invoke, x, tmp_path):
    (tmp_path / "bad.ri8").write_bytes(b"PK\x03\x04")
    code, _, err = invoke("run", tmp_path / "bad.ri8", "-i", x, "-o", tmp_path / "y.npz")
    assert code == 1
    assert "damaged" in err
