"""Fourier transforms of TFLite files against its interpreter."""

import numpy as np
import pytest

from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import UnsupportedOpError
from relay_int8.graph.dataflow import calls, operator
from tests.mxnet_models import run_fast
from tests.tflite_models import TfliteModel, run_interpreter

READERS = {"REAL": "", "IMAG": "", "COMPLEX_ABS": "", "CAST": "CastOptions"}


def spectrum(
    *readers: str, width: int = 8, length: int = 8, rows: int = 1, squeezed: bool = True
) -> TfliteModel:
    """Return the spectra of five rows, each of ``width`` samples, as ``readers`` make reals."""
    net = TfliteModel(1)
    x = net.input("x", (2, 5, rows, width))
    lengths = net.constant([rows, length])
    y = net.op("RFFT2D", x, lengths, options="Rfft2dOptions", dtype="complex64", name="spectrum")
    if squeezed:
        y = net.op("SQUEEZE", y, options="SqueezeOptions", squeezeDims=[-2], dtype="complex64")
    fields = {"CAST": {"inDataType": 8, "outDataType": 0}}
    results = [
        net.op(kind, y, options=READERS[kind], name=kind.lower(), **fields.get(kind, {}))
        for kind in readers
    ]
    return net.finish(*results)


@pytest.mark.parametrize(
    ("width", "length", "squeezed"), [(8, 8, True), (8, 8, False), (12, 8, True), (5, 8, False)]
)
def test_a_spectrum(tmp_path, width, length, squeezed):
    net = spectrum(*READERS, width=width, length=length, squeezed=squeezed)
    (x,) = net.inputs()
    found = run_fast(net.imported(tmp_path), x)
    wanted = run_interpreter(net, [x])
    transform = np.fft.rfft(x, length)
    for y, other, kind in zip(found, wanted, READERS, strict=True):
        np.testing.assert_allclose(y, other, rtol=0, atol=1e-5)
        part = {"IMAG": np.imag, "COMPLEX_ABS": np.abs}.get(kind, np.real)(transform)
        np.testing.assert_allclose(y, part.reshape(y.shape), rtol=0, atol=1e-5)


def test_parts_that_nothing_reads_are_not_computed(tmp_path):
    mod = normalize()(spectrum("CAST").imported(tmp_path))
    assert [operator(call) for _, call in calls(mod["main"])].count("matmul") == 1


def test_transforms_of_images_are_refused(tmp_path):
    with pytest.raises(UnsupportedOpError, match="a transform of 4 rows of 8 values"):
        spectrum("REAL", rows=4, squeezed=False).imported(tmp_path)


def test_complex_arithmetic_and_results_are_refused(tmp_path):
    net = spectrum("REAL")
    net.graph.outputs = [net.graph.operators[1].outputs[0]]
    with pytest.raises(UnsupportedOpError, match="is complex; networks give reals"):
        net.imported(tmp_path)
    net = spectrum("REAL", squeezed=False)
    spectra = net.graph.operators[0].outputs[0]
    y = net.op("ADD", spectra, spectra, options="AddOptions", dtype="complex64", name="twice")
    net.graph.tensors[y].shape = [2, 5, 1, 5]
    net.graph.outputs = [net.op("REAL", y)]
    with pytest.raises(UnsupportedOpError, match=r"twice.* cannot be imported: complex numbers"):
        net.imported(tmp_path)


def test_a_complex_input_is_refused(tmp_path):
    net = spectrum("REAL")
    net.graph.inputs.append(net.tensor("z", (2, 3), "complex64"))
    with pytest.raises(UnsupportedOpError, match="input z is complex; networks take reals"):
        net.imported(tmp_path)
