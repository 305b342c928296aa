"""Deformable convolutions leave as QDQ ONNX, which ONNX Runtime runs, and come back the same."""

import numpy as np
import pytest

from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import UnsupportedOpError
from relay_int8.export.qdq import export_qdq
from relay_int8.frontend.onnx import import_onnx
from tests import reference
from tests.deformable_networks import modulated, plain
from tests.onnx_models import run_onnx
from tests.quantized_networks import QuantizedNetwork


def test_comes_back_with_the_same_integers():
    network = QuantizedNetwork.make(modulated())
    proto = export_qdq(network.mod)
    (image,) = network.inputs.values()
    back = normalize()(import_onnx(proto))
    (name,) = (param.name for param in back["main"].params)
    found = reference.run(back, {name: image})
    wanted = reference.output_names(network.mod, network.inputs)
    for ours, theirs in zip(wanted, reference.output_names(back, {name: image}), strict=True):
        np.testing.assert_array_equal(found[theirs], network.expected[ours])
    samples = [n for n in network.expected if n.endswith("samples:q")]
    assert len(samples) == 2
    for sample in samples:
        np.testing.assert_array_equal(found[sample], network.expected[sample])
    (y,) = run_onnx(proto, image)
    assert np.abs(y - network.expected[wanted[0]]).max() < 0.05 * np.abs(y).max()


def test_the_rim_of_mxnet_is_refused():
    with pytest.raises(UnsupportedOpError, match="see the rim, as in MXNet"):
        export_qdq(QuantizedNetwork.make(plain()).mod)
