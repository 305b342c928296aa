"""Results with as many rows as values say: what there is equals what ONNX Runtime gives."""

import numpy as np
import onnx
import pytest
from onnx import helper

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, results
from relay_int8.graph.spec_calls import spec_of
from relay_int8.notices import Notice
from tests.mxnet_models import run_lowered
from tests.onnx_models import BOXES_CHOSEN, BOXES_CHOSEN_BY, model, run_onnx

node = helper.make_node
RNG = np.random.default_rng(0)
X = RNG.normal(size=(6, 4)).astype("float32")
NUMBERS = {
    "zero": np.zeros((), "int64"), "first": np.array([0]), "one": np.array([1]),
    "last": np.array([-1]), "two": np.array([2]), "twelve": np.array([12]), "three": np.array([3]),
    "zeros": np.zeros(1, "float32"), "table": RNG.normal(size=(4, 3)).astype("float32"),
    "of_four": np.array([-1, 4]), "flat": np.array([-1]),
    "maximum": np.array([np.iinfo("int64").max]),
}  # fmt: skip
PLACES = [
    node("Greater", ["x", "zeros"], ["is_above"]),
    node("NonZero", ["is_above"], ["axes_first"]),
    node("Transpose", ["axes_first"], ["places"], perm=[1, 0]),
    node("GatherND", ["x", "places"], ["values"]),
]
"""x[x > 0], and where they are."""
ROWS = [
    node("Gather", ["places", "zero"], ["row"], axis=1),
    node("Gather", ["x", "row"], ["rows"], axis=0),
]
"""The row of each of them, all of it."""


def ending(nodes, inputs, outputs, constants=NUMBERS) -> onnx.ModelProto:
    """Return a model whose outputs are of the types that its nodes give."""
    proto = model(nodes, inputs, {}, constants)
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
    return proto


def run(proto: onnx.ModelProto, *arrays: np.ndarray) -> dict[str, np.ndarray]:
    """Return the outputs of the imported network, cut to the rows that it says there are."""
    with pytest.warns(Notice, match=r"as many rows as values say.*, \w+\.rows, says how many"):
        mod = import_onnx(proto)
    names = [str(var.name) for var in results(mod["main"])]
    return dict(zip(names, run_lowered(mod, *arrays), strict=True))


def assert_same(proto: onnx.ModelProto, *arrays: np.ndarray, axis: int = 0) -> None:
    """Compare each output with ONNX Runtime's, all of which have one number of rows."""
    found = run(proto, *arrays)
    (number,) = next(value for name, value in found.items() if name.endswith(".rows"))
    for declared, wanted in zip(proto.graph.output, run_onnx(proto, *arrays), strict=True):
        y = found[declared.name]
        if y.shape == wanted.shape:
            np.testing.assert_allclose(y, wanted, rtol=1e-6)
            continue
        there, rest = np.split(y, [number], axis)
        assert there.dtype == wanted.dtype
        np.testing.assert_allclose(there, wanted, rtol=1e-6, atol=1e-6)
        assert rest.size and not rest.any()


