"""Calibration data as other packages have it: equal to a list of the same arrays, or refused."""

import numpy as np
import pytest

from relay_int8.calibration import open_data
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import CalibrationError

pytestmark = pytest.mark.fast

X = TensorInfo(name="x", shape=(-1, 2), dtype="float32")
Y = TensorInfo(name="y", shape=(-1, 1), dtype="float32")
ROWS = np.arange(8, dtype=np.float32).reshape(4, 2)
LABELS = np.array([3, 1, 2, 0])


class Tensor:
    """What PyTorch's tensors have in common with this: no array before it is detached."""

    def __init__(self, array, *, plain=False):
        self.array, self.plain = array, plain

    def detach(self):
        return self

    def cpu(self):
        return Tensor(self.array, plain=True)

    def __array__(self, dtype=None, copy=None):
        assert self.plain, "a tensor with a gradient is no array"
        return self.array


class Loader:
    """As PyTorch's DataLoader: lists of tensors, from the first on in each pass."""

    def __iter__(self):
        for index in (0, 2):
            yield [Tensor(ROWS[index : index + 2]), Tensor(LABELS[index : index + 2])]


class Reader:
    """As ONNX Runtime's CalibrationDataReader, which is its own iterator."""

    def __init__(self):
        self.found = iter([{"x": row[None]} for row in ROWS])

    def get_next(self):
        return next(self.found, None)

    def __iter__(self):
        return self

    def __next__(self):
        raise AssertionError("get_next is what readers are asked")


class BareReader:
    """What has the one method that ONNX Runtime calls."""

    def __init__(self):
        self.get_next = Reader().get_next


class Rewound(Reader):
    def rewind(self):
        self.__init__()


@pytest.mark.parametrize(
    "source",
    [
        ROWS,
        {"x": ROWS},
        [ROWS[:3], ROWS[3:]],
        [(ROWS, LABELS)],
        Loader(),
        Reader(),
        Rewound(),
        BareReader(),
        lambda: ({"x": row[None]} for row in ROWS),
    ],
)
def test_each_gives_the_same_images_twice(source):
    data = open_data(source, [X])
    for _ in range(2):
        np.testing.assert_array_equal(np.concatenate([image["x"] for image in data]), ROWS)


class Endless(BareReader):
    def __init__(self):
        self.get_next = lambda: ROWS


@pytest.mark.parametrize(
    "kind", [Endless, type("Rewinding", (Endless,), {"rewind": lambda _: None})]
)
def test_a_reader_without_an_end(monkeypatch, kind):
    monkeypatch.setattr("relay_int8.data.sources.MOST_BATCHES", 3)
    with pytest.raises(CalibrationError, match=r"get_next\(\) gave 3 batches and no end; it retu"):
        list(open_data(kind(), [X]))


def test_a_tuple_for_several_inputs():
    first = ROWS[:, :1]
    for source in ([(ROWS, first)], [[ROWS, first, LABELS]], {"x": ROWS, "y": first}):
        images = list(open_data(source, [X, Y]))
        np.testing.assert_array_equal(np.concatenate([image["y"] for image in images]), first)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ((row for row in ROWS), "a generator found, which can be read only once"),
        (7, "a int found, data expected: an array, a list of batches"),
        ([ROWS[0]], r"4 axes|2 axes expected, the batch first \(x\[None\] makes"),
        ([ROWS.tolist()], "list found, a NumPy array expected"),
        (ROWS.astype(np.float64), "type float64 found, float32 expected; convert it with .astype"),
        ({"z": ROWS}, "no input is called 'z'"),
        ([(ROWS,)], None),
    ],
)
def test_the_rest_is_refused_in_words(source, message):
    if message is None:
        assert len(list(open_data(source, [X]))) == 4
        return
    with pytest.raises(CalibrationError, match=message):
        list(open_data(source, [X]))


def test_a_reader_of_onnx_runtime():
    quantization = pytest.importorskip("onnxruntime.quantization")

    class Mine(quantization.CalibrationDataReader):
        def __init__(self):
            self.found = iter([{"x": ROWS}])

        def get_next(self):
            return next(self.found, None)

    data = open_data(Mine(), [X])
    assert len(list(data)) == len(list(data)) == 4


def broken():
    yield np.zeros((1, 3), "float32")
    raise RuntimeError("the disk is gone")


class Unreadable:
    def __array__(self, *_args, **_options):
        raise RuntimeError("no array")


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (broken, "data batch 1: its source raised RuntimeError: the disk is gone"),
        (lambda: None, "the data: its source raised TypeError: .*a function is called"),
        (lambda path: [path], "the data: its source raised TypeError"),
        ([Unreadable()], "data batch 0: its source raised RuntimeError: no array"),
    ],
)
def test_what_the_source_raises_is_said_with_its_place(source, message):
    info = TensorInfo(name="x", shape=(-1, 3), dtype="float32")
    with pytest.raises(CalibrationError, match=message):
        list(open_data(source, [info]))
