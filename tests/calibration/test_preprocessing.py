"""From pictures to inputs."""

import numpy as np
import pytest
from PIL import Image

from relay_int8.calibration import Preprocessing
from relay_int8.errors import ConfigError

pytestmark = pytest.mark.fast
IMAGENET = Preprocessing(
    resize=256,
    crop=(224, 224),
    scale=1 / 255,
    mean=(0.485, 0.456, 0.406),
    deviation=(0.229, 0.224, 0.225),
)


def picture(height=4, width=6):
    pixels = np.arange(height * width * 3, dtype=np.uint8).reshape(height, width, 3)
    return Image.fromarray(pixels), pixels


def test_pixels_as_they_are():
    image, pixels = picture()
    x = Preprocessing()(image)
    assert x.dtype == np.float32 and x.shape == (1, 3, 4, 6) and x.flags.c_contiguous
    np.testing.assert_array_equal(x[0], pixels.transpose(2, 0, 1))


def test_layout_and_channel_order():
    image, pixels = picture()
    np.testing.assert_array_equal(Preprocessing(layout="NHWC")(image)[0], pixels)
    bgr = Preprocessing(channels="BGR", layout="NHWC")(image)[0]
    np.testing.assert_array_equal(bgr, pixels[:, :, ::-1])
    assert Preprocessing(channels="L")(image).shape == (1, 1, 4, 6)


def test_normalization_is_float32_and_per_channel():
    image, pixels = picture()
    settings = Preprocessing(
        scale=0.5, mean=(1, 2, 3), deviation=(4, 5, 6), channels="BGR", layout="NHWC"
    )
    bgr = pixels[:, :, ::-1].astype(np.float32)
    expected = (bgr * np.float32(0.5) - np.float32([1, 2, 3])) / np.float32([4, 5, 6])
    np.testing.assert_array_equal(settings(image)[0], expected)


@pytest.mark.parametrize(
    ("resize", "crop", "shape"),
    [
        (2, None, (2, 3)),
        (8, None, (8, 12)),
        ((5, 7), None, (5, 7)),
        (None, (2, 4), (2, 4)),
        (8, (8, 8), (8, 8)),
    ],
)
def test_sizes(resize, crop, shape):
    image, _ = picture()
    assert Preprocessing(resize=resize, crop=crop)(image).shape == (1, 3, *shape)


def test_shorter_side_rounds_the_other():
    assert Preprocessing(resize=256)(picture(5, 7)[0]).shape == (1, 3, 256, 358)
    assert Preprocessing(resize=256)(picture(7, 5)[0]).shape == (1, 3, 358, 256)


def test_crop_is_from_the_middle():
    image, pixels = picture()
    x = Preprocessing(crop=(2, 2), layout="NHWC")(image)
    np.testing.assert_array_equal(x[0], pixels[1:3, 2:4])


def test_resize_is_pillows_bilinear():
    image, _ = picture(40, 60)
    expected = np.asarray(image.resize((15, 10), Image.Resampling.BILINEAR))
    found = Preprocessing(resize=(10, 15), layout="NHWC")(image)
    np.testing.assert_array_equal(found[0], expected)


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1", "LA"])
def test_any_mode_becomes_three_channels(mode):
    image, _ = picture()
    assert Preprocessing()(image.convert(mode)).shape == (1, 3, 4, 6)


def test_settings_round_trip():
    for settings in (IMAGENET, Preprocessing(), Preprocessing(resize=(3, 4), channels="L")):
        assert Preprocessing.from_dict(settings.to_dict()) == settings
    assert Preprocessing.from_dict({"resize": [3, 4]}).resize == (3, 4)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sizes": 3}, "no sizes; it has resize"),
        ({"channels": "XYZ"}, "channels 'XYZ'"),
        ({"layout": "CHW"}, "layout 'CHW'"),
        ({"mean": [1, 2]}, "mean has 2"),
        ({"mean": 1}, r"mean is 1, a list of numbers expected, as \[0.5\]$"),
        ({"mean": "a"}, "mean is 'a', a list of numbers expected"),
        ({"mean": ["a", "b", "c"]}, r"mean is \('a', 'b', 'c'\), a list of numbers expected"),
        ({"channels": 5}, "channels 5 is none of RGB"),
        ({"scale": 10**400}, "finite"),
        ({"deviation": [1, 0, 1]}, "no deviation zero"),
        ({"scale": float("nan")}, "finite"),
        ({"scale": "1"}, "scale is '1', a number expected"),
        ({"resize": 0}, "resize"),
        ({"resize": [3]}, "resize"),
        ({"crop": [3, -1]}, "crop"),
        ({"crop": 3}, "crop 3 is not a height and width"),
    ],
)
def test_bad_settings(settings, message):
    with pytest.raises(ConfigError, match=message):
        Preprocessing.from_dict(settings)


def test_crop_larger_than_the_picture():
    with pytest.raises(ConfigError, match="crop of 5 x 5 from a picture of 4 x 6"):
        Preprocessing(crop=(5, 5))(picture()[0])


@pytest.mark.parametrize("mode", ["I;16", "I;16B"])
def test_of_sixteen_bits_the_upper_eight_count(mode):
    gray = np.array([[0, 255, 256], [32768, 65280, 65535]], np.uint16)
    image = Image.fromarray(gray)
    if mode == "I;16B":
        image = Image.frombytes(mode, image.size, gray.astype(">u2").tobytes())
    assert image.mode == mode
    x = Preprocessing(channels="L")(image)
    np.testing.assert_array_equal(x[0, 0], [[0, 0, 1], [128, 255, 255]])
    assert Preprocessing()(image).shape == (1, 3, 2, 3)


@pytest.mark.parametrize(("dtype", "kind"), [("int32", "integers"), ("float32", "floats")])
def test_pixels_of_32_bits_are_refused(dtype, kind):
    with pytest.raises(ConfigError, match=f"its pixels are {kind} of 32 bits"):
        Preprocessing()(Image.fromarray(np.ones((2, 2), dtype)))


@pytest.mark.parametrize(
    "settings",
    [
        {"resize": 256.5},
        {"resize": True},
        {"crop": (8.0, 8)},
        {"resize": 10**9},
        {"crop": "ab"},
        {"crop": 224},
    ],
)
def test_sizes_are_integers_of_a_picture(settings):
    with pytest.raises(ConfigError, match="is not a height and width from 1 to 16384"):
        Preprocessing(**settings)


def test_a_thin_picture_does_not_become_a_vast_one():
    with pytest.raises(ConfigError, match="1 x 4000, resized, has 256 x 1024000 pixels"):
        Preprocessing(resize=256)(Image.new("RGB", (4000, 1)))