BEHIND = {
    "values": [],
    "arithmetic": [
        node("Mul", ["values", "values"], ["squares"]),
        node("Cast", ["squares"], ["y"], to=11),
    ],
    "truths": [node("Greater", ["values", "half"], ["y"])],
    "bytes": [node("Cast", ["values"], ["y"], to=2)],
    "table": [node("MatMul", ["rows", "table"], ["y"])],
    "dense": [node("Gemm", ["rows", "table"], ["y"])],
    "row_wise": [
        node("Softmax", ["rows"], ["shares"], axis=1),
        node("ReduceMax", ["shares"], ["y"], axes=[1], keepdims=0),
    ],
    "best": [node("ArgMax", ["rows"], ["y"], axis=1, keepdims=1)],
    "first_two": [node("Slice", ["values", "first", "two", "first"], ["y"])],
    "behind_two": [node("Slice", ["rows", "two", "maximum", "first"], ["y"])],
    "columns": [node("Slice", ["rows", "one", "three", "last"], ["y"])],
    "pairs": [node("Unsqueeze", ["rows", "one"], ["y"])],
    "squeezed": [
        node("Unsqueeze", ["values", "first"], ["turned"]),
        node("Squeeze", ["turned", "first"], ["y"]),
    ],
    "flattened": [node("Flatten", ["rows"], ["y"], axis=1)],
    "in_a_row": [node("Reshape", ["rows", "flat"], ["y"])],
    "back": [node("Reshape", ["rows", "flat"], ["row_by_row"]),
             node("Reshape", ["row_by_row", "of_four"], ["y"])],
    "beside": [node("Concat", ["rows", "rows"], ["y"], axis=1)],
    "halves": [node("Split", ["rows"], ["y", "z"], axis=1)],
    "sums": [node("CumSum", ["values", "zero"], ["y"])],
    "joined": [node("Concat", ["values", "zeros", "values"], ["y"], axis=0)],
    "chosen_again": [
        node("Greater", ["values", "half"], ["is_high"]),
        node("NonZero", ["is_high"], ["which"]),
        node("Gather", ["values", "which"], ["all_high"], axis=0),
        node("Squeeze", ["all_high", "first"], ["y"]),
    ],
    "compressed": [
        node("Greater", ["values", "half"], ["is_high"]),
        node("Compress", ["rows", "is_high"], ["y"], axis=0),
    ],
    "highest": [node("TopK", ["values", "three"], ["y", "z"], axis=0)],
    "lowest": [node("TopK", ["values", "three"], ["y", "z"], axis=0, largest=0)],
    "of_some": [
        node("Shape", ["values"], ["size"]),
        node("Concat", ["size", "twelve"], ["sizes"], axis=0),
        node("ReduceMin", ["sizes"], ["k"], keepdims=1),
        node("TopK", ["values", "k"], ["y", "z"], axis=0),
    ],
    "made": [
        node("Shape", ["rows"], ["size"], start=0, end=1),
        node("ConstantOfShape", ["size"], ["y"], value=helper.make_tensor("v", 1, [1], [3.0])),
    ],
    "counted": [
        node("Shape", ["values"], ["shape"]),
        node("Gather", ["shape", "zero"], ["number"]),
        node("Add", ["number", "zero"], ["limit"]),
        node("Range", ["zero", "limit", "unit"], ["y"]),
    ],
    "from_the_end": [
        node("Shape", ["values"], ["shape"]),
        node("Gather", ["shape", "zero"], ["number"]),
        node("Range", ["zero", "number", "unit"], ["numbers"]),
        node("Sub", ["numbers", "number"], ["from_end"]),
        node("Gather", ["values", "from_end"], ["y"], axis=0),
    ],
    "wide": [
        node("Shape", ["values"], ["size"]),
        node("Concat", ["two", "size"], ["sizes"], axis=0),
        node("Unsqueeze", ["values", "first"], ["row_of_values"]),
        node("Expand", ["row_of_values", "sizes"], ["twice"]),
        node("Transpose", ["twice"], ["y"]),
    ],
    "expanded": [
        node("Shape", ["values"], ["size"]),
        node("Concat", ["size", "last"], ["sizes"], axis=0),
        node("ConstantOfShape", ["two"], ["ones"], value=helper.make_tensor("v", 7, [1], [1])),
        node("Neg", ["ones"], ["minus_ones"]),
        node("Equal", ["sizes", "minus_ones"], ["is_kept"]),
        node("Where", ["is_kept", "ones", "sizes"], ["target"]),
        node("Expand", ["rows", "target"], ["y"]),
    ],
    "filled": [
        node("Shape", ["values"], ["size"]),
        node("Expand", ["ten", "size"], ["tens"]),
        node("Add", ["tens", "values"], ["y"]),
    ],
    "number": [
        node("Shape", ["values"], ["size"]),
        node("Cast", ["size"], ["real"], to=1),
        node("Div", ["values", "real"], ["y"]),
    ],
    "choice": [
        node("Shape", ["values"], ["size"]),
        node("Greater", ["size", "three"], ["is_long"]),
        node("Where", ["is_long", "values", "zeros"], ["y"]),
    ],
    "as_many": [
        node("Shape", ["values"], ["size"]),
        node("Slice", ["long_row", "first", "size", "first"], ["y"]),
    ],
}  # fmt: skip
"""What may follow: each ends in y, and maybe z."""


