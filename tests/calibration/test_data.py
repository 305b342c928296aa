"""Sources of calibration images, and what they refuse."""

import pickle

import numpy as np
import pytest
from PIL import Image

from relay_int8.calibration import Preprocessing, open_data
from relay_int8.data import picture_folder
from relay_int8.data.images import open_images
from relay_int8.data.picture_folder import PictureFolder
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import CalibrationError
from relay_int8.notices import Notice, printed_notices

pytestmark = pytest.mark.fast
X = TensorInfo(name="x", shape=(-1, 3, 4, 4), dtype="float32")
Y = TensorInfo(name="y", shape=(8, 2), dtype="int64")


def images(count, seed=0):
    return np.random.default_rng(seed).normal(size=(count, 3, 4, 4)).astype(np.float32)


def stacked(data, name="x"):
    found = list(data)
    assert all(image[name].shape[0] == 1 for image in found)
    return np.concatenate([image[name] for image in found])


@pytest.mark.parametrize("sizes", [[10], [1] * 10, [7, 3]])
def test_batches_come_one_by_one(sizes):
    x = images(10)
    batches = np.split(x, np.cumsum(sizes)[:-1])
    for source in (batches, lambda: iter(batches), [{"x": batch} for batch in batches]):
        data = open_data(source, [X])
        np.testing.assert_array_equal(stacked(data), x)
        np.testing.assert_array_equal(stacked(data), x)  # and again


def test_two_inputs():
    y = np.arange(20).reshape(10, 2)
    data = open_data([{"x": images(10), "y": y}], [X, Y])
    np.testing.assert_array_equal(stacked(data, "y"), y)
    assert set(next(iter(data))) == {"x", "y"}


def test_files(tmp_path):
    x, y = images(5), np.arange(10).reshape(5, 2)
    np.save(tmp_path / "x.npy", x)
    np.savez(tmp_path / "xy.npz", x=x, y=y)
    np.testing.assert_array_equal(stacked(open_data(tmp_path / "x.npy", [X])), x)
    data = open_data(str(tmp_path / "xy.npz"), [X, Y])
    np.testing.assert_array_equal(stacked(data, "y"), y)


def save_pictures(folder, names):
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(np.full((4, 4, 3), number, np.uint8)).save(path)


def test_pictures_are_ordered_by_path(tmp_path):
    save_pictures(tmp_path / "in", ["b.png", "a.PNG", "sub/a.bmp", "c.ppm"])
    (tmp_path / "in" / "labels.txt").write_text("not a picture")
    data = open_data(tmp_path / "in", [X], Preprocessing())
    assert [image["x"][0, 0, 0, 0] for image in data] == [1, 0, 3, 2]


def test_numbers_in_names_are_counted(tmp_path):
    names = ["10.png", "2.png", "1.png", "img_9_b.png", "img_10_a.png", "01.png", "9/1.png"]
    save_pictures(tmp_path, names)
    found = PictureFolder(tmp_path, Preprocessing()).paths()
    assert [path.relative_to(tmp_path).as_posix() for path in found] == [
        "01.png", "1.png", "2.png", "9/1.png", "10.png", "img_9_b.png", "img_10_a.png",
    ]  # fmt: skip


def test_pictures_that_were_cropped_before_are_noticed(tmp_path):
    save_pictures(tmp_path, ["a.png"])
    with pytest.warns(Notice, match="pictures are 4 x 4 already; they are resized to 6"):
        list(open_data(tmp_path, [X], Preprocessing(resize=6, crop=(4, 4))))
    list(open_data(tmp_path, [X], Preprocessing(resize=4, crop=(4, 4))))


def test_folders_of_classes_are_noticed_as_one(tmp_path, capsys):
    save_pictures(tmp_path, ["cat/a.png", "dog/b.png"])
    with printed_notices():
        list(open_data(tmp_path, [X], Preprocessing(resize=6, crop=(4, 4))))
    assert capsys.readouterr().err.count("note: pictures are 4 x 4 already") == 1


