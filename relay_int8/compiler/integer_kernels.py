"""The integer kernels of a network: an operator's own, and those at the borders to floats.

The numeric contract (docs/design.md, "Arithmetic") is derived in ``operators``; here real
multipliers become the constants of a kernel, by ``numerics.multipliers``. Tables need none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from relay_int8.graph.group import Group
from relay_int8.numerics import qparams
from relay_int8.numerics.multipliers import MULTIPLIERS, multiplier_constants
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.kernel import Kernel, zero_points
from relay_int8.operators.registry import operator_of
from schedules.spec import Dequantize, Quantize, Requantize, Requantizing, Rescale, Table


def integer_kernel(
    group: Group, xs: Sequence[QParams], y: QParams | None, requantize: Requantize = "float"
) -> Kernel:
    """Return spec and constants of ``group`` in integers.

    Parameters
    ----------
    group
        A group whose activations are all dequantized integers.
    xs
        Parameters of its inputs, in the order of ``group.inputs``. Those of a concat, and those
        that a move or a max pooling passes on, equal y's: the caller rescales.
    y
        Parameters of its result, or None where the result stays float.
    requantize
        By what its sums are scaled; one that gives floats has float multipliers anyhow.
    """
    return _scaled(operator_of(group).integer_kernel(group, xs, y), requantize)


def quantize_kernel(shape: tuple[int, ...], y: QParams) -> Kernel:
    """Return the kernel that quantizes a float tensor of ``shape``."""
    constants = {"s": _one(y.scale), "z": zero_points(y), "clamp": y.clamp}
    return Quantize(dims=shape, y=y.dtype), constants


def pixel_kernel(shape: tuple[int, ...], y: QParams, table: np.ndarray) -> Kernel:
    """Return the kernel that looks raw pixels up in ``table``, (channels * 256,)."""
    return Table(dims=shape, x="uint8", y=y.dtype, by_channel=True), {"table": table}


def dequantize_kernel(shape: tuple[int, ...], x: QParams) -> Kernel:
    """Return the kernel that dequantizes an integer tensor of ``shape``."""
    return Dequantize(dims=shape, x=x.dtype), {"s": _one(x.scale), "z": zero_points(x)}


def rescale_kernel(
    shape: tuple[int, ...], x: QParams, y: QParams, requantize: Requantize = "float"
) -> Kernel:
    """Return the kernel that moves an integer tensor from x's parameters to y's."""
    constants = {"m": qparams.rescale_multiplier(x.scale, y.scale), "z": zero_points(x, y)}
    spec = Rescale(dims=shape, x=x.dtype, y=y.dtype)
    return _scaled((spec, constants | {"clamp": y.clamp}), requantize)


def _scaled(kernel: Kernel, requantize: Requantize) -> Kernel:
    """Turn the real multipliers of a kernel into its constants."""
    spec, constants = kernel
    if isinstance(spec, Requantizing) and spec.dtype("y") != "float32":
        spec = replace(spec, requantize=requantize)
    reals = {name: constants.pop(name) for name in MULTIPLIERS if name in constants}
    if "clamp" in constants:
        constants["clamp"] = constants["clamp"].astype(spec.constant_dtype("clamp"))
    return spec, constants | multiplier_constants(spec, reals)


def _one(value: np.float32) -> np.ndarray:
    return np.array([value], np.float32)