@pytest.mark.parametrize("name", BEHIND)
def test_what_follows(name):
    nodes = [*PLACES, *ROWS, *BEHIND[name]]
    ends = [y for y in ("y", "z") if any(y in each.output for each in nodes)] or ["values"]
    constants = NUMBERS | {"half": np.float32([0.5]), "ten": np.float32(10), "unit": np.array(1)}
    constants |= {"long_row": np.arange(X.size * 2, dtype="float32")}
    assert_same(ending(nodes, {"x": X.shape}, ends, constants), X)


def test_how_many_there_are_is_computed():
    nodes = [
        *PLACES,
        node("Shape", ["places"], ["y"]),
        node("Size", ["places"], ["size"]),
        node("Mul", ["size", "three"], ["z"]),
        node("Equal", ["size", "zero"], ["is_none"]),
        node("Cast", ["is_none"], ["w"], to=6),
    ]
    proto = ending(nodes, {"x": X.shape}, ["y", "z", "w"])
    mod = import_onnx(proto)
    for x in (X, -np.abs(X)):
        for y, wanted in zip(run_lowered(mod, x), run_onnx(proto, x), strict=True):
            np.testing.assert_array_equal(y, wanted)
            assert y.dtype == wanted.dtype


def test_a_branch_for_no_rows_is_left_out():
    """PyTorch asks whether there is any box, and makes none where there is none."""
    branches = [
        helper.make_graph([node("Identity", [name], ["b"])], "branch", [],
                          [helper.make_tensor_value_info("b", 1, None)])
        for name in ("nothing", "values")
    ]  # fmt: skip
    nodes = [
        *PLACES,
        node("Size", ["values"], ["size"]),
        node("Equal", ["size", "zero"], ["is_none"]),
        node("If", ["is_none"], ["y"], then_branch=branches[0], else_branch=branches[1]),
    ]
    constants = NUMBERS | {"nothing": np.zeros(0, "float32")}
    assert_same(ending(nodes, {"x": X.shape}, ["y"], constants), X)


@pytest.mark.fast
def test_loops_over_rows_are_refused():
    body = helper.make_graph(
        [node("Identity", ["going"], ["goes"]), node("Add", ["sum", "sum"], ["twice"])], "body",
        [helper.make_tensor_value_info("run", 7, []), helper.make_tensor_value_info("going", 9, []),
         helper.make_tensor_value_info("sum", 1, None)],
        [helper.make_tensor_value_info("goes", 9, []),
         helper.make_tensor_value_info("twice", 1, None)],
    )  # fmt: skip
    nodes = [
        *PLACES,
        node("Size", ["values"], ["size"]),
        node("Loop", ["size", "", "x"], ["y"], "runs", body=body),
    ]
    with pytest.raises(UnsupportedOpError, match=r"node runs \(Loop\).* as many rows as values"):
        import_onnx(ending(nodes, {"x": X.shape}, ["y"]))


@pytest.mark.parametrize("most", [4, 30])
def test_padding_to_a_length_that_is_known(most):
    """As YOLO's exporter writes detections: some of them, then zeros; the result is no longer."""
    nodes = [
        *PLACES,
        *ROWS,
        node("Slice", ["rows", "first", "most", "first"], ["some"]),
        node("Shape", ["some"], ["dims"]),
        node("Gather", ["dims", "zero"], ["number"]),
        node("Sub", ["most_of", "number"], ["left"]),
        node("Unsqueeze", ["left", "first"], ["left_row"]),
        node("Concat", ["zero_row", "zero_row", "left_row", "zero_row"], ["widths"], axis=0),
        node("Pad", ["some", "widths", "seven"], ["y"]),
        node("ReduceMean", ["y"], ["z"]),
    ]
    constants = NUMBERS | {"most": np.array([most]), "most_of": np.array(most)}
    constants |= {"zero_row": np.array([0]), "seven": np.float32(7)}
    proto = ending(nodes, {"x": X.shape}, ["y", "z"], constants)
    mod = import_onnx(proto)
    assert [str(var.name) for var in results(mod["main"])] == ["y", "z"]
    for y, wanted in zip(run_lowered(mod, X), run_onnx(proto, X), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-6)


def test_none_and_all():
    proto = ending(PLACES, {"x": X.shape}, ["values", "places"])
    for x, number in ((-np.abs(X), 0), (np.abs(X) + 1, X.size)):
        found = run(proto, x)
        assert found["values.rows"] == [number]
        np.testing.assert_array_equal(found["values"], x.ravel() * (number > 0))
        np.testing.assert_array_equal(found["places"][:number], np.argwhere(x > 0))


