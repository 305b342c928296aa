"""The ONNX importer: names, shapes, old operators, bad files."""

import numpy as np
import onnx
import pytest
from onnx import helper
from tvm import relax

from relay_int8 import ImportOptions, load_model
from relay_int8.errors import ConfigError, FrontendError, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, operator, results, shape
from relay_int8.notices import Notice
from tests.onnx_models import assert_close, model, run_onnx, run_relax

RNG = np.random.default_rng(0)
W = RNG.normal(size=(4, 3, 3, 3)).astype("float32")
X = RNG.normal(size=(1, 3, 8, 8)).astype("float32")
node = helper.make_node


def conv_relu(batch: int | str = 1, **names: str) -> onnx.ModelProto:
    x, c, y = (names.get(key, key) for key in ("x", "c", "y"))
    nodes = [node("Conv", [x, "w"], [c], "conv"), node("Relu", [c], [y], "relu")]
    return model(nodes, {x: (batch, 3, 8, 8)}, {y: (batch, 4, 6, 6)}, {"w": W})


@pytest.mark.fast
def test_names_survive():
    mod = import_onnx(conv_relu(x="in put.0", c="a.b/conv:0", y="123/out"))
    main = mod["main"]
    assert [param.name for param in main.params] == ["in put.0"]
    assert [var.name for var, _ in calls(main)] == ["a.b/conv:0", "123/out"]
    assert [var.name for var in results(main)] == ["123/out"]
    relax.analysis.well_formed(mod)


@pytest.mark.fast
def test_steps_in_between_are_named_after_their_output():
    bias = np.ones(4, "float32")
    nodes = [node("Conv", ["x", "w", "b"], ["y"])]
    mod = import_onnx(model(nodes, {"x": X.shape}, {"y": None}, {"w": W, "b": bias}))
    assert [var.name for var, _ in calls(mod["main"])] == ["y/conv2d", "y/reshape", "y"]


def test_identity_hands_on_the_output_name():
    nodes = [node("Relu", ["x"], ["r"]), node("Identity", ["r"], ["y"])]
    mod = import_onnx(model(nodes, {"x": X.shape}, {"y": None}))
    assert [(var.name, operator(value)) for var, value in calls(mod["main"])] == [("y", "nn.relu")]


def test_two_outputs_keep_their_order():
    nodes = [node("Relu", ["x"], ["a"]), node("Sigmoid", ["a"], ["b"])]
    proto = model(nodes, {"x": X.shape}, {"b": None, "a": None})
    mod = import_onnx(proto)
    assert [var.name for var in results(mod["main"])] == ["b", "a"]
    assert_close(run_relax(mod, X), run_onnx(proto, X))


@pytest.mark.fast
def test_open_batch_is_fixed():
    mod = import_onnx(conv_relu("N"), batch=3)
    assert shape(results(mod["main"])[0]) == (3, 4, 6, 6)


@pytest.mark.fast
def test_open_batch_is_one_with_a_notice():
    with pytest.warns(Notice, match=r"input x leaves its batch open \('N'\); batch 1 is taken"):
        mod = import_onnx(conv_relu("N"))
    assert shape(results(mod["main"])[0]) == (1, 4, 6, 6)


def test_only_what_is_open_is_filled():
    """A second input whose first extent is fixed keeps it, unless a batch is asked for."""
    nodes = [node("Relu", ["x"], ["y"]), node("Relu", ["rois"], ["z"])]
    proto = model(nodes, {"x": ("N", 3), "rois": (5, 4)}, {"y": ("N", 3), "z": (5, 4)})
    with pytest.warns(Notice):
        mod = import_onnx(proto)
    assert [shape(param) for param in mod["main"].params] == [(1, 3), (5, 4)]


@pytest.mark.parametrize("batch", [0, -1])
def test_batch_must_be_positive(batch: int):
    with pytest.raises(FrontendError, match="at least 1"):
        import_onnx(conv_relu("N"), batch=batch)


