"""Col2Im and DFT: equal to NumPy and to ONNX's reference implementation, or refused."""

import numpy as np
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, constant, operator, shape
from tests.onnx_models import assert_close, model, run_onnx, run_relax

RNG = np.random.default_rng(0)


def blocks(extents: list[int], block: list[int], **attributes: list[int]) -> onnx.ModelProto:
    """Return blocks put together to images of two channels."""
    counts = [e // b for e, b in zip(extents, block, strict=True)]
    dims = (2, 2 * int(np.prod(block)), int(np.prod(counts)))
    constants = {"e": np.array(extents), "b": np.array(block)}
    node = helper.make_node("Col2Im", ["x", "e", "b"], ["y"], **attributes)
    return model([node], {"x": dims}, {"y": None}, constants, opset=18)


@pytest.mark.parametrize("extents", [[4, 6], [2, 9], [6]])
def test_blocks_become_an_image(extents: list[int]):
    block = {4: [2, 3], 2: [1, 3], 6: [2]}[extents[0]]
    proto = blocks(extents, block, strides=block)
    x = RNG.normal(size=[d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim])
    x = x.astype("float32")
    expected = ReferenceEvaluator(proto).run(None, {"x": x}) if len(extents) == 2 else None
    (found,) = run_relax(import_onnx(proto), x)
    if expected is None:  # the reference has images of two axes alone
        expected = [x.reshape(2, 2, 2, 3).transpose(0, 1, 3, 2).reshape(2, 2, 6)]
    np.testing.assert_array_equal(found, expected[0])


OVERLAPPING = {
    "by one pixel": ([5, 7], [2, 2], {}),
    "over the edge": ([6, 9], [3, 3], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "pixels left over": ([8, 7], [3, 2], {"strides": [2, 3], "pads": [0, 1, 2, 0]}),
    "with gaps": ([7, 9], [2, 3], {"dilations": [2, 3], "strides": [1, 2]}),
    "a sequence": ([11], [4], {"strides": [3], "pads": [1, 1]}),
}


def overlapping(name: str) -> onnx.ModelProto:
    """Return blocks that overlap, put together to images of two channels."""
    extents, block, given = OVERLAPPING[name]
    rank = len(extents)
    pads = np.reshape(given.get("pads", [0] * 2 * rank), (2, rank)).sum(axis=0)
    spans = np.multiply(given.get("dilations", [1] * rank), np.subtract(block, 1)) + 1
    counts = (extents + pads - spans) // given.get("strides", [1] * rank) + 1
    dims = (2, 2 * int(np.prod(block)), int(np.prod(counts)))
    constants = {"e": np.array(extents), "b": np.array(block)}
    node = helper.make_node("Col2Im", ["x", "e", "b"], ["y"], **given)
    return model([node], {"x": dims}, {"y": None}, constants, opset=18)


@pytest.mark.parametrize("name", OVERLAPPING)
def test_blocks_that_overlap_are_added(name: str):
    proto = overlapping(name)
    dims = [d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim]
    x = RNG.normal(size=dims).astype("float32")
    assert_close(run_relax(import_onnx(proto), x), run_onnx(proto, x))


@pytest.mark.fast
def test_blocks_that_make_no_image_are_refused():
    proto = blocks([4, 6], [2, 2], strides=[1, 1])
    with pytest.raises(
        UnsupportedOpError, match=r"6 blocks of \[2, 2\] every \[1, 1\] .* no image"
    ):
        import_onnx(proto)


@pytest.mark.fast
def test_blocks_of_three_axes_that_overlap_are_refused():
    constants = {"e": np.array([3, 3, 3]), "b": np.array([2, 2, 2])}
    node = helper.make_node("Col2Im", ["x", "e", "b"], ["y"])
    proto = model([node], {"x": (1, 8, 8)}, {"y": None}, constants, opset=18)
    with pytest.raises(UnsupportedOpError, match="more than two axes"):
        import_onnx(proto)


def transform(dims: tuple[int, ...], axis: int, opset: int, **attributes: int) -> onnx.ModelProto:
    """Return a transform; before opset 20 the axis is an attribute."""
    if opset < 20:
        node = helper.make_node("DFT", ["x"], ["y"], axis=axis, **attributes)
        return model([node], {"x": dims}, {"y": None}, opset=opset)
    node = helper.make_node("DFT", ["x", "", "axis"], ["y"], **attributes)
    return model([node], {"x": dims}, {"y": None}, {"axis": np.array(axis)}, opset=opset)


CASES = {
    "real": ((2, 6, 5, 1), 1, {}),
    "complex": ((2, 6, 5, 2), 2, {}),
    "one side": ((2, 6, 5, 1), -2, {"onesided": 1}),
    "inverse": ((2, 6, 5, 2), 1, {"inverse": 1}),
}


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("name", CASES)
def test_transforms(name: str, opset: int):
    dims, axis, attributes = CASES[name]
    x = RNG.normal(size=dims).astype("float32")
    values = x[..., 0] + 1j * x[..., 1] if dims[-1] == 2 else x[..., 0]
    compute = {"one side": np.fft.rfft, "inverse": np.fft.ifft}.get(name, np.fft.fft)
    whole = compute(values, axis=axis if axis > 0 else axis + 1)
    expected = np.stack([whole.real, whole.imag], axis=-1).astype("float32")
    mod = import_onnx(transform(dims, axis, opset, **attributes))
    assert_close(run_relax(mod, x), [expected])
    weights = [v.args[1] for _, v in calls(mod["main"]) if operator(v) == "matmul"]
    assert [constant(w) is not None for w in weights] == [True]


@pytest.mark.fast
@pytest.mark.parametrize("imaginary", [0.0, 0.5])
def test_zeros_as_imaginary_part_are_not_multiplied(imaginary: float):
    """As PyTorch writes ``fft`` of real values."""
    joined = helper.make_node("Concat", ["x", "i"], ["z"], axis=-1)
    node = helper.make_node("DFT", ["z"], ["y"], axis=1)
    constants = {"i": np.full((2, 6, 5, 1), imaginary, np.float32)}
    dims = {"x": (2, 6, 5, 1)}
    mod = import_onnx(model([joined, node], dims, {"y": None}, constants, opset=17))
    x = RNG.normal(size=dims["x"]).astype("float32")
    whole = np.fft.fft(x[..., 0] + 1j * imaginary, axis=1)
    assert_close(run_relax(mod, x), [np.stack([whole.real, whole.imag], axis=-1).astype("float32")])
    (weights,) = (v.args[1] for _, v in calls(mod["main"]) if operator(v) == "matmul")
    assert shape(weights) == (12 if imaginary else 6, 12)


@pytest.mark.parametrize("length", [None, 5, 9, 14])
@pytest.mark.parametrize("parts", [1, 2])
def test_half_a_spectrum_back_to_reals(length: int | None, parts: int):
    """As PyTorch writes ``irfft``: ONNX Runtime's result, which has one part."""
    given = [] if length is None else ["n"]
    node = helper.make_node("DFT", ["x", *given], ["y"], axis=1, inverse=1, onesided=1)
    dims, constants = (2, 6, 5, parts), {} if length is None else {"n": np.array(length)}
    x = RNG.normal(size=dims).astype("float32")
    values = x[..., 0] if parts == 1 else x[..., 0] + 1j * x[..., 1]
    expected = np.fft.irfft(values, length, axis=1)[..., None].astype("float32")
    proto = model([node], {"x": dims}, {"y": None}, constants, opset=17)
    assert_close(run_relax(import_onnx(proto), x), [expected])


@pytest.mark.parametrize("length", [4, 9])
@pytest.mark.parametrize("parts", [1, 2])
def test_transforms_of_a_length(length: int, parts: int):
    """Longer than the axis, whose values zeros follow then, or of a part of it."""
    node = helper.make_node("DFT", ["x", "n"], ["y"], axis=1, onesided=int(parts == 1))
    dims = (2, 6, 5, parts)
    proto = model([node], {"x": dims}, {"y": None}, {"n": np.array(length)}, opset=17)
    x = RNG.normal(size=dims).astype("float32")
    values = x[..., 0] if parts == 1 else x[..., 0] + 1j * x[..., 1]
    whole = (np.fft.rfft if parts == 1 else np.fft.fft)(values, length, axis=1)
    expected = np.stack([whole.real, whole.imag], axis=-1).astype("float32")
    assert_close(run_relax(import_onnx(proto), x), [expected])


@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("given", [["", "length"], ["window"], ["window", "length"]])
def test_transforms_of_frames(given: list[str], onesided: int):
    """As librosa and PyTorch begin networks of sound."""
    node = helper.make_node("STFT", ["x", "step", *given], ["y"], onesided=onesided)
    window = np.hanning(8).astype("float32")
    constants = {"step": np.array(3), "window": window, "length": np.array(8)}
    x = RNG.normal(size=(2, 31, 1)).astype("float32")
    proto = model([node], {"x": x.shape}, {"y": None}, constants, opset=17)
    frames = np.stack([x[:, at : at + 8, 0] for at in range(0, 31 - 7, 3)], axis=1)
    frames = frames * window if "window" in given else frames
    whole = (np.fft.rfft if onesided else np.fft.fft)(frames)
    expected = np.stack([whole.real, whole.imag], axis=-1).astype("float32")
    assert_close(run_relax(import_onnx(proto), x), [expected])
    flat = model([node], {"x": x.shape[:2]}, {"y": None}, constants, opset=17)
    assert_close(run_relax(import_onnx(flat), x[..., 0]), [expected])


@pytest.mark.fast
def test_frames_of_complex_numbers_are_refused():
    node = helper.make_node("STFT", ["x", "step", "", "length"], ["y"])
    constants = {"step": np.array(3), "length": np.array(8)}
    proto = model([node], {"x": (1, 31, 2)}, {"y": None}, constants, opset=17)
    with pytest.raises(UnsupportedOpError, match="its signal is of complex numbers"):
        import_onnx(proto)
