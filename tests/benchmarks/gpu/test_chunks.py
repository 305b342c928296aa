import numpy as np
import pytest

from benchmarks.gpu.chunks import LONGEST, ChunkError, Store, cut
from benchmarks.gpu.pictures import pictures

pytestmark = pytest.mark.fast
SUM = 385.43359375  # of three pictures


def noise(count, seed):
    return np.random.default_rng(seed).bytes(count)


@pytest.mark.parametrize(
    "content", [b"", b"short", bytes(3 * LONGEST + 1), noise(100_000, 1)], ids=len
)
def test_pieces_are_the_file(content):
    pieces = cut(content)
    assert b"".join(pieces) == content
    assert max(map(len, pieces), default=0) <= LONGEST


def test_what_files_share_is_stored_once(tmp_path):
    shared, store = noise(1 << 20, 1), Store(tmp_path)
    files = [b"first" + shared + noise(5_000, 2), noise(777, 3) + shared + b"second"]
    recipes = [store.add(content, "net") for content in files]
    assert [store.get(recipe) for recipe in recipes] == files
    stored = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert stored < 1.3 * len(shared)
    again = Store(tmp_path, store.places)
    assert again.get(recipes[1]) == files[1]


def test_packs_have_a_limit_and_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.gpu.chunks.PACK_BYTES", 100_000)
    store = Store(tmp_path)
    one, two = store.add(noise(150_000, 1), "a"), store.add(noise(90_000, 2), "b")
    assert store.packs([one]) == ["a-0.pack", "a-1.pack"]
    assert store.packs([two]) == ["b-0.pack"]
    (tmp_path / "a-1.pack").unlink()
    assert len(store.get(two)) == 90_000
    with pytest.raises(ChunkError, match=r"a-1\.pack cannot be read.*copy it too"):
        store.get(one)


def test_an_altered_pack_is_found(tmp_path):
    store = Store(tmp_path)
    recipe = store.add(noise(50_000, 1), "a")
    pack = tmp_path / "a-0.pack"
    pack.write_bytes(b"?" + pack.read_bytes()[1:])
    with pytest.raises(ChunkError, match=r"a-0\.pack were altered"):
        store.get(recipe)


def test_pictures_are_the_same_everywhere():
    images = pictures(3, 33)
    assert images.shape == (3, 3, 33, 33) and images.dtype == np.float32
    np.testing.assert_array_equal(pictures(1, 33), images[:1])
    assert float(images.sum(dtype=np.float64)) == SUM
    assert 0.5 < float((images**2).mean()) < 2
    assert not np.array_equal(images[0], images[1])
