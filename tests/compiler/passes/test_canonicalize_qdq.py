"""CanonicalizeQdq: pairs of an imported model take the form that InsertQdq writes."""

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.passes.normalize.canonicalize_qdq import CanonicalizeQdq
from relay_int8.compiler.passes.normalize.quantize_constants import QuantizeConstants
from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import FunctionWriter
from relay_int8.graph.spec_calls import kernel_call
from schedules.spec import Sample2d
from tests.onnx_models import run_relax
from tests.small_networks import nn

pytestmark = pytest.mark.fast
RNG = np.random.default_rng(0)
W = RNG.integers(-127, 128, (3, 2, 1, 1)).astype("int8")
S = np.array([0.5, 0.25, 0.125], "float32")
Z = np.zeros(3, "int8")
REAL = W * S.reshape(3, 1, 1, 1)
PAIRS = tvm.transform.Sequential([QuantizeConstants(), CanonicalizeQdq()])
LOOSE = np.array([-3, 40, 0.06, 0.07], "float32")
STEPS = np.array([-1, 30.875, 0, 0.125], "float32")
ONE_S = np.full(3, 0.5, "float32")
REAL_ONE = (W.astype("int64") - 1).clip(-128, 127).astype("float32") * np.float32(0.5)


def test_weights_of_integers_get_the_pair_of_insert_qdq(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 2, 4, 4), "float32")) -> R.Tensor((1, 3, 4, 4), "float32"):
            with R.dataflow():
                w = R.dequantize(R.const(W), R.const(S), R.const(Z), axis=0)
                y = R.nn.conv2d(x, w)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((1, 2, 4, 4), "float32")) -> R.Tensor((1, 3, 4, 4), "float32"):
            with R.dataflow():
                q = R.quantize(R.const(REAL), R.const(S), R.const(Z), axis=0, out_dtype="int8")
                w = R.dequantize(q, R.const(S), R.const(Z), axis=0)
                y = R.nn.conv2d(x, w)
                R.output(y)
            return y

    expect_rewrite(CanonicalizeQdq(), Before, Expected)


def joined(scales, *, quantized=False):
    """Return a concat of tensors with these scales, which a convolution reads, or a quantize."""
    func = FunctionWriter()
    params = [relax.Var(f"x{i}", relax.TensorType((1, 2, 4, 4), "float32")) for i in range(2)]
    reals = []
    for x, scale in zip(params, scales, strict=True):
        pair = relax.const(np.float32(scale)), relax.const(np.uint8(3))
        q = func.emit(f"{x.name}_q", relax.op.quantize(x, *pair, -1, "uint8"))
        reals.append(func.emit(f"{x.name}_dq", relax.op.dequantize(q, *pair, -1)))
    y = func.emit("y", relax.op.concat(reals, 1))
    if quantized:
        pair = relax.const(np.float32(0.5)), relax.const(np.uint8(0))
        y = func.emit("y_q", relax.op.quantize(y, *pair, -1, "uint8"))
        y = func.emit("y_dq", relax.op.dequantize(y, *pair, -1))
    w = relax.const(RNG.normal(size=(3, 4, 1, 1)).astype("float32"))
    return func.finish(params, [func.emit("z", relax.op.nn.conv2d(y, w))])


def test_what_joins_tensors_of_one_scale_has_it_too():
    before = joined([0.25, 0.25])
    after = CanonicalizeQdq()(before)
    operators = [dataflow.operator(value) for _, value in dataflow.calls(after["main"])]
    assert operators[-4:] == ["concat", "quantize", "dequantize", "nn.conv2d"]
    xs = [RNG.normal(size=(1, 2, 4, 4)).astype("float32") * 9 for _ in range(2)]
    (expected,), (found,) = run_relax(before, *xs), run_relax(after, *xs)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("scales", "quantized"), [([0.25, 0.5], False), ([0.25, 0.25], True)])
