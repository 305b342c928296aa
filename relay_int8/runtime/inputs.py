"""What a network is given: arrays of NumPy, or tensors of any library that speaks DLPack.

Names, shapes and types are the manifest's; nothing is converted.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import tvm_ffi

from relay_int8.errors import ArtifactError
from relay_int8.runtime.tvm_runtime import CUDA, RuntimeDevice

if TYPE_CHECKING:
    from relay_int8.data.tensor_info import TensorInfo
    from relay_int8.runtime.manifest import Manifest

Array = np.ndarray[Any, Any]
Inputs = Mapping[str, Any] | Any
_MORE = "; give one batch a run, or build for several with BuildOptions(max_batch=...)"
_HOST = (1, 3)  # DLPack's kDLCPU and kDLCUDAHost
_DEFAULT_STREAM = 1  # what DLPack calls the default stream of CUDA
_BAD_TENSOR = (BufferError, RuntimeError, TypeError, ValueError)


def checked_inputs(
    path: Path, manifest: Manifest, inputs: Inputs, device: RuntimeDevice | None = None
) -> dict[str, Any]:
    """Return the inputs by name: NumPy's arrays, and tensors that lie on ``device`` already.

    Raises
    ------
    ArtifactError
        If a name, a shape or a type is not that of the artifact at ``path``, an integer is no
        valid index, or a tensor lies on another device.
    """
    values = {
        name: value if isinstance(value, np.ndarray) else _adopted(path, name, value, device)
        for name, value in _named(path, manifest, inputs).items()
    }
    for info in manifest.inputs:
        reason = _misfit(info, values[info.name])
        if reason:
            more = _MORE if _is_another_batch(info, values[info.name]) else ""
            raise ArtifactError(f"{path}: input {info.name}: {reason}{more}")
    if manifest.max_batch is not None:
        _check_batch(path, manifest.max_batch, {value.shape[0] for value in values.values()})
    return values


def _named(path: Path, manifest: Manifest, inputs: Inputs) -> Mapping[str, Any]:
    expected = manifest.inputs
    if not isinstance(inputs, Mapping):
        if len(expected) != 1:
            raise ArtifactError(
                f"{path}: one array given, {len(expected)} inputs expected; "
                f"pass a dictionary with {_names(expected)}"
            )
        return {expected[0].name: inputs}
    if set(inputs) != {info.name for info in expected}:
        raise ArtifactError(
            f"{path}: inputs {', '.join(sorted(map(str, inputs))) or 'none'} given; "
            f"{_names(expected)} expected"
        )
    return inputs


def _adopted(path: Path, name: str, value: Any, device: RuntimeDevice | None) -> Any:
    """Return a tensor of another library as an array, or, on ``device``, as TVM's; no copy."""
    if not hasattr(value, "__dlpack_device__"):
        return value
    what, device = f"{path}: input {name}", device or RuntimeDevice()
    try:
        kind, number = value.__dlpack_device__()
        if kind in _HOST:
            return np.from_dlpack(value)
        if device.kind == "cuda" and (int(kind), number) == (CUDA, device.number):
            return tvm_ffi.from_dlpack(_Ordered(value, tvm_ffi.get_raw_stream(device.handle)))
    except _BAD_TENSOR as error:
        raise ArtifactError(f"{what}: its tensor cannot be read by DLPack: {error}") from error
    place = f"GPU {number}" if kind == CUDA else f"device {int(kind)}:{number} of DLPack"
    raise ArtifactError(f"{what}: lies on {place}, the artifact runs on {device}; copy it there")


class _Ordered:
    """A tensor of a GPU, whose library has the stream of the run wait for it."""

    def __init__(self, tensor: Any, stream: int) -> None:
        self._tensor, self._stream = tensor, stream or _DEFAULT_STREAM

    def __dlpack_device__(self) -> tuple[int, int]:
        """Return where it lies."""
        device: tuple[int, int] = self._tensor.__dlpack_device__()
        return device

    def __dlpack__(self, **_options: Any) -> object:
        """Return its capsule."""
        return self._tensor.__dlpack__(stream=self._stream)


def _misfit(info: TensorInfo, value: Any) -> str | None:
    """Say why ``value`` cannot be that input; the integers of a GPU's tensor are not looked at."""
    if not isinstance(value, tvm_ffi.Tensor):
        return info.misfit(value)
    if not value.is_contiguous():
        return "its memory is not contiguous; copy it, as with .contiguous()"
    return info.type_misfit(value.shape, str(value.dtype))


def _is_another_batch(info: TensorInfo, value: Any) -> bool:
    given = tuple(getattr(value, "shape", ()))
    return len(given) > 1 and given[1:] == info.shape[1:] and -1 != info.shape[0] != given[0]


def _check_batch(path: Path, most: int, batches: set[int]) -> None:
    if len(batches) > 1:
        raise ArtifactError(f"{path}: inputs of batches {sorted(batches)} given; one expected")
    (batch,) = batches
    if not 1 <= batch <= most:
        raise ArtifactError(
            f"{path}: batch {batch} given, 1 to {most} expected; split it, or build the artifact "
            "again with a larger BuildOptions(max_batch=...)"
        )


def _names(infos: tuple[TensorInfo, ...]) -> str:
    return ", ".join(info.name for info in infos)
