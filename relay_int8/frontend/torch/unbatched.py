"""PyTorch operators of images that also take one image without a batch axis."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tvm import relax

from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape

IMAGES = ("self", "input", "indices")


def batch_optional(converters: Mapping[str, Converter]) -> dict[str, Converter]:
    """Let operators whose names say 1d, 2d or 3d take one sequence, image or video.

    It becomes a batch of one, which the results lose again.
    """
    return {name: _batch_optional(name, converter) for name, converter in converters.items()}


def _batch_optional(name: str, converter: Converter) -> Converter:
    found = re.search("([123])d", name)
    if found is None:
        return converter
    rank = int(found[1]) + 1

    def _convert(step: TorchStep) -> Result:
        if step.rank != rank:
            return converter(step)
        batches = {
            key: step.emit("batch", relax.op.expand_dims(step.tensor(key), 0))
            for key in IMAGES
            if key in step.arguments
        }
        result: Any = converter(replace(step, arguments={**step.arguments, **batches}))
        if isinstance(result, Sequence):
            return [_single(step, part) for part in result]
        return _single(step, result)

    return _convert


def _single(step: TorchStep, batch: Any) -> relax.Expr:
    var = step.emit("whole", batch)
    return relax.op.reshape(var, shape(var)[1:])
