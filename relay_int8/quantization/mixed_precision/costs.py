"""What each kernel takes on this computer, in integers, in float, and to convert in between.

Three networks are built and timed kernel by kernel: the quantized one, the float one, and one that
only quantizes and dequantizes every tensor. From these the time of any plan is a sum over the
kernels that its own module has.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import IRModule, relax
from tvm.target import Target

from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.integer_kernels import dequantize_kernel, quantize_kernel
from relay_int8.compiler.kernel_calls import KernelCall, timed_calls, times_by_tensor
from relay_int8.compiler.passes.lower.realize import Realize
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.graph import dataflow
from relay_int8.graph.interface import inputs_of
from relay_int8.graph.origins import Origin, Origins
from relay_int8.graph.plan import Plan
from relay_int8.graph.spec_calls import kernel_call
from relay_int8.numerics.qparams import activation
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.runtime.profiling import kernel_times, random_inputs

REPEATS = 20
WARM_UP = 3


@dataclass(frozen=True, kw_only=True)
class KernelCosts:
    """Median microseconds: of each layer in integers and in float, of each tensor's conversions.

    Parameters
    ----------
    integer, floating
        By layer; one without a kernel of its own (a view) is missing.
    quantize, dequantize
        By tensor.
    """

    integer: Mapping[str, float]
    floating: Mapping[str, float]
    quantize: Mapping[str, float]
    dequantize: Mapping[str, float]

    def of(self, quantized: QuantizedModel, plan: Plan) -> float:
        """Return the microseconds of one run with ``plan``, its conversions counted."""
        total = 0.0
        for layer in plan.layers:
            times = self.integer if layer.integer else self.floating
            total += times.get(layer.name, self.floating.get(layer.name, 0.0))
        for origin in _conversions(quantized, plan):
            times = self.quantize if origin.role == "quantize" else self.dequantize
            total += times.get(origin.tensor, 0.0)
        return total


def measure_costs(quantized: QuantizedModel, target: Target) -> KernelCosts:
    """Build and time the three networks on this computer, with the runtime's choice of threads."""
    plan = quantized.plan
    floating = times_by_tensor(call_times(quantized.reference, target))
    integer = times_by_tensor(call_times(quantized.mod, target))
    conversions = call_times(_converting(quantized), target)
    names = [layer.name for layer in plan.layers]
    return KernelCosts(
        integer={name: integer[name] for name in names if name in integer},
        floating={name: floating[name] for name in names if name in floating},
        quantize=times_by_tensor(conversions, "quantize"),
        dequantize=times_by_tensor(conversions, "dequantize"),
    )


def call_times(mod: IRModule, target: Target) -> list[tuple[KernelCall, float]]:
    """Return each kernel call with its median microseconds, on random inputs."""
    built = compile_module(mod, target)
    machine, inputs = virtual_machine(built), _arguments(mod)
    for _ in range(WARM_UP):
        machine["main"](*inputs)
    return timed_calls(built.calls, kernel_times(machine.module, inputs, REPEATS))


def run_times_ms(mods: Sequence[IRModule], target: Target) -> list[float]:
    """Return the median milliseconds of one run of each network, the networks taking turns."""
    machines = [virtual_machine(compile_module(mod, target)) for mod in mods]
    inputs = [_arguments(mod) for mod in mods]
    times: list[list[float]] = [[] for _ in mods]
    for _ in range(WARM_UP + REPEATS):
        for machine, arguments, machine_times in zip(machines, inputs, times, strict=True):
            start = time.perf_counter_ns()
            machine["main"](*arguments)
            machine_times.append((time.perf_counter_ns() - start) / 1e6)
    return [float(np.median(machine_times[WARM_UP:])) for machine_times in times]


def _arguments(mod: IRModule) -> list[Any]:
    return [tvm.runtime.tensor(array) for array in random_inputs(inputs_of(mod)).values()]


def _converting(quantized: QuantizedModel) -> IRModule:
    """Return a network that quantizes and dequantizes each tensor of the plan."""
    func = quantized.reference["main"]
    shapes = {
        str(var.name): dataflow.shape(var)
        for var in (*func.params, *(var for var, _ in dataflow.calls(func)))
    }
    writer, origins = dataflow.FunctionWriter(), Origins(func)
    params, outputs = [], []
    for name, one in quantized.params.items():
        x = relax.Var(name, relax.TensorType(shapes[name], "float32"))
        spec, constants = quantize_kernel(shapes[name], one)
        q = writer.emit(f"{name}:int", kernel_call(spec, [x], constants))
        origins.note(q, name, "quantize")
        spec, constants = dequantize_kernel(shapes[name], one)
        y = writer.emit(f"{name}:float", kernel_call(spec, [q], constants))
        origins.note(y, name, "dequantize")
        params.append(x)
        outputs.append(y)
    return writer.finish(params, outputs, origins.added_to({}))


def _conversions(quantized: QuantizedModel, plan: Plan) -> list[Origin]:
    """Return what the quantize and dequantize kernels that ``plan`` needs are of."""
    known = quantized.params
    any_range = activation("u8", 0.0, 1.0)  # how many there are does not depend on ranges
    params = {name: known.get(name, any_range) for name in plan.calibrated}
    passes = [InsertQdq(plan, params), Realize()]
    realized = tvm.transform.Sequential(passes)(quantized.reference)
    origins = Origins(realized["main"])
    origins_of_calls = [origins.of(str(var.name)) for var, _ in dataflow.calls(realized["main"])]
    return [origin for origin in origins_of_calls if origin.role in ("quantize", "dequantize")]
