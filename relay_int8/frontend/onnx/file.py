"""Read an ONNX file, or say what the file is instead."""

from __future__ import annotations

from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

from relay_int8.errors import FrontendError
from relay_int8.file_names import absent
from relay_int8.frontend.onnx.external_data import read_external_data

# First bytes of files that are often taken for ONNX models: (offset, bytes, what it is).
SIGNATURES = (
    (0, b"version https://git-lfs", "a Git LFS pointer: run git lfs pull"),
    (0, b"PK\x03\x04", "a zip archive: one of torch.export is named .pt2; load reads artifacts"),
    (0, b"\x80\x02", "a Python pickle (a PyTorch checkpoint?): export the model as .pt2"),
    (0, b"\x89HDF", "an HDF5 file (a Keras model?): convert it with tf2onnx"),
    (0, b"\x1f\x8b", "gzip-compressed: unpack it"),
    (4, b"ORTM", "a model in ONNX Runtime's own format: give the .onnx file it was made of"),
    (4, b"TFL3", "a TFLite model: its name ends in .tflite"),
    (0, b"<", "XML or HTML text: check the download"),
    (0, b"{", "JSON text: the name of an MXNet symbol ends in .json"),
    (0, b"\x12\x01\0\0\0\0\0\0", "MXNet parameters: give the -symbol.json, which finds them"),
)


def read_model(path: Path) -> onnx.ModelProto:
    """Return the model of a file, external weights included.

    Raises
    ------
    FrontendError
        There is no such file, or it is no whole ONNX model; the message says what was found.
    """
    if not path.is_file():
        raise FrontendError(f"{path}: {absent(path)}; expected an ONNX model")
    data = path.read_bytes()
    if not data:
        raise FrontendError(f"{path}: the file is empty; expected an ONNX model")
    for offset, signature, kind in SIGNATURES:
        if data.startswith(signature, offset):
            raise FrontendError(f"{path}: expected an ONNX model, found {kind}")
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError as err:
        raise FrontendError(
            f"{path}: {len(data)} bytes that are no ONNX model, or only a part of one "
            f"(starts with {data[:8].hex(' ')}); check the download"
        ) from err
    graph = model.graph
    tensors = (*graph.input, *graph.output, *graph.initializer)
    names = [text for node in graph.node for text in (*node.input, *node.output)]
    names += [text for node in graph.node for text in (node.name, node.op_type, node.domain)]
    if any(isinstance(text, bytes) for text in (*names, *(tensor.name for tensor in tensors))):
        raise FrontendError(f"{path}: names that are no UTF-8; check the download")
    if not model.graph.node:
        raise FrontendError(f"{path}: {len(data)} bytes, but no graph with nodes in them")
    try:
        read_external_data(model, path)
    except (OSError, RuntimeError, ValueError) as err:
        raise FrontendError(
            f"{path}: its weights in external files cannot be read ({err}); "
            "keep them beside the model"
        ) from err
    return model
