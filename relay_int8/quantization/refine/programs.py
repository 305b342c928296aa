"""Groups that NumPy does not compute, compiled one by one: each program once in a context.

A search makes many networks of one: they differ in what is a layer of its own and in factors of
channels, while most groups are the same. Kernels come from those of the calibrating network.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
import tvm_ffi
from tvm import IRModule, relax

from relay_int8.compiler.build import started
from relay_int8.compiler.kernel_library import linked
from relay_int8.compiler.pipeline import finalize, lower
from relay_int8.graph import dataflow
from relay_int8.graph.group import Group
from relay_int8.scopes import sharing
from schedules.targets import native_target

Array = npt.NDArray[Any]
Programs = dict[Hashable, tvm.runtime.Executable]

_COMPILING = Lock()
_shared: ContextVar[Programs | None] = ContextVar("shared_programs", default=None)


@contextmanager
def sharing_programs() -> Iterator[None]:
    """Let the networks that are computed inside of the context share the programs of groups."""
    with sharing(_shared, dict):
        yield


def program(
    group: Group, values: Mapping[relax.Var, relax.Expr]
) -> Callable[[Sequence[Array]], Array]:
    """Return what computes one group for one image, by the kernels of the compiler.

    Parameters
    ----------
    group
        The group.
    values
        What each of its members is.
    """
    main, alone = started(_compiled(_module(group, values)))["main"], Lock()

    def _run(xs: Sequence[Array]) -> Array:
        with alone:  # a virtual machine has one stack
            result: Array = main(*(tvm.runtime.tensor(np.ascontiguousarray(x)) for x in xs)).numpy()
        return result

    return _run


def _module(group: Group, values: Mapping[relax.Var, relax.Expr]) -> IRModule:
    """Return a network of one group; names of its tensors do not matter to equality."""
    writer = dataflow.FunctionWriter()
    reads = [*group.inputs, *group.floats]
    params = [relax.Var(f"x{i}", var.ty) for i, var in enumerate(reads)]
    done: dict[relax.Var, relax.Expr] = dict(zip(reads, params, strict=True))
    for member in group.members:
        done[member] = writer.emit(str(member.name), dataflow.substitute(values[member], done))
    return writer.finish(params, [done[group.output]])


def _compiled(mod: IRModule) -> tvm.runtime.Executable:
    """Return a network compiled for this computer, as it was before if it was, constants too."""
    programs = _shared.get()
    key: Hashable = tvm_ffi.StructuralKey(mod)  # type: ignore[call-arg]
    target = native_target()
    with _COMPILING, target:
        if programs is not None and key in programs:
            return programs[key]
        final = finalize()(lower(target, transient=True)(mod))
        executable = linked(final, target, transient=True).executable
        if programs is not None:
            programs[key] = executable
    return executable
