"""TFLite files: what is wrong with one, what it leaves open, and forms of weights."""

import struct

import numpy as np
import pytest
import tvm

from relay_int8 import ImportOptions, load_model
from relay_int8.compiler.build import compile_module
from relay_int8.errors import ConfigError, FrontendError, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.frontend.tflite import import_tflite
from relay_int8.frontend.tflite.file import read_model
from relay_int8.frontend.tflite.schema import OPERATORS, OPTIONS, TYPES
from relay_int8.graph.dataflow import calls, constant, dtype, is_quantized, operator, results, shape
from relay_int8.quantization.adopt import adopt
from schedules.targets import TARGETS
from tests.mxnet_models import run_fast
from tests.run_built import run_built
from tests.tflite_models import TYPES as TYPES_OF_NAMES
from tests.tflite_models import TfliteModel, quantized, run_interpreter, schema

pytestmark = pytest.mark.fast


def convolution():
    net = TfliteModel(4)
    return net.finish(net.conv(net.input("image", (1, 6, 5, 3)), 4, 3, 3))


def written(tmp_path, data: bytes):
    path = tmp_path / "model.tflite"
    path.write_bytes(data)
    return path


def test_the_numbers_are_those_of_the_schema():
    operators = {value: name for name, value in vars(schema.BuiltinOperator).items()}
    assert {number: operators[number] for number in OPERATORS} == OPERATORS
    types = {value: name.lower() for name, value in vars(schema.TensorType).items()}
    assert {number: types[number] for number in TYPES} == TYPES
    for kind, options in OPTIONS.items():
        unions = vars(schema.BuiltinOptions2 if options.is_new else schema.BuiltinOptions)
        (name,) = [name for name, value in unions.items() if value == options.number]
        slots = getattr(schema, f"{name}Start").__code__.co_consts
        assert max(slot for slot, _, _ in options.fields.values()) < max(
            value for value in slots if isinstance(value, int)
        ), kind


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "0 bytes that start with"),
        (b"PK\x03\x04 no model", "expected a TFLite model, found 13 bytes that start with 50 4b"),
        (struct.pack("<I", 1 << 31) + b"TFL3", "byte 2147483648: a table needs 4 bytes of 8"),
        (struct.pack("<I", 8) + b"TFL3" + struct.pack("<i", 2**31 - 1), "a list of fields needs"),
    ],
)
def test_what_is_no_model(tmp_path, data, message):
    with pytest.raises(FrontendError, match=message):
        read_model(written(tmp_path, data))


def test_no_file(tmp_path):
    with pytest.raises(FrontendError, match="no such file; expected a TFLite model"):
        read_model(tmp_path / "none.tflite")


def test_every_truncation_is_refused(tmp_path):
    data = convolution().written()
    for size in range(0, len(data) - 4, 7):
        with pytest.raises(FrontendError):
            import_tflite(written(tmp_path, data[:size]))


def test_parts_that_overlap_do_not_multiply(tmp_path):
    """A vector of many references to one table is read as many times as the file has bytes."""
    net = convolution()
    net.model.buffers += [schema.BufferT(data=np.zeros(4096, np.uint8))]
    shared = len(net.model.buffers) - 1
    for place in range(200):
        index = net.tensor(f"t{place}", (1024,))
        net.graph.tensors[index].buffer = shared
    with pytest.raises(FrontendError, match="its parts overlap"):
        read_model(written(tmp_path, net.written()))


def test_what_the_parts_of_a_file_must_be(tmp_path):
    def refused(error, message, edit):
        net = convolution()
        edit(net.graph)
        with pytest.raises(error, match=message):
            net.imported(tmp_path)

    def put(name, value):
        return lambda graph: setattr(graph.tensors[0], name, value)

    refused(FrontendError, "has shape", put("shape", [1] * 9))
    refused(FrontendError, r"image is \[1, 0, 5, 3\], its dimension 1", put("shape", [1, 0, 5, 3]))
    refused(FrontendError, "is in buffer 99 of 3", put("buffer", 99))
    refused(UnsupportedOpError, "is of string", put("type", 5))
    refused(UnsupportedOpError, "a state kept between runs", put("isVariable", True))
    refused(FrontendError, "an input of CONV_2D is tensor 77 of 4",
            lambda graph: setattr(graph.operators[0], "inputs", [0, 1, 77]))  # fmt: skip
    refused(FrontendError, "of kind 3, and there are 1",
            lambda graph: setattr(graph.operators[0], "opcodeIndex", 3))  # fmt: skip
    refused(FrontendError, "CONV_2D has options of type 5, not 1", other_options)
    refused(FrontendError, "which nothing has computed",
            lambda graph: setattr(graph.operators[0], "inputs", [3, 1, 2]))  # fmt: skip
    refused(FrontendError, "its stride_h is 0",
            lambda graph: setattr(graph.operators[0].builtinOptions, "strideH", 0))  # fmt: skip
    refused(FrontendError, r"its result is \[1, 6, 5, 4\]; the file says \[1, 9, 5, 4\]",
            lambda graph: setattr(graph.tensors[3], "shape", [1, 9, 5, 4]))  # fmt: skip
    refused(FrontendError, "its result is float32; the file says int32", lambda graph:
            setattr(graph.tensors[3], "type", 2))  # fmt: skip
    refused(FrontendError, "is a constant", lambda graph: setattr(graph, "inputs", [0, 1]))
    refused(FrontendError, "no inputs or no outputs", lambda graph: setattr(graph, "outputs", []))