def test_pictures_are_preprocessed(tmp_path):
    save_pictures(tmp_path / "in", ["a.png"])
    data = open_data(tmp_path / "in", [X], Preprocessing(mean=(3,), deviation=(2,)))
    np.testing.assert_array_equal(stacked(data), np.full((1, 3, 4, 4), -1.5))


def test_pictures_are_read_a_few_ahead_in_their_order(tmp_path, monkeypatch):
    save_pictures(tmp_path, [f"{place}.png" for place in range(12)])
    read = []
    whole = picture_folder.read_picture

    def _noted(path, preprocessing):
        read.append(path.name)
        return whole(path, preprocessing)

    monkeypatch.setattr(picture_folder, "read_picture", _noted)
    found = iter(PictureFolder(tmp_path, Preprocessing())())
    first, _ = next(found)
    assert first.endswith("0.png")
    found.close()
    assert read == [f"{place}.png" for place in range(len(read))]
    assert 1 <= len(read) <= picture_folder.AHEAD + 1


def test_inputs_are_kept_for_later_passes_as_far_as_they_fit(tmp_path, monkeypatch):
    for number in range(4):
        Image.new("L", (2, 2), number).save(tmp_path / f"{number}.png")
    read = []
    inner = picture_folder.read_picture

    def _noted(path, preprocessing):
        read.append(path.name)
        return inner(path, preprocessing)

    monkeypatch.setattr(picture_folder, "read_picture", _noted)
    monkeypatch.setattr(picture_folder, "MOST_KEPT_BYTES", 2 * 16)  # two of 2x2 float32
    x = TensorInfo(name="x", shape=(1, 1, 2, 2), dtype="float32")
    pictures = open_images([x], tmp_path, Preprocessing(channels="L"))
    for _ in range(2):
        assert [image["x"].max() for image in pictures] == [0, 1, 2, 3]
    names = [f"{number}.png" for number in range(4)]
    assert read[-2:] == names[2:]
    assert [read.count(name) for name in names[:2]] == [1, 1]


def test_a_damaged_picture_is_reported_where_it_stands(tmp_path):
    save_pictures(tmp_path, [f"{place}.png" for place in range(8)])
    (tmp_path / "6.png").write_bytes(b"no picture")
    found = iter(PictureFolder(tmp_path, Preprocessing())())
    assert [next(found)[0][-5:] for _ in range(6)] == [f"{place}.png" for place in range(6)]
    with pytest.raises(CalibrationError, match=r"6\.png"):
        next(found)


@pytest.mark.parametrize("damage", [b"", b"no picture", "cut"])
def test_an_unreadable_picture_is_named(tmp_path, damage):
    noise = np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "a.png")
    path = tmp_path / "b.png"
    path.write_bytes((tmp_path / "a.png").read_bytes()[:2000] if damage == "cut" else damage)
    data = open_data(tmp_path, [X], Preprocessing(resize=(4, 4)))
    with pytest.raises(CalibrationError, match=r"b\.png: cannot be read as a picture"):
        list(data)


def test_a_picture_of_another_size_is_named(tmp_path):
    save_pictures(tmp_path, ["a.png"])
    Image.new("RGB", (5, 4)).save(tmp_path / "b.png")
    with pytest.raises(CalibrationError, match=r"b\.png: input 'x': shape 1 x 3 x 4 x 5 found"):
        list(open_data(tmp_path, [X], Preprocessing()))
    with pytest.raises(CalibrationError, match=r"a\.png: crop of 9 x 9"):
        list(open_data(tmp_path, [X], Preprocessing(crop=(9, 9))))


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (images(2).astype(np.float64), "type float64 found, float32 expected"),
        (images(2)[0], "shape 3 x 4 x 4 found, 4 axes expected"),
        (images(2)[:, :2], "shape 2 x 2 x 4 x 4 found, any x 3 x 4 x 4 expected"),
        (images(2).tolist(), "list found, a NumPy array expected; leave labels out"),
        ((images(2), [0, 1]), "tuple found, a NumPy array expected; leave labels out"),
        (images(2).astype(np.uint8), "convert it with .astype, and scale pixels as in training"),
        (images(2).astype(np.int64), "convert it with .astype; the network's inputs are x"),
        (images(2).transpose(0, 2, 3, 1), "transpose it: its channels stand on another axis"),
        (np.float32(3), "float32 found, a NumPy array expected"),
        ({"z": images(2)}, "no input is called 'z'; input 'x': missing"),
        ({}, "input 'x': missing"),
    ],
)
def test_misfits_name_the_batch(batch, message):
    data = open_data([images(1), batch], [X])
    with pytest.raises(CalibrationError, match=f"data batch 1: .*{message}"):
        list(data)


