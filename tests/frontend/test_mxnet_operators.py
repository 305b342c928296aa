"""Every imported MXNet operator against NumPy, or ONNX Runtime's operator of the same meaning."""

import numpy as np
import pytest
from onnx import helper

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.frontend.mxnet.converters import CONVERTERS
from relay_int8.frontend.mxnet.reshapes import reshaped
from tests.frontend.mxnet_composed_operators import COMPOSED
from tests.frontend.mxnet_operators import IMAGE, PLAIN, WEIGHTED
from tests.frontend.mxnet_sequence_operators import SEQUENCES
from tests.mxnet_models import MxnetModel, run_fast
from tests.onnx_models import model, run_onnx


def arrays(*shapes):
    rng = np.random.default_rng(sum(map(len, shapes)))
    return [
        shape if isinstance(shape, np.ndarray) else rng.normal(size=shape).astype("float32")
        for shape in shapes
    ]


def weights(*shapes):
    """Weights by position; all of them positive, as variances must be."""
    rng = np.random.default_rng(7)
    return [rng.uniform(0.2, 1.5, shape).astype("float32") for shape in shapes]


def computed(tmp_path, op, inputs, attrs, given=(), outputs=1):
    """Run a network of one operator; ``given`` are its weights."""
    net = MxnetModel()
    data = [net.variable(f"x{i}") for i in range(len(inputs))]
    held = [net.variable(f"w{i}", w) for i, w in enumerate(given)]
    y = net.op(op, "y", *data, *held, **attrs)
    shapes = {f"x{i}": x.shape for i, x in enumerate(inputs)}
    mod = net.imported(tmp_path, *[(y[0], place) for place in range(outputs)], **shapes)
    used = [inputs[int(str(param.name)[1:])] for param in mod["main"].params]
    return run_fast(mod, *used)


def check(found, expected):
    assert found.shape == expected.shape
    assert found.dtype != "float64"
    bound = 1e-4 * max(np.abs(expected).max(), 1e-6)
    np.testing.assert_allclose(found, expected, rtol=0, atol=bound)


@pytest.mark.parametrize(
    ("op", "attrs", "shapes", "held", "reference"),
    WEIGHTED,
    ids=[f"{row[0]}-{place}" for place, row in enumerate(WEIGHTED)],
)
def test_operators_with_weights(tmp_path, op, attrs, shapes, held, reference):
    inputs, given = arrays(*shapes), weights(*held)
    (found,) = computed(tmp_path, op, inputs, attrs, given)
    check(found, np.asarray(reference(*inputs, *given)))


@pytest.mark.parametrize(
    ("op", "attrs", "shapes", "reference"),
    PLAIN,
    ids=[f"{row[0]}-{place}" for place, row in enumerate(PLAIN)],
)
def test_operators(tmp_path, op, attrs, shapes, reference):
    inputs = arrays(*shapes)
    (found,) = computed(tmp_path, op, inputs, attrs)
    check(found, np.asarray(reference(*inputs)))


@pytest.mark.parametrize(
    ("op", "attrs", "shapes", "reference"),
    SEQUENCES,
    ids=[f"{row[0]}-{place}" for place, row in enumerate(SEQUENCES)],
)
def test_operators_on_sequences(tmp_path, op, attrs, shapes, reference):
    inputs = arrays(*shapes)
    (found,) = computed(tmp_path, op, inputs, attrs)
    check(found, np.asarray(reference(*inputs), "float32"))


@pytest.mark.parametrize(
    ("op", "attrs", "shapes", "reference"),
    COMPOSED,
    ids=[f"{row[0]}-{place}" for place, row in enumerate(COMPOSED)],
)
def test_composed_operators(tmp_path, op, attrs, shapes, reference):
    inputs = arrays(*shapes)
    (found,) = computed(tmp_path, op, inputs, attrs)
    check(found, np.asarray(reference(*inputs), "float32"))


@pytest.mark.parametrize(
    ("op", "attrs", "expected"),
    [
        ("_arange", {"start": 1, "stop": 7, "step": 2}, [1, 3, 5]),
        ("_arange", {"start": 2, "repeat": 2}, [0, 0, 1, 1]),
        ("_full", {"shape": (3,), "value": 0.5}, [0.5, 0.5, 0.5]),
        ("_ones", {"shape": (2,)}, [1, 1]),
        ("_zeros", {"shape": "(3,)", "dtype": "float16"}, [0, 0, 0]),
        ("_eye", {"N": 2, "M": 3, "k": 1}, [[0, 1, 0], [0, 0, 1]]),
        ("_linspace", {"start": 1, "stop": 2, "num": 3}, [1, 1.5, 2]),
    ],
)
def test_numbers_alone(tmp_path, op, attrs, expected):
    net = MxnetModel()
    y = net.op("broadcast_add", "y", net.variable("x"), net.op(op, "numbers", **attrs))
    x = np.float32([[0.25]])
    check(run_fast(net.imported(tmp_path, y, x=x.shape), x)[0], x + np.float32(expected))


