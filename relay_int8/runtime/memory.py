"""Memory of a network's inputs and outputs: allocated once, kept as long as the network is.

On a GPU every tensor from the host goes through pinned memory, from which the GPU copies by itself.
"""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import tvm_ffi

from relay_int8.runtime.cuda_runtime import (
    DEVICE_TO_DEVICE,
    DEVICE_TO_HOST,
    HOST_TO_DEVICE,
    CudaRuntime,
)
from relay_int8.runtime.tvm_runtime import ALIGNMENT, RuntimeDevice

Array = np.ndarray[Any, Any]


class Buffer:
    """Memory of one tensor on a device; it grows to the largest that was asked for."""

    def __init__(self, device: RuntimeDevice) -> None:
        self._device = device
        self._bytes = -1
        self._form: tuple[tuple[int, ...], np.dtype[Any]] | None = None
        self._whole: Any = None
        self._view: Any = None
        self._array: Array | None = None

    def tensor(self, shape: tuple[int, ...], dtype: np.dtype[Any] | str) -> Any:
        """Return a tensor of that shape and type in this memory; earlier ones share it."""
        if self._form != (shape, dtype):
            form = shape, np.dtype(dtype)
            size_bytes = math.prod(shape) * form[1].itemsize
            if size_bytes > self._bytes:
                self._form = self._view = self._array = self._whole = None  # both may not fit
                self._whole = self._device.empty((max(size_bytes, 1),), "uint8")
                self._bytes = size_bytes
            view = tvm_ffi.get_global_func("runtime.TVMTensorCreateView")
            self._view = view(self._whole, tvm_ffi.Shape(shape), tvm_ffi.dtype(str(form[1])), 0)
            self._form, self._array = form, None
        return self._view

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any] | str) -> Array:
        """Return the same as an array, where the memory is the host's."""
        address = self.tensor(shape, dtype).data_ptr()
        if self._array is None:
            size_bytes = math.prod(shape) * np.dtype(dtype).itemsize
            memory = (ctypes.c_uint8 * size_bytes).from_address(address)
            self._array = np.ctypeslib.as_array(memory).view(dtype).reshape(shape)
        return self._array


class HostMemory:
    """The inputs of a network on this computer's processor."""

    def __init__(self, device: RuntimeDevice) -> None:
        self._device = device
        self._inputs: dict[str, Buffer] = {}

    def argument(self, name: str, value: Array) -> Any:
        """Return an input as kernels read it: where it lies, if it is aligned, else a copy."""
        if (tensor := _readable(value)) is not None:
            return tensor
        buffer = self._inputs.get(name)
        if buffer is None:
            buffer = self._inputs[name] = Buffer(self._device)
        np.copyto(buffer.array(value.shape, value.dtype), value)
        return buffer.tensor(value.shape, value.dtype)


def _readable(array: Array) -> Any:
    """Return an array as kernels can read it where it lies, else None.

    NumPy exports no read-only memory. Its address is asked of the tensor, which has it at hand;
    NumPy would make an object to tell it.
    """
    flags = array.flags
    if not (array.size and flags.c_contiguous and flags.writeable):
        return None
    tensor = tvm_ffi.from_dlpack(array)
    return tensor if tensor.data_ptr() % ALIGNMENT == 0 else None


class GpuMemory:
    """Inputs and outputs of a network on a GPU, with pinned memory for each.

    What :meth:`argument` and :meth:`fetch` enqueue goes to the stream that they are given.
    """

    def __init__(self, device: RuntimeDevice, runtime: CudaRuntime) -> None:
        self._device, self._runtime = device, runtime
        self._inputs: dict[str, Buffer] = {}
        self._pinned_inputs: dict[str, Buffer] = {}
        self._pinned_outputs: dict[str, Buffer] = {}
        self._copied = runtime.event()  # pinned inputs may be written again
        self._done = runtime.event()  # inputs and activations may be
        self._stream: int | None = None

    def begin(self, stream: int) -> None:
        """Have a run on ``stream`` wait for the one before; the host, for its copies."""
        self._runtime.use()
        self._copied.synchronize()
        if self._stream not in (None, stream):
            self._done.hold(stream)
        self._stream = stream

    def argument(self, name: str, value: Any, stream: int) -> Any:
        """Return an input on the GPU: where it lies, if it is there and aligned, else a copy."""
        shape, dtype = tuple(value.shape), str(value.dtype)
        if isinstance(value, tvm_ffi.Tensor):
            if value.data_ptr() % ALIGNMENT == 0:
                return value
            source, kind = value, DEVICE_TO_DEVICE
        else:
            pinned = self._pinned_inputs.setdefault(name, Buffer(self._device.pinned))
            np.copyto(pinned.array(shape, dtype), value)
            source, kind = pinned.tensor(shape, dtype), HOST_TO_DEVICE
        tensor = self._inputs.setdefault(name, Buffer(self._device)).tensor(shape, dtype)
        self._runtime.copy(tensor.data_ptr(), source.data_ptr(), _bytes(tensor), kind, stream)
        return tensor

    def copied(self, stream: int) -> None:
        """Note that all inputs of a run are enqueued."""
        self._copied.record(stream)

    def done(self, stream: int) -> None:
        """Note that all of a run is enqueued."""
        self._done.record(stream)

    def fetch(self, tensors: dict[str, Any], stream: int) -> dict[str, Array]:
        """Return copies of tensors in NumPy's memory, when all on the stream is done."""
        pinned = {}
        for name, tensor in tensors.items():
            buffer = self._pinned_outputs.setdefault(name, Buffer(self._device.pinned))
            pinned[name] = buffer.array(tuple(tensor.shape), str(tensor.dtype))
            to = buffer.tensor(tuple(tensor.shape), str(tensor.dtype)).data_ptr()
            self._runtime.copy(to, tensor.data_ptr(), _bytes(tensor), DEVICE_TO_HOST, stream)
        self._runtime.synchronize(stream)
        return {name: array.copy() for name, array in pinned.items()}


def _bytes(tensor: Any) -> int:
    return int(math.prod(tensor.shape)) * np.dtype(str(tensor.dtype)).itemsize
