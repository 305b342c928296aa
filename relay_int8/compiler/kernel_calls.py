"""The kernel calls of a compiled network: which kernel computes which tensor."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from tvm import IRModule, tirx

from relay_int8.graph import dataflow
from relay_int8.graph.attributes import LAYOUTS, SPEC, TEMPLATE, TUNED
from schedules.spec import Spec, from_json


@dataclass(frozen=True, kw_only=True)
class KernelCall:
    """One call of a compiled network, in the order of execution.

    ``function`` is the PrimFunc's name; ``template`` and ``spec`` are empty for kernels of float
    islands, which are TVM's own. ``layouts`` are those of the inputs, then of the output;
    ``tuned`` says whether a tuning record chose the schedule.
    """

    tensor: str
    function: str
    template: str = ""
    spec: Spec | None = None
    layouts: tuple[str, ...] = ()
    tuned: bool = False

    @property
    def is_repack(self) -> bool:
        """Whether it does nothing but change a layout."""
        return getattr(self.spec, "move", None) == "copy"


def kernel_calls_of(lowered: IRModule) -> tuple[KernelCall, ...]:
    """Return the calls of a lowered module, in the order of execution."""
    found = []
    for var, value in dataflow.calls(lowered["main"]):
        if dataflow.operator(value) != "call_tir":
            continue
        function = value.args[0]
        attrs = lowered[function].attrs
        assert isinstance(lowered[function], tirx.PrimFunc)
        if TEMPLATE in attrs:
            found.append(
                KernelCall(
                    tensor=var.name,
                    function=function.name_hint,
                    template=str(attrs[TEMPLATE]),
                    spec=from_json(str(attrs[SPEC])),
                    layouts=tuple(json.loads(str(attrs[LAYOUTS]))),
                    tuned=bool(attrs[TUNED]),
                )
            )
        else:
            found.append(KernelCall(tensor=var.name, function=function.name_hint))
    return tuple(found)


def times_by_tensor(
    calls: Iterable[KernelCall], kernels: Iterable[tuple[str, float]]
) -> dict[str, float]:
    """Return the microseconds of each tensor's kernel.

    Parameters
    ----------
    calls
        Of the compiled network, in the order of execution.
    kernels
        What :func:`kernel_times` gave. A call that has become a view (a
        reshape) is not among them, and takes no time.
    """
    found: dict[str, float] = {}
    running = iter(calls)
    for name, time_us in kernels:
        call = next((call for call in running if call.function == name), None)
        if call is not None:
            found[call.tensor] = found.get(call.tensor, 0.0) + time_us
    return found
