"""Reading and writing the one dataflow block of a Relax function, names included.

A network is ``main``: one dataflow block, one call a binding. Every Var carries the name its tensor
has in the model file, and every pass of this project keeps these names, which BlockBuilder would
turn into identifiers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import tvm
import tvm_ffi
from tvm import IRModule, relax

from relay_int8.graph.readings import kept

IMAGE = 4  # axes of a tensor whose channels are axis 1
_INTEGERS = (int, tvm.tirx.IntImm)
# Arrays of TVM are copied by a slice before they are looped over: each step of their own iterator
# takes some ten times as long.


@kept
def calls(func: relax.Function) -> tuple[tuple[relax.Var, relax.Expr], ...]:
    """Return (variable, value) of every binding in order, the one that returns results left out."""
    bindings = _bindings(func)
    returning = bindings and isinstance(bindings[-1][1], relax.Tuple | relax.Var)
    return bindings[:-1] if returning else bindings


@kept
def results(func: relax.Function) -> tuple[relax.Var, ...]:
    """Return the variables whose values the function returns."""
    values = dict(_bindings(func))
    body = func.body.body
    while body in values and isinstance(values[body], relax.Tuple | relax.Var):
        body = values[body]
    fields = body.fields[:] if isinstance(body, relax.Tuple) else [body]
    return tuple(_resolve(field, values) for field in fields)


@kept
def consumers(func: relax.Function) -> dict[relax.Var, list[relax.Var]]:
    """Return, for every variable, the variables whose values read it, in order."""
    readers: dict[relax.Var, list[relax.Var]] = {param: [] for param in func.params[:]}
    for var, value in calls(func):
        readers[var] = []
        for argument in arguments(value):
            if isinstance(argument, relax.Var):
                known = readers[argument]
                if not (known and known[-1] is var):  # it may read a tensor twice
                    known.append(var)
    return readers


def arguments(value: relax.Expr) -> list[relax.Expr]:
    """Return what an expression reads: a call's arguments with tuples taken apart."""
    if isinstance(value, relax.TupleGetItem):
        return [value.tuple_value]
    if not isinstance(value, relax.Call):
        return [value]
    flat: list[relax.Expr] = []
    for argument in value.args[:]:
        if isinstance(argument, relax.Tuple):
            flat.extend(argument.fields[:])
        else:
            flat.append(argument)
    return flat


def operator(value: relax.Expr) -> str:
    """Return the operator's name without ``relax.``, or what kind of expression it is."""
    if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op):
        return str(value.op.name).removeprefix("relax.")
    return "tuple_get_item" if isinstance(value, relax.TupleGetItem) else type(value).__name__


def is_quantized(mod: tvm.IRModule) -> bool:
    """Whether a model holds quantization of its own."""
    pair = ("quantize", "dequantize")
    return any(operator(value) in pair for _, value in calls(mod["main"]))


def quantized_pairs(func: relax.Function) -> dict[relax.Var, relax.Var]:
    """Return tensor -> what the first Q/DQ pair behind it gives, for tensors that have one."""
    quantized: dict[relax.Var, relax.Var] = {}
    pairs: dict[relax.Var, relax.Var] = {}
    for var, value in calls(func):
        if operator(value) == "quantize" and isinstance(value.args[0], relax.Var):
            quantized[var] = value.args[0]
        elif operator(value) == "dequantize" and value.args[0] in quantized:
            pairs.setdefault(quantized[value.args[0]], var)
    return pairs


def constant(value: relax.Expr) -> np.ndarray | None:
    """Return the array of a constant, which is the constant's memory and read-only, or None."""
    if not isinstance(value, tvm.ir.GenericConst):
        return None
    try:
        array = np.from_dlpack(value.value)
    except (BufferError, RuntimeError):  # bfloat16 and the like, which NumPy itself does not have
        return np.asarray(value.value.numpy())
    array.flags.writeable = False
    return array


def number(value: relax.Expr) -> float:
    """Return a scalar that the graph holds, a constant tensor or a plain number."""
    array = constant(value)
    return float(value.value) if array is None else float(array.reshape(()))


def pad_fill(pad: relax.Call) -> float:
    """Return the constant that an ``nn.pad`` pads with: an operand, or an attribute."""
    return number(pad.args[1]) if len(pad.args) > 1 else float(pad.attrs.pad_value)


def shape(value: relax.Expr) -> tuple[int, ...]:
    """Return the static shape of a tensor; a symbolic extent stays a TIR variable."""
    return tuple(
        [
            int(extent) if isinstance(extent, _INTEGERS) else extent
            for extent in value.ty.shape.values[:]
        ]
    )


def open_sizes(func: relax.Function) -> list[tvm.ir.Var]:
    """Return the variables among the extents of the inputs: an open batch."""
    extents = [extent for param in func.params for extent in shape(param)]
    return list(dict.fromkeys(extent for extent in extents if isinstance(extent, tvm.ir.Var)))


def dtype(value: relax.Expr) -> str:
    """Return the element type of a tensor."""
    return str(value.ty.dtype)


def slice_steps(call: relax.Call) -> tuple[list[int], list[int]]:
    """Return begin and step along every axis of a strided_slice with constant bounds."""
    extents = shape(call.args[0])
    begins, steps = [0] * len(extents), [1] * len(extents)
    tuples = [argument.fields for argument in call.args[1:]]
    axes, first = tuples[0], tuples[1]
    strides = tuples[3] if len(tuples) > 3 else [1] * len(axes)
    for axis, begin, step in zip(axes, first, strides, strict=True):
        position = int(axis) % len(extents)
        start, size = int(begin), extents[position]
        begins[position] = min(max(start + size if start < 0 else start, 0), size)
        steps[position] = int(step)
    return begins, steps


