"""The FP32 network on this computer: what a quantized one is compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tvm
from tvm import IRModule

from relay_int8.api.model import Model
from relay_int8.argument_types import checked
from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.pipeline import normalize
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import ConfigError
from relay_int8.graph import dataflow
from relay_int8.graph.interface import inputs_of
from schedules.targets import native_target

Array = np.ndarray[Any, Any]
Network = Callable[[Mapping[str, Array]], dict[str, Array]]


@checked
def float_network(
    model: Model,
) -> Network:
    """Return a model, compiled without quantizing it, as a function of named arrays.

    The function raises a ConfigError for arrays of other names, shapes or types than the model's
    inputs, and for integers that are no valid indices.

    Examples
    --------
    >>> run = relay_int8.float_network(model)
    >>> run({"image": images.test[:1]})["logits"].shape
    (1, 10)
    """
    mod = normalize()(model.module)
    inputs_found = inputs_of(mod)
    network = compiled_network(mod)

    def _run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        _require_fit(inputs_found, arrays)
        return network(arrays)

    return _run


def compiled_network(mod: IRModule, *, transient: bool = False) -> Network:
    """Return a normalized float module, or a QDQ one, as a function on this computer.

    Inputs are taken as they are: who calls it has checked them. A ``transient`` network shares
    kernels with those compiled before it, and gives the same bits.
    """
    inputs = inputs_of(mod)
    outputs = [str(var.name) for var in dataflow.results(mod["main"])]
    main = virtual_machine(compile_module(mod, native_target(), transient=transient))["main"]

    def _run(arrays: Mapping[str, Array]) -> dict[str, Array]:
        given = (np.asarray(arrays[info.name], order="C") for info in inputs)
        result = main(*map(tvm.runtime.tensor, given))
        tensors = [result] if isinstance(result, tvm.runtime.Tensor) else list(result)
        return {name: tensor.numpy() for name, tensor in zip(outputs, tensors, strict=True)}

    return _run


def _require_fit(inputs: Sequence[TensorInfo], arrays: Mapping[str, Array]) -> None:
    for info in inputs:
        reason = info.misfit(arrays[info.name]) if info.name in arrays else "missing"
        if reason:
            raise ConfigError(
                f"input {info.name} of the FP32 network: {reason}; give the model that the "
                "artifact was made from"
            )
