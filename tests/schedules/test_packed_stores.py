"""Four pixels rounded together: the bytes are those of one at a time, whatever the sums are."""

import numpy as np
import pytest
import tvm
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.contractions import conv2d
from schedules.cpu.tiles.register_tiles import apply
from schedules.cpu.tiles.tile_rule import ContractionTiles
from schedules.reference.kernels import reference
from schedules.spec import Dense
from schedules.x86.packed_stores import with_packed_stores
from schedules.x86.vnni import CONV2D_VNNI, DENSE_VNNI
from tests.compiled import compiled
from tests.schedules.conv_runs import WANTED, assert_equal, conv

pytestmark = [pytest.mark.fast, pytest.mark.isa("avx512_vnni")]

VNNI = Target({"kind": "llvm", "mcpu": "cascadelake"})
PACKED = "packuswb"


def layer(width, **fields):
    return conv(
        24, (3, width), groups=1, out_channels=32, kernel=(1, 1), padding=(0,) * 4, **fields
    )


def tiled(columns):
    return lambda sch, spec, target: apply(
        sch, ContractionTiles(2, columns, 1), conv2d.row_of(spec), None
    )


def finished(spec, columns):
    func = CONV2D_VNNI.kernel(spec, WANTED).with_attr("global_symbol", "main")
    sch = Schedule(func)
    tiled(columns)(sch, spec, VNNI)
    return CONV2D_VNNI.finish(sch.mod["main"]).script()


@pytest.mark.parametrize(("columns", "packs"), [(4, 1), (7, 1), (8, 2), (3, 0), (1, 0)])
def test_columns_go_by_fours(columns, packs):
    spec = layer(columns)
    assert finished(spec, columns).count(PACKED) == packs
    assert_equal(CONV2D_VNNI, spec, VNNI, tiled(columns))


@pytest.mark.parametrize(
    "fields",
    [{"residual": "uint8"}, {"residual": "int8"}, {"leaky": True}, {"activation": "swish"}],
    ids=["residual", "signed residual", "leaky", "swish"],
)
def test_epilogues(fields):
    spec = layer(8, **fields)
    if "activation" in fields:
        assert finished(spec, 4).count(PACKED) == 1
        return
    assert finished(spec, 4).count(PACKED) == 1
    assert_equal(CONV2D_VNNI, spec, VNNI, tiled(4))


def test_borders_and_strides():
    spec = conv(20, (9, 16), groups=1, out_channels=40, strides=(2, 2))
    assert_equal(CONV2D_VNNI, spec, VNNI, tiled(8))


@pytest.mark.parametrize(
    ("spec", "columns"),
    [
        (layer(8, y="int8"), 4),
        (layer(8, y="float32"), 4),
        (layer(10), 4),  # a last tile of two
        (layer(8, requantize="gemmlowp"), 4),
    ],
    ids=["signed", "float", "ragged", "fixed point"],
)
def test_others_are_stored_one_by_one(spec, columns):
    assert PACKED not in finished(spec, columns)


def test_sums_beyond_sixteen_bits_saturate_alike():
    """Results far outside of y, on both sides, with a low bound that is no less than real zero."""
    spec = layer(8)
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, spec.shape("x"), dtype=np.uint8)
    params = {
        "w": rng.integers(-128, 128, (32, 24, 1, 1), dtype=np.int8),
        "bias": rng.integers(-(2**30), 2**30, 32, dtype=np.int32),
        "m": np.logspace(-7, 0, 32).astype(np.float32),
        "z": np.array([3, 128, 0], np.int32),
        "clamp": np.array([-100, 90], np.float32),
    }
    sch = Schedule(CONV2D_VNNI.kernel(spec, WANTED).with_attr("global_symbol", "main"))
    tiled(4)(sch, spec, VNNI)
    run = compiled(tvm.IRModule({"main": CONV2D_VNNI.finish(sch.mod["main"])}), VNNI)["main"]
    packed = CONV2D_VNNI.pack(spec, params)
    layout = WANTED.output
    channels = np.pad(x, ((0, 0), (0, 8), (0, 0), (0, 0)))
    y = np.zeros(layout.physical_shape(spec.shape("y")), np.uint8)
    arrays = [layout.pack(channels), *(packed[name] for name in spec.params), y]
    tensors = [tvm.runtime.tensor(array) for array in arrays]
    run(*tensors)
    expected = reference(spec, {"x": x}, params)
    assert {28, 218} <= set(expected.ravel())  # both bounds are met
    np.testing.assert_array_equal(layout.unpack(tensors[-1].numpy(), spec.shape("y")), expected)


def test_dense_layers_are_left_alone():
    spec = Dense(rows=8, n=32, k=16, x="uint8", y="uint8")
    sch = Schedule(DENSE_VNNI.kernel(spec, WANTED).with_attr("global_symbol", "main"))
    DENSE_VNNI.default(sch, spec, VNNI)
    assert PACKED not in DENSE_VNNI.finish(sch.mod["main"]).script()


def test_the_scheduled_kernel_stays_as_it_was():
    spec = layer(4)
    sch = Schedule(CONV2D_VNNI.kernel(spec, WANTED).with_attr("global_symbol", "main"))
    tiled(4)(sch, spec, VNNI)
    before = sch.mod["main"].script()
    with_packed_stores(sch.mod["main"])
    assert sch.mod["main"].script() == before
