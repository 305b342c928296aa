"""Resize: the numbers of ONNX Runtime, or a reason."""

import numpy as np
import pytest
from onnx import helper

from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.onnx_models import model, run_onnx, run_relax

SIZE = (1, 4, 5, 6)
MODES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


def resized(scales=None, sizes=None, opset=18, **attributes):
    """Return nodes and weights of one Resize; ``attributes`` hold its output's name as well."""
    output = attributes.pop("output", "y")
    weights = {}
    names = ["x", "", "", ""]
    if scales is not None:
        names[2] = f"{output}/scales"
        weights[names[2]] = np.array(scales, "float32")
    if sizes is not None:
        names[3] = f"{output}/sizes"
        weights[names[3]] = np.array(sizes, "int64")
    while not names[-1]:
        names.pop()
    return helper.make_node("Resize", names, [output], **attributes), weights


def assert_equal_to_onnx_runtime(cases, opset):
    """Resize an image as each of ``cases`` says, in one model."""
    nodes, weights = zip(*(resized(**case) for case in cases), strict=True)
    constants = {name: array for found in weights for name, array in found.items()}
    outputs = {case["output"]: None for case in cases}
    proto = model(nodes, {"x": SIZE}, outputs, constants, opset=opset)
    x = np.random.default_rng(1).normal(size=SIZE).astype("float32")
    found = run_relax(import_onnx(proto), x)
    for name, ours, theirs in zip(outputs, found, run_onnx(proto, x), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5, err_msg=name)


def test_equals_onnx_runtime():
    cases = [
        dict(output=f"{mode}/{i}", mode="linear", coordinate_transformation_mode=mode, **size)
        for mode in MODES
        for i, size in enumerate(
            (
                {"sizes": (1, 4, 10, 18)},
                {"sizes": (1, 4, 3, 4)},
                {"sizes": (1, 4, 1, 13)},
                {"scales": (1, 1, 2, 0.5)},
            )
        )
        if not (mode == "align_corners" and i == 2)  # refused
    ]
    cases += [
        dict(
            output="one pixel", mode="linear", sizes=(1, 4, 1, 1),
            coordinate_transformation_mode="align_corners",
        ),
        dict(output="axes", mode="linear", axes=[2, 3], sizes=(7, 9)),
        dict(output="nearest", mode="nearest", scales=(1, 1, 2, 3)),
        dict(
            output="floor", mode="nearest", sizes=(1, 4, 8, 8),
            coordinate_transformation_mode="asymmetric", nearest_mode="floor",
        ),
    ]  # fmt: skip
    assert_equal_to_onnx_runtime(cases, opset=18)


@pytest.mark.parametrize("mode", ["half_pixel", "pytorch_half_pixel"])
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil"])
def test_whole_factors_copy_pixels(mode, nearest):
    """The nearest middle is that of the pixel which a move of integers takes."""
    attributes = {"coordinate_transformation_mode": mode, "nearest_mode": nearest}
    found, weights = resized(scales=(1, 1, 3, 2), mode="nearest", **attributes)
    first, last = (helper.make_node("Conv", [x, "w"], [y]) for x, y in (("x", "c"), ("y", "z")))
    found.input[0] = "c"
    weights["w"] = np.random.default_rng(0).normal(size=(4, 4, 1, 1)).astype("float32")
    proto = model([first, found, last], {"x": SIZE}, {"z": None}, weights, opset=13)
    mod = import_onnx(proto)
    x = np.random.default_rng(1).normal(size=SIZE).astype("float32")
    np.testing.assert_allclose(run_relax(mod, x)[0], run_onnx(proto, x)[0], rtol=1e-5, atol=1e-5)
    layers = annotate(mod, QuantConfig()).layers
    assert [(layer.name, layer.reason) for layer in layers] == [(n, None) for n in "cyz"]


