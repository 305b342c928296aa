"""The choice between dp4a and tensor cores for a layer: what takes least time.

Times are those of tuning records where there are some of every template that is able, else
estimates: a measured time and an estimated one do not compare.

Tensor cores do eight to ten times the products of dp4a in a cycle, but only in blocks of 32
channels on both sides: a stem of 3 channels, or groups of a few, leave most of a block empty. No
choice costs a repack by itself: dp4a works in the layout of its neighbours on tensor cores. A
measured gain must be more than chance, or the layer stays as it is estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tvm.target import Target

from schedules.cuda.device.devices import gpu_for
from schedules.cuda.dp4a.channel_groups import ChannelGroups
from schedules.cuda.dp4a.intrin import LANES
from schedules.cuda.dp4a.split_reduction import slices
from schedules.cuda.mma import conv2d_mma, dense_mma
from schedules.cuda.mma.estimate import START_CYCLES, default_tiles, estimated_us
from schedules.spec import Conv2d, Dense
from schedules.template import Measured, not_measured

REACHED_SHARE = 0.5  # of that peak by a kernel that fills the GPU
THREAD_SUMS = 16
BUSY_THREADS = 512  # fill a multiprocessor
LEAST_GAIN = 0.02  # of the time of what is estimated to be faster; less may be chance


def dp4a_us(spec: Conv2d | Dense, target: Target) -> float:
    """Return about how long dp4a takes for ``spec``, in microseconds."""
    gpu = gpu_for(target)
    if isinstance(spec, Conv2d):
        groups, (rows, cols) = ChannelGroups.of(spec), spec.out_size
        words, taps = groups.inputs, spec.kernel[0] * spec.kernel[1]
        outputs = _images(spec.batch) * groups.blocks * LANES * rows * cols
    else:
        words, taps = -(-spec.k // LANES), 1
        outputs = _images(spec.rows) * spec.n
    threads = outputs * slices(words, taps, outputs // LANES or 1) / THREAD_SUMS
    parallel = min(1.0, threads / (gpu.cores * BUSY_THREADS))
    cycles = (
        outputs * words * LANES * taps / (gpu.cores * gpu.dp4a * LANES * REACHED_SHARE * parallel)
    )
    return (START_CYCLES + cycles) / gpu.mhz


def _images(batch: Any) -> int:
    return batch if isinstance(batch, int) else 1


def _conv2d_mma_us(spec: Conv2d, target: Target) -> float:
    product = conv2d_mma.gemm(spec)
    return estimated_us(product, default_tiles(product, target), target)


def _dense_mma_us(spec: Dense, target: Target) -> float:
    product = dense_mma.gemm(spec)
    return estimated_us(product, default_tiles(product, target), target)


ESTIMATES: dict[str, Callable[[Any, Target], float]] = {
    "conv2d_dp4a": dp4a_us,
    "dense_dp4a": dp4a_us,
    conv2d_mma.NAME: _conv2d_mma_us,
    dense_mma.NAME: _dense_mma_us,
}
"""Template -> ``(spec, target)`` -> estimated microseconds; comparable among themselves alone."""


def fastest(
    names: Sequence[str], spec: Any, target: Target, measured: Measured = not_measured
) -> str:
    """Return the template of ``names`` that takes least for ``spec``.

    Parameters
    ----------
    names
        Keys of ``ESTIMATES``.
    measured
        ``(template, spec)`` -> seconds on the target, None where they are not known.
    """
    estimated = min(names, key=lambda name: ESTIMATES[name](spec, target))
    times = {name: seconds for name in names if (seconds := measured(name, spec)) is not None}
    if len(times) < len(names):
        return estimated
    best = min(times, key=lambda name: times[name])
    return best if times[best] < times[estimated] * (1 - LEAST_GAIN) else estimated
