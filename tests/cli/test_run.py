"""relay-int8 run: arrays in, arrays out."""

import numpy as np
import pytest

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
