"""The kernel calls of a compiled network: which kernel computes which tensor."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from tvm import IRModule, ir, relax, tirx

from relay_int8.graph import dataflow
from relay_int8.graph.attributes import LAYOUTS, SPEC, TEMPLATE, TUNED
from relay_int8.graph.origins import Origins, Role
from relay_int8.runtime.kernel_entry import KernelEntry
from schedules.spec import (
    Attention,
    Conv2d,
    Dense,
    Pool2d,
    Product,
    Recurrence,
    Sample2d,
    Spec,
    from_json,
)

_INEXACT_SUMS = (Attention, Conv2d, Dense, Pool2d, Product, Recurrence, Sample2d)


@dataclass(frozen=True, kw_only=True)
class KernelCall:
    """One call of a compiled network, in the order of execution.

    ``name`` is for reading, and of this call alone; ``tensor`` is the network's, and ``role`` what
    the call does for it: one alone has "result", which may join what others with "part" gave.
    ``function`` is the PrimFunc's name; ``template`` and ``spec`` are empty for kernels of float
    islands, which are TVM's own. ``layouts`` are those of the inputs, then of the output; ``tuned``
    says whether a tuning record chose the schedule.
    ``activation_bytes`` and ``constant_bytes`` are what it reads and writes, a symbolic batch taken
    as 1.
    """

    name: str
    tensor: str
    role: Role = "result"
    function: str
    template: str = ""
    spec: Spec | None = None
    layouts: tuple[str, ...] = ()
    tuned: bool = False
    activation_bytes: int = 0
    constant_bytes: int = 0

    @property
    def entry(self) -> KernelEntry:
        """What an artifact says of the call."""
        spec = self.spec
        return KernelEntry(
            function=self.function,
            name=self.name,
            tensor=self.tensor,
            template=self.template,
            multiplications=self.multiplications,
            arithmetic="float32" if spec and _multiplies_floats(spec) else "int8",
            activation_bytes=self.activation_bytes,
            constant_bytes=self.constant_bytes,
            layout=self.layouts[-1] if self.layouts else "row",
            shape=self.shape,
            is_exact=self.is_exact,
        )

    @property
    def computes(self) -> bool:
        """Whether it is the layer that gives the tensor, or a part of that."""
        return self.role in ("result", "part")

    @property
    def multiplications(self) -> int:
        """How many products it sums up; 0 for kernels of TVM's own."""
        return self.spec.multiplications if self.spec else 0

    @property
    def is_repack(self) -> bool:
        """Whether it does nothing but change a layout."""
        return self.role == "repack"

    @property
    def is_exact(self) -> bool:
        """Whether equal inputs give equal bits on every target (docs/design.md).

        Sums of float32 products are not promised to, nor what TVM makes of floats by itself.
        """
        if self.spec is None:
            return False
        floats = any(self.spec.dtype(name) == "float32" for name in self.spec.tensors)
        if isinstance(self.spec, Recurrence):
            floats = _multiplies_floats(self.spec)
        return not (floats and isinstance(self.spec, _INEXACT_SUMS))

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Logical shape of its result; empty for kernels of TVM's own, None where it is open."""
        extents = self.spec.shape("y") if self.spec else ()
        known = all(isinstance(extent, int) for extent in extents)
        return tuple(int(extent) for extent in extents) if known else None


def kernel_calls_of(lowered: IRModule) -> tuple[KernelCall, ...]:
    """Return the calls of a lowered module, in the order of execution."""
    kernel_calls = []
    origins = Origins(lowered["main"])
    for var, value in dataflow.calls(lowered["main"]):
        if dataflow.operator(value) != "call_tir":
            continue
        function = value.args[0]
        attrs = lowered[function].attrs
        assert isinstance(lowered[function], tirx.PrimFunc)
        origin = origins.of(str(var.name))
        operands = dataflow.arguments(value)[1:]
        constants = [operand for operand in operands if isinstance(operand, ir.GenericConst)]
        constant_bytes = sum(map(_tensor_bytes, constants))
        call = KernelCall(
            name=str(var.name),
            tensor=origin.tensor,
            role=origin.role,
            function=function.name_hint,
            activation_bytes=sum(map(_tensor_bytes, [*operands, var])) - constant_bytes,
            constant_bytes=constant_bytes,
        )
        if TEMPLATE in attrs:
            call = dataclasses.replace(
                call,
                template=str(attrs[TEMPLATE]),
                spec=from_json(str(attrs[SPEC])),
                layouts=tuple(json.loads(str(attrs[LAYOUTS]))),
                tuned=bool(attrs[TUNED]),
            )
        kernel_calls.append(call)
    return tuple(kernel_calls)


def _tensor_bytes(value: relax.Expr) -> int:
    """Return the size of a tensor, or of a tuple's, a symbolic extent taken as 1; else 0."""
    types = value.ty.fields if isinstance(value.ty, relax.TupleType) else [value.ty]
    total = 0
    for one in types:
        if isinstance(one, relax.TensorType):
            extents = (int(n) if isinstance(n, int | tirx.IntImm) else 1 for n in one.shape)
            total += math.prod(extents) * np.dtype(str(one.dtype)).itemsize
    return total


def _multiplies_floats(spec: Spec) -> bool:
    """Say whether products are of floats: a recurrent layer may add others to its float input."""
    if isinstance(spec, Recurrence):
        return not spec.quantized
    return spec.dtype(spec.tensors[0]) == "float32"


def timed_calls(
    calls: Iterable[KernelCall], kernels: Iterable[tuple[str, float]]
) -> list[tuple[KernelCall, float]]:
    """Return the calls that ran, each with its microseconds.

    Parameters
    ----------
    calls
        Of the compiled network, in the order of execution.
    kernels
        What :func:`kernel_times` gave. A call that has become a view (a reshape, a concat whose
        inputs were written into it) is not among them, and takes no time.
    """
    running = iter(calls)
    timed = [
        (next((call for call in running if call.function == name), None), time_us)
        for name, time_us in kernels
    ]
    return [(call, time_us) for call, time_us in timed if call is not None]


def times_by_tensor(
    timed: Iterable[tuple[KernelCall, float]], role: Role = "result"
) -> dict[str, float]:
    """Return the microseconds of what gives each tensor in one role, a result with its parts."""
    times_us: defaultdict[str, float] = defaultdict(float)
    for call, time_us in timed:
        if call.role == role or (role == "result" and call.computes):
            times_us[call.tensor] += time_us
    return dict(times_us)
