"""Inputs and outputs of a network, as its artifact and its data know them."""

from __future__ import annotations

import dataclasses

from tvm import IRModule

from relay_int8.data.tensor_info import TensorInfo
from relay_int8.graph import dataflow
from relay_int8.graph.batch import has_batch
from relay_int8.graph.index_ranges import index_ranges
from relay_int8.graph.pixels import PixelLayout


def inputs_of(mod: IRModule) -> tuple[TensorInfo, ...]:
    """Return the inputs of a network."""
    valid = index_ranges(mod["main"])
    return tuple(
        TensorInfo(
            name=str(param.name),
            shape=dataflow.shape(param),
            dtype=dataflow.dtype(param),
            index_range=valid.get(str(param.name)),
        )
        for param in mod["main"].params
    )


def outputs_of(mod: IRModule) -> tuple[TensorInfo, ...]:
    """Return the outputs of a network."""
    return tuple(
        TensorInfo(name=str(var.name), shape=dataflow.shape(var), dtype=dataflow.dtype(var))
        for var in dataflow.results(mod["main"])
    )


def of_any_batch(tensors: tuple[TensorInfo, ...]) -> tuple[TensorInfo, ...]:
    """Return tensors with their first size open, where they have one."""
    return tuple(
        dataclasses.replace(info, shape=(-1, *info.shape[1:])) if info.shape else info
        for info in tensors
    )


def open_inputs(mod: IRModule) -> tuple[TensorInfo, ...]:
    """Return the inputs of a normalized network as its data is checked against.

    The batch is open; a network without one takes its inputs as a whole.
    """
    return of_any_batch(inputs_of(mod)) if has_batch(mod) else inputs_of(mod)


def of_pixels(info: TensorInfo, layout: PixelLayout) -> TensorInfo:
    """Return an NCHW input as raw pixels of a layout."""
    n, c, h, w = info.shape
    shape = (n, h, w, c) if layout == "NHWC" else info.shape
    return dataclasses.replace(info, shape=shape, dtype="uint8")