def test_anchor_boxes(tmp_path):
    """Around each pixel all sizes of the first ratio, then the other ratios."""
    x = np.zeros((1, 3, 2, 4), "float32")
    attrs = {"sizes": (0.5, 0.25), "ratios": (1, 4), "clip": "True"}
    net = MxnetModel()
    data = net.variable("x")
    boxes = net.op("_contrib_MultiBoxPrior", "boxes", data, **attrs)
    found, _ = run_fast(net.imported(tmp_path, boxes, data, x=x.shape), x)
    assert found.shape == (1, 2 * 4 * 3, 4)
    halves = np.array([[0.125, 0.25], [0.0625, 0.125], [0.25, 0.125]])
    center = np.array([1.5 / 4, 0.5 / 2])
    wanted = np.concatenate([center - halves, center + halves], 1).clip(0, 1)
    check(found[0, 3:6], wanted.astype("float32"))


@pytest.mark.parametrize("op", ["log", "rsqrt", "sqrt"])
def test_functions_of_positive_numbers(tmp_path, op):
    (x,) = weights(IMAGE)
    reference = {"log": np.log, "rsqrt": lambda x: 1 / np.sqrt(x), "sqrt": np.sqrt}[op]
    check(computed(tmp_path, op, [x], {})[0], reference(x))


@pytest.mark.parametrize(
    ("op", "attrs", "expected"),
    [
        ("SliceChannel", {"num_outputs": 3}, lambda x: np.split(x, 3, 1)),
        ("split", {"num_outputs": 2, "axis": 0, "squeeze_axis": True}, lambda x: [x[0], x[1]]),
        ("_split_v2", {"indices": (0, 2, 5), "axis": 1}, lambda x: np.split(x, [2, 5], 1)),
        ("_split_v2", {"sections": 3, "axis": 3}, lambda x: np.split(x, 3, 3)),
        ("amp_multicast", {"num_outputs": 1}, lambda x: [x]),
    ],
)
def test_operators_with_several_results(tmp_path, op, attrs, expected):
    (x,) = arrays(IMAGE)
    parts = expected(x)
    found = computed(tmp_path, op, [x], attrs, outputs=len(parts))
    for part, wanted in zip(found, parts, strict=True):
        check(part, wanted)


def test_bilinear_resize_puts_corners_on_corners(tmp_path):
    x = np.arange(4, dtype="float32").reshape(1, 1, 2, 2)
    (found,) = computed(tmp_path, "_contrib_BilinearResize2D", [x], {"height": 3, "width": 3})
    check(found[0, 0], np.array([[0, 0.5, 1], [1, 1.5, 2], [2, 2.5, 3]], "float32"))


def test_bilinear_resize_to_one_pixel(tmp_path):
    (x,) = arrays((1, 2, 3, 4))
    (found,) = computed(tmp_path, "_contrib_BilinearResize2D", [x], {"height": 1, "width": 1})
    check(found, x[:, :, :1, :1])
    with pytest.raises(UnsupportedOpError, match="corners of a single pixel"):
        computed(tmp_path, "_contrib_BilinearResize2D", [x], {"height": 1, "width": 3})


@pytest.mark.parametrize(
    ("attrs", "size"),
    [
        ({"mode": "like"}, (5, 4)),
        ({"mode": "odd_scale", "scale_height": 2, "scale_width": 2}, (13, 16)),
        ({"mode": "to_even_up"}, (8, 8)),
        ({"mode": "to_odd_down"}, (7, 7)),
    ],
)
def test_bilinear_resize_to_other_sizes(tmp_path, attrs, size):
    """Centers on centers, as ONNX's half_pixel, where corners are not aligned."""
    inputs = arrays((1, 2, 7, 8), (1, 3, 5, 4))[: 2 if attrs["mode"] == "like" else 1]
    attrs = {**attrs, "align_corners": "False"}
    (found,) = computed(tmp_path, "_contrib_BilinearResize2D", inputs, attrs)
    node = helper.make_node("Resize", ["x", "", "", "sizes"], ["y"], mode="linear")
    weights = {"sizes": np.array([1, 2, *size])}
    check(found, run_onnx(model([node], {"x": (1, 2, 7, 8)}, {"y": None}, weights), inputs[0])[0])