def test_a_concat_of_other_scales_or_with_a_pair_behind_it_is_left_alone(scales, quantized):
    before = joined(scales, quantized=quantized)
    tvm.ir.assert_structural_equal(CanonicalizeQdq()(before), before)


def test_one_scale_becomes_one_for_each_output_channel(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 2, 4, 4), "float32")) -> R.Tensor((1, 3, 4, 4), "float32"):
            with R.dataflow():
                w = R.dequantize(R.const(W), R.const(0.5), R.const(1, "int8"))
                y = R.nn.conv2d(x, w)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((1, 2, 4, 4), "float32")) -> R.Tensor((1, 3, 4, 4), "float32"):
            with R.dataflow():
                q = R.quantize(
                    R.const(REAL_ONE), R.const(ONE_S), R.const(Z), axis=0, out_dtype="int8"
                )
                w = R.dequantize(q, R.const(ONE_S), R.const(Z), axis=0)
                y = R.nn.conv2d(x, w)
                R.output(y)
            return y

    expect_rewrite(CanonicalizeQdq(), Before, Expected)


def test_weights_of_floats_with_a_pair_of_one_scale_are_their_integers(expect_rewrite):
    """As AddQDQPairToWeight of ONNX Runtime and quantization-aware training write weights."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 2, 4, 4), "float32")) -> R.Tensor((1, 3, 4, 4), "float32"):
            with R.dataflow():
                q = R.quantize(
                    R.const(REAL_ONE), R.const(0.5), R.const(0, "int8"), out_dtype="int8"
                )
                w = R.dequantize(q, R.const(0.5), R.const(0, "int8"))
                y = R.nn.conv2d(x, w)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((1, 2, 4, 4), "float32")) -> R.Tensor((1, 3, 4, 4), "float32"):
            with R.dataflow():
                q = R.quantize(
                    R.const(REAL_ONE), R.const(ONE_S), R.const(Z), axis=0, out_dtype="int8"
                )
                w = R.dequantize(q, R.const(ONE_S), R.const(Z), axis=0)
                y = R.nn.conv2d(x, w)
                R.output(y)
            return y

    expect_rewrite(PAIRS, Before, Expected)


def weighted(q: np.ndarray, s: np.ndarray, z: np.ndarray, axis: int, *, shared: bool = False):
    """Return a convolution whose weights are dequantized; ``shared``: a sum reads them too."""
    x = relax.Var("x", relax.TensorType((1, 2, 4, 4), "float32"))
    writer = FunctionWriter()
    pair = relax.op.dequantize(relax.const(q), relax.const(s), relax.const(z), axis)
    w = writer.emit("w", pair)
    y = writer.emit("y", nn.conv2d(x, w))
    if shared:
        return writer.finish([x], [y, writer.emit("sum", relax.op.sum(w))])
    return writer.finish([x], [y])


REALS = {
    "scales of input channels": weighted(W, S[:2], Z[:2], 1),
    "zero points of input channels": weighted(W, np.float32(0.5), np.array([0, 9], np.int8), 1),
    "more than 8 bits": weighted(W.astype("int32"), np.float32(0.5), np.int32(0), 0),
    "something else reads them": weighted(W, S, Z, 0, shared=True),
}


@pytest.mark.parametrize("case", REALS)
def test_other_constants_are_the_reals_they_stand_for(case):
    mod = REALS[case]
    after = CanonicalizeQdq()(mod)
    operators = [dataflow.operator(value) for _, value in dataflow.calls(after["main"])]
    assert operators[0] == "nn.conv2d" and "dequantize" not in operators
    x = RNG.normal(size=(1, 2, 4, 4)).astype("float32")
    for found, wanted in zip(run_relax(after, x), run_relax(mod, x), strict=True):
        np.testing.assert_array_equal(found, wanted)


WIDE = {
    "zero point out of reach": (W, np.int8(-100)),
    "unsigned, beyond int8": (np.full((3, 2, 1, 1), 255, "uint8"), np.uint8(0)),
    "zero points of output channels": (
        np.full((3, 2, 1, 1), 200, "uint8"),
        np.array([0, 9, 255], "uint8"),
    ),
}


@pytest.mark.parametrize("case", WIDE)
def test_weights_that_do_not_fit_int8_keep_their_zero_points(case):
    q, z = WIDE[case]
    after = CanonicalizeQdq()(weighted(q, np.float32(0.5), z, 0))
    (pair,) = (v for _, v in dataflow.calls(after["main"]) if dataflow.operator(v) == "quantize")
    reals, scales, zeros = (dataflow.constant(argument) for argument in pair.args)
    wanted = np.broadcast_to(z, 3)
    np.testing.assert_array_equal(zeros, wanted)
    np.testing.assert_array_equal(scales, np.full(3, 0.5, "float32"))
    np.testing.assert_array_equal(reals, (q - wanted.reshape(3, 1, 1, 1).astype("float32")) * 0.5)
    assert str(pair.attrs.out_dtype) == q.dtype == zeros.dtype


def test_unsigned_weights_around_their_zero_point_are_signed():
    q = np.array([0, 255, 128, 1, 2, 3], "uint8").reshape(3, 2, 1, 1)
    after = CanonicalizeQdq()(weighted(q, np.float32(0.5), np.uint8(128), 0))
    (_, pair), *_ = dataflow.calls(after["main"])
    np.testing.assert_array_equal(dataflow.constant(pair.args[0]) / 0.5, q.astype("int64") - 128)
    assert not dataflow.constant(pair.args[2]).any()


@pytest.mark.parametrize(("largest", "factor"), [(7, 18), (31, 4), (32, 1), (127, 1)])
def test_weights_of_few_bits_have_finer_steps(largest, factor):
    """Of up to 6 bits; a bias is rounded to the steps of the products."""
    q = np.array([largest, -1, 0, 1, 2, -3], "int8").reshape(3, 2, 1, 1)
    after = CanonicalizeQdq()(weighted(q, np.float32(0.5), np.int8(0), 0))
    (_, pair), *_ = dataflow.calls(after["main"])
    reals, scales, _ = (dataflow.constant(argument) for argument in pair.args)
    np.testing.assert_array_equal(reals, q * np.float32(0.5))
    np.testing.assert_array_equal(scales, np.float32(0.5) / np.float32(factor))


BIAS = np.array([3, -4, 5], "int8")


def test_a_bias_behind_a_quantized_product_keeps_its_pair(expect_rewrite):
    half, zero = np.float32(0.5), np.int8(1)
    real = ((BIAS.astype("float32") - 1) * half).reshape(1, 1, 3)

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((1, 2, 3), "int8")) -> R.Tensor((1, 2, 3), "int8"):
            with R.dataflow():
                a = R.dequantize(x, R.const(half), R.const(zero))
                b = R.dequantize(R.const(BIAS), R.const(half), R.const(zero))
                c = R.add(b, a)
                d = R.nn.relu(c)
                y = R.quantize(d, R.const(half), R.const(zero), out_dtype="int8")
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((1, 2, 3), "int8")) -> R.Tensor((1, 2, 3), "int8"):
            with R.dataflow():
                a = R.dequantize(x, R.const(half), R.const(zero))
                q = R.quantize(R.const(real), R.const(half), R.const(zero), out_dtype="int8")
                b = R.dequantize(q, R.const(half), R.const(zero))
                c = R.add(b, a)
                d = R.nn.relu(c)
                y = R.quantize(d, R.const(half), R.const(zero), out_dtype="int8")
                R.output(y)
            return y

    expect_rewrite(CanonicalizeQdq(), Before, Expected)


def biased(bias: np.ndarray, dims: tuple[int, ...], *, is_quantized: bool = True):
    """Return a dequantized tensor plus a dequantized constant, quantized again or not."""
    x = relax.Var("x", relax.TensorType(dims, "int8"))
    pair = relax.const(np.float32(0.5)), relax.const(np.int8(0))
    writer = FunctionWriter()
    a = writer.emit("a", relax.op.dequantize(x, *pair))
    b = writer.emit("b", relax.op.dequantize(relax.const(bias), *pair))
    y = writer.emit("y", relax.op.add(a, b))
    if is_quantized:
        y = writer.emit("q", relax.op.quantize(y, *pair, -1, "int8"))
    return writer.finish([x], [y])


PLAIN = {
    "its sum is not quantized": biased(BIAS, (2, 3), is_quantized=False),
    "one number": biased(BIAS[:1], (2, 3)),
    "one number for each channel of an image": biased(BIAS.reshape(3, 1, 1), (1, 3, 4, 4)),
    "it broadcasts the tensor": biased(BIAS.reshape(3, 1), (1, 4)),
}


@pytest.mark.parametrize("case", PLAIN)
def test_other_constants_beside_integers_are_reals(case):
    after = CanonicalizeQdq()(PLAIN[case])
    kinds = [dataflow.operator(value) for _, value in dataflow.calls(after["main"])]
    assert kinds.count("dequantize") == 1


def test_equal_pairs_are_one(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                a = R.quantize(x, R.const(0.5), R.const(3, "int8"))
                b = R.quantize(x, R.const(0.5), R.const(3, "int8"))
                c = R.dequantize(a, R.const(0.5), R.const(3, "int8"))
                d = R.dequantize(b, R.const(0.5), R.const(3, "int8"))
                y = R.add(c, d)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                a = R.quantize(x, R.const(0.5), R.const(3, "int8"))
                c = R.dequantize(a, R.const(0.5), R.const(3, "int8"))
                y = R.add(c, c)
                R.output(y)
            return y

    expect_rewrite(CanonicalizeQdq(), Before, Expected)


def test_quantizing_again_by_the_same_parameters_is_nothing(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(q: R.Tensor((2, 4), "int8")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                x = R.dequantize(q, R.const(0.5), R.const(3, "int8"))
                a = R.quantize(x, R.const(0.5), R.const(3, "int8"))
                y = R.dequantize(a, R.const(0.5), R.const(3, "int8"))
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(q: R.Tensor((2, 4), "int8")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                y = R.dequantize(q, R.const(0.5), R.const(3, "int8"))
                R.output(y)
            return y

    expect_rewrite(CanonicalizeQdq(), Before, Expected)


def test_a_move_of_reals_is_between_pairs(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(q: R.Tensor((2, 4), "int8")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                x = R.dequantize(q, R.const(0.5), R.const(3, "int8"))
                m = R.reshape(x, (8,))
                y = R.nn.relu(m)
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(q: R.Tensor((2, 4), "int8")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                x = R.dequantize(q, R.const(0.5), R.const(3, "int8"))
                m = R.reshape(x, (8,))
                a = R.quantize(m, R.const(0.5), R.const(3, "int8"))
                d = R.dequantize(a, R.const(0.5), R.const(3, "int8"))
                y = R.nn.relu(d)
                R.output(y)
            return y

    expect_rewrite(CanonicalizeQdq(), Before, Expected)


def test_a_move_of_integers_is_one_of_reals_between_pairs(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                q = R.quantize(x, R.const(0.5), R.const(3, "int8"))
                m = R.reshape(q, (8,))
                y = R.dequantize(m, R.const(0.5), R.const(3, "int8"))
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((8,), "float32"):
            with R.dataflow():
                q = R.quantize(x, R.const(0.5), R.const(3, "int8"))
                d = R.dequantize(q, R.const(0.5), R.const(3, "int8"))
                r = R.reshape(d, (8,))
                m = R.quantize(r, R.const(0.5), R.const(3, "int8"))
                y = R.dequantize(m, R.const(0.5), R.const(3, "int8"))
                R.output(y)
            return y

    expect_rewrite(CanonicalizeQdq(), Before, Expected)


INTEGER_MOVES = {
    "expand_dims": lambda q: relax.op.expand_dims(q, 1),
    "squeeze": lambda q: relax.op.squeeze(q, 0),
    "broadcast_to": lambda q: relax.op.broadcast_to(q, (3, 4)),
}


def test_a_constant_that_a_norm_reads_is_rounded_as_its_pair_says(expect_rewrite):
    """Layers of floats read constants: unrounded ones would be other outputs than the file's."""

    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                q = R.quantize(
                    R.const(LOOSE), R.const(0.125), R.const(8, "uint8"), out_dtype="uint8"
                )
                gamma = R.dequantize(q, R.const(0.125), R.const(8, "uint8"))
                y = R.nn.rms_norm(x, gamma, axes=[-1])
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 4), "float32"):
            with R.dataflow():
                y = R.nn.rms_norm(x, R.const(STEPS), axes=[-1])
                R.output(y)
            return y

    expect_rewrite(PAIRS, Before, Expected)