class FunctionWriter:
    """Write ``main`` binding by binding, under the names the caller gives.

    Parameters
    ----------
    mod
        A module whose other functions are kept; it is copied.
    func
        What is written anew: its names are kept for its own tensors.
    """

    def __init__(self, mod: IRModule | None = None, *, func: relax.Function | None = None) -> None:
        # A BlockBuilder writes into the module that it is given.
        self._builder = relax.BlockBuilder(None if mod is None else mod.clone())
        self._bindings: list[relax.VarBinding] = []
        self._names: set[str] = set()
        own = () if func is None else (*func.params, *(var for var, _ in calls(func)))
        self._own = {str(var.name) for var in own}

    def emit(self, name: str, value: relax.Expr) -> relax.Var:
        """Bind ``value`` to a variable called ``name`` (made unique) and return the variable."""
        value = self._builder.normalize(value)
        var = relax.DataflowVar(self._unique(name), value.ty)
        self._bindings.append(relax.VarBinding(var, value))
        return var

    def keep(self, var: relax.Var, value: relax.Expr) -> bool:
        """Take over a binding of another function; False where its name or its kind cannot stay."""
        if str(var.name) in self._names or not isinstance(var, relax.DataflowVar):
            return False
        self._names.add(str(var.name))
        self._bindings.append(relax.VarBinding(var, value))
        return True

    def derive(self, name: str, value: relax.Expr) -> relax.Var:
        """Bind ``value`` to a variable that the function had not; none of its names is taken."""
        return self.emit(_first_free(name, self._names, self._own), value)

    def add_kernel(self, func: tvm.tirx.PrimFunc, name: str) -> tvm.ir.GlobalVar:
        """Add a PrimFunc to the module and return how to call it."""
        return self._builder.add_func(func, name)

    def finish(
        self,
        params: Sequence[relax.Var],
        outputs: Sequence[relax.Var],
        attributes: Mapping[str, object] | None = None,
    ) -> IRModule:
        """Return the module; one output is returned as a tensor, more as a tuple."""
        last = self._returning(outputs)
        block, returned = relax.DataflowBlock([*self._bindings, last]), last.var
        body = self._builder.normalize(relax.SeqExpr([block], returned))
        func = relax.Function(list(params), body, returned.ty)
        func = func.with_attr("global_symbol", "main")
        for key, attribute in (attributes or {}).items():
            func = func.with_attr(key, attribute)
        mod = self._builder.get()
        mod["main"] = func
        return mod

    def _returning(self, outputs: Sequence[relax.Var]) -> relax.VarBinding:
        """Return the binding of what the function returns.

        A single tensor is bound last and returned as it is, what follows it being read by nothing:
        of an alias, TVM's passes would keep the name and drop the tensor's own.
        """
        single = outputs[0] if len(outputs) == 1 else None
        for position, binding in enumerate(self._bindings):
            if single is not None and binding.var.same_as(single):
                del self._bindings[position:]
                return relax.VarBinding(relax.Var(single.name, single.ty), binding.value)
        value = relax.Tuple(list(outputs)) if single is None else single
        value = self._builder.normalize(value)
        return relax.VarBinding(relax.Var(self._unique("outputs"), value.ty), value)

    def _unique(self, name: str) -> str:
        unique = _first_free(name, self._names)
        self._names.add(unique)
        return unique


def _first_free(name: str, *taken: Collection[str]) -> str:
    """Return ``name``, with a number behind it where it is taken."""
    candidate, count = name, 1
    while any(candidate in names for names in taken):
        candidate, count = f"{name}#{count}", count + 1
    return candidate


def substitute(value: relax.Expr, renamed: Mapping[relax.Var, relax.Expr]) -> relax.Expr:
    """Return ``value`` reading other variables: those of ``renamed`` in place of its own."""
    if isinstance(value, relax.Var):
        return renamed.get(value, value)
    if isinstance(value, relax.Tuple):
        return relax.Tuple([substitute(field, renamed) for field in value.fields[:]])
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(substitute(value.tuple_value, renamed), value.index)
    if isinstance(value, relax.Call):
        return with_arguments(value, [substitute(arg, renamed) for arg in value.args[:]])
    return value


def with_arguments(call: relax.Call, args: Sequence[relax.Expr]) -> relax.Call:
    """Return a call that reads other tensors.

    Where these have the types of its own, the result has too: TVM takes a millisecond to infer
    that of a convolution. Arguments that are numbers or shapes, which say more than their types do,
    are to stay.
    """
    same = all(_of_one_type(*pair) for pair in zip(args, call.args[:], strict=True))
    return relax.Call(call.op, args, call.attrs, call.ty_args, ret_ty=call.ty if same else None)


def _of_one_type(a: relax.Expr, b: relax.Expr) -> bool:
    return a is b or a.ty.same_as(b.ty) or tvm_ffi.structural_equal(a.ty, b.ty)


def attributes(func: relax.Function) -> dict[str, object]:
    """Return the attributes to hand to :meth:`FunctionWriter.finish`."""
    attrs = dict(func.attrs.items()) if func.attrs else {}
    attrs.pop("global_symbol", None)
    return attrs


@kept
def _bindings(func: relax.Function) -> tuple[tuple[relax.Var, relax.Expr], ...]:
    return tuple(
        (binding.var, binding.value)
        for block in func.body.blocks[:]
        for binding in block.bindings[:]
    )


def _resolve(value: relax.Expr, values: Mapping[relax.Var, relax.Expr]) -> relax.Var:
    while value in values and isinstance(values[value], relax.Var):
        value = values[value]
    return value
