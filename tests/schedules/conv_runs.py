"""Run a convolution template on random data, with garbage in the lanes past the last channel."""

import dataclasses

import numpy as np
import tvm
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.layout import NCHW16C
from schedules.reference.kernels import reference
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate
from tests.compiled import compiled

WANTED = Layouts(inputs=(NCHW16C, NCHW16C), output=NCHW16C)


def conv(channels: int, size: tuple[int, int], **fields) -> Conv2d:
    """Return a depthwise spec, unless ``fields`` say otherwise."""
    defaults = {
        "batch": 1,
        "in_channels": channels,
        "out_channels": channels,
        "height": size[0],
        "width": size[1],
        "kernel": (3, 3),
        "padding": (1, 1, 1, 1),
        "groups": channels,
        "x": "uint8",
        "y": "uint8",
    }
    return Conv2d(**(defaults | fields))


def random_values(rng: np.random.Generator, shape, dtype: str) -> np.ndarray:
    if dtype == "float32":
        return rng.standard_normal(shape).astype(np.float32)
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max + 1, shape, dtype=dtype)


def random_params(rng: np.random.Generator, spec: Conv2d) -> Arrays:
    """Return constants whose outputs spread over the type of y, some of them clamped."""
    oc, inputs = spec.out_channels, spec.in_channels // spec.groups
    is_float = spec.x == "float32"
    w = random_values(rng, (oc, inputs, *spec.kernel), spec.constant_dtype("w"))
    if spec.weights == "int16":
        w = w.clip(-255, 255)
    if is_float:
        bias = rng.standard_normal(oc).astype(np.float32)
        params = {"w": w, "bias": bias, "alpha": rng.standard_normal(oc).astype(np.float32)}
        params["clamp"] = np.array([-3, 3], np.float32)
    else:
        spread = 60 / (70 * 70 * np.sqrt(w[0].size))
        m = (rng.uniform(0.5, 2, (2, oc)) * spread).astype(np.float32)
        z_y = 5 if spec.y != "uint8" else 131
        low, high = (-np.inf, np.inf) if spec.y == "float32" else (-120, 119)
        params = {
            "w": w,
            "bias": rng.integers(-5000, 5000, oc, dtype=np.int32),
            "m": m[0],
            "m_neg": m[1],
            "m_r": np.array([0.37], np.float32),
            "z": np.array([3, z_y, 7], np.int32),
            "clamp": np.array([low, high], np.float32),
        }
    return {name: params[name] for name in spec.params}


def build(template: ScheduleTemplate, spec: Conv2d, target: Target, apply=None, seed: int = 7):
    """Compile ``spec`` with default tiles, or by ``apply(sch, spec, target)``."""
    func = template.kernel(spec, template.layouts(spec, WANTED))
    sch = Schedule(tvm.IRModule({"main": func.with_attr("global_symbol", "main")}), seed=seed)
    (apply or template.default)(sch, spec, target)
    finished = template.finish(sch.mod["main"])
    return compiled(tvm.IRModule({"main": finished}), target)


def physical(array: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Pack ``array`` as NCHW16c; lanes past the last channel hold garbage, NaN in float32."""
    channels = array.shape[1]
    padded = np.pad(array, ((0, 0), (0, -channels % 16), (0, 0), (0, 0)))
    tail = padded[:, channels:]
    tail[...] = (
        np.nan if array.dtype == np.float32 else random_values(rng, tail.shape, str(array.dtype))
    )
    return NCHW16C.pack(padded)


def run(
    template: ScheduleTemplate,
    spec: Conv2d,
    target: Target,
    apply=None,
    batch: int = 1,
    seed: int = 7,
):
    """Return what the kernel computes, what it should, and y's lanes past the last channel."""
    rng = np.random.default_rng(3)
    lib = build(template, spec, target, apply, seed)
    if isinstance(spec.batch, tirx.Var):
        spec = dataclasses.replace(spec, batch=batch)
    tensors = {n: random_values(rng, spec.shape(n), spec.dtype(n)) for n in spec.tensors}
    params = random_params(rng, spec)
    packed = template.pack(spec, params)
    y = np.full(NCHW16C.physical_shape(spec.shape("y")), 77, spec.y)
    inputs = [*(physical(tensors[n], rng) for n in spec.tensors), *(packed[n] for n in spec.params)]
    arguments = [tvm.runtime.tensor(array) for array in (*inputs, y)]
    lib["main"](*arguments)
    actual = arguments[-1].numpy()
    n, blocks, *size, lanes = actual.shape
    tail = actual.transpose(0, 1, 4, 2, 3).reshape(n, blocks * lanes, *size)[:, spec.out_channels :]
    return NCHW16C.unpack(actual, spec.shape("y")), reference(spec, tensors, params), tail


def assert_equal(
    template: ScheduleTemplate,
    spec: Conv2d,
    target: Target,
    apply=None,
    batch: int = 1,
    seed: int = 7,
):
    """Check a kernel: integers exactly, float sums within rounding, float tails zero."""
    assert template.refuses(spec, target) is None
    actual, expected, tail = run(template, spec, target, apply, batch, seed)
    if spec.x == "float32":
        np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5)
    else:
        np.testing.assert_array_equal(actual, expected)
    if spec.y == "float32":
        np.testing.assert_array_equal(tail, 0)