def other_options(graph):
    graph.operators[0].builtinOptionsType = schema.BuiltinOptions.Pool2DOptions
    graph.operators[0].builtinOptions = schema.Pool2DOptionsT()


def test_scales_are_checked(tmp_path):
    def refused(message, **changes):
        net = quantized(convolution())
        for name, value in changes.items():
            setattr(net.graph.tensors[1].quantization, name, value)
        with pytest.raises(FrontendError, match=message):
            net.imported(tmp_path)

    refused("has 3 scales along axis 0", scale=[0.1] * 3)
    refused("a scale that is not positive", scale=[0.1, 0.1, 0.0, 0.1])
    refused("has 4 scales, 2 zero points", zeroPoint=[0, 0])
    refused("int8 has a zero point of 300", zeroPoint=[300] * 4)


def test_a_channel_of_zeros_may_have_no_scale(tmp_path):
    """The imaginary part of frequency 0 in a Fourier transform, quantized by TFLite."""
    net = quantized(convolution())
    weights, bias = net.graph.tensors[1:3]
    for tensor in (weights, bias):
        data = net.model.buffers[tensor.buffer].data = net.model.buffers[tensor.buffer].data.copy()
        data.reshape(4, -1)[2] = 0
    given = net.imported(tmp_path)
    for tensor in (weights, bias):
        tensor.quantization.scale = [*tensor.quantization.scale]
        tensor.quantization.scale[2] = 0.0
    (x,) = net.inputs()
    np.testing.assert_array_equal(run_fast(net.imported(tmp_path), x)[0], run_fast(given, x)[0])


def test_biases_with_the_axis_of_their_weights(tmp_path):
    """As converters of 2019 wrote them (person_detect of TFLite Micro)."""
    net = quantized(convolution())
    expected = net.imported(tmp_path)
    net.graph.tensors[2].quantization.quantizedDimension = 3
    tvm.ir.assert_structural_equal(net.imported(tmp_path), expected)


def test_broken_weights_are_named(tmp_path):
    net = convolution()
    data = np.full(4 * 3 * 3 * 3, np.nan, "float32").tobytes()
    net.model.buffers[1].data = np.frombuffer(data, np.uint8)
    with pytest.raises(FrontendError, match="tensor c1 has NaN or infinite values"):
        net.imported(tmp_path)


def test_operators_that_cannot_be_imported_are_listed_at_once(tmp_path):
    net = TfliteModel()
    x = net.input("x", (1, 8))
    y = net.op("SEGMENT_SUM", x, net.op("UNIQUE", x, name="a"), name="b")
    net.graph.outputs = [y]
    with pytest.raises(UnsupportedOpError, match=r"2 kinds .*UNIQUE \(a\); SEGMENT_SUM \(b\)"):
        net.imported(tmp_path)


def test_graphs_that_nothing_runs_are_refused(tmp_path):
    net = convolution()
    net.model.subgraphs.append(net.graph)
    with pytest.raises(UnsupportedOpError, match=r"2 graphs, of which graph 1 is run by no "):
        net.imported(tmp_path)


def test_wider_activations_are_refused(tmp_path):
    net = quantized(convolution())
    net.graph.tensors[0].type = TYPES_OF_NAMES["int64"]
    with pytest.raises(UnsupportedOpError, match=r"image is quantized to int64; .* and int16 can"):
        net.imported(tmp_path)


def with_int16(net: TfliteModel) -> TfliteModel:
    """Return a quantized model with activations of int16 and biases of int64."""
    for tensor in net.graph.tensors:
        scale = tensor.quantization
        if tensor.type == TYPES_OF_NAMES["int8"] and not tensor.buffer:
            tensor.type = TYPES_OF_NAMES["int16"]
            scale.scale, scale.zeroPoint = [2 * scale.scale[0] / 256], [0]
        elif tensor.type == TYPES_OF_NAMES["int32"]:
            biases = np.asarray(net.model.buffers[tensor.buffer].data).view("int32")
            data = (biases.astype("int64") * 128).tobytes()
            net.model.buffers[tensor.buffer].data = np.frombuffer(data, np.uint8)
            tensor.type, scale.scale = TYPES_OF_NAMES["int64"], [each / 128 for each in scale.scale]
    return net


