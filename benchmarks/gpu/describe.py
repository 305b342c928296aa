"""What each kernel of a compiled network is, in numbers: what it multiplies and what it moves."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from tvm.target import Target

from benchmarks.gpu.bundle import Kernel, digest
from benchmarks.macs import taps
from relay_int8.compiler.kernel_calls import KernelCall
from schedules.layout import LAYOUTS
from schedules.space import version
from schedules.spec import Conv2d, Dense, Spec, to_json
from schedules.task import Task

UNITS = ("dp4a", "mma")  # as templates are named


def describe(
    calls: tuple[KernelCall, ...], target: Target, oracle: Mapping[str, np.ndarray]
) -> tuple[Kernel, ...]:
    """Return the kernels; ``oracle`` is what they must compute, by call, empty if not known."""
    versions: dict[str, str] = {}
    return tuple(_described(call, target, oracle, versions) for call in calls)


def macs_of(spec: Spec) -> int:
    """Return the products of a convolution or dense layer, taps in padding left out."""
    if isinstance(spec, Dense):
        return int(spec.rows) * spec.n * spec.k
    if not isinstance(spec, Conv2d):
        return 0
    axes = zip(
        (spec.height, spec.width),
        spec.kernel,
        spec.out_size,
        spec.strides,
        spec.padding[:2],
        spec.dilation,
        strict=True,
    )
    inside = prod(taps(*axis) for axis in axes)
    return int(spec.batch) * spec.out_channels * (spec.in_channels // spec.groups) * inside


def moved_bytes(spec: Spec, layouts: tuple[str, ...]) -> int:
    """Return the bytes of all activations, as they lie in memory, and of weights."""
    total = 0
    for name, layout in zip((*spec.tensors, "y"), layouts, strict=True):
        shape = LAYOUTS[layout].physical_shape(spec.shape(name))
        total += prod(int(size) for size in shape) * np.dtype(spec.dtype(name)).itemsize
    weights = 1 if spec.dtype("x" if "x" in spec.tensors else "a") != "float32" else 4
    if isinstance(spec, Dense):
        total += spec.n * spec.k * weights
    elif isinstance(spec, Conv2d):
        total += spec.out_channels * (spec.in_channels // spec.groups) * prod(spec.kernel) * weights
    return total


def _described(
    call: KernelCall, target: Target, oracle: Mapping[str, np.ndarray], versions: dict[str, str]
) -> Kernel:
    spec = call.spec
    if spec is None or not spec.is_static:
        return Kernel(tensor=call.name, function=call.function, title=call.function)
    task = Task(template=call.template, spec=to_json(spec), layouts=call.layouts)
    if task.key not in versions:
        versions[task.key] = version(task.kernel(target))
    return Kernel(
        tensor=call.name,
        function=call.function,
        title=task.title,
        key=task.key,
        version=versions[task.key],
        unit=next((unit for unit in UNITS if unit in call.template), ""),
        macs=macs_of(spec),
        moved_bytes=moved_bytes(spec, call.layouts),
        tuned=call.tuned,
        expected=_expected(call.name, spec.dtype("y"), oracle),
        shape=tuple(int(size) for size in spec.shape("y")),
        layout=call.layouts[-1],
    )


def _expected(call: str, dtype: str, oracle: Mapping[str, np.ndarray]) -> str:
    """Return the hash of what the oracle says of a call, empty where it says nothing."""
    wanted = oracle.get(call)
    if wanted is None:
        return ""
    shift = 128 if wanted.dtype == np.int8 and dtype == "uint8" else 0
    return digest(wanted.astype(np.int32) + shift)
