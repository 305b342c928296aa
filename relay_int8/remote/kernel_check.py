"""Whether each kernel of a device, alone, gives what a reference gives for the same inputs.

Outputs of a network with float layers may differ between devices although no kernel is wrong: a
float that differs in its last bits falls on the other side of a rounding, and from there on all
integers differ. So every kernel is given the reference's inputs: what the kernels before it wrote
is replaced, and what it writes is compared by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from relay_int8.numerics.qparams import SIGN
from relay_int8.runtime.kernel_entry import KernelEntry
from relay_int8.runtime.manifest import Manifest
from schedules.layout import LAYOUTS

Array = np.ndarray[Any, Any]
Results = Mapping[int, Array]
"""Index of a kernel call -> what it wrote, as it lies in memory."""
FLOAT_TOLERANCE = 1e-5
"""Of what is not promised to be exact: a part of the largest number of the tensor."""


@dataclass(frozen=True, kw_only=True)
class KernelDifference:
    """What one kernel, given the reference's inputs, wrote otherwise than the reference.

    Parameters
    ----------
    index
        Of the call, in the order of execution.
    result
        The call.
    elements, different
        How many numbers it wrote, and how many of these differ in a bit.
    largest
        The largest difference.
    tolerated
        Whether it is float rounding: the kernel is not promised to be exact, and no number is
        farther off than ``FLOAT_TOLERANCE``.
    """

    index: int
    result: KernelEntry
    elements: int
    different: int
    largest: float
    tolerated: bool


@dataclass(frozen=True, kw_only=True)
class KernelCheck:
    """The kernels of a device that were compared, by their number, and those that differ."""

    compared: int
    differences: tuple[KernelDifference, ...]

    @property
    def fault(self) -> KernelDifference | None:
        """The first kernel that is wrong."""
        return next((each for each in self.differences if not each.tolerated), None)


def expected_results(reference: Manifest, results: Results, device: Manifest) -> dict[int, Array]:
    """Return what kernels of another artifact of the same model must write, by their index.

    Parameters
    ----------
    reference, results
        An artifact, and what each of its kernels wrote.
    device
        The other one. A tensor of it that the reference does not have, as one that is in another
        layout for a moment, is left out: it is computed from those that are there.
    """
    logical = {
        reference.kernels[index].name: _logical(reference.kernels[index], array)
        for index, array in results.items()
    }
    return {
        index: LAYOUTS[result.layout].pack(logical[result.name])
        for index, result in enumerate(device.kernels)
        if result.name in logical and _is_packable(result, logical[result.name])
    }


def check_kernels(
    kernels: tuple[KernelEntry, ...], expected: Results, actual: Results
) -> KernelCheck:
    """Compare what kernels wrote with what they must write; missing in ``actual``: all equal."""
    differences = (
        _difference(index, kernels[index], expected[index], array)
        for index, array in sorted(actual.items())
    )
    return KernelCheck(
        compared=len(expected), differences=tuple(each for each in differences if each.different)
    )


def of_sign(array: Array, dtype: np.dtype[Any]) -> Array:
    """Return int8 as the uint8 that stands for it, or the reverse; other types as they are."""
    pair = {array.dtype, dtype}
    if pair != {np.dtype(np.int8), np.dtype(np.uint8)}:
        return array
    shift = SIGN if dtype == np.uint8 else -SIGN
    return (array.astype(np.int16) + shift).astype(dtype)


def _logical(result: KernelEntry, array: Array) -> Array:
    return LAYOUTS[result.layout].unpack(array, result.shape or array.shape)


def _is_packable(result: KernelEntry, array: Array) -> bool:
    return not result.shape or result.shape == array.shape


def _difference(
    index: int, result: KernelEntry, expected: Array, actual: Array
) -> KernelDifference:
    wanted, found = _logical(result, expected), _logical(result, actual)
    wanted = of_sign(wanted, found.dtype)
    bits = f"V{found.itemsize}"
    different = np.ascontiguousarray(found).view(bits) != np.ascontiguousarray(wanted).view(bits)
    different = different.reshape(found.shape)
    with np.errstate(invalid="ignore"):
        apart = np.abs(found.astype(np.float64) - wanted.astype(np.float64))
    largest = float(np.nan_to_num(apart[different], nan=np.inf).max(initial=0.0))
    reach = float(np.abs(wanted[np.isfinite(wanted)].astype(np.float64)).max(initial=0.0))
    is_float = found.dtype.kind == "f"
    return KernelDifference(
        index=index,
        result=result,
        elements=found.size,
        different=int(np.count_nonzero(different)),
        largest=largest,
        tolerated=is_float and not result.is_exact and largest <= FLOAT_TOLERANCE * reach,
    )
