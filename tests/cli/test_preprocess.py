"""--preprocess: what the names stand for, worked on a picture of one colour."""

import numpy as np
import pytest
from PIL import Image

from relay_int8.cli.preprocess import PREPARATIONS, named_preprocessing
from relay_int8.errors import ConfigError

pytestmark = pytest.mark.fast

PICTURE = Image.new("RGB", (320, 300), (255, 0, 51))


@pytest.mark.parametrize(
    ("name", "shape", "pixel"),
    [
        ("imagenet", (1, 3, 224, 224), [0.515 / 0.229, -0.456 / 0.224, (0.2 - 0.406) / 0.225]),
        ("imagenet-signed", (1, 3, 224, 224), [1, -1, -0.6]),
        ("unit", (1, 3, 300, 320), [1, 0, 0.2]),
        ("raw", (1, 3, 300, 320), [255, 0, 51]),
    ],
)
def test_presets(name, shape, pixel):
    x = named_preprocessing(name)(PICTURE)
    assert x.shape == shape
    np.testing.assert_allclose(x[0, :, 7, 5], pixel, atol=1e-5)


def test_every_preset_is_tested():
    assert set(PREPARATIONS) == {"imagenet", "imagenet-signed", "unit", "raw"}


def test_nothing_is_nothing():
    assert named_preprocessing(None) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.toml", "crop = [2, 3]\nmean = [1.5]"), ("a.json", '{"crop": [2, 3], "mean": [1.5]}')],
)
def test_files(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    found = named_preprocessing(str(tmp_path / name))
    assert (found.crop, found.mean) == ((2, 3), (1.5,))


@pytest.mark.parametrize("text", ['{"rezise": 3}', '{"resize": -3}', '{"mean": "much"}'])
def test_what_is_wrong_in_a_file_is_said_with_its_name(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(ConfigError, match=r"a\.json: preprocessing"):
        named_preprocessing(str(tmp_path / "a.json"))