@pytest.mark.parametrize(
    ("attrs", "shapes", "expected"),
    [
        ({}, [(2, 6), (3, 4)], (3, 4)),
        ({"lhs_begin": 1, "rhs_begin": 1, "rhs_end": 3}, [(2, 12), (5, 3, 4)], (2, 3, 4)),
        ({"lhs_begin": 0, "lhs_end": 2, "rhs_begin": 0, "rhs_end": 1}, [(2, 3, 4), (6, 9)], (6, 4)),
    ],
)
def test_reshape_like_of_some_axes(tmp_path, attrs, shapes, expected):
    inputs = arrays(*shapes)
    (found,) = computed(tmp_path, "reshape_like", inputs, attrs)
    np.testing.assert_array_equal(found, inputs[0].reshape(expected))


def test_group_norm(tmp_path):
    (x,), (gamma, beta) = arrays(IMAGE), weights((6,), (6,))
    (found,) = computed(tmp_path, "GroupNorm", [x], {"num_groups": 3}, [gamma, beta])
    rows = x.reshape(2, 3, -1)
    normal = (rows - rows.mean(2, keepdims=True)) / np.sqrt(rows.var(2, keepdims=True) + 1e-5)
    check(found, normal.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None])


def boxes():
    rng = np.random.default_rng(1)
    corners = np.sort(rng.uniform(0, 22, (2, 7, 2)), axis=0)
    return np.concatenate([rng.integers(0, 2, (7, 1)), *corners], 1).astype("float32")


def test_roi_pooling(tmp_path):
    """The example of MXNet's manual."""
    x = np.arange(48, dtype="float32").reshape(1, 1, 8, 6)
    rois = np.array([[0, 0, 0, 4, 4]], "float32")
    for scale, expected in ((1.0, [[14, 16], [26, 28]]), (0.7, [[7, 9], [19, 21]])):
        attrs = {"pooled_size": (2, 2), "spatial_scale": scale}
        (found,) = computed(tmp_path, "ROIPooling", [x, rois], attrs)
        np.testing.assert_array_equal(found[0, 0], expected)


@pytest.mark.parametrize("aligned", [False, True])
def test_roi_align(tmp_path, aligned):
    (x,), rois = arrays((2, 3, 12, 16)), boxes()
    attrs = {"pooled_size": (3, 4), "spatial_scale": 0.5, "sample_ratio": 2, "aligned": aligned}
    (found,) = computed(tmp_path, "_contrib_ROIAlign", [x, rois], attrs)
    node = helper.make_node(
        "RoiAlign", ["x", "boxes", "images"], ["y"], output_height=3, output_width=4,
        sampling_ratio=2, spatial_scale=0.5,
        coordinate_transformation_mode="half_pixel" if aligned else "output_half_pixel",
    )  # fmt: skip
    weights = {"images": rois[:, 0].astype("int64")}
    proto = model([node], {"x": x.shape, "boxes": (7, 4)}, {"y": None}, weights)
    check(found, run_onnx(proto, x, rois[:, 1:])[0])


@pytest.mark.fast
def test_a_region_without_extent_is_zero(tmp_path):
    """Samples are as many as a part has pixels: none."""
    (x,) = arrays((1, 3, 12, 16))
    rois = np.array([[0, 4, 4, 4, 4], [0, 1, 1, 9, 9]], "float32")
    attrs = {"pooled_size": (2, 2), "spatial_scale": 1.0, "aligned": True}
    (found,) = computed(tmp_path, "_contrib_ROIAlign", [x, rois], attrs)
    assert not found[0].any() and found[1].any()


@pytest.mark.fast
@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ((6, -1), (6, 20)), ((0, 0, 20), (2, 3, 20)), ((0, -2), (2, 3, 4, 5)), ((-3, -3), (6, 20)),
        ((0, -3, -2), (2, 12, 5)), ((-4, 1, 2, -2), (1, 2, 3, 4, 5)),
        ((0, -4, -1, 3, -2), (2, 1, 3, 4, 5)), ((-1,), (120,)),
    ],
)  # fmt: skip
def test_special_numbers_of_reshape(target, expected):
    assert reshaped((2, 3, 4, 5), target) == expected


@pytest.mark.fast
@pytest.mark.parametrize(
    "target",
    [(7, -1), (-1, -1), (-4, 3, -1, -2), (0, 0, 0, 0, 0), (-5,), (-4, 2), (-3, -3, -3), ()],
)
def test_reshapes_that_do_not_fit(target):
    with pytest.raises(ValueError, match="a reshape of"):
        reshaped((2, 3, 4, 5), target)