def test_places_are_the_second_axis():
    assert_same(ending(PLACES[:2], {"x": X.shape}, ["axes_first"]), X, axis=1)


def test_extremes_of_what_there_is():
    """The rest of the values is neither the least nor the highest, nor in the sum."""
    nodes = [
        *PLACES,
        node("Sub", ["values", "ten"], ["low"]),
        *[node(f"Reduce{kind}", ["low"], [kind.lower()], keepdims=0) for kind in ("Max", "Min")],
        node("ReduceSum", ["low"], ["sum"], keepdims=0),
        node("ReduceMax", ["places"], ["farthest"], axes=[0]),
        node("ReduceMin", ["places"], ["nearest"], axes=[0]),
    ]
    constants, ends = NUMBERS | {"ten": np.float32(10)}, ["low", "max", "min", "sum"]
    assert_same(ending(nodes, {"x": X.shape}, [*ends, "farthest", "nearest"], constants), X)


def test_rows_are_read_together():
    """Only those that are there: means, shares of all rows, sums of their products, the best one."""
    nodes = [
        *PLACES,
        *ROWS,
        node("ReduceMean", ["rows"], ["mean"], keepdims=0),
        node("ReduceMean", ["rows"], ["means"], axes=[0]),
        node("Softmax", ["rows"], ["shares"], axis=0),
        node("Transpose", ["rows"], ["columns"]),
        node("MatMul", ["columns", "shares"], ["products"]),
        node("Neg", ["values"], ["negative"]),
        node("ArgMax", ["negative"], ["least"], axis=0),
    ]
    ends = ["shares", "mean", "means", "products", "least"]
    assert_same(ending(nodes, {"x": X.shape}, ends), X)


def test_an_image_is_read_at_places_that_were_found():
    """As SuperPoint reads descriptions at its points."""
    image = RNG.normal(size=(1, 3, 6, 4)).astype("float32")
    nodes = [
        *PLACES,
        node("Cast", ["places"], ["real"], to=1),
        node("Div", ["real", "four"], ["near"]),
        node("Unsqueeze", ["near", "both"], ["grid"]),
        node("GridSample", ["image", "grid"], ["found"], align_corners=1),
        node("Squeeze", ["found", "both_of_four"], ["columns"]),
        node("Transpose", ["columns"], ["y"]),
    ]
    constants = NUMBERS | {"four": np.float32(4), "both": np.array([0, 1])}
    constants |= {"both_of_four": np.array([0, 2])}
    inputs = {"x": X.shape, "image": image.shape}
    assert_same(ending(nodes, inputs, ["y"], constants), X, image)


def test_rows_are_written_where_they_belong():
    """As Faster R-CNN puts together what it computes of the boxes of each level."""
    nodes = [
        node("ReduceSum", ["x", "one"], ["sums"], keepdims=0),
        node("Greater", ["sums", "zeros"], ["is_above"]),
        node("NonZero", ["is_above"], ["place"]),
        node("Squeeze", ["place", "first"], ["row"]),
        node("Gather", ["x", "row"], ["rows"], axis=0),
        node("Mul", ["rows", "rows"], ["squares"]),
        node("Unsqueeze", ["row", "one"], ["column"]),
        node("Shape", ["squares"], ["dims"]),
        node("Expand", ["column", "dims"], ["everywhere"]),
        node("ScatterElements", ["x", "everywhere", "squares"], ["y"], axis=0),
        node("ScatterND", ["x", "column", "squares"], ["z"]),
    ]
    proto = model(nodes, {"x": X.shape}, {"y": None, "z": None}, NUMBERS)
    found = dict(zip("yz", run_lowered(import_onnx(proto), X), strict=True))
    for name, wanted in zip("yz", run_onnx(proto, X), strict=True):
        np.testing.assert_array_equal(found[name], wanted)