@pytest.mark.fast
def test_an_old_resize_of_two_kinds_is_refused():
    node = helper.make_node("Resize", ["x", "s"], ["y"])
    scales = {"s": np.array([1, 1, 2, 0.5], "float32")}
    with pytest.raises(UnsupportedOpError, match="it enlarges one axis and shrinks another"):
        import_onnx(model([node], {"x": SIZE}, {"y": None}, scales, opset=10))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        (
            dict(mode="linear", scales=(1, 1, 1.5, 1), antialias=1),
            r"part of a pixel \(\[1.0, 4.0, 7.5, 6.0\]\)",
        ),
        (dict(mode="quartic", scales=(1, 1, 1.5, 1)), "mode quartic; nearest, linear and cubic"),
        (dict(scales=(1, 1, 1.5, 1), nearest_mode="up"), "nearest_mode up; round_prefer_floor"),
        (dict(mode="nearest", sizes=(1, 4, 2, 2), antialias=1), "antialias of mode nearest"),
        (dict(mode="linear", sizes=(1, 4, 2, 2), exclude_outside=1), "of cubic filters alone"),
        (dict(mode="linear", sizes=(2, 4, 5, 6)), "batch or channels too"),
        (
            dict(mode="linear", sizes=(1, 4, 1, 6), coordinate_transformation_mode="align_corners"),
            "corners of a single pixel",
        ),
        (
            dict(mode="linear", sizes=(1, 4, 9, 9), keep_aspect_ratio_policy="larger"),
            "keep_aspect_ratio_policy larger; not_larger, not_smaller and stretch are read",
        ),
    ],
)
def test_says_what_it_cannot_read(attributes, reason):
    node, weights = resized(**attributes)
    with pytest.raises(UnsupportedOpError, match=reason):
        import_onnx(model([node], {"x": SIZE}, {"y": None}, weights, opset=18))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"mode": "cubic"}, "it resizes a volume, cubic at half_pixel"),
        ({"mode": "linear", "antialias": 1}, "it resizes a volume, linear with antialias at"),
        (
            {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"},
            "it resizes a volume, linear at tf_crop_and_resize",
        ),
    ],
)
def test_says_what_volumes_it_cannot_read(attributes, reason):
    node, weights = resized(sizes=(1, 4, 3, 9, 9), **attributes)
    with pytest.raises(UnsupportedOpError, match=reason):
        import_onnx(model([node], {"x": (1, 4, 2, 5, 6)}, {"y": None}, weights, opset=18))


