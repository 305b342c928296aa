"""What each Relax operator computes, in NumPy; the element type of the result is that of x.

float32 arrays make an island, float64 arrays a table, int64 arrays moved integers. A function takes
the call's arguments, then its attributes by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import numpy as np

from tests.oracle import series
from tests.oracle.functions import gelu, sigmoid
from tests.oracle.recurrence import recurrence
from tests.oracle.rows import group_norm, instance_norm, layer_norm, rms_norm, softmax
from tests.oracle.sampling import sample2d

Array = np.ndarray[Any, np.dtype[Any]]
Pair = tuple[int, int]
WEIGHT_UNITS = 2**11  # of a row or column of a bilinear resize of integers
FLOAT_UNITS = 2**24


def clip(x: Array, low: float, high: float) -> Array:
    return np.minimum(np.maximum(x, np.asarray(low, x.dtype)), np.asarray(high, x.dtype))


def prelu(x: Array, alpha: Array, *, axis: int) -> Array:
    shape = [1] * x.ndim
    shape[axis] = -1
    return np.where(x < 0, x * alpha.astype(x.dtype).reshape(shape), x)


def as_series(
    exact: Callable[[Array], Array], other: Callable[[Array], Array]
) -> Callable[[Array], Array]:
    """Return a function of float32 bit for bit, of other types as NumPy has it."""
    return lambda x: exact(x) if x.dtype == np.float32 else other(x)


def erf(x: Array) -> Array:
    return np.vectorize(math.erf, otypes=[np.float64])(x).astype(x.dtype)


def mean(x: Array, *, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    return x.mean(axis=axis, keepdims=keepdims)


def total(x: Array, *, axis: tuple[int, ...] | None, keepdims: bool) -> Array:
    return x.sum(axis=axis, keepdims=keepdims)


def batch_norm(
    x: Array, gamma: Array, beta: Array, average: Array, variance: Array, **at: Any
) -> tuple[Array, ...]:
    shape = [1] * x.ndim
    shape[at["axis"]] = -1
    gamma, beta, average, variance = (v.reshape(shape) for v in (gamma, beta, average, variance))
    y = (x - average) / np.sqrt(variance + x.dtype.type(at["epsilon"])) * gamma + beta
    return (y, average.reshape(-1), variance.reshape(-1))


# Convolution and pooling: sums over the taps of a window.


def taps(x: Array, kernel: Pair, strides: Pair, dilation: Pair, size: Pair) -> Iterator[Any]:
    """Yield, for each tap (i, j) of the kernel, the x that it meets at all output positions."""
    (sh, sw), (dh, dw), (oh, ow) = strides, dilation, size
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = slice(i * dh, i * dh + (oh - 1) * sh + 1, sh)
            columns = slice(j * dw, j * dw + (ow - 1) * sw + 1, sw)
            yield i, j, x[:, :, rows, columns]


def conv2d(x: Array, w: Array, **at: Any) -> Array:
    """Return the convolution of NCHW x with OIHW w; integers are exact in float64."""
    if (at["data_layout"], at["kernel_layout"]) != ("NCHW", "OIHW"):
        raise NotImplementedError(f"conv2d in {at['data_layout']}: the oracle reads NCHW, OIHW")
    top, left, bottom, right = at["padding"]
    x = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right)))
    oc, ic, kh, kw = w.shape
    groups, n = at["groups"], x.shape[0]
    size = tuple(
        (x.shape[2 + i] - at["dilation"][i] * (w.shape[2 + i] - 1) - 1) // at["strides"][i] + 1
        for i in (0, 1)
    )
    by_tap = np.ascontiguousarray(
        w.reshape(groups, oc // groups, ic, kh, kw).transpose(3, 4, 0, 1, 2)
    )
    acc = np.zeros((n, groups, oc // groups, size[0] * size[1]), x.dtype)
    for i, j, met in taps(x, (kh, kw), at["strides"], at["dilation"], size):
        columns = met.reshape(n, groups, ic, -1)
        acc += by_tap[i, j] * columns if ic == 1 else by_tap[i, j] @ columns
    return acc.reshape(n, oc, *size)


def window_size(x: Array, at: dict[str, Any]) -> Pair:
    """Return height and width of a pooling's output.

    ceil_mode lets the last window hang over, but not begin beyond the input: in the padding there.
    """
    if "out_size" in at:
        return at["out_size"]
    size = []
    for i in (0, 1):
        room = x.shape[2 + i] + at["padding"][i] + at["padding"][2 + i]
        room -= at["dilation"][i] * (at["pool_size"][i] - 1) + 1
        steps = -(-room // at["strides"][i]) if at["ceil_mode"] else room // at["strides"][i]
        if at["ceil_mode"] and steps * at["strides"][i] >= x.shape[2 + i] + at["padding"][i]:
            steps -= 1
        size.append(steps + 1)
    return size[0], size[1]


def windows(x: Array, at: dict[str, Any], fill: float) -> Iterator[Array]:
    """Yield x at each tap of a pooling's window; ``fill`` is what lies outside."""
    if at["layout"] != "NCHW":
        raise NotImplementedError(f"pooling in {at['layout']}: the oracle reads NCHW")
    size, before = window_size(x, at), at["padding"][:2]
    widths = [(0, 0), (0, 0)]
    for i in (0, 1):
        reach = (size[i] - 1) * at["strides"][i] + at["dilation"][i] * (at["pool_size"][i] - 1) + 1
        widths.append((before[i], max(0, reach - before[i] - x.shape[2 + i])))
    padded = np.pad(x, widths, constant_values=fill)
    for _, _, met in taps(padded, at["pool_size"], at["strides"], at["dilation"], size):
        yield met