@pytest.mark.parametrize(
    ("op", "attrs", "shapes", "error", "message"),
    [
        ("Convolution", {"kernel": (9, 9), "num_filter": 1}, [IMAGE, (1, 6, 9, 9), (1,)], FrontendError,
         r"its result would be"),
        ("Convolution", {"kernel": (3, 3), "num_filter": 4, "stride": (0, 1)},
         [IMAGE, (4, 6, 3, 3), (4,)], FrontendError, "its stride is .0, 1.; every number must be 1"),
        ("Convolution", {"kernel": (3, 3), "num_filter": 4, "layout": "NHWC"},
         [IMAGE, (4, 6, 3, 3), (4,)], UnsupportedOpError, "layout NHWC; only NCHW"),
        ("Convolution", {"kernel": (3, 3), "num_filter": 4}, [IMAGE, (4, 6, 3, 3)], FrontendError,
         "it has 2 inputs, not data, weight, bias"),
        ("Pooling", {"kernel": (3, 3), "pool_type": "lp"}, [IMAGE], UnsupportedOpError, "lp pooling"),
        ("Pooling", {"kernel": (2, 2), "stride": (3, 3), "pad": (1, 1), "pooling_convention": "full"},
         [(1, 3, 8, 8)], UnsupportedOpError, "would begin behind 8 positions padded by 1"),
        ("Pooling", {"kernel": (3, 3), "pooling_convention": "same"}, [IMAGE], UnsupportedOpError,
         "max pooling in 2 dimensions by the convention same"),
        ("Pooling", {"kernel": (8, 3)}, [IMAGE], FrontendError, r"its kernel \[8, 3\] .*not fit \[7, 9\]"),
        ("elemwise_add", {}, [IMAGE, (1, 6, 1, 1)], FrontendError, "its inputs are .*, not alike"),
        ("Activation", {"act_type": "mish"}, [IMAGE], UnsupportedOpError, "activation mish"),
        ("slice", {"begin": (3,), "end": (3,)}, [IMAGE], FrontendError, "nothing is left of axis 0"),
        ("SliceChannel", {"num_outputs": 4}, [IMAGE], FrontendError, "cannot be split into 4"),
        ("Cast", {"dtype": "bfloat16"}, [IMAGE], UnsupportedOpError, "a cast to bfloat16"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path, op, attrs, shapes, error, message):
    with pytest.raises(error, match=message):
        computed(tmp_path, op, arrays(shapes[0]), attrs, arrays(*shapes[1:]))


TESTED_ELSEWHERE = {
    "_contrib_DeformableConvolution", "_contrib_ModulatedDeformableConvolution",
    "BatchNorm_v1", "BlockGrad", "BroadcastAxis", "CuDNNBatchNorm", "IdentityAttachKLSparseReg",
    "LinearRegressionOutput", "MAERegressionOutput", "MakeLoss", "ROIPooling",
    "_contrib_BilinearResize2D", "_contrib_MultiBoxPrior", "_contrib_ROIAlign",
    "_contrib_MultiBoxDetection", "_contrib_SyncBatchNorm", "_contrib_box_nms", "GroupNorm",
    "MultiBoxDetection", "MultiBoxPrior", "RNN", "_arange", "_full", "_ones",
    "_rnn_param_concat", "_zeros", "masked_log_softmax",
    "_copy", "_eye", "_linspace", "_split_v2", "amp_cast", "amp_multicast", "broadcast_axes", "cast", "elemwise_sum", "_sum", "flatten",
    "identity", "log", "make_loss", "max", "min_axis", "reshape", "rsqrt", "sigmoid", "split",
    "SliceChannel", "cumsum", "flip", "repeat", "reverse", "shape_array", "sqrt", "topk", "stop_gradient", "sum_axis", "swapaxes",
}  # fmt: skip
"""Other names of what the tables above hold, and operators with a test of their own."""


@pytest.mark.fast
def test_every_operator_is_tested():
    arithmetic = {name for name in CONVERTERS if name.lower().startswith(("_r", "elemwise_"))}
    endings = ("add", "plus", "div", "maximum", "minimum", "mod", "mul", "power", "sub", "minus")
    spelled = tuple(name + more for name in endings for more in ("", "_scalar", "scalar"))
    arithmetic |= {name for name in CONVERTERS if name.lower().endswith(spelled)}
    endings = ("equal", "equal_scalar", "greater", "greater_scalar", "lesser", "lesser_scalar")
    arithmetic |= {name for name in CONVERTERS if name.endswith(endings)}
    rows = {row[0] for row in (*WEIGHTED, *PLAIN, *SEQUENCES, *COMPOSED)}
    of_numpy = {name for name in CONVERTERS if name.startswith(("_np_", "_npi_", "_npx_"))}
    assert set(CONVERTERS) - arithmetic - rows - of_numpy - TESTED_ELSEWHERE == set()
