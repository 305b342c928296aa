"""Weights of a few bits in blocks, against ONNX Runtime's results."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, constant, operator
from tests.frontend.test_onnx_fused import f32, fused
from tests.mxnet_models import run_fast
from tests.onnx_models import assert_close, model, run_onnx

RNG = np.random.default_rng(6)
N, K, BLOCK, BLOCKS = 5, 40, 16, 3
HOW = {"N": N, "K": K, "block_size": BLOCK}


def u8(*shape):
    return RNG.integers(0, 256, shape).astype("uint8")


def check(proto, *arrays):
    mod = import_onnx(proto)
    assert not {"quantize", "dequantize"} & {operator(value) for _, value in calls(mod["main"])}
    assert_close(run_fast(mod, *arrays), run_onnx(proto, *arrays))


@pytest.mark.parametrize(
    ("bits", "zeros"),
    [
        (2, "none"),
        (2, "packed"),
        (4, "none"),
        (4, "packed"),
        (4, "float"),
        (8, "none"),
        (8, "packed"),
    ],
)
def test_products_with_blocks(bits, zeros):
    """The last of three blocks of 16 has 8 weights of 40; zero points may be packed, or floats."""
    z = {"none": None, "packed": u8(N, -(-BLOCKS * bits // 8)), "float": f32(N, BLOCKS)}[zeros]
    x = f32(3, K)
    arrays = {"x": x, "w": u8(N, BLOCKS, BLOCK * bits // 8), "s": f32(N, BLOCKS), "z": z}
    kept = tuple(name for name in arrays if name != "x" and arrays[name] is not None)
    check(fused("MatMulNBits", arrays, constants=kept, bits=bits, **HOW), x)


def test_a_product_with_blocks_and_a_bias():
    x = f32(3, K)
    arrays = {
        "x": x,
        "w": u8(N, BLOCKS, 8),
        "s": f32(N * BLOCKS),
        "z": None,
        "g": None,
        "b": f32(N),
    }
    check(fused("MatMulNBits", arrays, constants=("w", "s", "b"), bits=4, **HOW), x)


@pytest.mark.fast
def test_an_order_of_columns_is_refused():
    arrays = {"x": f32(3, K), "w": u8(N, BLOCKS, 8), "s": f32(N * BLOCKS), "z": None}
    arrays["g"] = np.zeros(BLOCK * BLOCKS, "int32")
    with pytest.raises(UnsupportedOpError, match="g_idx"):
        import_onnx(fused("MatMulNBits", arrays, constants=("w", "s", "g"), bits=4, **HOW))


@pytest.mark.parametrize("kind", [0, 1])
def test_products_with_levels_of_bitsandbytes(kind):
    x = f32(3, 32)
    arrays = {"x": x, "w": u8(N * 32 // 2), "s": np.abs(f32(N * 2))}
    how = {"N": N, "K": 32, "block_size": 16, "quant_type": kind}
    check(fused("MatMulBnb4", arrays, constants=("w", "s"), **how), x)


@pytest.mark.parametrize("kind", [TensorProto.UINT4, TensorProto.INT4, TensorProto.UINT8])
@pytest.mark.parametrize("with_zeros", [False, True])
def test_rows_of_a_table_in_blocks(kind, with_zeros):
    ids = np.array([[2, 0, 6], [1, 1, 5]], "int64")
    is_small = kind != TensorProto.UINT8
    limits = (-8, 8) if kind == TensorProto.INT4 else (0, 16 if is_small else 256)

    def integers(name, *shape):
        values = RNG.integers(*limits, shape)
        return helper.make_tensor(name, kind, shape, values.reshape(-1).tolist())

    tensors = [integers("table", 7, 32 if is_small else 16)]
    tensors.append(numpy_helper.from_array(f32(7, 2), "s"))
    tensors += [integers("z", 7, 2 if is_small else 1)] * with_zeros
    names = ["table", "ids", *(tensor.name for tensor in tensors[1:])]
    proto = fused(
        "GatherBlockQuantized",
        {name: ids for name in names},
        constants=tuple(name for name in names if name != "ids"),
        block_size=16,
        quantize_axis=1,
    )
    del proto.graph.initializer[:]
    proto.graph.initializer.extend(tensors)
    proto.opset_import[0].version, proto.ir_version = 21, 10
    check(proto, ids)


def int4(name, *shape):
    values = RNG.integers(-8, 8, shape).reshape(-1).tolist()
    return helper.make_tensor(name, TensorProto.INT4, shape, values)


@pytest.mark.parametrize(
    ("domain", "opset", "parameters", "how"),
    [
        ("", 21, (6,), {"axis": 1}),
        ("com.microsoft", 17, (6,), {"axis": 1}),
        ("", 21, (3, 6), {"axis": 0, "block_size": 16}),
    ],
)
def test_weights_of_4_bits_are_those_of_a_float_network(domain, opset, parameters, how):
    """ONNX Runtime quantizes ``x`` too where it sees such weights: NumPy says what they are."""
    x, scale, w, z = f32(3, 40), f32(*parameters), int4("w", 40, 6), int4("z", *parameters)
    nodes = [
        helper.make_node("DequantizeLinear", ["w", "s", "z"], ["r"], domain=domain, **how),
        helper.make_node("MatMul", ["x", "r"], ["y"]),
    ]
    proto = model(nodes, {"x": x.shape}, {"y": None}, {"s": scale}, opset)
    proto.graph.initializer.extend([w, z])
    proto.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    steps, zeros = (numpy_helper.to_array(tensor).astype("float32") for tensor in (w, z))
    if "block_size" in how:
        scale, zeros = (np.repeat(each, 16, 0)[:40] for each in (scale, zeros))
    assert_close(run_fast(import_onnx(proto), x), [x @ ((steps - zeros) * scale)])


@pytest.mark.fast
def test_a_constant_that_is_quantized_to_4_bits_is_clipped_to_them():
    x, s = np.array([[-9.0, 3.4, 9.0]], "float32"), np.array(1, "float32")
    nodes = [
        helper.make_node("QuantizeLinear", ["w", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["r"]),
        helper.make_node("Add", ["x", "r"], ["y"]),
    ]
    proto = model(nodes, {"x": (1, 3)}, {"y": None}, {"w": x, "s": s}, 21)
    proto.graph.initializer.append(helper.make_tensor("z", TensorProto.INT4, [], [0]))
    proto.ir_version = 10
    (values,) = (
        array
        for _, value in calls(import_onnx(proto)["main"])
        for array in map(constant, value.args)
        if array is not None
    )
    assert values.tolist() == [[-8.0, 3.0, 7.0]]
    proto.graph.node[0].input[0] = "x"
    with pytest.raises(UnsupportedOpError, match="fewer than 8 bits"):
        import_onnx(proto)
