"""Open the batch of a quantized network, if that leaves its integers as they are."""

from __future__ import annotations

from collections import Counter

import tvm
from tvm import IRModule

from relay_int8.compiler.passes.lower.realize import Realize
from relay_int8.errors import UnsupportedOpError
from relay_int8.graph import dataflow
from relay_int8.graph.batch import with_open_batch
from relay_int8.graph.spec_calls import spec_of

EXACT = frozenset({"concat", "dequantize", "move", "quantize", "rescale"})
"""Kernels that move or convert numbers: where others do that, results are the same."""


def opened(mod: IRModule, most: int) -> IRModule:
    """Return a quantized network for every batch from 1 to ``most``.

    Raises
    ------
    UnsupportedOpError
        If an operator fixes the batch, or one that is computed in integers is not found again in
        the network for any batch, so that its integers would depend on how it was built.
    """
    network = with_open_batch(mod, most)
    lost = _layers(mod) - _layers(network)
    if lost:
        kinds = ", ".join(f"{count} of {kind}" for (kind, *_), count in sorted(lost.items()))
        raise UnsupportedOpError(
            f"with a batch that is open, kernels of integers ({kinds}) would be computed in "
            "another way and give other integers; build the network for a fixed batch"
        )
    return network


def _layers(mod: IRModule) -> Counter[tuple[str, ...]]:
    """Count the integer kernels that compute: by kind, types of operands and type of the result."""
    integers = tvm.transform.Sequential([Realize()])(mod)
    specs = [spec_of(value) for _, value in dataflow.calls(integers["main"])]
    return Counter(
        (spec.kind, *map(spec.dtype, spec.tensors), spec.dtype("y"))
        for spec in specs
        if spec is not None and spec.kind not in EXACT
    )
