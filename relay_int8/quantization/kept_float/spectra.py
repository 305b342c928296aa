"""Transforms of the network's input whose results are squared: spectra of sound, in float.

Networks of sound begin with a Fourier or constant-Q transform, written as convolutions whose real
and imaginary parts are squared, added up and compressed by a root or a logarithm. The rounding of a
byte is the same at every frequency, and many times what quiet frequencies have; the compression
raises it. No range helps there, so that these layers stay in float:

    input -> (move | pad | concat | sum | difference | a * x + b | part that a mask takes |
              layer without bias and activation), any of them
          -> squares or other even powers, and nothing else

Recordings are often brought to one range first: a and b may be computed, one of each for an image,
and a may be a window.

A layer that reads their power, as filters of the mel scale do, stays in float for the same reason:

    squares of such transforms -> (move | pad | concat | sum), any of them -> layer
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from tvm import relax

from relay_int8.graph import dataflow
from relay_int8.graph.group import AFFINE, MOVES, Group, readers_of
from relay_int8.quantization.kept_float.linear_groups import (
    SAMPLES,
    SUMS,
    are_powers,
    is_linear_layer,
    is_multiple,
    is_square,
    samples,
)

REASON = (
    "it transforms the network's input, and nothing but its squares is read: bytes would lose "
    "what is quiet"
)

POWER_REASON = (
    "it reads the power of a spectrum of the network's input: bytes would lose what is quiet"
)


def spectrum_reasons(
    groups: Sequence[Group], inputs: Collection[relax.Var], results: Collection[relax.Var]
) -> dict[str, str]:
    """Return the layers of such transforms, by name, and why they stay in float.

    Parameters
    ----------
    groups
        Of the network, in their order.
    inputs, results
        What the network takes and returns.
    """
    linear = set(inputs)
    for group in groups:
        if _is_linear_in(group, linear):
            linear.add(group.output)
    squared: set[relax.Var] = set()
    readers = readers_of(groups)
    for group in reversed(groups):
        behind = readers.get(group.output, [])
        alone = bool(behind) and group.output not in results
        if alone and all(_is_even_power(each) or _passes(each, squared) for each in behind):
            squared.add(group.output)
    reasons = {
        group.name: REASON
        for group in groups
        if group.is_layer and group.output in linear and group.output in squared
    }
    transformed = linear & squared if reasons else set()
    return reasons | dict.fromkeys(_power_readers(groups, transformed), POWER_REASON)


def _power_readers(groups: Sequence[Group], transformed: Collection[relax.Var]) -> list[str]:
    """Return the layers that read the power of ``transformed`` tensors, by name."""
    power: set[relax.Var] = set()
    readers = []
    for group in groups:
        read = set(group.inputs)
        reads_power = bool(read) and read <= power
        passes = group.activation is None and (group.kind in (*MOVES, *SUMS) or is_multiple(group))
        squares = bool(read) and read.issubset(transformed) and is_square(group)
        if group.is_layer and reads_power:
            readers.append(group.name)
        elif squares or (reads_power and passes):
            power.add(group.output)
    return readers


def _is_linear_in(group: Group, linear: Collection[relax.Var]) -> bool:
    """Whether a group is a linear function of tensors that are."""
    read = [var for var in (*group.inputs, *group.floats) if _is_float(var)]
    inputs = [var for var in read if not _is_one_number(var)]
    if not inputs or not all(var in linear for var in inputs):
        return False
    if _is_linear(group):
        return True
    if group.activation is not None:
        return False
    if group.kind in ("mul", "div"):
        is_dividend = group.kind == "mul" or inputs[0].same_as(group.root.args[0])
        return len(inputs) == 1 and is_dividend
    return group.kind in ("add", "sub", "take", "where") or _is_affine_function(group)


def _is_float(var: relax.Var) -> bool:
    return isinstance(var.ty, relax.TensorType) and dataflow.dtype(var) == "float32"


def _is_one_number(var: relax.Var) -> bool:
    """Whether a tensor has one element for each image."""
    dims = dataflow.shape(var)
    return all(extent == 1 for extent in dims[len(dims) > 1 :])


def _is_affine_function(group: Group) -> bool:
    """Whether a function of one tensor is a * x + b."""
    values = samples(group)
    if values is None or not np.isfinite(values).all():
        return False
    return bool(np.allclose(values, np.poly1d(np.polyfit(SAMPLES, values, 1))(SAMPLES), rtol=1e-5))


def _passes(reader: Group, squared: Collection[relax.Var]) -> bool:
    return _is_linear(reader) and reader.output in squared


def _is_linear(group: Group) -> bool:
    if group.is_layer:
        return is_linear_layer(group)
    return group.activation is None and group.kind in (*MOVES, AFFINE)


def _is_even_power(group: Group) -> bool:
    """Whether a group is a power of abs(x) other than the first, times a number."""
    if is_square(group):
        return True
    values = samples(group)
    if values is None or not (np.isfinite(values).all() and (values > 0).all()):
        return False
    exponent = float(np.log(values[-1] / values[1]) / np.log(SAMPLES[-1]))
    return not np.isclose(exponent, 1.0) and are_powers(values, exponent)