def test_open_image_size_is_named():
    nodes = [node("Relu", ["x"], ["y"])]
    proto = model(nodes, {"x": ("N", 3, "height", 8)}, {"y": None})
    with pytest.raises(FrontendError, match="input x leaves dimension 2 open \\('height'\\)"):
        import_onnx(proto, batch=1)


def test_open_image_size_is_fixed_by_the_shape_of_the_input(tmp_path):
    nodes = [node("Relu", ["x"], ["y"])]
    proto = model(nodes, {"x": ("N", 3, "height", "width")}, {"y": None})
    onnx.save(proto, tmp_path / "m.onnx")
    options = ImportOptions(inputs={"x": (2, 3, 4, 5)})
    mod = load_model(tmp_path / "m.onnx", options).module
    assert shape(results(mod["main"])[0]) == (2, 3, 4, 5)
    for batch, inputs, message in (
        (None, {"y": (1, 3, 4, 5)}, "the model has no such input; it has x"),
        (None, {"x": (1, 1, 4, 5)}, r"the file has \[N, 3, height, width\]; only extents"),
        (
            None,
            {"x": (1, 3, 4)},
            r"\{'x': \(1, 3, 4\)\}\): a shape of rank 3 given, 4 expected; the file has",
        ),
        (3, {"x": (2, 3, 4, 5)}, "and batch 3 are both asked for"),
    ):
        with pytest.raises(ConfigError, match=message):
            import_onnx(proto, batch=batch, inputs=inputs)


def test_static_batch_is_replaced():
    mod = import_onnx(conv_relu(1), batch=2)
    assert shape(results(mod["main"])[0]) == (2, 4, 6, 6)


@pytest.mark.parametrize("leading", [1, "N"])
def test_shapes_written_for_another_batch(leading: int | str):
    nodes = [node("Reshape", ["x", "s"], ["y"])]
    target = {"s": np.array([1, -1], "int64")}
    proto = model(nodes, {"x": (leading, 3, 8, 8)}, {"y": (leading, "k")}, target)
    with pytest.raises(FrontendError, match="written for batch 1: with batch 2 its output y"):
        import_onnx(proto, batch=2)


def test_an_output_without_a_batch_that_is_called_one():
    """As networks that judge speech name the extent of their four results."""
    nodes = [node("Reshape", ["x", "s"], ["y"])]
    target = {"s": np.array([4, -1], "int64")}
    proto = model(nodes, {"x": ("N", 3, 8, 8)}, {"y": ("N", "k")}, target)
    with pytest.warns(Notice, match=r"written for batch 4: with batch 1 its output y is \[4, 48\]"):
        mod = import_onnx(proto, inputs={"x": (1, 3, 8, 8)})
    assert shape(results(mod["main"])[0]) == (4, 48)


def test_batch_that_a_node_cannot_take():
    nodes = [node("Reshape", ["x", "s"], ["y"], "fixed")]
    target = {"s": np.array([1, 192], "int64")}
    proto = model(nodes, {"x": (1, 3, 8, 8)}, {"y": (1, 192)}, target)
    with pytest.raises(FrontendError, match=r"with batch 2: node fixed \(Reshape\)"):
        import_onnx(proto, batch=2)


def test_old_file_keeps_its_names():
    """IR version 3 lists weights among the inputs; the version converter must not rename."""
    proto = conv_relu(c="c.0/conv", y="y:0")
    proto.ir_version, proto.opset_import[0].version = 3, 7
    proto.graph.input.append(helper.make_tensor_value_info("w", onnx.TensorProto.FLOAT, W.shape))
    mod = import_onnx(proto)
    assert [param.name for param in mod["main"].params] == ["x"]
    assert [var.name for var, _ in calls(mod["main"])] == ["c.0/conv", "y:0"]


