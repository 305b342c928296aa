"""Every imported TFLite operator against TFLite's own interpreter, in float and in integers."""

import numpy as np
import pytest

from relay_int8.frontend.tflite.converters import CONVERTERS
from relay_int8.frontend.tflite.spectra import SPECTRA
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.config import QuantConfig
from tests import reference
from tests.frontend.tflite_choices import chosen, indexed, shaped
from tests.mxnet_models import run_fast
from tests.tflite_models import TfliteModel, quantized, run_interpreter

IMAGE = (1, 9, 8, 6)


def one(kind, *shapes, after=(), results=1, **fields):
    """Return what writes a model of one operator on inputs of ``shapes`` and constants."""

    def write():
        net = TfliteModel(len(kind))
        inputs = [net.input(f"x{i}", shape) for i, shape in enumerate(shapes)]
        settings = [net.constant(values) for values in after]
        y = net.op(kind, *inputs, *settings, results=results, **fields)
        return net.finish(*([y] if results == 1 else y))

    return write


def built(write):
    """Return what writes a model of an image by ``write(net, x) -> result``."""

    def whole():
        net = TfliteModel(3)
        return net.finish(write(net, net.input("x", IMAGE)))

    return whole


def strides(height, width, **fields):
    return {"strideH": height, "strideW": width, **fields}


def transposed(out, kernel, stride, same):
    def write(net, x):
        w, b = net.weights(4, kernel, kernel, 6, scale=0.3), net.weights(4, scale=0.1)
        return net.op(
            "TRANSPOSE_CONV", net.constant((1, *out, 4)), w, x, b, options="TransposeConvOptions",
            padding=0 if same else 1, **strides(stride, stride),
        )  # fmt: skip

    return write


def updated_slice():
    """The box is moved inside, where it would reach over the end."""
    net = TfliteModel(2)
    x, part, start = net.input("x", (4, 5)), net.input("part", (2, 3)), net.constant((1, 4))
    return net.finish(net.op("DYNAMIC_UPDATE_SLICE", x, part, start))


def scattered():
    """What is written twice is added up."""
    net = TfliteModel(2)
    places = net.constant([(0, 1), (3, 2), (0, 1)])
    y = net.op("SCATTER_ND", places, net.input("x", (3, 4)), net.constant((4, 3, 4)),
               options="ScatterNdOptions")  # fmt: skip
    return net.finish(y)


VOLUME = (1, 5, 6, 7, 4)
CONV_3D = {"options": "Conv3DOptions", "fusedActivationFunction": 1}


def volumes(stride, padding, **fields):
    def write():
        net = TfliteModel(4)
        x, w = net.input("x", VOLUME), net.weights(3, 2, 3, 4, 5, scale=0.3)
        steps = {f"stride{axis}": stride for axis in "DWH"}
        y = net.op("CONV_3D", x, w, net.weights(5), padding=padding, **CONV_3D, **steps, **fields)
        return net.finish(y)

    return write


def transposed_volumes(out, padding):
    def write():
        net = TfliteModel(4)
        size = net.constant((1, *out, 5))
        x, w = net.input("x", VOLUME), net.weights(3, 2, 3, 5, 4, scale=0.3)
        steps = {f"stride{axis}": 2 for axis in "DWH"}
        y = net.op("CONV_3D_TRANSPOSE", size, w, x, padding=padding, **CONV_3D, **steps)
        return net.finish(y)

    return write


def gathered():
    """Read a step of a sequence at a constant index, as loops do that are written out."""
    net = TfliteModel(5)
    at = net.constant([2])
    return net.finish(
        net.op("GATHER", net.input("x", (1, 5, 3)), at, options="GatherOptions", axis=1)
    )


def with_constant(kind, shape, **fields):
    return lambda net, x: net.op(kind, x, net.weights(*shape, scale=0.5), **fields)


POOLS = {"padding": 1, "fusedActivationFunction": 1}
MEAN = {"options": "ReducerOptions"}
SLICE = {"options": "StridedSliceOptions"}

