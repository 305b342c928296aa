"""The FP32 network on this computer: what a quantized one is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm

from relay_int8 import graph
from relay_int8.build import compile_module, virtual_machine
from relay_int8.frontend.model import Shapes, import_model
from relay_int8.host import cpu_flags
from relay_int8.pipeline import normalize
from schedules.targets import native_target

Array = np.ndarray[Any, Any]
Network = Callable[[Mapping[str, Array]], dict[str, Array]]


def float_network(
    model: str | Path,
    *,
    batch: int | None = None,
    inputs: Shapes | None = None,
    params: str | Path | None = None,
) -> Network:
    """Return a model, compiled without quantizing it, as a function of named arrays.

    The options are those of :func:`relay_int8.import_model`.
    """
    mod = normalize()(import_model(model, batch=batch, inputs=inputs, params=params))
    func = mod["main"]
    names = [str(param.name) for param in func.params]
    outputs = [str(var.name) for var in graph.results(func)]
    main = virtual_machine(compile_module(mod, native_target(cpu_flags())))["main"]

    def _run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        result = main(*(tvm.runtime.tensor(np.ascontiguousarray(arrays[name])) for name in names))
        tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        return {name: tensor.numpy() for name, tensor in zip(outputs, tensors, strict=True)}

    return _run