PLACES = ("asymmetric", "half_pixel", "half_pixel_symmetric", "pytorch_half_pixel")


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_scales_that_give_a_part_of_a_pixel(mode):
    """As ``scale_factor`` of PyTorch's interpolate writes them."""
    rounded = ("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    cases = [
        dict(
            output=f"{places}/{nearest}/{i}", mode=mode, scales=(1, 1, *scales),
            coordinate_transformation_mode=places, nearest_mode=nearest,
        )
        for places in PLACES
        if mode != "nearest" or places != "half_pixel_symmetric"  # refused
        for nearest in (rounded if mode == "nearest" else ("floor",))
        for i, scales in enumerate([(1.5, 0.7), (0.3, 2.3)])
    ]  # fmt: skip
    assert_equal_to_onnx_runtime(cases, opset=19)


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
def test_symmetric_middles_of_whole_sizes(mode):
    """They differ from half_pixel where a scale gives a part of a pixel alone."""
    attributes = {"mode": mode, "coordinate_transformation_mode": "half_pixel_symmetric"}
    found, weights = resized(sizes=(1, 4, 10, 13), **attributes)
    proto = model([found], {"x": SIZE}, {"y": None}, weights, opset=19)
    x = np.random.default_rng(1).normal(size=SIZE).astype("float32")
    np.testing.assert_allclose(
        run_relax(import_onnx(proto), x)[0], run_onnx(proto, x)[0], rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize(
    "attributes",
    [
        {"mode": "nearest", "nearest_mode": "floor", "sizes": (1, 4, 25)},
        {"mode": "nearest", "coordinate_transformation_mode": "half_pixel", "scales": (1, 1, 3)},
        {"mode": "linear", "coordinate_transformation_mode": "half_pixel", "scales": (1, 1, 2)},
        {"mode": "linear", "coordinate_transformation_mode": "asymmetric", "sizes": (1, 4, 7)},
        {"mode": "linear", "coordinate_transformation_mode": "pytorch_half_pixel", "scales": (1, 1, 3)},
    ],
)  # fmt: skip
def test_sequences_are_images_of_one_row(attributes):
    attributes = {"coordinate_transformation_mode": "asymmetric"} | attributes
    found, weights = resized(**attributes)
    dims = (1, 4, 11)
    first, last = (helper.make_node("Conv", [x, "w"], [y]) for x, y in (("x", "c"), ("y", "z")))
    found.input[0] = "c"
    weights["w"] = np.random.default_rng(0).normal(size=(4, 4, 1)).astype("float32")
    proto = model([first, found, last], {"x": dims}, {"z": None}, weights, opset=19)
    mod = normalize()(import_onnx(proto))
    x = np.random.default_rng(1).normal(size=dims).astype("float32")
    np.testing.assert_allclose(run_relax(mod, x)[0], run_onnx(proto, x)[0], rtol=1e-5, atol=1e-5)
    layers = annotate(mod, QuantConfig()).layers
    assert {layer.kind for layer in layers if layer.reason} == {"reshape"}  # the result's


@pytest.mark.fast
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_corners_of_a_sequence(mode):
    """One row has no corners to align: channels are the rows."""
    attributes = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
    found, weights = resized(sizes=(1, 4, 9), **attributes)
    proto = model([found], {"x": (1, 4, 5)}, {"y": None}, weights, opset=18)
    x = np.random.default_rng(1).normal(size=(1, 4, 5)).astype("float32")
    np.testing.assert_allclose(
        run_relax(import_onnx(proto), x)[0], run_onnx(proto, x)[0], rtol=1e-5, atol=1e-5
    )


@pytest.mark.fast
def test_corners_of_a_single_row_are_refused():
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    found, weights = resized(sizes=(1, 1, 9), **attributes)
    with pytest.raises(UnsupportedOpError, match="align_corners of a sequence"):
        import_onnx(model([found], {"x": (1, 1, 5)}, {"y": None}, weights, opset=18))


@pytest.mark.fast
def test_pixels_outside_have_no_part_in_cubic_filters():
    cases = [
        dict(
            output=f"{places}/{i}", mode="cubic", coordinate_transformation_mode=places,
            exclude_outside=1, cubic_coeff_a=-0.5, **size,
        )
        for places in ("half_pixel", "asymmetric")
        for i, size in enumerate([{"sizes": (1, 4, 3, 20)}, {"scales": (1, 1, 1.7, 0.6)}])
    ]  # fmt: skip
    assert_equal_to_onnx_runtime(cases, opset=18)


@pytest.mark.fast
def test_keeps_the_aspect_ratio():
    cases = [
        dict(
            output=f"{mode}/{policy}/{i}", mode=mode, axes=[2, 3], sizes=sizes,
            keep_aspect_ratio_policy=policy,
        )
        for mode in ("nearest", "linear", "cubic")
        for policy in ("not_larger", "not_smaller")
        for i, sizes in enumerate([(9, 20), (10, 4)])
    ]  # fmt: skip
    assert_equal_to_onnx_runtime(cases, opset=18)


@pytest.mark.parametrize("sizes", [(1, 4, 2, 4), (1, 4, 5, 3), (1, 4, 9, 1), (1, 4, 5, 6)])
def test_filters_without_aliases(sizes: tuple[int, ...]):
    """Each axis is a product with the filter's weights, which is computed in integers."""
    cases = [
        dict(output="linear", mode="linear"),
        dict(output="linear/inside", mode="linear", exclude_outside=1),
        dict(output="cubic", mode="cubic"),
        dict(output="cubic/inside", mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1),
    ]
    nodes, weights = zip(
        *(resized(sizes=sizes, antialias=1, **case) for case in cases), strict=True
    )
    constants = {name: array for found in weights for name, array in found.items()}
    proto = model(nodes, {"x": SIZE}, {case["output"]: None for case in cases}, constants, opset=18)
    x = np.random.default_rng(1).normal(size=SIZE).astype("float32")
    mod = normalize()(import_onnx(proto))
    for y, expected in zip(run_relax(mod, x), run_onnx(proto, x), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
    layers = annotate(mod, QuantConfig()).layers
    assert {layer.reason for layer in layers if layer.kind == "dense"} <= {None}


def test_constants_without_aliases_are_folded():
    """Positions of patches that are resized leave a constant."""
    node, weights = resized(mode="linear", sizes=(1, 4, 3, 3), antialias=1)
    node.input[0] = "positions"
    weights["positions"] = np.random.default_rng(2).normal(size=SIZE).astype("float32")
    add = helper.make_node("Add", ["x", "y"], ["z"])
    proto = model([node, add], {"x": (1, 4, 3, 3)}, {"z": None}, weights, opset=18)
    x = np.random.default_rng(1).normal(size=(1, 4, 3, 3)).astype("float32")
    mod = normalize()(import_onnx(proto))
    assert [layer.kind for layer in annotate(mod, QuantConfig()).layers] == ["add"]
    np.testing.assert_allclose(run_relax(mod, x), run_onnx(proto, x), rtol=1e-5, atol=1e-5)
