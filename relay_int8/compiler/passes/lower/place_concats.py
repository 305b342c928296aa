"""Let kernels write into the concatenation that their results are joined in.

    Before:  a = R.builtin.alloc_tensor(...);              conv2d_0(x, ..., a)
             b = R.builtin.alloc_tensor(...);              conv2d_1(x, ..., b)
             y = R.builtin.alloc_tensor(...);              concat_cpu_2(a, b, y)
    After:   s = R.memory.alloc_storage(bytes of y)
             a = R.memory.alloc_tensor(s, 0, ...);         conv2d_0(x, ..., a)
             b = R.memory.alloc_tensor(s, bytes of a, ...);  conv2d_1(x, ..., b)
             y = R.memory.alloc_tensor(s, 0, ...)
    and where conv2d_1 had the buffer b: T.Buffer(...), it has b: T.Buffer(..., elem_offset=offset).

Place:  after CallTIRRewrite, ahead of StaticPlanBlockMemory, which plans what is left.
Exact:  bit-identical; the bytes of y are the same, and nobody copies them.

A concat of whole blocks of channels at batch 1 holds its inputs one behind the other. One tensor
lies in one place, so a concat is placed whole or not at all, the last one first: where an earlier
one holds the first inputs of a later one, as in a dense block, it is a view of the first bytes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import tvm
import tvm_ffi
from tvm import IRModule, relax, tirx

from relay_int8.graph import dataflow
from relay_int8.graph.attributes import LAYOUTS, SPEC, TEMPLATE
from schedules.bodies.concat import adjoins
from schedules.cpu.moves.concat import CONCAT_CPU
from schedules.layout import LAYOUTS as KNOWN
from schedules.spec import Concat, from_json
from schedules.template import Layouts


@tvm.transform.module_pass(opt_level=0, name="PlaceConcats")
class PlaceConcats:
    """Let kernels write into the concatenation that their results are joined in."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module with fewer calls; ``mod`` itself is left alone."""
        bindings = [item for block in mod["main"].body.blocks for item in block.bindings]
        placement = _Placement(mod, bindings)
        if not placement.joined:
            return mod
        mod = mod.clone()
        for kernel, positions in _moved(mod, bindings, placement).items():
            mod[kernel] = at_any_offset(mod[kernel], positions)
        mod["main"] = _rewritten(mod["main"], bindings, placement)
        _remove_unused(mod, bindings, placement)
        return mod


@dataclass(frozen=True)
class StorageSlice:
    """Where a tensor lies: in the memory of the tensor ``root``, from byte ``begin`` on."""

    root: relax.Var
    begin: int = 0

    def behind(self, count: int) -> StorageSlice:
        """Return the slice that begins ``count`` bytes later."""
        return StorageSlice(self.root, self.begin + count)


class _Placement:
    """Where tensors of concats lie: ``slices``, and ``joined``, the calls that are not needed."""

    def __init__(self, mod: IRModule, bindings: Sequence[relax.VarBinding]) -> None:
        self.slices: dict[relax.Var, StorageSlice] = {}
        self.joined: set[relax.Var] = set()
        self._sizes = _movable(mod, bindings)
        self._named = _named(bindings)
        for item in reversed(bindings):
            if _is_adjoining(mod, item.value):
                *inputs, y = (self._named.get(argument, argument) for argument in item.value.args)
                if self._place_inputs(inputs, y):
                    self.joined.add(item.var)

    def slice_of(self, argument: relax.Expr) -> StorageSlice | None:
        """Return where what a kernel reads or writes lies; None if TVM decides."""
        return self.slices.get(self._named.get(argument, argument))

    def _place_inputs(self, inputs: Sequence[relax.Expr], y: relax.Expr) -> bool:
        """Give the inputs of a concat their slices of it; return whether all have one."""
        if any(var not in self._sizes for var in (*inputs, y)):
            return False
        is_part = y not in self.slices and inputs[0] in self.slices
        next_slice = self.slices[inputs[0]] if is_part else self.slices.get(y, StorageSlice(y))
        slices = {y: next_slice}
        for var in inputs:
            known = self.slices.get(var)
            if var in slices or known != (next_slice if is_part else None):
                return False
            slices[var] = next_slice
            next_slice = next_slice.behind(self._sizes[var])
        self.slices |= slices
        return True


def _movable(mod: IRModule, bindings: Sequence[relax.VarBinding]) -> dict[relax.Var, int]:
    """Return the bytes of each tensor that is allocated here, and that kernels alone see."""
    sizes = {
        item.var: math.prod(dataflow.shape(item.var)) * np.dtype(dataflow.dtype(item.var)).itemsize
        for item in bindings
        if dataflow.operator(item.value) == "builtin.alloc_tensor"
        and all(isinstance(size, int) for size in dataflow.shape(item.var))
    }
    named = _named(bindings)
    seen = [mod["main"].body.body]
    for item in bindings:
        if item.var not in named and not _is_kernel_call(mod, item.value):
            seen.extend(relax.analysis.free_vars(item.value))  # += would copy all, as TVM adds
    for var in seen:
        sizes.pop(named.get(var, var), None)
    return sizes