# Name -> what writes the model.
CASES = {
    "conv": built(lambda n, x: n.conv(x, 5, 3, 6)),
    "conv-same-stride": built(lambda n, x: n.conv(x, 5, 4, 6, **strides(2, 3))),
    "conv-valid-relu6": built(
        lambda n, x: n.conv(x, 5, 3, 6, padding=1, fusedActivationFunction=3)
    ),
    "conv-dilated-relu": built(
        lambda n, x: n.conv(x, 4, 3, 6, dilationWFactor=2, dilationHFactor=3,
                            fusedActivationFunction=1)
    ),
    "conv-relu1": built(lambda n, x: n.conv(x, 4, 1, 6, fusedActivationFunction=2)),
    "conv-groups": built(lambda n, x: n.conv(x, 4, 3, 3)),
    "depthwise": built(lambda n, x: n.depthwise(x, 6, 3)),
    "depthwise-multiplied": built(lambda n, x: n.depthwise(x, 6, 3, 2, **strides(2, 2))),
    "transposed-same": built(transposed((18, 16), 3, 2, True)),
    "transposed-valid": built(transposed((19, 17), 3, 2, False)),
    "dense": built(lambda n, x: n.dense(x, 5, 432)),
    "dense-rows": built(lambda n, x: n.dense(x, 5, 6, keepNumDims=True)),
    "add": one("ADD", IMAGE, IMAGE, options="AddOptions", fusedActivationFunction=1),
    "add-channel": built(with_constant("ADD", (6,), options="AddOptions")),
    "add-broadcast": one("ADD", IMAGE, (1, 1, 1, 6), options="AddOptions"),
    "sub": one("SUB", IMAGE, IMAGE, options="SubOptions"),
    "mul": one("MUL", IMAGE, (1, 1, 1, 6), options="MulOptions"),
    "mul-constant": built(with_constant("MUL", (1, 1, 1, 6), options="MulOptions")),
    "maximum": one("MAXIMUM", IMAGE, IMAGE, options="MaximumMinimumOptions"),
    "minimum": one("MINIMUM", IMAGE, IMAGE, options="MaximumMinimumOptions"),
    "relu": one("RELU", IMAGE),
    "relu6": one("RELU6", IMAGE),
    "relu1": one("RELU_N1_TO_1", IMAGE),
    "relu01": one("RELU_0_TO_1", IMAGE),
    "gelu": one("GELU", IMAGE, options="GeluOptions"),
    "leaky": one("LEAKY_RELU", IMAGE, options="LeakyReluOptions", alpha=0.2),
    "prelu": built(with_constant("PRELU", (1, 1, 6))),
    "logistic": one("LOGISTIC", IMAGE),
    "tanh": one("TANH", IMAGE),
    "hard-swish": one("HARD_SWISH", IMAGE),
    "elu": one("ELU", IMAGE),
    "abs": one("ABS", IMAGE, options="AbsOptions"),
    "softmax": one("SOFTMAX", (3, 12), options="SoftmaxOptions", beta=1.0),
    "softmax-image": one("SOFTMAX", IMAGE, options="SoftmaxOptions", beta=1.0),
    "average": built(lambda n, x: n.pool("AVERAGE_POOL_2D", x, 3, 2)),
    "average-valid": built(lambda n, x: n.pool("AVERAGE_POOL_2D", x, 2, 2, **POOLS)),
    "max": built(lambda n, x: n.pool("MAX_POOL_2D", x, 3, 2)),
    "mean": one("MEAN", IMAGE, after=[(1, 2)], **MEAN),
    "mean-kept": one("MEAN", IMAGE, after=[(1, 2)], **MEAN, keepDims=True),
    "mean-rows": one("MEAN", IMAGE, after=[(1,)], **MEAN),
    "reduce-min": one("REDUCE_MIN", IMAGE, after=[(1, 2)], **MEAN),
    "reduce-max": one("REDUCE_MAX", IMAGE, after=[(1, 2)], **MEAN),
    "bilinear": one("RESIZE_BILINEAR", IMAGE, after=[(18, 16)], options="ResizeBilinearOptions",
                    halfPixelCenters=True),
    "bilinear-corners": one("RESIZE_BILINEAR", IMAGE, after=[(17, 15)],
                            options="ResizeBilinearOptions", alignCorners=True),
    "bilinear-plain": one("RESIZE_BILINEAR", IMAGE, after=[(18, 12)],
                          options="ResizeBilinearOptions"),
    "bilinear-pixel": one("RESIZE_BILINEAR", IMAGE, after=[(1, 1)], options="ResizeBilinearOptions",
                          alignCorners=True),
    "nearest": one("RESIZE_NEAREST_NEIGHBOR", IMAGE, after=[(18, 24)],
                   options="ResizeNearestNeighborOptions"),
    "nearest-half-whole": one("RESIZE_NEAREST_NEIGHBOR", IMAGE, after=[(27, 16)],
                              options="ResizeNearestNeighborOptions", halfPixelCenters=True),
    "nearest-half": one("RESIZE_NEAREST_NEIGHBOR", IMAGE, after=[(18, 12)],
                        options="ResizeNearestNeighborOptions", halfPixelCenters=True),
    "nearest-corners": one("RESIZE_NEAREST_NEIGHBOR", IMAGE, after=[(17, 15)],
                           options="ResizeNearestNeighborOptions", alignCorners=True),
    "depth-to-space": one("DEPTH_TO_SPACE", (1, 4, 5, 12), options="DepthToSpaceOptions",
                          blockSize=2),
    "space-to-batch": one("SPACE_TO_BATCH_ND", IMAGE, after=[(2, 3), ((1, 0), (0, 1))],
                          options="SpaceToBatchNDOptions"),
    "batch-to-space": one("BATCH_TO_SPACE_ND", (6, 4, 5, 3), after=[(2, 3), ((1, 0), (0, 2))],
                          options="BatchToSpaceNDOptions"),
    "steps-to-batch": one("SPACE_TO_BATCH_ND", (2, 5, 3), after=[(3,), ((2, 2),)],
                          options="SpaceToBatchNDOptions"),
    "batch-to-steps": one("BATCH_TO_SPACE_ND", (6, 4, 3), after=[(3,), ((1, 2),)],
                          options="BatchToSpaceNDOptions"),
    "space-to-depth": one("SPACE_TO_DEPTH", (1, 4, 6, 3), options="SpaceToDepthOptions",
                          blockSize=2),
    "reshape": one("RESHAPE", IMAGE, after=[(1, -1, 8)]),
    "reshape-option": one("RESHAPE", IMAGE, options="ReshapeOptions", newShape=[1, 432]),
    "squeeze": one("SQUEEZE", (1, 1, 5, 6), options="SqueezeOptions", squeezeDims=[1]),
    "expand": one("EXPAND_DIMS", (3, 5), after=[1], options="ExpandDimsOptions"),
    "transpose": one("TRANSPOSE", IMAGE, after=[(0, 2, 1, 3)], options="TransposeOptions"),
    "concat": one("CONCATENATION", IMAGE, IMAGE, options="ConcatenationOptions", axis=3),
    "pack": one("PACK", (2, 3), (2, 3), options="PackOptions", valuesCount=2, axis=1),
    "unpack": one("UNPACK", (2, 3), results=2, options="UnpackOptions", num=2, axis=0),
    "pad": one("PAD", IMAGE, after=[((0, 0), (1, 2), (0, 3), (1, 0))], options="PadOptions"),
    "mirror": one("MIRROR_PAD", IMAGE, after=[((0, 0), (1, 2), (0, 3), (0, 0))],
                  options="MirrorPadOptions"),
    "gather-neighbours": gathered,
    "slice": one("SLICE", IMAGE, after=[(0, 1, 2, 3), (1, 5, -1, 2)], options="SliceOptions"),
    "strided": one("STRIDED_SLICE", IMAGE, after=[(0, 1, 1, 0), (1, -1, 8, 6), (1, 2, 3, 1)],
                   **SLICE, beginMask=1),
    "strided-dropped": one("STRIDED_SLICE", IMAGE,
                           after=[(0, 2, 0, 0), (1, 3, 8, 6), (1, 1, 1, 2)], **SLICE,
                           shrinkAxisMask=2),
    "strided-backward": one("STRIDED_SLICE", IMAGE,
                            after=[(0, 8, 7, 5), (1, 1, 0, 0), (1, -2, -1, -3)], **SLICE,
                            beginMask=2, endMask=4),
    "strided-new-axis": one("STRIDED_SLICE", (3, 5, 4), after=[(0, 0, 1), (3, 0, 3), (1, 1, 1)],
                            **SLICE, newAxisMask=2),
    "strided-ellipsis": one("STRIDED_SLICE", (3, 5, 4), after=[(0, 0, 2), (0, 0, 3), (1, 1, 1)],
                            **SLICE, ellipsisMask=2, shrinkAxisMask=4, endMask=1),
    "strided-sizes": one("STRIDED_SLICE", IMAGE, after=[(0, 2, 1, 0), (1, 5, 7, 6), (1, 2, 1, 1)],
                         **SLICE, offset=True),
    "batch-matmul": one("BATCH_MATMUL", (2, 3, 4), (2, 4, 5), options="BatchMatMulOptions"),
    "batch-matmul-turned": one("BATCH_MATMUL", (2, 4, 3), (2, 5, 4), options="BatchMatMulOptions",
                               adjX=True, adjY=True),
    "gather": one("GATHER", IMAGE, after=[(3, 0, 5)], options="GatherOptions", axis=3),
    "gather-nd": one("GATHER_ND", (4, 5, 3), after=[((0, 4), (3, 1))], options="GatherNdOptions"),
    "reverse": one("REVERSE_V2", IMAGE, after=[(2,)], options="ReverseV2Options"),
    "tile": one("TILE", (2, 3), after=[(2, 3)], options="TileOptions"),
    "broadcast": one("BROADCAST_TO", (2, 1, 3), after=[(2, 4, 3)], options="BroadcastToOptions"),
    "split-at": one("SPLIT_V", IMAGE, after=[(2, 4), 3], results=2, options="SplitVOptions",
                    numSplits=2),
}  # fmt: skip
FLOAT_CASES = {
    "conv-3d": volumes(1, 0, dilationDFactor=2, dilationHFactor=2),
    "conv-3d-valid": volumes(2, 1),
    "transposed-3d": transposed_volumes((10, 12, 14), 0),
    "transposed-3d-valid": transposed_volumes((11, 12, 15), 1),
    "atan2": one("ATAN2", (3, 4), (3, 4), options="ATan2Options"),
    "local-response": one(
        "LOCAL_RESPONSE_NORMALIZATION",
        IMAGE,
        radius=2,
        bias=1.5,
        alpha=0.2,
        options="LocalResponseNormalizationOptions",
        beta=0.75,
    ),
    "l2-pool": built(lambda n, x: n.pool("L2_POOL_2D", x, 3, 2)),
    "fake-quant": one(
        "FAKE_QUANT", IMAGE, options="FakeQuantOptions", min=-1.1, max=2.0, numBits=4
    ),
    "reverse-sequence": one(
        "REVERSE_SEQUENCE", (2, 5, 3), after=[(4, 2)], seqDim=1, options="ReverseSequenceOptions"
    ),
    "updated-slice": updated_slice,
    "scattered": scattered,
    "neg": one("NEG", IMAGE, options="NegOptions"),
    "div": one("DIV", (3, 4), (3, 4), options="DivOptions"),
    "squared": one("SQUARED_DIFFERENCE", IMAGE, IMAGE, options="SquaredDifferenceOptions"),
    "add-n": one("ADD_N", IMAGE, IMAGE, IMAGE, options="AddNOptions"),
    "sum": one("SUM", IMAGE, after=[(1, 2)], **MEAN),
    "log-softmax": one("LOG_SOFTMAX", (3, 12), options="LogSoftmaxOptions"),
    "l2": one("L2_NORMALIZATION", IMAGE, options="L2NormOptions"),
    "softmax-beta": one("SOFTMAX", (3, 12), options="SoftmaxOptions", beta=0.5),
    "prelu-any": built(with_constant("PRELU", (9, 8, 6))),
    "gelu-tanh": one("GELU", IMAGE, options="GeluOptions", approximate=True),
    "pow": built(lambda net, x: net.op("POW", net.op("EXP", x), x, options="PowOptions")),
    "arg-min": one(
        "ARG_MIN", IMAGE, after=[3], options="ArgMinOptions", dtype="int32", outputType=2
    ),
    **{name: one(name.upper(), IMAGE) for name in ("exp", "floor", "ceil", "round", "sin", "cos")},
    "square": one("SQUARE", IMAGE, options="SquareOptions"),
    "sign": one("SIGN", IMAGE, options="SignOptions"),
    "floor-div": one("FLOOR_DIV", (3, 4), (3, 4), options="FloorDivOptions"),
    "floor-mod": one("FLOOR_MOD", (3, 4), (3, 4), options="FloorModOptions"),
    "product": one("REDUCE_PROD", (3, 4), after=[(1,)], **MEAN),
    "gather-batches": one(
        "GATHER", (2, 5, 3), after=[((4, 0), (1, 1))], options="GatherOptions", axis=1, batchDims=1
    ),
    "cumsum": one("CUMSUM", (3, 5), after=[1], options="CumsumOptions"),
    "cumsum-backward": one(
        "CUMSUM", (3, 5), after=[1], options="CumsumOptions", exclusive=True, reverse=True
    ),
}


