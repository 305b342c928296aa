"""Converters of single PyTorch operators: equal to NumPy."""

from collections.abc import Callable

import numpy as np
import pytest
from PIL import Image
from tvm import IRModule, relax

from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.importing import ImportWriter
from relay_int8.frontend.torch.converters import CONVERTERS
from relay_int8.frontend.torch.creation import filled
from relay_int8.frontend.torch.step import TorchStep
from relay_int8.graph.dataflow import calls, constant, operator, shape
from tests.onnx_models import assert_close, run_relax

RNG = np.random.default_rng(0)


def converted(
    name: str,
    dims: tuple[int, ...],
    then: Callable[[relax.BlockBuilder, relax.Var, relax.Expr], relax.Expr] | None = None,
    operand: str = "self",
    **arguments: object,
) -> IRModule:
    """Return a program of one operator ``aten.<name>`` of a tensor ``operand``."""
    bb = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType(dims, "float32"))
    with bb.function("main", [x]):
        with bb.dataflow():
            step = TorchStep(
                arguments={operand: x, **arguments},
                emit=lambda _, value: bb.emit(value),
                operator=f"aten.{name}",
            )
            result = CONVERTERS[f"aten.{name}"](step)
            y = result if isinstance(result, relax.Expr) else result[0]
            y = y if then is None else then(bb, x, bb.emit(y))
            returned = bb.emit_output(y)
        bb.emit_func_output(returned)
    return bb.get()


def joined(x: np.ndarray, size: tuple[int, int], **given: tuple[int, int]) -> np.ndarray:
    """Return blocks added up pixel by pixel."""
    (kh, kw), (sh, sw) = given["kernel_size"], given["stride"]
    (ph, pw), (dh, dw) = given["padding"], given["dilation"]
    n, depth, _ = x.shape
    c, rows = depth // (kh * kw), (size[0] + 2 * ph - dh * (kh - 1) - 1) // sh + 1
    parts = x.reshape(n, c, kh, kw, rows, -1)
    y = np.zeros((n, c, size[0] + 2 * ph, size[1] + 2 * pw), "float32")
    for i, j, row, column in np.ndindex(parts.shape[2:]):
        y[:, :, row * sh + i * dh, column * sw + j * dw] += parts[:, :, i, j, row, column]
    return y[:, :, ph : ph + size[0], pw : pw + size[1]]


@pytest.mark.parametrize(
    ("size", "kernel", "stride", "padding", "dilation", "count"),
    [
        ((8, 8), (3, 3), (2, 2), (1, 1), (1, 1), 16),
        ((5, 7), (2, 3), (1, 2), (0, 1), (2, 1), 12),
        ((4, 6), (2, 3), (2, 3), (0, 0), (1, 1), 4),
    ],
)
def test_fold(size, kernel, stride, padding, dilation, count):
    given = {"kernel_size": kernel, "stride": stride, "padding": padding, "dilation": dilation}
    x = RNG.normal(size=(2, 2 * kernel[0] * kernel[1], count)).astype("float32")
    lists = {name: list(numbers) for name, numbers in given.items()}
    mod = converted("col2im", x.shape, output_size=list(size), **lists)
    assert_close(run_relax(mod, x), [joined(x, size, **given)])


