"""Masks of images: arrays, and pictures named as the images."""

from pathlib import PurePath

import numpy as np
import pytest
from PIL import Image

from relay_int8.api.labels import read_masks as read_masks_of
from relay_int8.data.masks import read_masks
from relay_int8.errors import ConfigError

pytestmark = pytest.mark.fast
MASKS = np.arange(18, dtype=np.uint8).reshape(3, 2, 3)
PICTURES = [PurePath(name) for name in ("a/2.jpg", "a/10.jpg", "b.jpeg")]


def palette(mask):
    picture = Image.fromarray(mask)
    picture.putpalette([0, 9, 3] * 256)  # colours that say nothing of the classes
    return picture


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a").mkdir()
    Image.fromarray(MASKS[0]).save(tmp_path / "a" / "2.png")
    palette(MASKS[1]).save(tmp_path / "a" / "10.PNG")
    np.save(tmp_path / "b.npy", MASKS[2].astype(np.int64))
    (tmp_path / "notes.txt").write_text("none")
    return tmp_path


@pytest.mark.parametrize("pictures", [PICTURES, None])
def test_a_folder(folder, pictures):
    found = read_masks(folder, pictures)
    np.testing.assert_array_equal(np.stack(found), MASKS)
    assert all(mask.dtype.kind in "iu" for mask in found)


def test_they_follow_the_pictures(folder, tmp_path):
    found = read_masks(folder, [PICTURES[2], PICTURES[0]])
    np.testing.assert_array_equal(np.stack(found), MASKS[[2, 0]])
    images = tmp_path / "images"
    images.mkdir()
    Image.fromarray(MASKS[0]).save(images / "b.png")
    np.testing.assert_array_equal(read_masks_of(folder, images), MASKS[2:])


def test_an_array(tmp_path):
    np.save(tmp_path / "masks.npy", MASKS)
    np.testing.assert_array_equal(np.stack(read_masks(tmp_path / "masks.npy")), MASKS)


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (MASKS[0], r"an array of shape \(2, 3\); masks are \(images, height, width\)"),
        (MASKS.astype("float32"), "masks are float32, integers expected"),
        (None, "cannot be read as masks"),
    ],
)
def test_arrays_that_are_no_masks(tmp_path, masks, message):
    path = tmp_path / "masks.npy"
    path.write_bytes(b"") if masks is None else np.save(path, masks)
    with pytest.raises(ConfigError, match=message):
        read_masks(path)


def test_folders_that_lack_masks(folder, tmp_path):
    with pytest.raises(ConfigError, match="1 of 2 pictures have no mask: c"):
        read_masks(folder, [PICTURES[0], PurePath("c.jpg")])
    (folder / "b.png").touch()
    with pytest.raises(ConfigError, match=r"b\.npy and b\.png are masks of one picture"):
        read_masks(folder, PICTURES)
    (folder / "b.png").unlink()
    np.save(folder / "b.npy", MASKS)
    with pytest.raises(ConfigError, match=r"b.npy: an array of shape \(3, 2, 3\); a mask is"):
        read_masks(folder)
    Image.fromarray(np.stack([MASKS[0]] * 3, axis=2)).save(folder / "b.png")
    (folder / "b.npy").unlink()
    with pytest.raises(ConfigError, match="pixels are RGB; the class of each is expected"):
        read_masks(folder)
    (folder / "b.png").write_bytes(b"none")
    with pytest.raises(ConfigError, match=r"b\.png: cannot be read as a mask"):
        read_masks(folder)
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError, match="no mask found"):
        read_masks(empty)