def split():
    """The axis of SPLIT comes before what it splits."""
    net = TfliteModel(1)
    axis = net.constant(3)
    x = net.input("x", IMAGE)
    return net.finish(*net.op("SPLIT", axis, x, results=3, options="SplitOptions", numSplits=3))


def padded_with():
    net = TfliteModel(1)
    x = net.input("x", IMAGE)
    widths = net.constant([(0, 0), (1, 0), (2, 0), (0, 0)])
    fill = net.constant(np.float32(0.75).reshape(1), "float32")
    return net.finish(net.op("PADV2", x, widths, fill, options="PadV2Options"))


def chained():
    """Elementwise operators after a convolution stay in NCHW; reshapes see the file's order."""
    net = TfliteModel(2)
    x = net.input("x", IMAGE)
    a = net.conv(x, 6, 3, 6, fusedActivationFunction=1)
    y = net.op("ADD", a, net.op("LOGISTIC", a), options="AddOptions")
    y = net.op("MUL", y, net.weights(6, scale=0.5), options="MulOptions")
    y = net.op("CONCATENATION", y, x, options="ConcatenationOptions", axis=-1)
    y = net.op("STRIDED_SLICE", y, *map(net.constant, [(0, 0, 1, 0), (1, 9, 8, 10), (1, 2, 1, 3)]),
               options="StridedSliceOptions")  # fmt: skip
    y = net.op("PRELU", y, net.weights(1, 1, 4, scale=0.5))
    top = net.op("MEAN", y, net.constant((1, 2)), options="ReducerOptions")
    row = net.op("MEAN", y, net.constant((2,)), options="ReducerOptions")
    soft = net.op("SOFTMAX", y, options="SoftmaxOptions", beta=1.0)
    flat = net.op("RESHAPE", y, net.constant((1, 140)))
    return net.finish(soft, flat, top, row, net.dense(flat, 4, 140))


