"""Labels of all kinds, and what is said where they do not go with the images."""

import json
import warnings
from pathlib import PurePath

import numpy as np
import pytest

from relay_int8.data.labels import read_labels
from relay_int8.errors import ConfigError
from relay_int8.notices import Notice
from relay_int8.report.label_check import tell_of_labels

pytestmark = pytest.mark.fast

PICTURES = [PurePath(name) for name in ("cat/1.jpg", "cat/2.jpg", "dog/10.jpg")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.txt", "4\n5\n6\n"),
        ("a.csv", "4\n5\n6\n"),
        ("a.csv", "label\n4\n5\n6\n"),
        ("a.csv", "dog/10.jpg,6\ncat/1.jpg,4\ncat/2.jpg,5\nother.jpg,7\n"),
        ("a.csv", "\ufefffile,class\n2.jpg, 5\n10.jpg, 6\n1.jpg, 4\n"),
        ("a.csv", "file,size,class\n2,100,5\n10,100,6\n1,100,4\n"),
        ("a.json", "[4, 5, 6]"),
        ("a.csv", '"10.jpg";6\n"1.jpg";4\n"cat/2.jpg";5\n'),
        ("a.csv", "name\tclass\n10.jpg\t6\n1.jpg\t4\ncat/2.jpg\t5\n"),
        ("a.json", json.dumps({"10.jpg": 6, "1.jpg": 4, "cat/2.jpg": 5})),
    ],
)
def test_files(tmp_path, name, text):
    (tmp_path / name).write_text(text, encoding="utf-8")
    np.testing.assert_array_equal(read_labels(tmp_path / name, PICTURES), [4, 5, 6])


def test_class_folders(tmp_path):
    np.testing.assert_array_equal(read_labels(tmp_path, PICTURES), [0, 0, 1])
    numbered = [PurePath("7/a.jpg"), PurePath("10/b.jpg")]
    np.testing.assert_array_equal(read_labels(tmp_path, numbered), [7, 10])


@pytest.mark.parametrize(
    ("name", "text", "pictures", "message"),
    [
        ("a.csv", "1.jpg,4\n2.jpg,5\n", PICTURES, "1 of 3 pictures have no label: dog/10.jpg"),
        ("a.csv", "1.jpg,4\n2.jpg,cat\n", PICTURES, "row 2 .* its last column is no integer"),
        ("a.csv", "name,class\n", PICTURES, "cannot be read as labels: it holds none"),
        ("none.csv", None, PICTURES, "cannot be read as labels: no such file or directory"),
        ("a.csv", "1.jpg,4\n", None, "labels by file name are for a folder of pictures"),
        ("a.json", "{", PICTURES, "cannot be read as labels"),
        ("a.json", '["cat"]', PICTURES, "integers expected"),
        ("a.npy", "", PICTURES, "cannot be read as labels"),
        ("", "", [*PICTURES, PurePath("loose.jpg")], "1 pictures lie in none: loose.jpg"),
    ],
)
def test_misfits(tmp_path, name, text, pictures, message):
    if name and text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_labels(tmp_path / name, pictures)


RIGHT = np.arange(60) % 1000


@pytest.mark.parametrize(
    ("chosen", "labels", "classes", "message"),
    [
        (RIGHT, RIGHT + 1, 1000, "would be 1.0000 with 1 taken from every label"),
        (RIGHT + 1, RIGHT, 1000, "would be 1.0000 with 1 added to every label"),
        # One of sixty is right by chance: pictures were read in another order than the labels.
        (np.r_[0, RIGHT[1:] + 5], RIGHT, 1000, "top-1 is 0.0167, which guessing reaches"),
        (RIGHT, RIGHT, 1000, None),
        (RIGHT, RIGHT.astype(np.uint8), 1000, None),
        (np.r_[RIGHT[:30], RIGHT[30:] + 7], RIGHT, 1000, None),
        (RIGHT[:10] + 5, RIGHT[:10], 1000, None),
        (np.arange(40) % 2, np.zeros(40, int), 2, "0.5000, which guessing reaches"),
        (np.arange(40) % 4 // 3, np.zeros(40, int), 2, None),
    ],
)
def test_notices(chosen, labels, classes, message):
    if message is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            tell_of_labels(chosen, labels, classes)
        return
    with pytest.warns(Notice, match=message):
        tell_of_labels(chosen, labels, classes)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "cat/1.jpg,4\ncat/2.jpg,5\ncat/1.jpg,6\n", "row 3 gives cat/1.jpg class 6"),
        ("a.json", '{"1.jpg": 4, "1.jpg": 5}', "'1.jpg' for the second time"),
        ("a.json", "[[1], [1, 2]]", "labels are no array"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.txt", "9" * 30, "cannot be read as labels"),
    ],
)
def test_labels_that_contradict_themselves_or_are_none(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_labels(tmp_path / name, PICTURES)


@pytest.mark.parametrize(("name", "text"), [("a.csv", "1.jpg,4"), ("a.json", '{"1": 4}')])
def test_a_name_that_several_pictures_have_is_none_of_them(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match="several pictures of the folder are called 1"):
        read_labels(tmp_path / name, [PurePath("cat/1.jpg"), PurePath("dog/1.jpg")])


def test_a_byte_order_mark_is_no_label(tmp_path):
    (tmp_path / "a.txt").write_text("4\n5\n", encoding="utf-8-sig")
    np.testing.assert_array_equal(read_labels(tmp_path / "a.txt"), [4, 5])