@pytest.mark.parametrize("classes", [1, 3])
@pytest.mark.parametrize("by_centre", [0, 1])
def test_boxes_are_kept_in_the_order_of_onnx(classes, by_centre):
    """Image by image, class by class; corners in any order; without a limit that is reached."""
    low = RNG.integers(0, 9, (2, 30, 2))
    boxes = np.concatenate([low, low + RNG.integers(1, 6, low.shape)], -1).astype("float32")
    boxes[:, ::3] = boxes[:, ::3][..., [2, 3, 0, 1]] if not by_centre else boxes[:, ::3]
    scores = RNG.permutation(2 * classes * 30).reshape(2, classes, 30).astype("float32") / 100
    limits = {"most": np.array([7]), "iou": np.float32([0.3]), "least": np.float32([0.4])}
    nodes = [
        node("NonMaxSuppression", ["boxes", "scores", *limits], ["y"], center_point_box=by_centre),
        node("Gather", ["y", "zero"], ["image"], axis=1),
        node("Gather", ["y", "third"], ["box"], axis=1),
        node("Unsqueeze", ["image", "last"], ["i"]),
        node("Unsqueeze", ["box", "last"], ["j"]),
        node("Concat", ["i", "j"], ["ij"], axis=1),
        node("GatherND", ["boxes", "ij"], ["kept"]),
    ]
    constants = NUMBERS | limits | {"third": np.array(2)}
    inputs = {"boxes": boxes.shape, "scores": scores.shape}
    assert_same(ending(nodes, inputs, ["y", "kept"], constants), boxes, scores)


def test_boxes_that_were_chosen_are_suppressed():
    """Boxes with a score above a threshold, of which the best ones are kept: torchvision's way."""
    low = RNG.integers(0, 9, (40, 2))
    boxes = np.concatenate([low, low + RNG.integers(1, 6, low.shape)], -1).astype("float32")
    scores = RNG.permutation(40).astype("float32") / 40
    nodes = [
        *BOXES_CHOSEN,
        node("Slice", ["order", "first", "three", "first"], ["three_of_them"]),
        node("Gather", ["rivals", "three_of_them"], ["y"], axis=0),
        node("Gather", ["best", "three_of_them"], ["z"], axis=0),
    ]
    constants = NUMBERS | BOXES_CHOSEN_BY
    inputs = {"scores": scores.shape, "x": boxes.shape}
    proto = model(nodes, inputs, {"y": None, "z": None}, constants)
    found = run(proto, scores, boxes)
    for name, wanted in zip("yz", run_onnx(proto, scores, boxes), strict=True):
        np.testing.assert_array_equal(found[name][: len(wanted)], wanted)
    assert found["y.rows"] == [len(run_onnx(proto, scores, boxes)[0])]
    with pytest.warns(Notice):
        mod = import_onnx(proto)
    specs = [spec_of(value) for _, value in calls(mod["main"])]
    assert [spec.max_output for spec in specs if spec and spec.compares] == [3]  # that are read


REFUSED = {
    "reversed": [node("Slice", ["values", "last", "minus", "first", "last"], ["y"])],
    "padding": [node("Pad", ["rows", "one_row"], ["y"])],
    "last_row": [node("Gather", ["rows", "last"], ["y"], axis=0)],
    "of_both": [
        node("Transpose", ["rows"], ["columns"]),
        node("MatMul", ["rows", "columns"], ["y"]),
    ],
    "product": [node("ReduceProd", ["values"], ["y"])],
    "backwards": [node("CumSum", ["values", "zero"], ["y"], reverse=1)],
}


@pytest.mark.fast
@pytest.mark.parametrize("name", REFUSED)
def test_what_mixes_rows_is_refused(name):
    constants = NUMBERS | {"minus": np.array([-7]), "one_row": np.array([0, 0, 1, 0])}
    proto = model([*PLACES, *ROWS, *REFUSED[name]], {"x": X.shape}, {"y": None}, constants)
    with pytest.raises(UnsupportedOpError, match=r"rows.*make outputs of .*outputs=\['"):
        import_onnx(proto)


@pytest.mark.fast
def test_room_has_bounds():
    limits = {"most": np.array([100_000])}
    proto = model(
        [node("NonMaxSuppression", ["boxes", "scores", "most"], ["y"])],
        {"boxes": (1, 100_000, 4), "scores": (1, 80, 100_000)}, {"y": None}, limits,
    )  # fmt: skip
    with pytest.raises(UnsupportedOpError, match="4194304 rows are the most"):
        import_onnx(proto)
