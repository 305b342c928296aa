"""Read the weights that an ONNX model keeps in other files.

onnx.load refuses links, and so every model in a Hugging Face cache (`snapshots/.../model.onnx` and
its data are links into `blobs/`), and takes a tensor without a ``length`` to reach to the end of
its file. Both are read here; what lies outside of the model's folders is not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import TensorProto, helper
from onnx.external_data_helper import ExternalDataInfo, uses_external_data

from relay_int8.frontend.onnx.nested import attributes_of, graphs_of, tensors_of

PACKED_BITS = {
    TensorProto.INT4: 4,
    TensorProto.UINT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.INT2: 2,
    TensorProto.UINT2: 2,
}


def read_external_data(model: onnx.ModelProto, path: Path) -> None:
    """Put weights of external files into the model, which is changed in place.

    Parameters
    ----------
    model
        As it was read from ``path``, without external data.
    path
        The model's file. A location counts from its folder, and must lead to a file in that folder
        or, where the model is a link, in the folder that the link leads to.

    Raises
    ------
    OSError, ValueError
        If a file is missing, too short or elsewhere; the message names the tensor.
    """
    folders = (path.parent.resolve(), path.resolve().parent)
    for tensor in filter(uses_external_data, _tensors(model)):
        tensor.raw_data = _read_bytes(tensor, path.parent, folders)
        tensor.data_location = TensorProto.DEFAULT
        del tensor.external_data[:]


def _read_bytes(tensor: TensorProto, folder: Path, allowed: tuple[Path, ...]) -> bytes:
    try:
        info = ExternalDataInfo(tensor)
    except ValueError as err:
        raise ValueError(f"tensor {tensor.name}: {err}") from err
    if not info.location:
        raise ValueError(f"tensor {tensor.name} names no file")
    file = (folder / info.location).resolve()
    if not any(file.is_relative_to(parent) for parent in allowed):
        raise ValueError(
            f"tensor {tensor.name} is in {info.location}, which leads to {file}, outside of the "
            "model's folder"
        )
    if not file.is_file():
        raise ValueError(f"tensor {tensor.name} is in {info.location}: there is no such file")
    offset = info.offset or 0
    length = _byte_count(tensor) if info.length is None else info.length
    with file.open("rb") as data:
        size = data.seek(0, 2)
        if offset + length > size:
            raise ValueError(
                f"tensor {tensor.name} is in {info.location} from byte {offset} to "
                f"{offset + length}, but the file has {size} bytes"
            )
        data.seek(offset)
        content: bytes = data.read(length)
        return content


def _byte_count(tensor: TensorProto) -> int:
    """Return the number of bytes that elements of the tensor's type and shape take."""
    try:
        bits = PACKED_BITS.get(tensor.data_type) or 8 * int(
            helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
        )
    except KeyError:
        raise ValueError(f"tensor {tensor.name} has type {tensor.data_type}") from None
    elements = int(math.prod(tensor.dims))
    return -(-elements * bits // 8)


def _tensors(model: onnx.ModelProto) -> Iterator[TensorProto]:
    """Yield every tensor of a model, parts of sparse ones too."""
    yield from tensors_of(model)
    sparse = [tensor for graph in graphs_of(model) for tensor in graph.sparse_initializer]
    sparse += [one.sparse_tensor for one in attributes_of(model) if one.HasField("sparse_tensor")]
    for tensor in sparse:
        yield from (tensor.values, tensor.indices)