@pytest.mark.fast
def test_unsupported_operators_are_listed_at_once():
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("SoftmaxCrossEntropyLoss", ["a"], ["b"], "coin"),
        node("Frobnicate", ["b"], ["c"], domain="acme"),
        node("SoftmaxCrossEntropyLoss", ["c"], ["y"], "toss"),
    ]
    with pytest.raises(
        UnsupportedOpError, match=r"2 kinds.*SoftmaxCrossEntropyLoss \(coin, toss\); acme.Frob"
    ):
        import_onnx(model(nodes, {"x": X.shape}, {"y": None}))


def test_unsupported_attribute_names_the_node():
    widths = {"p": np.array([0, 0, -1, 0, 0, 0, 0, 0], "int64")}
    nodes = [node("Pad", ["x", "p"], ["y"], "crop", mode="wrap")]
    with pytest.raises(UnsupportedOpError, match=r"node crop \(Pad\).*negative widths.*wrap"):
        import_onnx(model(nodes, {"x": X.shape}, {"y": None}, widths))


def test_a_pad_that_crops_everything_is_refused():
    widths = {"p": np.array([0, 0, -X.shape[2], 1, 0, 0, 1, 0], "int64")}
    nodes = [node("Pad", ["x", "p"], ["y"], "crop")]
    with pytest.raises(UnsupportedOpError, match=r"leave nothing of"):
        import_onnx(model(nodes, {"x": X.shape}, {"y": None}, widths))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_broken_weights_are_named(value: float):
    proto = conv_relu()
    weights = W.copy()
    weights[0, 0, 0, 0] = value
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(weights, "w"))
    with pytest.raises(FrontendError, match="NaN or infinite values: w;"):
        import_onnx(proto)


@pytest.mark.parametrize("opset", [0, 999])
def test_opset_out_of_range(opset: int):
    proto = conv_relu()
    proto.opset_import[0].version = opset
    with pytest.raises(FrontendError, match=f"uses opset {opset}; opsets 1 to"):
        import_onnx(proto)


def test_missing_tensor():
    with pytest.raises(FrontendError, match="node relu reads 'nowhere'"):
        import_onnx(model([node("Relu", ["nowhere"], ["y"], "relu")], {"x": (1,)}, {"y": None}))


@pytest.mark.parametrize("values", [{}, {"text": 0}])
def test_inputs_of_strings_are_refused(values):
    proto = conv_relu()
    proto.graph.input.append(helper.make_tensor_value_info("text", onnx.TensorProto.STRING, [1]))
    with pytest.raises(UnsupportedOpError, match="input text holds strings"):
        import_onnx(proto, values=values)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("content", "found"),
    [
        (b"", "the file is empty"),
        (b"PK\x03\x04....", "zip archive: one of torch.export is named .pt2; load"),
        (b"<html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1", "Git LFS"),
        (b"\x18\0\0\0ORTM\0\0\0\0", "ONNX Runtime's own format"),
        (b"\xff\xfe garbage", "no ONNX model"),
        (onnx.ModelProto(ir_version=8).SerializeToString(), "no graph with nodes"),
        (conv_relu().SerializeToString()[:-40], "or only a part of one"),
    ],
)
def test_what_is_no_model_is_said(tmp_path, content: bytes, found: str):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(FrontendError, match=found):
        import_onnx(path)


def test_missing_file(tmp_path):
    with pytest.raises(FrontendError, match="no such file"):
        import_onnx(tmp_path / "model.onnx")


