"""What TPU-MLIR's developer manual derives ("Quantization derivation"), operator by operator.

Each row transcribes a formula of the manual in Python's integers and compares it with the integer
network, whose rounding is "tpu-mlir". Symmetric: zero points are 0, activations [-128, 127] with
``S = threshold / 128``; asymmetric: uint8 with a zero point. Weights are symmetric, [-127, 127].

Where the manual cannot mean what it prints: AvgPool's offset is added (step 1), not subtracted
(step 3); LeakyReLU and PReLU ask the sign of the real number, ``q_x - Z_x``, not of ``q_x``; Add
asks multipliers of 8 bits and a sum of 16 of its hardware, and floats of asymmetric integers: here
the same sums have 32-bit multipliers, and all tensors integers alone.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from tvm import relax

from relay_int8.compiler.passes.lower.lower_float import LowerFloat
from relay_int8.compiler.passes.lower.realize import Realize
from relay_int8.graph.requantize import with_requantize
from tests.kernel_interpreter import interpret
from tests.qdq_builder import QdqBuilder

pytestmark = pytest.mark.fast
nn = relax.op.nn


@dataclass(frozen=True)
class Scheme:
    """Type, zero points and limits of activations."""

    dtype: str
    z_x: int
    z_y: int

    @property
    def limits(self) -> tuple[int, int]:
        info = np.iinfo(self.dtype)
        return int(info.min), int(info.max)

    def clip(self, steps: np.ndarray) -> np.ndarray:
        """Saturate ``steps + Z_y``."""
        return np.clip(steps + self.z_y, *self.limits).astype(self.dtype)


SCHEMES = {"symmetric": Scheme("int8", 0, 0), "asymmetric": Scheme("uint8", 117, 131)}
SHAPE = (2, 4, 6, 5)
S_X = np.float32(3.1 / 128)
by_scheme = pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)


def multiplier_and_rshift(scale: float) -> tuple[int, int]:
    """ "Scale = Multiplier / 2**rshift", M_0 in [0.5, 1), 31 bits of it."""
    n = 0
    while abs(scale) < 0.5:
        scale, n = scale * 2, n + 1
    while abs(scale) >= 1:
        scale, n = scale / 2, n - 1
    return half_away(Fraction(scale) * 2**31), n + 31


def half_away(x: Fraction) -> int:
    return int(abs(x) + Fraction(1, 2)) * (-1 if x < 0 else 1)


def rshifted(product: Any, rshift: Any) -> np.ndarray:
    """``product >> rshift``, half away from zero, element by element."""
    apply = np.frompyfunc(lambda p, r: half_away(Fraction(int(p), 2 ** int(r))), 2, 1)
    return apply(product, rshift).astype(np.int64)


def scaled(x: np.ndarray, scale: float) -> np.ndarray:
    """``(x * Multiplier) >> rshift``."""
    multiplier, rshift = multiplier_and_rshift(float(scale))
    return rshifted(x.astype(object) * multiplier, rshift)


def activation(scheme: Scheme, seed: int = 0, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    low, high = scheme.limits
    rng = np.random.default_rng(seed)
    return rng.integers(low, high, shape, endpoint=True).astype(scheme.dtype)


def computed(net: QdqBuilder, y: relax.Var, s_y: float, scheme: Scheme, inputs: Any) -> np.ndarray:
    """Return y's integers from the network in fixed point."""
    mod = net.module(net.quantized(y, s_y, scheme.z_y, scheme.dtype))
    mod = LowerFloat()(Realize()(with_requantize(mod, "tpu-mlir")))
    return interpret(mod, net.feed(inputs))[y.name]


