"""Kernels that differ in nothing but numbers of channels become one, which reads them from tensors.

    Before:  conv_a(x: (1, 4, 28, 28, 16), ...):   for task in parallel(8): ... for k0 in range(4)
             conv_b(x: (1, 6, 28, 28, 16), ...):   for task in parallel(8): ... for k0 in range(6)
    After:   conv_c(x: (1, x_1, 28, 28, 16), ...): for task in parallel(8): ... for k0 in range(x_1)

Compiling a kernel takes a tenth of a second, and DenseNet-121 has 138, but 25 that differ in more.

Place:  kernels as plain loops, whose tensors have their axes; strides follow from them.
Exact:  each number that differs is a fraction of an extent of an argument, the same one with each
        of the kernels, and all else is equal: they are the same loops, and the same order of sums.

Only loops in which vectors are written are merged, as LLVM finds them better where it knows
extents. What is unrolled has no number that differs, and nothing is divided by one but the number
of a task. Copies whose size differs are on the heap, once for each task.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import tvm
import tvm_ffi
from tvm import ir, tirx

from relay_int8.compiler.reads import variables
from relay_int8.graph.attributes import SPEC, TEMPLATE
from schedules.spec import Conv2d, Dense, from_json

Kernels = Mapping[ir.GlobalVar, tirx.PrimFunc]
Part = tuple[tuple[int, ...], Fraction]
IMAGE_AXES = 5  # of NCHW16c
FIXED = (tirx.ForKind.UNROLLED, tirx.ForKind.VECTORIZED)


def merged_kernels(
    kernels: Kernels,
) -> tuple[dict[ir.GlobalVar, tirx.PrimFunc], dict[ir.GlobalVar, ir.GlobalVar]]:
    """Return what is to be compiled, and the kernel that computes each one that is merged."""
    compiled, sources = dict(kernels), {}
    able = [
        gvar for gvar, func in kernels.items() if _has_written_vectors(func) and not _is_open(func)
    ]
    pending = [
        group
        for like in _alike(able, lambda gvar: _types(kernels[gvar]))
        for group in _alike(like, lambda gvar: _skeleton(kernels[gvar]))
    ]
    while pending:
        group = pending.pop()
        if len(group) == 1:
            continue
        comparison = _Comparison.of([kernels[gvar] for gvar in group])
        if comparison is None:
            continue
        parts = comparison.split()
        if len(parts) > 1:
            pending += [[group[member] for member in part] for part in parts]
            continue
        general = comparison.general()
        if general is not None:
            name = _name(str(group[0].name_hint), general)
            whole = ir.GlobalVar(name)
            compiled[whole] = general.with_attr("global_symbol", name)
            for gvar in group:
                del compiled[gvar]
                sources[gvar] = whole
    return compiled, sources


def _alike(
    gvars: Sequence[ir.GlobalVar], quality: Callable[[ir.GlobalVar], object]
) -> list[list[ir.GlobalVar]]:
    """Return the groups of two and more that have a quality in common."""
    groups: dict[object, list[ir.GlobalVar]] = defaultdict(list)
    for gvar in gvars:
        groups[quality(gvar)].append(gvar)
    return [group for group in groups.values() if len(group) > 1]


def _name(member: str, func: tirx.PrimFunc) -> str:
    """Return the name of what is merged: of what it computes, as no kernel of other numbers has."""
    digest = hashlib.sha256(tvm.ir.save_json(func).encode()).digest()
    return f"{member.rpartition('_')[0]}_{int.from_bytes(digest[:5])}"


@dataclass(frozen=True)
class _Comparison:
    """Kernels whose bodies are equal but for numbers.

    ``places`` has the numbers of the body, of each kernel, in order; ``extents`` those of the
    parameters that differ, by parameter and axis.
    """

    funcs: Sequence[tirx.PrimFunc]
    places: Sequence[tuple[int, ...]]
    extents: Mapping[tuple[int, int], tuple[int, ...]]

    @classmethod
    def of(cls, funcs: Sequence[tirx.PrimFunc]) -> _Comparison | None:
        """Return the comparison, or None where the bodies differ in more."""
        numbers = [_numbers(func) for func in funcs]
        if len({len(found) for found in numbers}) > 1:
            return None
        pairs = zip(funcs, numbers, strict=True)
        if not all(_with_numbers(funcs[0], func, found) for func, found in pairs):
            return None
        extents = {}
        for number, params in enumerate(zip(*(func.params for func in funcs), strict=True)):
            for axis, sizes in enumerate(zip(*(param.ty.shape for param in params), strict=True)):
                values = tuple(int(size) for size in sizes)
                if len({*values}) > 1:
                    extents[number, axis] = values
        return cls(funcs, list(zip(*numbers, strict=True)), extents)

    def split(self) -> list[list[int]]:
        """Return which kernels agree in the numbers that are part of no extent."""
        strange = [p for p in self.places if len({*p}) > 1 and self._part(p) is None]
        parts: dict[tuple[int, ...], list[int]] = defaultdict(list)
        for member in range(len(self.funcs)):
            parts[tuple(place[member] for place in strange)].append(member)
        return list(parts.values())

    def general(self) -> tirx.PrimFunc | None:
        """Return the kernel that computes what all of them do, or None where it would be slow."""
        first, sizes = self.funcs[0], self._sizes()
        parts = iter([self._part(p) if len({*p}) > 1 else None for p in self.places])

        def _number(value: tirx.IntImm) -> ir.Expr:
            part = next(parts)
            if part is None:
                return value
            extent, fraction = part
            size = sizes[extent] * fraction.numerator
            if fraction.denominator != 1:
                size = tirx.floordiv(size, fraction.denominator)
            return size.astype(str(value.ty.dtype))

        body = tvm_ffi.structural_map(first.body, (tirx.IntImm, _number))
        params = [_reshaped(param, self._shape(i, sizes)) for i, param in enumerate(first.params)]
        body = _with_params(body, first.params, params)
        if not _is_quick(body, [*sizes.values()]):
            return None
        return tirx.PrimFunc(params, body, None, first.attrs)

    def _part(self, place: Sequence[int]) -> Part | None:
        """Return the extent of which a number is the same part in each kernel, and the part."""
        for sizes in self.extents.values():
            parts = {Fraction(value, size) for value, size in zip(place, sizes, strict=True)}
            if len(parts) == 1:
                return sizes, parts.pop()
        return None

    def _sizes(self) -> dict[tuple[int, ...], ir.Var]:
        """Return a variable for each extent that differs; extents that are equal share it."""
        sizes: dict[tuple[int, ...], ir.Var] = {}
        for (number, axis), values in self.extents.items():
            name = f"{self.funcs[0].params[number].name}_{axis}"
            sizes.setdefault(values, tirx.Var(name, "int64"))
        return sizes

    def _shape(self, number: int, sizes: Mapping[tuple[int, ...], ir.Var]) -> list[ir.Expr]:
        shape = enumerate(self.funcs[0].params[number].ty.shape)
        at = self.extents
        return [sizes[at[number, i]] if (number, i) in at else size for i, size in shape]


def _has_written_vectors(func: tirx.PrimFunc) -> bool:
    return TEMPLATE in func.attrs and isinstance(from_json(str(func.attrs[SPEC])), Conv2d | Dense)


def _is_open(func: tirx.PrimFunc) -> bool:
    """Say whether an extent of a parameter is a variable already, or none at all."""
    extents = [extent for param in func.params for extent in param.ty.shape]
    return not all(isinstance(extent, tirx.IntImm) and int(extent) > 0 for extent in extents)


def _numbers(func: tirx.PrimFunc) -> list[int]:
    """Return the numbers of a body, in order."""
    values: list[int] = []

    def _note(value: tirx.IntImm) -> tirx.IntImm:
        values.append(int(value))
        return value

    tvm_ffi.structural_map(func.body, (tirx.IntImm, _note))
    return values


def _skeleton(func: tirx.PrimFunc) -> int:
    """Return what is equal for functions that differ in numbers alone, and some others."""
    zeros: dict[str, ir.Expr] = {}

    def _zero(value: tirx.IntImm) -> ir.Expr:
        dtype = str(value.ty.dtype)
        return zeros.setdefault(dtype, tirx.const(0, dtype))

    body = tvm_ffi.structural_map(func.body, (tirx.IntImm, _zero))
    none = tirx.const(0, "int64")
    params = [_reshaped(param, [none] * len(param.ty.shape)) for param in func.params]
    body = _with_params(body, func.params, params)
    return int(tvm_ffi.structural_hash(body, map_free_vars=True))


def _types(func: tirx.PrimFunc) -> tuple[object, ...]:
    """Return what parameters of merged kernels have in common."""
    return tuple(_type_of(param) for param in func.params)


def _type_of(param: ir.Var) -> tuple[object, ...]:
    """Return what parameters of merged kernels have in common: rows and columns of images too."""
    ty = param.ty
    pixels = [int(size) for size in ty.shape[2:4]] if len(ty.shape) == IMAGE_AXES else []
    return str(ty.dtype), len(ty.shape), isinstance(ty.elem_offset, ir.Var), *pixels


def _with_numbers(first: tirx.PrimFunc, func: tirx.PrimFunc, numbers: Sequence[int]) -> bool:
    """Say whether ``first`` with the numbers of ``func`` is ``func``."""
    own = iter(numbers)

    def _number(value: tirx.IntImm) -> ir.Expr:
        return tirx.const(next(own), str(value.ty.dtype))

    body = tvm_ffi.structural_map(first.body, (tirx.IntImm, _number))
    body = _with_params(body, first.params, func.params)
    return bool(tvm_ffi.structural_equal(body, func.body))


def _reshaped(param: ir.Var, shape: Sequence[ir.Expr]) -> ir.Var:
    """Return a parameter like another one, of another shape."""
    ty = param.ty
    return tirx.decl_buffer(
        shape,
        str(ty.dtype),
        param.name,
        elem_offset=ty.elem_offset,
        data_alignment=ty.data_alignment,
        offset_factor=ty.offset_factor,
        layout=None,
    )


def _with_params(body: tirx.Stmt, params: Sequence[ir.Var], wanted: Sequence[ir.Var]) -> tirx.Stmt:
    """Return a body that reads other parameters, and their offsets."""
    named: dict[ir.Var, ir.Expr] = {}
    for param, other in zip(params, wanted, strict=True):
        named[param] = other
        if isinstance(param.ty.elem_offset, ir.Var):
            named[param.ty.elem_offset] = other.ty.elem_offset
    changed: tirx.Stmt = tvm_ffi.structural_map(body, (ir.Var, lambda var: named.get(var, var)))
    return changed


def _is_quick(body: tirx.Stmt, sizes: Sequence[ir.Var]) -> bool:
    """Say whether a kernel whose extents are ``sizes`` is as fast as one that knows them."""
    loops: list[tirx.For] = []
    tvm_ffi.structural_walk(body, (tirx.For, loops.append))
    if any(loop.kind in FIXED and not isinstance(loop.extent, tirx.IntImm) for loop in loops):
        return False
    statements = body.seq if isinstance(body, tirx.SeqStmt) else [body]
    tasks = [each.loop_var for each in statements if isinstance(each, tirx.For)]
    divided: list[ir.Expr] = []
    for division in (tirx.FloorDiv, tirx.FloorMod):
        tvm_ffi.structural_walk(body, (division, divided.append))
    return all(
        isinstance(each.b, tirx.IntImm) or _is_of(each.a, [*tasks, *sizes]) for each in divided
    )


def _is_of(value: ir.Expr, known: Sequence[ir.Var]) -> bool:
    """Say whether an expression has none but these variables."""
    return all(any(var.same_as(one) for one in known) for var in variables(value))
