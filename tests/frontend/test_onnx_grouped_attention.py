"""Attention of language models as ONNX Runtime writes it: equal to its results, or refused."""

import numpy as np
import pytest

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from tests.frontend.test_onnx_fused import f32, fused
from tests.mxnet_models import run_fast
from tests.onnx_models import assert_close, run_onnx

ANGLES = f32(16, 8)
COSINES, SINES = np.cos(ANGLES), np.sin(ANGLES)
HEADS = {"num_heads": 4, "kv_num_heads": 2}


def grouped(tokens=5, earlier=0, *, batch=1, packed=False, total=None, **more):
    """Return the arrays of a node with four heads of queries and two of keys, 16 channels."""
    if packed:
        arrays = {"q": f32(batch, tokens, 128), "k": None, "v": None}
    else:
        arrays = {"q": f32(batch, tokens, 64), "k": f32(batch, tokens, 32)}
        arrays["v"] = f32(batch, tokens, 32)
    past = (batch, 2, earlier, 16)
    arrays |= {name: f32(*past) if earlier else None for name in ("pk", "pv")}
    total = total or tokens + earlier
    count = np.full(batch, total - 1, "int32")
    return arrays | {"count": count, "total": np.array(total, "int32")} | more


def node(arrays, *, computed=(), **attributes):
    """Return a model of one node whose lengths and angles are constants."""
    constants = {"count", "total", "cos", "sin"} - set(computed)
    kept = tuple(name for name, x in arrays.items() if name in constants and x is not None)
    return fused("GroupQueryAttention", arrays, constants=kept, **HEADS, **attributes)


ROTARY = {"cos": COSINES, "sin": SINES}
CASES = {
    "a prompt": (grouped(batch=2), {}),
    "a prompt in one tensor": (grouped(packed=True), {"scale": 0.2}),
    "a token": (grouped(1, 6), {}),
    "several tokens": (grouped(3, 6), {}),
    "rotary positions": (grouped(4, **ROTARY), {"do_rotary": 1}),
    "rotary positions of a token": (grouped(1, 6, packed=True, **ROTARY), {"do_rotary": 1}),
    "interleaved rotary positions": (
        grouped(4, **ROTARY),
        {"do_rotary": 1, "rotary_interleaved": 1},
    ),
    "a window": (grouped(9), {"local_window_size": 3}),
    "a window of a token": (grouped(1, 6), {"local_window_size": 3}),
    "bounded scores": (grouped(), {"softcap": 2.0}),
    "a bias": (grouped(3, 2, cos=None, sin=None, at=None, bias=f32(1, 4, 3, 5)), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_onnx_runtime(case):
    arrays, attributes = CASES[case]
    proto = node(arrays, outputs=("y", "keys", "values"), **attributes)
    given = [arrays[info.name] for info in proto.graph.input]
    assert_close(run_fast(import_onnx(proto), *given), run_onnx(proto, *given))


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arrays", "attributes", "reason"),
    [
        (grouped(1, 6, total=3), {}, "a buffer of 6 earlier tokens for 3"),
        (grouped(1, 6, batch=2), {}, "several sequences"),
        (grouped(), {"smooth_softmax": 1}, "smooth_softmax"),
    ],
)
def test_what_is_not_read_is_refused(arrays, attributes, reason):
    with pytest.raises(UnsupportedOpError, match=reason):
        import_onnx(node(arrays, **attributes))


@pytest.mark.fast
def test_a_length_that_is_computed_from_values_is_refused():
    with pytest.raises(UnsupportedOpError, match=r"ImportOptions\(values="):
        import_onnx(node(grouped(), computed=("total",)))