def test_an_input_of_one_channel_and_pictures_of_three(tmp_path):
    gray = TensorInfo(name="x", shape=(-1, 1, 4, 4), dtype="float32")
    save_pictures(tmp_path, ["a.png"])
    with pytest.raises(
        CalibrationError, match=r"expected; Preprocessing\(channels='L'\) gives one"
    ):
        list(open_data(tmp_path, [gray], Preprocessing()))
    assert len(list(open_data(tmp_path, [gray], Preprocessing(channels="L")))) == 1


def test_images_are_pickled_as_far_as_their_source_can_be(tmp_path):
    np.save(tmp_path / "x.npy", images(3))
    for source in (images(3), [images(3)], {"x": images(3)}, tmp_path / "x.npy"):
        again = pickle.loads(pickle.dumps(open_data(source, [X])))
        np.testing.assert_array_equal(stacked(again), images(3))


def test_batch_sizes_must_agree():
    with pytest.raises(CalibrationError, match=r"batch sizes differ: \{'x': 2, 'y': 3\}"):
        list(open_data([{"x": images(2), "y": np.zeros((3, 2), np.int64)}], [X, Y]))


def test_one_array_for_two_inputs():
    fixed = r"give a dictionary of them, or .* change: ImportOptions\(values=\{'y': ...\}\)"
    with pytest.raises(CalibrationError, match=fixed):
        list(open_data([images(2)], [X, Y]))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_name_the_image(value):
    bad = images(5)
    bad[3, 1, 2, :2] = value
    with pytest.raises(CalibrationError, match="batch 1, image 3 of it: input 'x' holds 2 values"):
        list(open_data([images(2), bad], [X]))


@pytest.mark.parametrize("source", [[], [images(0)], lambda: iter(())])
def test_no_data(source):
    with pytest.raises(CalibrationError, match="no image found"):
        list(open_data(source, [X]))


def test_no_pictures(tmp_path):
    with pytest.raises(CalibrationError, match="no picture found"):
        list(open_data(tmp_path, [X], Preprocessing()))


def test_a_generator_is_refused():
    with pytest.raises(CalibrationError, match="generator found, which can be read only once"):
        open_data((batch for batch in [images(1)]), [X])


def test_paths_that_cannot_be_data(tmp_path):
    (tmp_path / "a.txt").write_text("")
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00")
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 broken")
    np.save(tmp_path / "objects.npy", np.array([{}]), allow_pickle=True)
    for path, message in [
        ("absent", "no such file"),
        ("a.txt", r"a \.npy or a \.npz"),
        ("a.npy", "cannot be read as NumPy"),
        ("a.npz", "cannot be read as NumPy"),
        ("objects.npy", "cannot be read as NumPy"),
    ]:
        with pytest.raises(CalibrationError, match=message):
            list(open_data(tmp_path / path, [X]))


def test_options_that_contradict(tmp_path):
    np.save(tmp_path / "x.npy", images(1))
    for source in (tmp_path / "x.npy", [images(1)]):
        with pytest.raises(CalibrationError, match="preprocessing is for a folder"):
            open_data(source, [X], Preprocessing())
    with pytest.raises(CalibrationError, match="nothing says how they become the input"):
        open_data(tmp_path, [X])
    with pytest.raises(CalibrationError, match="one input, the network has 2"):
        open_data(tmp_path, [X, Y])