@pytest.mark.parametrize("axis", [-1, 1])
@pytest.mark.parametrize("move", INTEGER_MOVES)
def test_axes_are_made_dropped_and_repeated_of_reals(move, axis):
    """As ONNX Runtime leaves them behind, which drops the pairs around what moves integers.

    Axis 1 is ONNX's default; of a single scale it means nothing, also where there is no such axis.
    """
    x = relax.Var("x", relax.TensorType((1, 4), "float32"))
    writer, pair = FunctionWriter(), (relax.const(np.float32(0.5)), relax.const(np.uint8(3)))
    q = writer.emit("q", relax.op.quantize(x, *pair, axis, "uint8"))
    moved = writer.emit("moved", INTEGER_MOVES[move](q))
    mod = writer.finish([x], [writer.emit("y", relax.op.dequantize(moved, *pair, -1))])
    after = CanonicalizeQdq()(mod)
    found = [dataflow.operator(value) for _, value in dataflow.calls(after["main"])]
    assert found == ["quantize", "dequantize", move, "quantize", "dequantize"]
    array = RNG.normal(size=(1, 4)).astype("float32")
    np.testing.assert_array_equal(run_relax(after, array), run_relax(mod, array))


def test_a_pad_of_integers_pads_with_the_real_of_its_value(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 6), "float32"):
            with R.dataflow():
                q = R.quantize(x, R.const(0.5), R.const(3, "int8"))
                p = R.nn.pad(q, [0, 0, 1, 1], "constant", 7)
                y = R.dequantize(p, R.const(0.5), R.const(3, "int8"))
                R.output(y)
            return y

    @I.ir_module
    class Expected:
        @R.function
        def main(x: R.Tensor((2, 4), "float32")) -> R.Tensor((2, 6), "float32"):
            with R.dataflow():
                q = R.quantize(x, R.const(0.5), R.const(3, "int8"))
                d = R.dequantize(q, R.const(0.5), R.const(3, "int8"))
                r = R.nn.pad(d, [0, 0, 1, 1], "constant", 2.0)
                p = R.quantize(r, R.const(0.5), R.const(3, "int8"))
                y = R.dequantize(p, R.const(0.5), R.const(3, "int8"))
                R.output(y)
            return y

    expect_rewrite(CanonicalizeQdq(), Before, Expected)