@pytest.mark.parametrize("size", [(3, 9), (7, 2), (5, 6)])
def test_adaptive_means_of_windows(size):
    x = RNG.normal(size=(2, 3, 5, 6)).astype("float32")
    wanted = np.empty((2, 3, *size), "float32")
    for i, j in np.ndindex(size):
        rows = slice(i * 5 // size[0], -(-(i + 1) * 5 // size[0]))
        columns = slice(j * 6 // size[1], -(-(j + 1) * 6 // size[1]))
        wanted[:, :, i, j] = x[:, :, rows, columns].mean(axis=(2, 3))
    mod = converted("adaptive_avg_pool2d", x.shape, output_size=list(size))
    assert_close(run_relax(mod, x), [wanted])


@pytest.mark.parametrize(
    ("name", "dims", "arguments"),
    [
        ("max_pool3d", (3, 4, 5, 6), {"kernel_size": [1, 2, 3], "stride": [2, 1, 2]}),
        ("max_pool2d_with_indices", (3, 5, 6), {"kernel_size": [2, 2]}),
        ("avg_pool1d", (3, 6), {"kernel_size": [2], "padding": [1]}),
        ("adaptive_avg_pool2d", (3, 5, 6), {"output_size": [2, 3]}),
    ],
)
def test_pooling_of_an_image_without_a_batch(name, dims, arguments):
    """LPRNet pools the channels of its images by windows of videos."""
    x = RNG.normal(size=dims).astype("float32")
    (found,) = run_relax(converted(name, dims, **arguments), x)
    (wanted,) = run_relax(converted(name, (1, *dims), **arguments), x[None])
    assert found.shape == wanted.shape[1:]
    assert_close([found], [wanted[0]])


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("slice", {"dim": 1, "start": 0, "end": 0}),
        ("narrow", {"dim": 1, "start": 2, "length": 0}),
        ("split_with_sizes", {"dim": 1, "split_sizes": [0, 5]}),
    ],
)
def test_parts_without_elements_are_joined_again(name, arguments):
    """Rotary embeddings of networks without a class token cut off no tokens, and join them."""

    def joined_again(bb, x, part):
        assert shape(part) == (2, 0, 4)
        step = TorchStep(
            arguments={"tensors": [part, x], "dim": 1},
            emit=lambda _, value: bb.emit(value),
            operator="aten.cat",
        )
        return CONVERTERS["aten.cat"](step)

    x = RNG.normal(size=(2, 5, 4)).astype("float32")
    assert_close(run_relax(converted(name, x.shape, joined_again, **arguments), x), [x])


def test_what_computes_with_a_part_without_elements_is_refused():
    writer = ImportWriter()
    x = relax.Var("x", relax.TensorType((2, 5, 4), "float32"))
    part = writer.emit("part", relax.op.strided_slice(x, [1], [3], [3]))
    assert shape(part) == (2, 0, 4)
    with pytest.raises(ValueError, match=r"its result would be \[2, 0, 4\]"):
        writer.emit("relu", relax.op.nn.relu(part))


def test_maxima_go_back_where_they_were():
    """Pooled with their indices and unpooled: other pixels are zero."""
    x = RNG.normal(size=(2, 3, 7, 6)).astype("float32")
    windows = {"kernel_size": [2, 3], "stride": [2, 2], "padding": [0, 1]}

    def unpooled(bb, image, _):
        def step(name, **arguments):
            given = TorchStep(
                arguments=arguments, emit=lambda _, value: bb.emit(value), operator=f"aten.{name}"
            )
            return CONVERTERS[f"aten.{name}"](given)

        maxima, indices = step("max_pool2d_with_indices", self=image, **windows)
        indices = bb.emit(indices)
        return step("max_unpool2d", self=maxima, indices=indices, output_size=[7, 6])

    (found,) = run_relax(converted("relu", x.shape, unpooled), x)
    wanted = np.zeros_like(x)
    padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 1)), constant_values=-np.inf)
    for n, c, i, j in np.ndindex(2, 3, 3, 3):
        window = padded[n, c, 2 * i : 2 * i + 2, 2 * j : 2 * j + 3]
        row, column = np.unravel_index(window.argmax(), window.shape)
        wanted[n, c, 2 * i + row, 2 * j + column - 1] = window.max()
    np.testing.assert_array_equal(found, wanted)


def test_a_transposed_convolution_of_a_video():
    """Taps of one remainder do not overlap where the stride is the kernel's."""
    x = RNG.normal(size=(1, 2, 2, 3, 2)).astype("float32")
    w = RNG.normal(size=(2, 3, 2, 1, 2)).astype("float32")
    mod = converted("conv_transpose3d", x.shape, weight=relax.const(w), stride=[2, 1, 2])
    wanted = np.zeros((1, 3, 4, 3, 4), "float32")
    for t, j in np.ndindex(2, 2):
        wanted[:, :, t::2, :, j::2] = np.einsum("ncthw,co->nothw", x, w[:, :, t, 0, j])
    assert_close(run_relax(mod, x), [wanted])


def test_distances_of_rows():
    x, rows = RNG.normal(size=(2, 5, 4)), RNG.normal(size=(2, 3, 4))
    x, rows = x.astype("float32"), rows.astype("float32")
    rows[:, 0] = x[:, 1]

    def distances(bb, image, _):
        step = TorchStep(
            arguments={"x1": image, "x2": relax.const(rows), "p": 2.0},
            emit=lambda _, value: bb.emit(value),
            operator="aten.cdist",
        )
        return CONVERTERS["aten.cdist"](step)

    (found,) = run_relax(converted("relu", x.shape, distances), x)
    wanted = np.sqrt(((x[:, :, None] - rows[:, None]) ** 2).sum(-1))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=2e-3)  # a root of rounding near zero


