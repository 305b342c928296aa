"""Files of arrays: what is read, and what any damage ends in."""

import zipfile

import numpy as np
import pytest

from relay_int8.array_files import read_arrays

pytestmark = pytest.mark.fast


@pytest.mark.parametrize("mapped", [False, True])
def test_arrays_and_archives(tmp_path, mapped):
    x = np.arange(6, dtype="float32").reshape(2, 3)
    np.save(tmp_path / "x.npy", np.asfortranarray(x))
    np.savez(tmp_path / "x.npz", a=x, b=x[0])
    np.testing.assert_array_equal(read_arrays(tmp_path / "x.npy", mapped=mapped), x)
    arrays = read_arrays(tmp_path / "x.npz", mapped=mapped)
    assert list(arrays) == ["a", "b"]
    np.testing.assert_array_equal(arrays["a"], x)


def header(text):
    """Return the beginning of a .npy file of version 1."""
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize("mapped", [False, True])
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x93NUMPY",
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,"),  # TokenError
        header("{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,), }"),
        header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"),
        b"PK\x03\x04",
    ],
)
def test_damaged_arrays(tmp_path, content, mapped):
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"."):
        read_arrays(tmp_path / "x.npy", mapped=mapped)


def test_other_files_are_not_taken_for_pickles(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"1, 2, 3")
    with pytest.raises(ValueError, match=r"no \.npy or \.npz file starts with 31 2c 20 32 2c 20"):
        read_arrays(tmp_path / "x.npy")


@pytest.mark.parametrize(("place", "value"), [(6, 1), (8, 99)])
def test_damaged_archives(tmp_path, place, value):
    """A member that claims to be encrypted, or compressed in a way that nobody knows."""
    np.savez(tmp_path / "x.npz", a=np.zeros(2))
    content = bytearray((tmp_path / "x.npz").read_bytes())
    with zipfile.ZipFile(tmp_path / "x.npz") as archive:
        start = archive.start_dir
    content[start + place + 2] = value
    (tmp_path / "x.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"it is damaged, encrypted or"):
        read_arrays(tmp_path / "x.npz")


@pytest.mark.parametrize("mapped", [False, True])
def test_what_is_said_of_damage(tmp_path, mapped):
    np.save(tmp_path / "x.npy", np.zeros(100))
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-56])
    with pytest.raises(ValueError, match=r"^its last 56 bytes are missing; copy or save it again$"):
        read_arrays(tmp_path / "x.npy", mapped=mapped)
    np.save(tmp_path / "x.npy", np.array([None]))
    with pytest.raises(ValueError, match=r"^it holds Python objects, numbers expected; save"):
        read_arrays(tmp_path / "x.npy", mapped=mapped)
    np.savez(tmp_path / "x.npz", a=np.zeros(2), b=np.array([None]))
    with pytest.raises(ValueError, match=r"^array 'b' of it holds Python objects, numbers"):
        read_arrays(tmp_path / "x.npz", mapped=mapped)
    (tmp_path / "x.npz").write_bytes((tmp_path / "x.npz").read_bytes()[:-30])
    with pytest.raises(
        ValueError, match=r"^it is damaged, encrypted or not whole; copy or save it again$"
    ):
        read_arrays(tmp_path / "x.npz", mapped=mapped)