def test_other_parameters_and_channels_stay(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(x: R.Tensor((2, 3), "float32"), v: R.Tensor((2, 3), "int8")) -> R.Tensor(
            (3, 2), "float32"
        ):
            with R.dataflow():
                # one zero point apart
                a = R.quantize(x, R.const(0.5), R.const(3, "int8"))
                b = R.quantize(x, R.const(0.5), R.const(4, "int8"))
                c = R.dequantize(a, R.const(0.5), R.const(3, "int8"))
                d = R.dequantize(b, R.const(0.5), R.const(4, "int8"))
                # quantized again, more coarsely
                e = R.quantize(c, R.const(0.75), R.const(3, "int8"))
                f = R.dequantize(e, R.const(0.75), R.const(3, "int8"))
                # moved, with a scale for each channel
                g = R.dequantize(v, R.const(S), R.const(Z), axis=1)
                h = R.permute_dims(g, [1, 0])
                # moved, and quantized at once
                i = R.permute_dims(d, [1, 0])
                j = R.quantize(i, R.const(0.25), R.const(0, "int8"))
                k = R.dequantize(j, R.const(0.25), R.const(0, "int8"))
                n = R.add(h, k)
                o = R.sum(f)
                y = R.add(n, o)
                R.output(y)
            return y

    expect_rewrite(CanonicalizeQdq(), Before, Before)


def test_a_pad_of_reals_with_a_value_stays(expect_rewrite):
    @I.ir_module
    class Before:
        @R.function
        def main(q: R.Tensor((2, 4), "int8")) -> R.Tensor((2, 6), "float32"):
            with R.dataflow():
                x = R.dequantize(q, R.const(0.5), R.const(3, "int8"))
                p = R.nn.pad(x, [0, 0, 1, 1], "constant", 2.0)
                y = R.nn.relu(p)
                R.output(y)
            return y

    expect_rewrite(CanonicalizeQdq(), Before, Before)


SPEC = Sample2d(
    batch=1, channels=2, height=4, width=4, kernel=(1, 1), masked=True, x="float32", y="float32"
)


def sampled(mask: str, weight: str = "dequantized"):
    """Return a deformable 1x1 convolution of a dequantized image under ``mask``."""
    q = relax.Var("q", relax.TensorType((1, 2, 4, 4), "int8"))
    offset = relax.Var("offset", relax.TensorType((1, 2, 4, 4), "float32"))
    logits = relax.Var("logits", relax.TensorType((1, 1, 4, 4), "float32"))
    writer = FunctionWriter()
    w = relax.const(REAL)
    if weight == "dequantized":
        w = writer.emit("w", relax.op.dequantize(relax.const(W), relax.const(S), relax.const(Z), 0))
    image = writer.emit("image", relax.op.dequantize(q, relax.const(0.5), relax.const(3, "int8")))
    share = {
        "sigmoid": relax.op.sigmoid(logits),
        "clip": relax.op.clip(logits, relax.prim_value(-1.0), relax.prim_value(1.0)),
        "clip to 2": relax.op.clip(logits, relax.prim_value(0.0), relax.prim_value(2.0)),
        "exp": relax.op.exp(logits),
    }[mask]
    mask_var = writer.emit("mask", share)
    s = writer.emit("s", kernel_call(SPEC, [image, offset, mask_var], {}))
    return writer.finish([q, offset, logits], [writer.emit("y", nn.conv2d(s, w))])


@pytest.mark.parametrize("mask", ["sigmoid", "clip"])
def test_samples_that_integers_convolve_are_quantized_by_the_images_steps(mask):
    calls = {v.name: call for v, call in dataflow.calls(CanonicalizeQdq()(sampled(mask))["main"])}
    read = calls["y"].args[0]
    assert read.name == "s" and dataflow.operator(calls["s"]) == "dequantize"
    q = calls[calls["s"].args[0].name]
    assert dataflow.operator(q) == "quantize" and q.args[0].name == "s/sampled"
    for pair in (q, calls["s"]):
        scale, zero = map(dataflow.constant, pair.args[1:])
        assert (float(scale), int(zero), zero.dtype) == (0.5, 3, np.int8)


@pytest.mark.parametrize(
    ("mask", "weight"), [("clip to 2", "dequantized"), ("exp", "dequantized"), ("sigmoid", "real")]
)
def test_other_samples_stay_real(mask, weight):
    calls = dict(dataflow.calls(CanonicalizeQdq()(sampled(mask, weight))["main"]))
    assert "s/sampled" not in {var.name for var in calls}