@pytest.mark.fast
@pytest.mark.parametrize(("name", "axis"), [("cat", 1), ("stack", 1), ("hstack", 1)])
@pytest.mark.parametrize("kind", ["int64", "int32", "bool"])
def test_joined_tensors_take_their_common_type(name, axis, kind):
    x = RNG.standard_normal((2, 3), "float32")
    other = np.array([[1, 0, 1], [0, 1, 1]], kind)
    x_var = relax.Var("x", relax.TensorType(x.shape, "float32"))
    bb = relax.BlockBuilder()
    with bb.function("main", [x_var]):
        with bb.dataflow():
            arguments: dict[str, object] = {"tensors": [relax.const(other, kind), x_var]}
            arguments |= {} if name == "hstack" else {"dim": axis}
            step = TorchStep(
                arguments=arguments, emit=lambda _, value: bb.emit(value), operator=f"aten.{name}"
            )
            returned = bb.emit_output(CONVERTERS[f"aten.{name}"](step))
        bb.emit_func_output(returned)
    joint = np.stack if name == "stack" else np.concatenate
    assert_close(run_relax(bb.get(), x), [joint([other.astype("float32"), x], axis)])


@pytest.mark.fast
def test_one_pixel_with_aligned_corners():
    given = {"output_size": [1, 1], "align_corners": True}
    mod = converted("upsample_bilinear2d", (1, 2, 7, 5), **given)
    x = RNG.normal(size=(1, 2, 7, 5)).astype("float32")
    np.testing.assert_array_equal(run_relax(mod, x)[0], x[:, :, :1, :1])


@pytest.mark.fast
@pytest.mark.parametrize("count", [3, 13])
def test_a_sequence_with_aligned_corners(count):
    x = RNG.normal(size=(2, 3, 7)).astype("float32")
    given = {"output_size": [count], "align_corners": True}
    at = np.linspace(0, 6, count)
    wanted = np.apply_along_axis(lambda row: np.interp(at, np.arange(7), row), 2, x)
    assert_close(run_relax(converted("upsample_linear1d", x.shape, **given), x), [wanted])


@pytest.mark.parametrize("written", ["factors", "sizes too"])
@pytest.mark.parametrize(
    "op", ["upsample_nearest2d", "_upsample_nearest_exact2d", "upsample_bilinear2d"]
)
def test_resizing_by_factors_that_give_a_part_of_a_pixel(op, written):
    """Torch computes places by the factor, not by the sizes: 7 pixels become 10, 9 become 6."""
    x, factors = RNG.normal(size=(1, 2, 7, 9)).astype("float32"), [1.5, 0.7]
    given: dict[str, object] = {"scale_factors": factors}
    if written == "sizes too":
        given = {"output_size": [10, 6], "scales_h": 1.5, "scales_w": 0.7}
    wanted = x
    for axis, factor in zip((2, 3), factors, strict=True):
        numbers, pixels = np.arange(int(x.shape[axis] * factor)), np.arange(x.shape[axis])
        if op == "upsample_bilinear2d":
            at = (numbers + 0.5) / factor - 0.5
            wanted = np.apply_along_axis(
                lambda row, at=at, p=pixels: np.interp(at, p, row), axis, wanted
            )
        else:
            shift = 0.5 if "exact" in op else 0
            wanted = wanted.take(((numbers + shift) / factor).astype(int), axis)
    given |= {"align_corners": False} if op == "upsample_bilinear2d" else {}
    assert_close(run_relax(converted(op, x.shape, **given), x), [wanted])


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize(
    ("size", "written"),
    [
        ((3, 8), {"output_size": [3, 8]}),
        ((4, 12), {"output_size": [4, 12]}),
        ((4, 12), {"scale_factors": [0.5, 1.5]}),
    ],
    ids=["smaller", "larger", "factors"],
)
def test_resizing_without_aliases(mode, size, written):
    """As Pillow resizes, whose filters PyTorch has."""
    x = RNG.normal(size=(1, 1, 8, 8)).astype("float32")
    resample = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}[mode]
    wanted = np.asarray(Image.fromarray(x[0, 0]).resize(size[::-1], resample))[None, None]
    given = {**written, "align_corners": False}
    assert_close(run_relax(converted(f"_upsample_{mode}2d_aa", x.shape, **given), x), [wanted])