def test_activations_of_int16_are_reals(tmp_path):
    net = with_int16(quantized(convolution()))
    (x,) = net.inputs()
    with pytest.warns(match="has int16 activations, .*; its inputs image are reals"):
        mod = net.imported(tmp_path)
    assert not is_quantized(mod)
    taken, given = (net.graph.tensors[i] for i in (net.graph.inputs[0], net.graph.outputs[0]))
    (y,) = run_fast(mod, (x * np.float32(taken.quantization.scale[0])).astype("float32"))
    (expected,) = run_interpreter(net, [x], "reference")
    np.testing.assert_allclose(y / given.quantization.scale[0], expected, rtol=0, atol=1)


def test_scalars_of_int16_stay_scalars(tmp_path):
    """Scores of attention are multiplied by one: the root of the width."""
    net = TfliteModel()
    x, factor = net.input("x", (2, 3)), net.tensor("factor", (), "int16", np.int16(20000))
    y = net.op("MUL", x, factor, options="MulOptions", name="y")
    net.graph.outputs = [y]
    for index in (x, factor, y):
        tensor = net.graph.tensors[index]
        tensor.type = TYPES_OF_NAMES["int16"]
        tensor.quantization = schema.QuantizationParametersT(scale=[1e-4], zeroPoint=[0])
    net.graph.tensors[y].shape = [2, 3]
    with pytest.warns(match="has int16 activations"):
        mod = net.imported(tmp_path)
    reals = np.arange(6, dtype="float32").reshape(2, 3)
    np.testing.assert_allclose(run_fast(mod, reals)[0], 2 * reals, rtol=1e-6)


def test_the_ending_tells_the_format(tmp_path):
    path = written(tmp_path, convolution().written())
    mod = load_model(path).module
    assert [(str(p.name), shape(p)) for p in mod["main"].params] == [("image", (1, 6, 5, 3))]
    with pytest.raises(
        ConfigError, match=r"\{'image': \(1, 7, 5, 3\)\}\): the file has \[1, 6, 5, 3\]"
    ):
        load_model(path, ImportOptions(inputs={"image": (1, 7, 5, 3)}))
    with pytest.raises(FrontendError, match=r"TFLite model: its name ends in .tflite"):
        import_onnx(path.rename(tmp_path / "model.onnx"))


def test_batch(tmp_path):
    """Shapes that the file writes for batch 1 follow."""
    net = TfliteModel(6)
    y = net.conv(net.input("image", (1, 4, 4, 3)), 4, 3, 3)
    y = net.op("RESHAPE", y, net.constant((1, 64)))
    net.finish(net.dense(y, 5, 64))
    func = net.imported(tmp_path, batch=3)["main"]
    assert shape(func.params[0]) == (3, 4, 4, 3)
    assert shape(results(func)[0]) == (3, 5)
    with pytest.raises(FrontendError, match="batch is 0"):
        net.imported(tmp_path, batch=0)


def test_batch_of_what_is_written_for_another(tmp_path):
    """A slice of the whole batch follows; one image of it, or a batch elsewhere, does not."""
    net = TfliteModel(6)
    x = net.input("x", (2, 4, 3))
    net.finish(net.op("SLICE", x, net.constant((0, 1, 0)), net.constant((2, 2, 3))))
    assert shape(results(net.imported(tmp_path, batch=6)["main"])[0]) == (6, 2, 3)
    for y in (
        net.op("STRIDED_SLICE", x, *map(net.constant, [(0, 0, 0), (1, 4, 3), (1, 1, 1)]),
               options="StridedSliceOptions"),
        net.op("TRANSPOSE", x, net.constant((1, 0, 2)), options="TransposeOptions"),
    ):  # fmt: skip
        net.finish(y)
        with pytest.raises(FrontendError, match="with this batch: convert it with that"):
            net.imported(tmp_path, batch=6)
    net.graph.inputs.append(net.tensor("other", (3, 5)))
    with pytest.raises(FrontendError, match=r"leading extents \[\(2,\), \(3,\)\], no common batch"):
        net.imported(tmp_path, batch=6)


def test_names(tmp_path):
    """Of a fused tensor's names the first; a result keeps its own in any order of axes."""
    net = convolution()
    net.graph.tensors[3].name = "conv/BiasAdd;conv/Conv2D;conv/bias"
    func = net.imported(tmp_path)["main"]
    assert [str(var.name) for var in results(func)] == ["conv/BiasAdd"]
    net.graph.inputs = [0, 0]
    with pytest.raises(FrontendError, match="two inputs of the model are called image"):
        net.imported(tmp_path)