CASES |= {"split": split, "padv2": padded_with, "chained": chained}


symmetric = one("MIRROR_PAD", IMAGE, after=[((0, 1), (3, 2), (0, 7), (0, 0))],
                options="MirrorPadOptions", mode=1)  # fmt: skip
FLOAT_CASES |= {"chosen": chosen, "indexed": indexed, "shaped": shaped, "symmetric": symmetric}


LINEAR = [
    name for name in CASES if name.split("-")[0] in ("conv", "depthwise", "transposed", "dense")
]
FLOAT_ISLANDS = (
    "nearest-half", "nearest-corners", "gather-nd", "reverse", "strided-backward", "tile",
    "broadcast", "gather",
)  # fmt: skip
"""What has no integer form here, and what the oracle does not compute."""


@pytest.mark.parametrize("name", [*CASES, *FLOAT_CASES])
def test_float_operators(tmp_path, name):
    net = {**CASES, **FLOAT_CASES}[name]()
    found = run_fast(net.imported(tmp_path), *net.inputs())
    expected = run_interpreter(net, net.inputs())
    assert len(found) == len(expected)
    for y, wanted in zip(found, expected, strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        bound = 1e-4 * max(np.abs(wanted).max(), 1e-6)
        np.testing.assert_allclose(y, wanted, rtol=0, atol=bound)


@pytest.mark.parametrize("name", CASES)
def test_quantized_operators(tmp_path, name):
    """Our integers are TFLite's own, or one step off: two of its three kernels multiply by a
    fixed-point number, and averages and slopes are rounded in other places."""
    net = quantized(CASES[name]())
    mod, inputs = net.imported(tmp_path), net.inputs()
    found = run_fast(mod, *inputs) if name in FLOAT_ISLANDS else by_oracle(mod, inputs)
    for kernels in ("optimized", "xnnpack"):
        expected = run_interpreter(net, inputs, kernels)
        assert len(found) == len(expected)
        for y, wanted in zip(found, expected, strict=True):
            assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
            np.testing.assert_allclose(y.astype(int), wanted.astype(int), rtol=0, atol=1)


def test_images_of_integers_are_interpolated_to_the_nearest(tmp_path):
    net = TfliteModel(1)
    x = net.input("x", IMAGE, "uint8")
    fields = {"options": "ResizeBilinearOptions", "dtype": "uint8", "halfPixelCenters": True}
    net.finish(net.op("RESIZE_BILINEAR", x, net.constant((13, 5)), **fields))
    image = np.random.default_rng(1).integers(0, 256, IMAGE).astype("uint8")
    (found,) = run_fast(net.imported(tmp_path), image)
    np.testing.assert_array_equal(found, run_interpreter(net, [image], "reference")[0])


def by_oracle(mod, inputs, requantize="float"):
    """Return the results that the NumPy oracle computes of a model as it is adopted."""
    mod = adopt(mod, QuantConfig(requantize=requantize)).mod
    given = dict(zip((str(param.name) for param in mod["main"].params), inputs, strict=True))
    tensors = reference.run(mod, given)
    return [tensors[name] for name in reference.output_names(mod, given)]


@pytest.mark.parametrize("name", ["add", "add-broadcast", "sub", "maximum", "minimum"])
def test_fixed_point_arithmetic_is_that_of_tflite(tmp_path, name):
    net = quantized(CASES[name]())
    mod = net.imported(tmp_path)
    assert {layer.reason for layer in adopt(mod).plan.layers} == {None}
    (found,) = by_oracle(mod, net.inputs(), "gemmlowp")
    np.testing.assert_array_equal(found, run_interpreter(net, net.inputs(), "optimized")[0])


@pytest.mark.parametrize("kind", ["ADD", "SUB", "MUL"])
def test_constants_of_channels_are_integers(tmp_path, kind):
    """Within a step of TFLite, which has eight bits for all of the constants."""
    net = TfliteModel(3)
    x = net.conv(net.input("image", (1, 9, 8, 3)), 6, 3, 3, fusedActivationFunction=1)
    y = net.op(kind, x, net.weights(6, scale=0.5), options=f"{kind.title()}Options")
    net = quantized(net.finish(net.conv(y, 5, 3, 6)))
    mod = net.imported(tmp_path)
    kinds = {layer.kind: layer.reason for layer in adopt(mod).plan.layers}
    assert kinds["affine"] is None and set(kinds.values()) == {None}
    (found,) = by_oracle(mod, net.inputs())
    wanted = run_interpreter(net, net.inputs(), "xnnpack")[0]
    np.testing.assert_allclose(found.astype(int), wanted.astype(int), rtol=0, atol=1)


@pytest.mark.parametrize("name", LINEAR)
def test_convolutions_are_those_of_xnnpack(tmp_path, name):
    """It multiplies by the float32 number we multiply by, and rounds half to even as we do."""
    net = quantized(CASES[name]())
    mod = net.imported(tmp_path)
    assert {layer.reason for layer in adopt(mod).plan.layers} == {None}
    (found,) = by_oracle(mod, net.inputs())
    np.testing.assert_array_equal(found, run_interpreter(net, net.inputs(), "xnnpack")[0])


def test_every_operator_is_tried():
    kinds = set()
    for write in {**CASES, **FLOAT_CASES}.values():
        net = write()
        kinds.update(net.kind(operator) for operator in net.graph.operators)
    elsewhere = {
        "DEQUANTIZE", "LOG", "NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5", "QUANTIZE", "RSQRT", "SQRT", "SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM",
        *SPECTRA,
    }  # fmt: skip
    here = {kind for kind in CONVERTERS if not kind.startswith("CUSTOM")}
    assert here - kinds == elsewhere