def assert_equal(found: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(found, expected)
    assert len(np.unique(found)) > 20


def test_scale_conversion():
    assert multiplier_and_rshift(0.1234) == (2119995857, 34)


@by_scheme
@pytest.mark.parametrize("s_w", [0.011, np.array([0.011, 0.02, 0.003])], ids=["tensor", "channel"])
def test_convolution(scheme: Scheme, s_w: Any):
    rng, q_x, s_y = np.random.default_rng(1), activation(scheme), np.float32(0.35)
    scales = np.broadcast_to(np.float32(s_w), 3)
    q_w = rng.integers(-127, 128, (3, 4, 3, 3))
    bias = rng.normal(0, 1, 3).astype("float32")
    net = QdqBuilder()
    x = net.integers("x", SHAPE, S_X, scheme.z_x, scheme.dtype)
    weights = q_w * scales.reshape(-1, 1, 1, 1)
    y = net.conv("y", x, weights, s_w, bias, padding=(1, 1))
    found = computed(net, y, s_y, scheme, {"x": q_x})

    padded = np.pad(  # "Pad is filled with Zx"
        q_x.astype(np.int64), ((0, 0), (0, 0), (1, 1), (1, 1)), constant_values=scheme.z_x
    )
    b_i32 = [
        int(np.rint(float(b) / (float(S_X) * float(s)))) - scheme.z_x * int(w.sum())
        for b, s, w in zip(bias, scales, q_w, strict=True)
    ]
    for channel, (b, s) in enumerate(zip(b_i32, scales, strict=True)):
        acc = sum(
            (padded[:, :, i : i + 6, j : j + 5] * q_w[channel, :, i, j].reshape(-1, 1, 1)).sum(1)
            for i in range(3)
            for j in range(3)
        )
        steps = scaled(np.asarray(acc) + b, float(S_X) * float(s) / float(s_y))
        assert_equal(found[:, channel], scheme.clip(steps))


@by_scheme
@pytest.mark.parametrize("s_w", [0.011, np.linspace(0.002, 0.02, 8)], ids=["tensor", "channel"])
def test_inner_product(scheme: Scheme, s_w: Any):
    rng, q_x, s_y = np.random.default_rng(1), activation(scheme, 3, (9, 12)), np.float32(0.25)
    scales = np.broadcast_to(np.float32(s_w), 8)
    q_w, bias = rng.integers(-127, 128, (12, 8)), rng.normal(0, 1, 8).astype("float32")
    net = QdqBuilder()
    x = net.integers("x", (9, 12), S_X, scheme.z_x, scheme.dtype)
    y = net.dense("y", x, q_w * scales, s_w, bias)
    found = computed(net, y, s_y, scheme, {"x": q_x})

    b_i32 = np.rint(bias / (np.float64(S_X) * scales)).astype(np.int64)
    acc = q_x.astype(np.int64) @ q_w + b_i32 - scheme.z_x * q_w.sum(0)
    columns = [
        scaled(column, float(S_X) * float(s) / float(s_y))
        for column, s in zip(acc.T, scales, strict=True)
    ]
    assert_equal(found, scheme.clip(np.stack(columns, 1)))


@by_scheme
@pytest.mark.parametrize("s_b", [S_X / 2, np.float32(0.0171)])
def test_add(scheme: Scheme, s_b: np.float32):
    q_a, q_b, s_y = activation(scheme, 1), activation(scheme, 2), np.float32(4.6 / 128)
    net = QdqBuilder()
    a = net.integers("a", SHAPE, S_X, scheme.z_x, scheme.dtype)
    b = net.integers("b", SHAPE, s_b, scheme.z_x, scheme.dtype)
    y = net.emit("y", relax.op.add(a, b))
    found = computed(net, y, s_y, scheme, {"a": q_a, "b": q_b})

    scales = [float(s) / float(s_y) for s in (S_X, s_b)]
    _, rshift = multiplier_and_rshift(max(scales))
    m_a, m_b = (half_away(Fraction(scale) * 2**rshift) for scale in scales)
    a, b = (q.astype(object) - scheme.z_x for q in (q_a, q_b))
    assert_equal(found, scheme.clip(rshifted(a * m_a + b * m_b, rshift)))
    # "requant(dequant(q_a) + dequant(q_b))", in exact numbers
    exact = (a * Fraction(float(S_X)) + b * Fraction(float(s_b))) / Fraction(float(s_y))
    rounded = np.frompyfunc(half_away, 1, 1)(exact).astype(np.int64)
    assert_equal(found, scheme.clip(rounded))


@by_scheme
def test_avg_pool(scheme: Scheme):
    q_x, s_y, k = activation(scheme), np.float32(1.4 / 128), 6
    net = QdqBuilder()
    x = net.integers("x", SHAPE, S_X, scheme.z_x, scheme.dtype)
    y = net.emit("y", nn.avg_pool2d(x, pool_size=(3, 2)))
    found = computed(net, y, s_y, scheme, {"x": q_x})

    sums = sum(
        q_x[:, :, i : i + 4, j : j + 4].astype(np.int64) - scheme.z_x
        for i in range(3)
        for j in range(2)
    )
    assert_equal(found, scheme.clip(scaled(np.asarray(sums), float(S_X) / (float(s_y) * k))))


@by_scheme
@pytest.mark.parametrize("alpha", [0.1, -0.3])
def test_leaky_relu(scheme: Scheme, alpha: float):
    """ "After BackwardCalibration" threshold_y = threshold_x: what is not negative is moved."""
    q_x = activation(scheme)
    net = QdqBuilder()
    x = net.integers("x", SHAPE, S_X, scheme.z_x, scheme.dtype)
    y = net.emit("y", nn.leakyrelu(x, alpha))
    found = computed(net, y, S_X, scheme, {"x": q_x})

    steps = q_x.astype(np.int64) - scheme.z_x
    assert_equal(found, scheme.clip(np.where(steps >= 0, steps, scaled(steps, alpha))))


@by_scheme
def test_prelu(scheme: Scheme):
    """Slopes are int8 themselves: q_alpha * M >> rshift, one M and rshift of S_alpha."""
    q_x, s_alpha = activation(scheme), 2.0**-7
    q_alpha = np.array([100, 13, -40, 127])
    net = QdqBuilder()
    x = net.integers("x", SHAPE, S_X, scheme.z_x, scheme.dtype)
    slopes = relax.const((q_alpha * s_alpha).astype("float32"))
    y = net.emit("y", nn.prelu(x, slopes, 1))
    found = computed(net, y, S_X, scheme, {"x": q_x})

    steps = q_x.astype(np.int64) - scheme.z_x
    multiplier, rshift = multiplier_and_rshift(s_alpha)
    product = steps.astype(object) * q_alpha.reshape(-1, 1, 1) * multiplier
    assert_equal(found, scheme.clip(np.where(steps >= 0, steps, rshifted(product, rshift))))


@by_scheme
def test_pad(scheme: Scheme):
    """Sx = Sy after BackwardCalibration; a padded zero is round(0 / Sy + Zy)."""
    q_x = activation(scheme)
    net = QdqBuilder()
    x = net.integers("x", SHAPE, S_X, scheme.z_x, scheme.dtype)
    y = net.emit("y", nn.pad(x, [0, 0, 0, 0, 1, 2, 1, 0]))
    found = computed(net, y, S_X, scheme, {"x": q_x})

    moved = q_x.astype(np.int64) - scheme.z_x
    padded = np.pad(moved, ((0, 0), (0, 0), (1, 2), (1, 0)))
    assert_equal(found, scheme.clip(padded))