def test_transposes_are_at_the_ends_alone(tmp_path):
    net = TfliteModel(7)
    x = net.conv(net.input("image", (1, 6, 6, 3)), 4, 3, 3)
    y = net.depthwise(net.op("HARD_SWISH", x), 4, 3)
    y = net.op("CONCATENATION", net.op("ADD", x, y, options="AddOptions"), x,
               options="ConcatenationOptions", axis=3)  # fmt: skip
    net.finish(net.pool("MAX_POOL_2D", y, 2, 2))
    func = net.imported(tmp_path)["main"]
    moved = [value for _, value in calls(func) if operator(value) == "permute_dims"]
    assert [list(value.attrs.axes) for value in moved] == [[0, 3, 1, 2], [0, 2, 3, 1]]


def test_weights_of_float16(tmp_path):
    net = TfliteModel(8)
    x = net.input("x", (2, 6))
    half = net.constant(net.rng.normal(size=(4, 6)).astype("float16"), "float16")
    w = net.op("DEQUANTIZE", half, options="DequantizeOptions")
    y = net.op("FULLY_CONNECTED", x, w, -1, options="FullyConnectedOptions")
    net.finish(y)
    mod = net.imported(tmp_path)
    assert not is_quantized(mod)
    (found,) = run_fast(mod, *net.inputs())
    np.testing.assert_allclose(found, run_interpreter(net, net.inputs())[0], rtol=0, atol=1e-5)


def test_integer_weights_of_a_float_operator_are_reals(tmp_path):
    """TFLite quantizes such an input while it runs; here it is a float model, to be calibrated."""
    net = TfliteModel(9)
    y = net.dense(net.input("x", (2, 6)), 4, 6)
    net.finish(y)
    whole = quantized(net)
    for index in (0, 2, y):
        tensor = whole.graph.tensors[index]
        tensor.type, tensor.quantization = 0, None
    bias = net.model.buffers[2].data
    whole.model.buffers[2].data = bias
    mod = whole.imported(tmp_path)
    assert not is_quantized(mod)
    weights = [constant(a) for _, v in calls(mod["main"]) for a in getattr(v, "args", ())]
    assert {w.dtype.name for w in weights if w is not None} == {"float32"}
    (found,) = run_fast(mod, *net.inputs())
    np.testing.assert_allclose(found, run_interpreter(net, net.inputs())[0], rtol=0, atol=0.05)


def test_labels_are_integers(tmp_path):
    net = TfliteModel(10)
    y = net.conv(net.input("image", (1, 6, 6, 3)), 4, 3, 3)
    top = net.op(
        "ARG_MAX", y, net.constant(3), options="ArgMaxOptions", dtype="int64", outputType=4
    )
    net.finish(
        net.op("CAST", top, options="CastOptions", inDataType=4, outDataType=2, dtype="int32")
    )
    mod = net.imported(tmp_path)
    assert dtype(results(mod["main"])[0]) == "int32"
    np.testing.assert_array_equal(
        run_fast(mod, *net.inputs())[0], run_interpreter(net, net.inputs())[0]
    )


def test_a_cast_of_a_quantized_tensor_is_of_its_integers(tmp_path):
    net = TfliteModel(3)
    y = net.op("RELU", net.input("x", (1, 5, 4, 3)))
    net = quantized(net.finish(y))
    z = net.op("CAST", y, options="CastOptions", inDataType=9, outDataType=0)
    net.finish(z)
    (found,) = run_fast(net.imported(tmp_path), *net.inputs())
    np.testing.assert_array_equal(found, run_interpreter(net, net.inputs())[0])


@pytest.mark.parametrize("zero", [0, 90, 128])
def test_unsigned_models_of_old_converters(tmp_path, zero):
    """Weights of uint8, and one scale for all: TFLite's integers, whatever their zero point."""
    net = quantized(convolution(), "uint8")
    weights, bias = (net.graph.tensors[index] for index in (1, 2))
    net.model.buffers[weights.buffer].data = np.linspace(0, 255, 108).astype("uint8")
    weights.type = TYPES_OF_NAMES["uint8"]
    weights.quantization = schema.QuantizationParametersT(scale=[0.002], zeroPoint=[zero])
    scale = net.graph.tensors[0].quantization.scale[0] * np.float32(0.002)
    bias.quantization = schema.QuantizationParametersT(scale=[scale], zeroPoint=[0])
    adopted = adopt(net.imported(tmp_path))
    (conv,) = (layer for layer in adopted.plan.layers if layer.kind == "conv2d")
    assert conv.reason is None
    (x,) = net.inputs()
    built = compile_module(adopted.mod, tvm.target.Target(TARGETS["x86"]))
    found = run_built(built, {"image": x})["outputs:0"]
    (wanted,) = run_interpreter(net, [x], "xnnpack")
    np.testing.assert_array_equal(found, wanted)
    assert len(np.unique(wanted)) > 9
