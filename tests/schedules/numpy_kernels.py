"""What convolution and dense must compute, in NumPy, straight from the formulas."""

from typing import Any

import numpy as np

from schedules.spec import Conv2d, Dense

Arrays = dict[str, np.ndarray]


def fma_f32(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """a * b + c of float32, rounded once: exact product, TwoSum, round to odd, float32."""
    a, b, c = (np.asarray(v, "float32").astype("float64") for v in (a, b, c))
    product = a * b  # 48 bits: exact
    total = product + c
    back = total - product
    error = (product - (total - back)) + (c - back)
    bits = np.atleast_1d(total).view("int64")
    inexact_even = (np.atleast_1d(error) != 0) & (bits % 2 == 0)
    toward = np.where(np.atleast_1d(error) > 0, np.inf, -np.inf)
    odd = np.where(inexact_even, np.nextafter(np.atleast_1d(total), toward), np.atleast_1d(total))
    return odd.reshape(np.shape(total)).astype("float32")


def conv2d_sum(spec: Conv2d, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Sum over the window; x without its zero point, float64 (exact for integers)."""
    top, left, bottom, right = spec.padding
    x = np.pad(x.astype("float64"), ((0, 0), (0, 0), (top, bottom), (left, right)))
    (rows, cols), (sh, sw), (dh, dw) = spec.out_size, spec.strides, spec.dilation
    inputs, outputs = spec.in_channels // spec.groups, spec.out_channels // spec.groups
    y = np.zeros((x.shape[0], spec.out_channels, rows, cols))
    for g in range(spec.groups):
        for r in range(spec.kernel[0]):
            for s in range(spec.kernel[1]):
                window = x[:, :, r * dh :: sh, s * dw :: sw][:, :, :rows, :cols]
                window = window[:, g * inputs : (g + 1) * inputs]
                taps = w[g * outputs : (g + 1) * outputs, :, r, s].astype("float64")
                y[:, g * outputs : (g + 1) * outputs] += np.einsum("nchw,oc->nohw", window, taps)
    return y


def accumulators(spec: Conv2d | Dense, arrays: Arrays) -> np.ndarray:
    """Sum plus bias: int64, or float64 where x is float."""
    x = arrays["x"]
    if spec.x != "float32":
        x = x.astype("int64") - arrays["z"][0]
    if isinstance(spec, Dense):
        total = x.astype("float64") @ arrays["w"].astype("float64").T
    else:
        total = conv2d_sum(spec, x, arrays["w"])
    acc = total + channels(spec, arrays["bias"])
    return acc if spec.x == "float32" else acc.astype("int64")


def channels(spec: Conv2d | Dense, values: np.ndarray) -> np.ndarray:
    return values if isinstance(spec, Dense) else values[:, None, None]


def reference(spec: Conv2d | Dense, arrays: Arrays) -> np.ndarray:
    """Return y; float32 convolutions in float64, for comparison with a tolerance."""
    acc = accumulators(spec, arrays)
    low, high = arrays["clamp"]
    sum_first = isinstance(spec, Conv2d) and spec.sum_first
    if spec.x == "float32":
        if spec.leaky and sum_first:
            acc = acc + arrays["r"]
            return np.clip(np.where(acc < 0, acc * channels(spec, arrays["alpha"]), acc), low, high)
        if spec.leaky:
            acc = np.where(acc < 0, acc * channels(spec, arrays["alpha"]), acc)
        return np.clip(acc + arrays.get("r", 0), low, high)
    m = np.broadcast_to(channels(spec, arrays["m"]), acc.shape)
    if spec.leaky and not sum_first:
        m = np.where(acc >= 0, m, channels(spec, arrays["m_neg"]))
    t = acc.astype("int32").astype("float32") * m
    if "r" in arrays:
        r = (arrays["r"].astype("int32") - arrays["z"][2]).astype("float32")
        t = fma_f32(r, arrays["m_r"][0], t)
    if spec.leaky and sum_first:
        t = np.where(t < 0, t * channels(spec, arrays["alpha"]), t)
    if spec.y == "float32":
        return np.clip(t, low, high)
    q = np.clip(np.rint(t), low, high).astype("int64") + arrays["z"][1]
    return q.astype(spec.y)


RANGE = {"uint8": (0, 255), "int8": (-128, 127)}


def random_arrays(spec: Conv2d | Dense, rng: np.random.Generator, batch: int = 1) -> Arrays:
    """Return random activations and constants, in logical form."""
    conv = isinstance(spec, Conv2d)
    count = spec.out_channels if conv else spec.n
    w_shape: Any = (
        (spec.n, spec.k) if not conv else (count, spec.in_channels // spec.groups, *spec.kernel)
    )
    products = int(np.prod(w_shape[1:]))

    def activation(name: str) -> np.ndarray:
        shape = [batch if not isinstance(size, int) else size for size in spec.shape(name)]
        dtype = spec.dtype(name)
        if dtype == "float32":
            return rng.standard_normal(shape).astype("float32")
        low, high = RANGE[dtype]
        return rng.integers(low, high + 1, shape).astype(dtype)

    arrays = {name: activation(name) for name in spec.tensors}
    if spec.x == "float32":
        arrays["w"] = rng.standard_normal(w_shape).astype("float32")
        arrays["bias"] = rng.standard_normal(count).astype("float32")
        arrays["alpha"] = rng.uniform(-0.5, 0.5, count).astype("float32")
        arrays["clamp"] = np.array([-np.sqrt(products), 2 * np.sqrt(products)], "float32")
    else:
        most = {"int8": 127, "int16": 255}[spec.weights]
        arrays["w"] = rng.integers(-most, most + 1, w_shape).astype(spec.weights)
        arrays["bias"] = rng.integers(-5000, 5000, count).astype("int32")
        spread = 100 * 73 * np.sqrt(products)
        arrays["m"] = (rng.uniform(30, 90, count) / spread).astype("float32")
        arrays["m_neg"] = (arrays["m"] * -0.3).astype("float32")
        arrays["m_r"] = np.array([0.37], "float32")
        if spec.activation:
            arrays["m"] /= np.float32(20)
        arrays["alpha"] = np.linspace(-0.5, 0.5, count, dtype="float32")
        arrays["b_y"] = np.linspace(-9, 9, count, dtype="float32")
        arrays["m_y"] = rng.uniform(12, 36, count).astype("float32")
        z_y = 0 if spec.y == "float32" else int(rng.integers(*RANGE[spec.y]))
        z_x = int(rng.integers(*RANGE[spec.x]))
        residual = getattr(spec, "residual", None)
        z_r = int(rng.integers(*RANGE[residual])) if residual in RANGE else 0
        arrays["z"] = np.array([z_x, z_y, z_r], "int32")
        low, high = RANGE.get(spec.y, (-100, 100))
        arrays["clamp"] = np.array([low - z_y, high - z_y], "float32")
    return {name: arrays[name] for name in (*spec.tensors, *spec.params)}
