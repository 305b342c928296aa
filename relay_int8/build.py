"""From a quantized model to a library for one target."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import tvm
from tvm import IRModule, relax, tirx
from tvm.target import Target

from relay_int8 import graph
from relay_int8.errors import UnsupportedOpError
from relay_int8.passes.alter_layout import LAYOUTS, SPEC, TEMPLATE
from relay_int8.pipeline import finalize, lower
from relay_int8.quantize import QuantizedModel
from schedules.spec import Spec, from_json
from schedules.template import ScheduleError


@dataclass(frozen=True, kw_only=True)
class KernelCall:
    """One call of a compiled network, in the order of execution.

    ``function`` is the PrimFunc's name; ``template`` and ``spec`` are empty for kernels of float
    islands, which are TVM's own. ``layouts`` are those of the inputs, then of the output.
    """

    tensor: str
    function: str
    template: str = ""
    spec: Spec | None = None
    layouts: tuple[str, ...] = ()

    @property
    def is_repack(self) -> bool:
        """Whether it does nothing but change a layout."""
        return getattr(self.spec, "move", None) == "copy"


@dataclass(frozen=True, kw_only=True)
class Built:
    """A compiled network: ``executable`` runs on the Relax VM, ``calls`` says what it does."""

    executable: tvm.runtime.Executable
    target: Target
    calls: tuple[KernelCall, ...]

    def export(self, path: Path | str) -> None:
        """Write the shared library; needs a C compiler for the target."""
        self.executable.export_library(str(path))


def build(quantized: QuantizedModel, target: Target) -> Built:
    """Compile a quantized model for ``target``; errors as :func:`compile_module`."""
    return compile_module(quantized.mod, target)


def compile_module(mod: IRModule, target: Target) -> Built:
    """Compile a QDQ module, or a normalized float one, for ``target``.

    Raises
    ------
    UnsupportedOpError
        If no template computes some kernel on ``target``.
    """
    with target:
        try:
            lowered = lower(target)(mod)
        except ScheduleError as error:
            raise UnsupportedOpError(str(error)) from error
        executable = tvm.compile(lowered, target=target, relax_pipeline=finalize())
    return Built(executable=executable, target=target, calls=_calls(lowered))


def _calls(lowered: IRModule) -> tuple[KernelCall, ...]:
    found = []
    for var, value in graph.calls(lowered["main"]):
        if graph.operator(value) != "call_tir":
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
                )
            )
        else:
            found.append(KernelCall(tensor=var.name, function=function.name_hint))
    return tuple(found)


def virtual_machine(built: Built) -> relax.VirtualMachine:
    """Return the network ready to run on this computer."""
    return relax.VirtualMachine(built.executable, tvm.cpu())