def test_a_batch_norm_without_statistics():
    x = RNG.normal(size=(2, 3, 4, 5)).astype("float32")
    gamma, beta = RNG.uniform(0.5, 1.5, (2, 3)).astype("float32")
    given = {"weight": relax.const(gamma), "bias": relax.const(beta), "training": True, "eps": 0.1}
    mean, variance = (f(x, (0, 2, 3), keepdims=True) for f in (np.mean, np.var))
    by_channel = [part.reshape(1, 3, 1, 1) for part in (gamma, beta)]
    wanted = (x - mean) / np.sqrt(variance + 0.1) * by_channel[0] + by_channel[1]
    assert_close(run_relax(converted("batch_norm", x.shape, **given), x), [wanted])


@pytest.mark.fast
def test_standardized_weights_are_constants():
    w = relax.const(RNG.normal(size=(1, 4, 6)).astype("float32"))

    def _layer(bb: relax.BlockBuilder, x: relax.Var, y: relax.Expr) -> relax.Expr:
        return relax.op.nn.conv2d(x, bb.emit(relax.op.reshape(y, (4, 6, 1, 1))))

    mod = converted("batch_norm", (1, 6, 2, 2), _layer, input=w, self=w, training=True)
    assert [operator(value) for _, value in calls(normalize()(mod)["main"])] == ["nn.conv2d"]
    assert [shape(value) for _, value in calls(mod["main"])][-1] == (1, 4, 2, 2)


def test_constants_may_lack_elements_but_no_extent_is_negative():
    assert constant(filled((1, 0, 4, 4), 0, "float32")).shape == (1, 0, 4, 4)
    with pytest.raises(NotImplementedError, match="extents are at least 0"):
        filled((1, -1), 0, "float32")


@pytest.mark.parametrize("name", ["grid_sampler", "grid_sampler_3d"])
def test_volumes_are_sampled(name):
    """As VoxelMorph warps them: each voxel counts by its distance along each axis."""
    dims, size = (2, 3, 4, 5, 6), (3, 2, 4)
    x = RNG.normal(size=dims).astype("float32")
    grid = RNG.uniform(-1.3, 1.3, (2, *size, 3)).astype("float32")
    shares = []
    for axis, count in enumerate(dims[2:]):
        place = (grid[..., 2 - axis] + 1) * (count - 1) / 2
        shares.append(np.maximum(0, 1 - np.abs(place[..., None] - np.arange(count))))
    expected = np.einsum("ncdhw,nxyzd,nxyzh,nxyzw->ncxyz", x, *shares).astype("float32")
    mod = converted(
        name,
        dims,
        operand="input",
        grid=relax.const(grid),
        interpolation_mode=0,
        padding_mode=0,
        align_corners=True,
    )
    assert_close(run_relax(mod, x), [expected])


@pytest.mark.parametrize("kind", ["int64", "int8", "uint8"])
def test_quotients_of_whole_numbers_are_rounded_towards_zero(kind):
    """As networks of sound divide lengths by strides."""
    a = np.array([7, -7, 6, 0, 100], "int64").astype(kind)
    b = np.array([2, 2, -3, 5, 7], "int64").astype(kind)
    operands = {"self": relax.const(a, kind), "other": relax.const(b, kind)}
    mod = converted("div", (1,), rounding_mode="trunc", **operands)
    (found,) = run_relax(mod, np.zeros(1, "float32"))
    np.testing.assert_array_equal(found, np.trunc(a / b).astype(kind))


def test_indices_of_what_a_constant_holds():
    mask = relax.const(np.array([[True, False, True], [False, True, False]]))
    (found,) = run_relax(converted("nonzero", (1,), self=mask), np.zeros(1, "float32"))
    np.testing.assert_array_equal(found, [[0, 0], [0, 2], [1, 1]])


def test_indices_of_what_an_input_holds_are_refused():
    with pytest.raises(NotImplementedError, match=r"values of the input.*torch\.where"):
        converted("nonzero", (2, 3))


def test_parts_are_shortened_to_a_length():
    """As EEGNet bounds its weights; a part that is shorter stays."""
    x = np.array([[[3, 4]], [[0.3, 0.4]]], "float32")
    mod = converted("renorm", x.shape, p=2, dim=0, maxnorm=1.0)
    assert_close(run_relax(mod, x), [np.array([[[0.6, 0.8]], [[0.3, 0.4]]], "float32")])


def test_lengths_of_other_norms_are_refused():
    with pytest.raises(NotImplementedError, match=r"norm 1\.0; only 2 is read"):
        converted("renorm", (2, 3), p=1, dim=0, maxnorm=1.0)
