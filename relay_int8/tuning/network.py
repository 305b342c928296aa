"""The kernels of a float network, before anything is calibrated.

Which kernels a quantized network has depends on no range: multipliers and zero points are arguments
of kernels. So any ranges do, and no data is needed. The type of the network's input is the one
exception: u8 where calibration saw no negative value, and where instructions tell signs apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm
from tvm import IRModule
from tvm.target import Target

from relay_int8.compiler.build import kernel_calls
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.compiler.pipeline import normalize
from relay_int8.graph import dataflow
from relay_int8.graph.requantize import with_requantize
from relay_int8.numerics.qparams import activation
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.tuning.alternatives import alternatives
from relay_int8.tuning.local_measurer import LocalMeasurer
from relay_int8.tuning.tasks import tasks_of
from schedules.targets import target_config
from schedules.task import Task


def network_tasks(
    mod: IRModule, target: Target, config: QuantConfig | None = None, *, signed: bool = True
) -> tuple[Task, ...]:
    """Return the distinct kernels that ``mod`` would have on ``target``, and those it could have.

    The latter are :func:`relay_int8.tuning.alternatives.alternatives` of the former.

    Parameters
    ----------
    mod
        Imported float module of a fixed batch.
    signed
        Whether the network's input has negative values.
    """
    config = config or QuantConfig()
    if dataflow.is_quantized(mod):
        adopted = with_requantize(adopt(mod).mod, config.requantize)
        return _with_alternatives(tasks_of(kernel_calls(adopted, target)), target)
    reference = normalize()(mod)
    plan = annotate(reference, config)
    resolved = {
        name: ("s8" if signed else "u8") if scheme == "input" else scheme
        for name, scheme in plan.schemes.items()
    }
    params = {
        name: activation(scheme, 0.0 if scheme == "u8" else -1.0, 1.0)
        for name, scheme in resolved.items()
    }
    quantized = tvm.transform.Sequential([InsertQdq(plan, params)])(reference)
    calls = kernel_calls(with_requantize(quantized, config.requantize), target)
    return _with_alternatives(tasks_of(calls), target)


def _with_alternatives(tasks: tuple[Task, ...], target: Target) -> tuple[Task, ...]:
    return *tasks, *alternatives(tasks, target)


def seconds_of(tasks: Sequence[Task], target: Target) -> dict[str, float]:
    """Return the seconds of each kernel with its default schedule, measured on this computer."""
    with LocalMeasurer(target_config(target)) as measurer:
        times = measurer.defaults(tasks)
        return {task.key: timing.best_s for task, timing in zip(tasks, times, strict=True)}