def _named(bindings: Sequence[relax.VarBinding]) -> dict[relax.Var, relax.Var]:
    """Return what each variable stands for that is another name of a tensor."""
    named: dict[relax.Var, relax.Var] = {}
    for item in bindings:
        if isinstance(item.value, relax.Var):
            named[item.var] = named.get(item.value, item.value)
    return named


def _is_kernel_call(mod: IRModule, value: relax.Expr) -> bool:
    is_call = isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar)
    return is_call and isinstance(mod[value.op], tirx.PrimFunc)


def _is_adjoining(mod: IRModule, value: relax.Expr) -> bool:
    """Say whether a value is a concat of a CPU whose inputs lie one behind the other in it."""
    if not _is_kernel_call(mod, value):
        return False
    attrs = mod[value.op].attrs
    if str(attrs.get(TEMPLATE, "")) != CONCAT_CPU.name:
        return False
    spec = from_json(str(attrs[SPEC]))
    *inputs, output = (KNOWN[name] for name in json.loads(str(attrs[LAYOUTS])))
    return isinstance(spec, Concat) and adjoins(spec, Layouts(inputs=tuple(inputs), output=output))


def _moved(
    mod: IRModule, bindings: Sequence[relax.VarBinding], placement: _Placement
) -> dict[tvm.ir.GlobalVar, set[int]]:
    """Return kernels that begin behind the first byte of a concat, and with which arguments."""
    moved: dict[tvm.ir.GlobalVar, set[int]] = {}
    for item in bindings:
        if not _is_kernel_call(mod, item.value) or item.var in placement.joined:
            continue
        for position, argument in enumerate(item.value.args):
            storage_slice = placement.slice_of(argument)
            if storage_slice is not None and storage_slice.begin:
                moved.setdefault(item.value.op, set()).add(position)
    return moved


def at_any_offset(kernel: tirx.PrimFunc, positions: Collection[int]) -> tirx.PrimFunc:
    """Return a kernel some of whose arguments may begin anywhere in their memory.

    TVM's kernels refuse an offset that their buffers do not declare. What a kernel declares over
    the memory of an argument begins where that does.
    """
    offsets = {kernel.params[position]: tirx.Var("offset", "int64") for position in positions}
    buffers = {buffer: _at(buffer, offset) for buffer, offset in offsets.items()}

    def _note(declared: tirx.DeclBuffer) -> None:
        source = declared.data.args[0] if isinstance(declared.data, tvm.ir.Call) else None
        if source in offsets:
            buffers[declared.buffer] = _at(declared.buffer, offsets[source])

    tvm_ffi.structural_walk(kernel.body, (tirx.DeclBuffer, _note))
    return tvm_ffi.structural_map(kernel, (tvm.ir.Var, lambda var: buffers.get(var, var)))


def _at(buffer: tirx.Buffer, offset: tirx.Var) -> tirx.Buffer:
    """Return ``buffer`` with an offset, in elements."""
    return tirx.decl_buffer(
        buffer.ty.shape,
        buffer.ty.dtype,
        buffer.name,
        elem_offset=offset,
        data_alignment=buffer.ty.data_alignment,
        offset_factor=1,
        layout=buffer.ty.layout,
    )


def _rewritten(
    main: relax.Function, bindings: Sequence[relax.VarBinding], placement: _Placement
) -> relax.Function:
    """Return ``main`` with the tensors of concats in their slices."""
    storages: dict[relax.Var, relax.Var] = {}
    kept: list[relax.VarBinding] = []
    builder = relax.BlockBuilder()
    for item in bindings:
        storage_slice = placement.slices.get(item.var)
        if item.var in placement.joined:
            continue
        if storage_slice is None:
            kept.append(item)
            continue
        if storage_slice.root not in storages:
            call = builder.normalize(_storage(storage_slice.root))
            storages[storage_slice.root] = relax.Var("storage", call.ty)
            kept.append(relax.VarBinding(storages[storage_slice.root], call))
        tensor = _tensor(item.var, storages[storage_slice.root], storage_slice.begin)
        kept.append(relax.VarBinding(item.var, builder.normalize(tensor)))
    body = builder.normalize(relax.SeqExpr([relax.BindingBlock(kept)], main.body.body))
    return relax.Function(main.params, body, main.ret_ty, main.is_pure, main.attrs)


def _remove_unused(
    mod: IRModule, bindings: Sequence[relax.VarBinding], placement: _Placement
) -> None:
    """Remove the kernels of concats that nothing calls any more: each would be compiled."""
    calls = [item for item in bindings if _is_kernel_call(mod, item.value)]
    kept = {item.value.op for item in calls if item.var not in placement.joined}
    for kernel in {item.value.op for item in calls} - kept:
        del mod[kernel]


def _storage(root: relax.Var) -> relax.Call:
    """Return the allocation of the memory of a concat."""
    count = math.prod(dataflow.shape(root)) * np.dtype(dataflow.dtype(root)).itemsize
    return relax.op.memory.alloc_storage(relax.ShapeExpr([count]), 0, "global", "uint8")


def _tensor(var: relax.Var, storage: relax.Var, begin: int) -> relax.Call:
    """Return the tensor ``var`` as a part of ``storage``."""
    dims = relax.ShapeExpr(dataflow.shape(var))
    return relax.op.memory.alloc_tensor(storage, begin, dims, dataflow.dtype(var))