def max_pool2d(x: Array, **at: Any) -> Array:
    lowest = np.iinfo(x.dtype).min if x.dtype.kind == "i" else -np.inf
    found = [*windows(x, at, lowest)]
    return np.maximum.reduce(found)


def window_sums(x: Array, **at: Any) -> Array:
    """Sum the input positions of each window of avg_pool2d."""
    return sum(windows(x, at, 0))


def window_counts(x: Array, **at: Any) -> Array:
    """Count what each window is divided by, (oh, ow).

    The input's positions; with count_include_pad the padding's too; what hangs over because of
    ceil_mode never, as in PyTorch and ONNX. A window of nothing is divided by 1.
    """
    ones = np.ones((1, 1, *x.shape[2:]), np.int64)
    if at["count_include_pad"]:
        top, left, bottom, right = at["padding"]
        ones = np.pad(ones, ((0, 0), (0, 0), (top, bottom), (left, right)), constant_values=1)
        at = {**at, "padding": (0, 0, 0, 0), "out_size": window_size(x, at)}
    return np.maximum(window_sums(ones, **at)[0, 0], 1)


def avg_pool2d(x: Array, **at: Any) -> Array:
    return window_sums(x, **at) / window_counts(x, **at).astype(x.dtype)


def adaptive_sums(x: Array, *, output_size: Pair, **_: Any) -> tuple[Array, Array]:
    """Return sums and counts; window i of n covers [floor(i h / n), ceil((i + 1) h / n))."""
    spans = [
        [(i * size // n, -(-(i + 1) * size // n)) for i in range(n)]
        for n, size in zip(output_size, x.shape[2:], strict=True)
    ]
    sums = [[x[:, :, a:b, c:d].sum((2, 3)) for c, d in spans[1]] for a, b in spans[0]]
    counts = [[(b - a) * (d - c) for c, d in spans[1]] for a, b in spans[0]]
    return np.moveaxis(np.array(sums), (0, 1), (2, 3)), np.array(counts)


def adaptive_avg_pool2d(x: Array, **at: Any) -> Array:
    sums, counts = adaptive_sums(x, **at)
    return sums / counts.astype(x.dtype)


# Moves: elements go elsewhere, none is computed.


def pad(x: Array, *, pad_width: tuple[int, ...], pad_value: float, pad_mode: str) -> Array:
    widths = [(pad_width[2 * i], pad_width[2 * i + 1]) for i in range(x.ndim)]
    if pad_mode == "constant":
        return np.pad(x, widths, constant_values=pad_value)
    modes = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    return np.pad(x, widths, mode=modes[pad_mode])


def strided_slice(
    x: Array, axes: Any, begin: Any, end: Any, strides: Any = None, **_: Any
) -> Array:
    index = [slice(None)] * x.ndim
    for i, axis in enumerate(axes):
        step = strides[i] if strides else 1
        stop = None if step < 0 and end[i] < -x.shape[axis] else end[i]
        index[axis] = slice(begin[i], stop, step)
    return x[tuple(index)]


def split(x: Array, *, indices_or_sections: Any, axis: int) -> list[Array]:
    """Split at indices, or into sections of ceil(extent / sections), the last one shorter."""
    points = indices_or_sections
    if isinstance(points, int):
        length = -(-x.shape[axis] // points)
        points = [length * i for i in range(1, points)]
    return np.split(x, points, axis)


def resize2d(x: Array, size: Pair, **at: Any) -> Array:
    if is_bilinear(at):
        mode = at["coordinate_transformation_mode"]
        return (bilinear_steps(x, size, mode, FLOAT_UNITS) / FLOAT_UNITS**2).astype(x.dtype)
    if not is_nearest_floor(at):
        raise NotImplementedError(
            f"resize2d {at['method']}, {at['coordinate_transformation_mode']}, "
            f"{at['rounding_method']!r}: the oracle has linear, and nearest_neighbor with "
            "asymmetric, floor"
        )
    rows, columns = (np.arange(size[i]) * x.shape[2 + i] // size[i] for i in (0, 1))
    return x[:, :, rows[:, None], columns]


def is_bilinear(at: dict[str, Any]) -> bool:
    """Whether a resize sums four pixels."""
    return at["method"] == "linear" and at["layout"] == "NCHW"


def bilinear_steps(x: Array, size: Pair, mode: str, units: int = WEIGHT_UNITS) -> Array:
    """Return sums of x times whole weights, whose sum is ``units**2``."""
    rows, columns = (_bilinear_weights(x.shape[2 + i], size[i], mode, units) for i in (0, 1))
    return np.einsum("nchw,ih,jw->ncij", x.astype(np.float64), rows, columns, optimize=True)


def _bilinear_weights(size: int, out: int, mode: str, units: int) -> Array:
    """Return the weight of each pixel of an axis for each position, whole, (out, size)."""
    weights = np.zeros((out, size))
    for i in range(out):
        if mode == "align_corners":
            place = Fraction(i) * Fraction(size - 1, out - 1) if out > 1 else Fraction(0)
        elif mode == "asymmetric":
            place = Fraction(i) * Fraction(size, out)
        elif mode == "half_pixel" or out > 1:
            place = (i + Fraction(1, 2)) * Fraction(size, out) - Fraction(1, 2)
        else:
            place = Fraction(0)
        place = max(Fraction(0), min(place, Fraction(size - 1)))
        second = round((place - math.floor(place)) * units)
        weights[i, math.floor(place)] += units - second
        weights[i, min(math.floor(place) + 1, size - 1)] += second
    return weights


def is_nearest_floor(at: dict[str, Any]) -> bool:
    """Whether a resize moves elements as the contract says: floor(y index * x size / y size)."""
    found = (at["method"], at["coordinate_transformation_mode"], at["rounding_method"])
    return found == ("nearest_neighbor", "asymmetric", "floor") and at["layout"] == "NCHW"


def pixel_shuffle(x: Array, *, upscale_factor: int) -> Array:
    r = upscale_factor
    n, c, h, w = x.shape
    blocks = x.reshape(n, c // (r * r), r, r, h, w).transpose(0, 1, 4, 2, 5, 3)
    return blocks.reshape(n, c // (r * r), h * r, w * r)


def permute_dims(x: Array, *, axes: tuple[int, ...] | None) -> Array:
    return x.transpose(axes)


def squeeze(x: Array, *, axis: tuple[int, ...] | None) -> Array:
    return np.squeeze(x, axis)


LAYOUT: dict[str, Callable[..., Any]] = {  # one element in, one element out
    "reshape": lambda x, shape: x.reshape(shape),
    "flatten": lambda x: x.reshape(-1),
    "batch_flatten": lambda x: x.reshape(len(x), -1),
    "permute_dims": permute_dims,
    "squeeze": squeeze,
    "expand_dims": lambda x, axis: np.expand_dims(x, axis),
    "pixel_shuffle": pixel_shuffle,
}
MOVES: dict[str, Callable[..., Any]] = {
    **LAYOUT,
    "strided_slice": strided_slice,
    "split": split,
    "item": lambda parts, index: parts[index],
    "resize2d": resize2d,
    "pad": pad,
    "max_pool2d": max_pool2d,
}
ELEMENTWISE: dict[str, Callable[..., Array]] = {  # broadcasting, so that constants may join
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "power": np.power,
    "relu": lambda x: np.maximum(x, x.dtype.type(0)),
    "clip": clip,
    "leakyrelu": lambda x, alpha: np.where(x < 0, x * x.dtype.type(alpha), x),
    "sigmoid": sigmoid,
    "silu": lambda x: x * sigmoid(x),
    "gelu_tanh": lambda x: x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))) / 2,
    "gelu": gelu,
    "erf": as_series(series.erf, erf),
    "tanh": as_series(series.tanh, np.tanh),
    "exp": as_series(series.exp, np.exp),
    "log": as_series(series.log, np.log),
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "square": np.square,
    "negative": np.negative,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "sin": np.sin,
    "cos": np.cos,
}


def gather_nd(x: Array, places: Array, batch_dims: int) -> Array:
    """Return the parts of x at ``places``, coordinates along their last axis."""
    assert batch_dims == 0
    found: Array = x[tuple(np.moveaxis(places, -1, 0))]
    return found


OPERATORS: dict[str, Callable[..., Any]] = {
    **MOVES,
    **ELEMENTWISE,
    "prelu": prelu,
    "softmax": softmax,
    "log_softmax": lambda x, axis: np.log(softmax(x, axis=axis)),
    "mean": mean,
    "sum": total,
    "ones_like": np.ones_like,
    "zeros_like": np.zeros_like,
    "variance": lambda x, axis, keepdims: x.var(axis=axis, keepdims=keepdims),
    "max": lambda x, axis, keepdims: x.max(axis=axis, keepdims=keepdims),
    "min": lambda x, axis, keepdims: x.min(axis=axis, keepdims=keepdims),
    "concat": lambda parts, axis: np.concatenate(parts, axis),
    "tuple": lambda *parts: list(parts),
    "matmul": lambda a, b, out_dtype: a @ b,
    "conv2d": conv2d,
    "recurrence": recurrence,
    "sample2d": sample2d,
    "avg_pool2d": avg_pool2d,
    "adaptive_avg_pool2d": adaptive_avg_pool2d,
    "batch_norm": batch_norm,
    "layer_norm": layer_norm,
    "rms_norm": rms_norm,
    "group_norm": group_norm,
    "instance_norm": instance_norm,
    "broadcast_to": lambda x, shape: np.broadcast_to(x, shape),
    "astype": lambda x, dtype: x.astype(dtype),
    "isnan": np.isnan,
    "where": np.where,
    "less": np.less,
    "logical_not": np.logical_not,
    "logical_and": np.logical_and,
    "equal": np.equal,
    "gather_nd": gather_nd,
    "take": lambda x, places, axis, mode: np.take(x, places, axis),
}


def apply(op: str, args: list[Any], attrs: dict[str, Any]) -> Any:
    """Evaluate one operator."""
    if op not in OPERATORS:
        raise NotImplementedError(f"the oracle does not know operator {op}")
    return OPERATORS[op](*args, **attrs)
