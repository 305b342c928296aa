"""Open extents of inputs: what the user says of them, what follows, what is refused."""

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_int8.errors import ConfigError, FrontendError
from relay_int8.frontend.extents import Written, fixed_batch, input_shapes
from relay_int8.frontend.onnx import import_onnx
from relay_int8.frontend.options import Shapes
from relay_int8.graph.dataflow import results, shape
from relay_int8.notices import Notice
from tests.onnx_models import assert_close, model, run_onnx, run_relax

pytestmark = pytest.mark.fast

IDS: Written = {"ids": ("batch", "seq"), "mask": ("batch", "seq")}
IMAGE: Written = {"x": (1, 3, "height", None)}


@pytest.mark.parametrize(
    ("written", "given", "batch", "expected"),
    [
        pytest.param({"x": (1, 8)}, {}, None, {"x": [1, 8]}, id="nothing is open"),
        pytest.param({"x": (1, 8)}, {"x": (1, 8)}, None, {"x": [1, 8]}, id="said twice"),
        pytest.param({"x": (1, 8)}, {}, 4, {"x": [4, 8]}, id="another batch"),
        pytest.param({"x": (1, 8)}, {"x": (4, 8)}, None, {"x": [4, 8]}, id="by a shape"),
        pytest.param(IDS, {"ids": (1, 9)}, None, {"ids": [1, 9], "mask": [1, 9]}, id="labels"),
        pytest.param(IDS, {"mask": (2, 9)}, 2, {"ids": [2, 9], "mask": [2, 9]}, id="both"),
        pytest.param(IMAGE, {"x": (1, 3, 6, 5)}, None, {"x": [1, 3, 6, 5]}, id="no label"),
        pytest.param({"s": (), "x": ("n",)}, {}, 2, {"s": [], "x": [2]}, id="a scalar"),
    ],
)
def test_shapes(written: Written, given: Shapes, batch: int | None, expected: dict[str, list[int]]):
    assert input_shapes(written, given, batch) == expected


@pytest.mark.parametrize(
    ("written", "given", "batch", "message"),
    [
        (
            IDS,
            {"id": (1, 9)},
            None,
            r"\{'id': \(1, 9\)\}\): the model has no such input; it has ids, m",
        ),
        (
            IDS,
            {"ids": (9,)},
            None,
            r"\{'ids': \(9,\)\}\): a shape of rank 1 given, 2 expected; the file has \[batch, seq\]",
        ),
        ({"x": (1, 8)}, {"x": (1, 9)}, None, r"the file has \[1, 8\]; .* another shape"),
        (
            IDS,
            {"ids": (1, 9)},
            2,
            r"\{'ids': \(1, 9\)\}\) and batch 2 are both asked for; choose one",
        ),
        (IDS, {"ids": (1, 9), "mask": (1, 8)}, None, r"input mask: its dimension 'seq' would be 8"),
    ],
)
def test_shapes_that_do_not_go_with_the_file(
    written: Written, given: Shapes, batch: int | None, message: str
):
    with pytest.raises(ConfigError, match=message):
        input_shapes(written, given, batch)


@pytest.mark.parametrize(
    ("written", "batch", "message"),
    [
        (IDS, 1, r"input ids leaves dimension 1 open \('seq'\): .*\{'ids': \(1, 128\)\}"),
        (IMAGE, None, r"dimension 2 open .*\[1, 3, height, \?\].*\{'x': \(1, 3, 224, 224\)\}"),
        (
            {"x": (1, 0)},
            None,
            r"input x is \[1, 0\], its dimension 1 would be 0; extents are from 1",
        ),
    ],
)
def test_extents_that_stay_open(written: Written, batch: int | None, message: str):
    with pytest.raises(FrontendError, match=message):
        input_shapes(written, {}, batch)


def test_an_open_batch_is_one_with_a_notice():
    with pytest.warns(
        Notice, match=r"input x leaves its batch open \('n'\); batch 1 is taken"
    ) as all_:
        shapes = input_shapes({"x": ("n", 8), "y": ("n", 3), "z": (4, 2)}, {}, None)
    assert shapes == {"x": [1, 8], "y": [1, 3], "z": [4, 2]}
    assert len(all_) == 1


def test_the_batch_is_what_differs_from_the_file():
    assert fixed_batch(IDS, {"ids": (3, 9), "mask": (3, 9)}, None) == 3
    assert fixed_batch({"x": (1, 8)}, {"x": (1, 8)}, None) is None
    assert fixed_batch({"x": (1, 8)}, {"x": (4, 8)}, 4) == 4


def two_inputs() -> onnx.ModelProto:
    """Return the first two positions of one input less those of another."""
    nodes = [
        helper.make_node("Sub", ["x", "y"], ["d"]),
        helper.make_node("Slice", ["d", "begin", "end", "axis"], ["z"]),
    ]
    constants = {name: np.array([i], "int64") for name, i in (("begin", 0), ("end", 2))}
    inputs = {"x": ("batch", "length", 3), "y": ("batch", "length", 3)}
    return model(nodes, inputs, {"z": ("batch", 2, 3)}, constants | {"axis": np.array([1])})


def test_a_network_of_any_length():
    rng = np.random.default_rng(0)
    x, y = (rng.normal(size=(2, 5, 3)).astype("float32") for _ in range(2))
    mod = import_onnx(two_inputs(), inputs={"y": (2, 5, 3)})
    assert shape(results(mod["main"])[0]) == (2, 2, 3)
    assert_close(run_relax(mod, x, y), run_onnx(two_inputs(), x, y))