def test_external_weights(tmp_path):
    path = tmp_path / "model.onnx"
    onnx.save(conv_relu(), path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert_close(run_relax(import_onnx(path), X), run_onnx(conv_relu(), X))
    (tmp_path / "w.bin").unlink()
    with pytest.raises(FrontendError, match="external files"):
        import_onnx(path)


I64 = "int64"
F32 = "float32"
ONES = np.ones(3, F32)
CASES = {
    "batch_norm_7": (7, [node("BatchNormalization", ["x", "g", "b", "m", "v"], ["y"])],
                     {"g": ONES * 2, "b": ONES, "m": ONES / 2, "v": ONES * 3}),
    "clip_6": (7, [node("Clip", ["x"], ["y"], min=-0.5, max=0.5)], {}),
    "clip_11_max_only": (11, [node("Clip", ["x", "", "h"], ["y"])], {"h": np.float32(0.5)}),
    "clip_none": (13, [node("Relu", ["x"], ["r"]), node("Clip", ["r"], ["y"])], {}),
    "dropout_7": (7, [node("Dropout", ["x"], ["d"]), node("Relu", ["d"], ["y"])], {}),
    "pad_2": (7, [node("Pad", ["x"], ["y"], pads=[0, 0, 1, 2, 0, 0, 3, 0], value=0.5)], {}),
    "pad_that_crops": (13, [node("Pad", ["x", "p", "v"], ["y"])],
                       {"p": np.array([0, 0, 1, -2, 0, -1, -1, 3], I64), "v": np.float32(0.5)}),
    "pad_edge_that_crops": (13, [node("Pad", ["x", "p"], ["y"], mode="edge")],
                            {"p": np.array([0, 0, 2, -2, 0, -1, -1, 3], I64)}),
    "pad_reflect_that_crops": (13, [node("Pad", ["x", "p"], ["y"], mode="reflect")],
                               {"p": np.array([0, 0, 2, -2, 0, 0, -1, 3], I64)}),
    "pad_axes_18": (18, [node("Pad", ["x", "p", "", "a"], ["y"])],
                    {"p": np.array([1, 2], I64), "a": np.array([-1], I64)}),
    "pad_reflect": (13, [node("Pad", ["x", "p"], ["y"], mode="reflect")],
                    {"p": np.array([0, 0, 1, 2, 0, 0, 2, 1], I64)}),
    "slice_1": (7, [node("Slice", ["x"], ["y"], axes=[2, 3], starts=[1, -4], ends=[7, 999])], {}),
    "upsample_7": (7, [node("Upsample", ["x"], ["y"], scales=[1.0, 1.0, 2.0, 2.0])], {}),
    "upsample_9": (9, [node("Upsample", ["x", "s"], ["y"])], {"s": np.array([1, 1, 2, 2], F32)}),
    "upsample_9_linear": (9, [node("Upsample", ["x", "s"], ["y"], mode="linear")], {"s": np.array([1, 1, 3, 2], F32)}),
    "resize_10_linear": (10, [node("Resize", ["x", "s"], ["y"], mode="linear")], {"s": np.array([1, 1, 2, 0.5], F32)}),
    "resize_10_nearest": (10, [node("Resize", ["x", "s"], ["y"])], {"s": np.array([1, 1, 1.5, 2], F32)}),
    "resize_10_nearest_down": (10, [node("Resize", ["x", "s"], ["y"])], {"s": np.array([1, 1, 0.75, 0.5], F32)}),
    "softmax_1": (7, [node("Softmax", ["x"], ["y"], axis=1)], {}),
    "reduce_mean_1": (7, [node("ReduceMean", ["x"], ["y"], axes=[2, 3], keepdims=0)], {}),
    "reduce_mean_18": (18, [node("ReduceMean", ["x", "a"], ["y"])], {"a": np.array([2, 3], I64)}),
    "squeeze_1": (7, [node("ReduceMax", ["x"], ["r"], axes=[1]), node("Squeeze", ["r"], ["y"], axes=[1])], {}),
    "global_max_pool": (13, [node("GlobalMaxPool", ["x"], ["y"])], {}),
    "conv_same_upper": (13, [node("Conv", ["x", "w"], ["y"], auto_pad="SAME_UPPER", strides=[2, 2])], {"w": W}),
    "conv_same_lower": (13, [node("Conv", ["x", "w"], ["y"], auto_pad="SAME_LOWER", strides=[3, 2])], {"w": W}),
    "conv_dilated": (13, [node("Conv", ["x", "w"], ["y"], dilations=[2, 1], pads=[1, 0, 2, 1])], {"w": W}),
    "max_pool_same": (13, [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], auto_pad="SAME_UPPER")], {}),
    "max_pool_ceil": (13, [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)], {}),
    "avg_pool_pad": (13, [node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])], {}),
    "avg_pool_count_pad": (13, [node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1)], {}),
    "flatten_gemm": (13, [node("Flatten", ["x"], ["f"]), node("Gemm", ["f", "k", "b"], ["y"], alpha=0.5, beta=2.0, transB=1)],
                     {"k": RNG.normal(size=(5, 192)).astype(F32), "b": np.ones((1, 5), F32)}),
    "gemm_7": (7, [node("Flatten", ["x"], ["f"]), node("Gemm", ["f", "k", "b"], ["y"])],
               {"k": RNG.normal(size=(192, 5)).astype(F32), "b": np.ones(5, F32)}),
    "shape_arithmetic": (13, [
        node("Shape", ["x"], ["s"]), node("Gather", ["s", "zero"], ["n"], axis=0),
        node("Unsqueeze", ["n", "axes"], ["n1"]), node("Concat", ["n1", "minus"], ["t"], axis=0),
        node("Reshape", ["x", "t"], ["y"])],
        {"zero": np.array(0, I64), "axes": np.array([0], I64), "minus": np.array([-1], I64)}),
    "resize_by_shape": (13, [
        node("Shape", ["x"], ["s"]), node("Slice", ["s", "two", "four"], ["hw"]),
        node("Cast", ["hw"], ["f"], to=1), node("Mul", ["f", "k"], ["g"]), node("Floor", ["g"], ["h"]),
        node("Cast", ["h"], ["i"], to=7), node("Slice", ["s", "nil", "two"], ["nc"]),
        node("Concat", ["nc", "i"], ["z"], axis=0),
        node("Resize", ["x", "", "", "z"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
        {"nil": np.array([0], I64), "two": np.array([2], I64), "four": np.array([4], I64), "k": np.float32(2)}),
    "split": (13, [node("Split", ["x", "s"], ["a", "b"], axis=1), node("Concat", ["b", "a"], ["y"], axis=1)],
              {"s": np.array([1, 2], I64)}),
    "constants": (13, [node("Constant", [], ["k"], value_float=0.5), node("Mul", ["x", "k"], ["y"])], {}),
    "tile_is_a_kernel": (13, [node("Tile", ["x", "r"], ["t"]), node("Relu", ["t"], ["y"])], {"r": np.array([1, 2, 1, 1], I64)}),
    "sum_of_three": (13, [node("Relu", ["x"], ["r"]), node("Sum", ["x", "r", "x"], ["y"])], {}),
    "prelu": (9, [node("PRelu", ["x", "a"], ["y"])], {"a": np.array([0.1, 0.2, 0.3], F32).reshape(3, 1, 1)}),
    "leaky": (7, [node("LeakyRelu", ["x"], ["y"], alpha=0.3)], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_equals_onnxruntime(case: str):
    opset, nodes, weights = CASES[case]
    proto = model(nodes, {"x": X.shape}, {"y": None}, weights, opset)
    mod = import_onnx(proto)
    assert [var.name for var in results(mod["main"])] == ["y"]
    assert_close(run_relax(mod, X), run_onnx(proto, X))


def test_batch_norms_as_mxnet_exported_them():
    weights = {"g": ONES * 2, "b": ONES, "m": ONES / 2, "v": ONES * 3}
    norms = [
        node("BatchNormalization", ["x", *"gbmv"], ["y"], **spatial)
        for spatial in ({"spatial": 0}, {})
    ]
    ours, standard = (model([norm], {"x": X.shape}, {"y": None}, weights, 8) for norm in norms)
    assert_close(run_relax(import_onnx(ours), X), run_onnx(standard, X))
