"""Turn a QDQ module into integers: Q/DQ pairs disappear into the kernels between them.

    Before:  y_q = quantize(relu(conv2d(dequantize(x_q), dequantize(w_q)) + b))
    After:   y = call_dps_packed('{"kind": "conv2d", ...}', (x, w, bias, m, z, clamp))

Place:  after InsertQdq (or the import of a QDQ model), before LowerFloat.
Exact:  the result equals the NumPy oracle on the QDQ module bit for bit; docs/design.md has the
        contract. An integer tensor keeps the name of the float tensor it stands for; what the
        variables beside it stand for is in the attribute ``int8.origins`` of main.

Of an imported model some pairs have no integer form (one scale for each channel of an activation,
other types than int8 and uint8): those stay operators of Relax, and what reads them floats.
"""

from __future__ import annotations

import json
from typing import cast

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.compiler.integer_kernels import (
    dequantize_kernel,
    integer_kernel,
    pixel_kernel,
    quantize_kernel,
    rescale_kernel,
)
from relay_int8.errors import CalibrationError, ConfigError
from relay_int8.graph import dataflow
from relay_int8.graph.attributes import INPUT_LAYOUT, PIXELS, QRANGE
from relay_int8.graph.group import Group, Smooth
from relay_int8.graph.group_roots import KINDS, PAIRS
from relay_int8.graph.groups import find_groups
from relay_int8.graph.origins import Origins, Role
from relay_int8.graph.pixels import pixels_of
from relay_int8.graph.requantize import requantize_of
from relay_int8.graph.spec_calls import kernel_call
from relay_int8.numerics.qparams import QParams, constant_integers
from relay_int8.operators.kernel import Kernel
from relay_int8.operators.registry import operator_of, refusal
from schedules.spec import Dense, DType, Move

BYTES = ("uint8", "int8")
"""Types of quantized activations that kernels read and write."""


def realized_groups(mod: IRModule) -> list[tuple[Group, str | None]]:
    """Return each layer of a QDQ module, and why it stays in float, or None."""
    realizer = _Realizer(mod["main"])
    realizer.run()
    return realizer.decided


def realized_integers(mod: IRModule) -> dict[str, str]:
    """Return the name of a quantize -> that of the kernel's result that holds its integers.

    A dense layer's has the rows that the kernel computes, whatever the tensor's shape. What no
    kernel gives, as the weights, is missing.
    """
    realizer = _Realizer(mod["main"])
    realizer.run()
    return realizer.kernels


@tvm.transform.module_pass(opt_level=0, name="Realize")
class Realize:
    """Turn a QDQ module into integers."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the integer module; ``mod`` itself is left alone, and returned if all float."""
        is_float = not dataflow.is_quantized(mod) and pixels_of(mod["main"]) is None
        return mod if is_float else _Realizer(mod["main"]).run()


class _Realizer:
    """Rewrites one QDQ function; ``_integers`` maps Q and DQ variables to integer tensors."""

    def __init__(self, func: relax.Function) -> None:
        self._func = func
        self._readers = dataflow.consumers(func)
        self._values = dict(dataflow.calls(func))
        self._qrange = json.loads(str(dataflow.attributes(func).get(QRANGE, "{}")))
        self._requantize = requantize_of(func)
        self._writer = dataflow.FunctionWriter(func=func)
        self._origins = Origins(func)
        self._integers: dict[relax.Var, tuple[relax.Expr, QParams]] = {}
        self._rescaled_to: dict[tuple[relax.Var, QParams], relax.Var] = {}
        self._pixels = pixels_of(func)
        self._inputs = {param: self._input(param) for param in func.params}
        self._floats: dict[relax.Var, relax.Var] = {} if self._pixels else dict(self._inputs)
        self._results = dataflow.results(func)
        self.decided: list[tuple[Group, str | None]] = []
        self.kernels: dict[str, str] = {}

    def run(self) -> IRModule:
        """Write the function anew.

        Fills ``decided``, groups and why they stay in float, and ``kernels``, a quantize's name ->
        that of the kernel's result.
        """
        for group in self._groups():
            if group.kind in ("quantize", "dequantize"):
                if not self._is_realized_pair(group):
                    self._float(group)
                continue
            reason = self._reason(group)
            self.decided.append((group, reason))
            if reason is None:
                self._integer(group, [self._integers[var] for var in group.inputs])
            else:
                self._float(group)
        outputs = [self._float_of(var) for var in self._results]
        attributes = dataflow.attributes(self._func)
        attributes.pop(QRANGE, None)
        if self._pixels:
            attributes.pop(PIXELS)
            attributes[INPUT_LAYOUT] = self._pixels.layout
        attributes = self._origins.added_to(attributes)
        return self._writer.finish(list(self._inputs.values()), outputs, attributes)

    def _input(self, param: relax.Var) -> relax.Var:
        """Return an input as the integer network has it: uint8 where it takes raw pixels."""
        if not self._pixels:
            return param
        return relax.Var(param.name, relax.TensorType(dataflow.shape(param), "uint8"))

    def _groups(self) -> list[Group]:
        """Return the groups.

        An addition joins a convolution only where both can be integers, a function only where its
        result is quantized at once.
        """
        groups = find_groups(self._func)
        separate = {
            str(group.activated.name)
            for group in groups
            if isinstance(group.activation, Smooth)
            and group.activated is not None
            and not self._ends_in_function(group)
        }
        separate |= {
            str(group.addition.name)
            for group in groups
            if group.addition is not None and not self._adds_integers(group)
        }
        if self._requantize != "float":
            separate |= {group.name for group in groups if group.sum_first}
        return find_groups(self._func, separate) if separate else groups

    def _ends_in_function(self, group: Group) -> bool:
        """Say whether ``group`` can be one kernel, whose function only floats have."""
        quantized = self._quantized_as(group.output) is not None
        return quantized and self._requantize == "float"

    def _adds_integers(self, group: Group) -> bool:
        residual = self._values.get(group.inputs[-1])
        dequantized = residual is not None and dataflow.operator(residual) == "dequantize"
        return dequantized and self._quantized_as(group.output) is not None

    def _is_realized_pair(self, group: Group) -> bool:
        """Note which integers a Q or DQ stands for; return whether it is no operator any more."""
        weight = self._weight(group.output)
        if group.output in self._integers or weight is not None:
            self._note_constant(group, weight)
            return True  # the business of the integer group that gives or reads it
        params = self._params(group.output, group.root)
        if params is None or not group.inputs:
            return False
        source = group.inputs[0]
        if group.kind == "quantize" and self._pixels and source in self._inputs:
            table = self._pixels.table(int(dataflow.shape(source)[1]), params)
            kernel = pixel_kernel(dataflow.shape(source), params, table)
            self._quantized(group.output, kernel, self._inputs[source], params)
        elif group.kind == "quantize":
            kernel = quantize_kernel(dataflow.shape(source), params)
            self._quantized(group.output, kernel, self._float_of(source), params)
        elif source in self._integers or source in self._func.params:
            integers = self._integers.get(source, (source, params))[0]
            self._integers[group.output] = integers, params
        else:
            return False
        return True

    def _note_constant(self, group: Group, reals: relax.Expr | None) -> None:
        """Note the integers of a constant that operators of two tensors read, as bytes."""
        array = None if reals is None else dataflow.constant(reals)
        kinds = {
            KINDS.get(dataflow.operator(self._values[reader]))
            for reader in self._readers[group.output]
        }
        if array is None or not kinds or not kinds <= set(PAIRS):
            return
        params = self._params(group.output, group.root)
        if params is None:
            return
        # Without a sign on every target: what ShiftSigns stores so are tensors, not constants.
        integers = constant_integers(array, params.unsigned)
        self._integers[group.output] = relax.const(integers), params.unsigned

    def _quantized(
        self, quantize: relax.Var, kernel: Kernel, source: relax.Var, params: QParams
    ) -> None:
        """Emit the integers of a float tensor, or of a picture."""
        integers = self._beside(source, "int", "quantize", kernel)
        self._integers[quantize] = integers, params
        self.kernels[str(quantize.name)] = str(integers.name)

    def _reason(self, group: Group) -> str | None:
        """Say why a group stays in float, or None."""
        unable = refusal(group, self._requantize)
        if unable or not (group.inputs or group.floats):
            return unable or "it reads no tensor"
        floats = [var for var in group.inputs if var not in self._integers]
        if floats:
            return self._input_refusal(floats[0])
        record = operator_of(group)
        inexact = record.pair_refusal(group)
        if group.inputs and inexact is None:
            inexact = record.range_refusal(group, self._integers[group.inputs[0]][1])
        if inexact or record.gives_float(group):
            return inexact
        quantize = self._quantized_as(group.output)
        return "its result is not quantized at once" if quantize is None else None

    def _input_refusal(self, var: relax.Var) -> str:
        """Say why integers cannot read a tensor."""
        value = self._values.get(var)
        if value is not None and dataflow.operator(value) == "dequantize":
            dtype = dataflow.dtype(value.args[0])
            if dtype not in BYTES:
                return f"its input {var.name} is quantized to {dtype}; integers of 8 bits are read"
        return f"its input {var.name} is not quantized"

    def _integer(self, group: Group, inputs: list[tuple[relax.Expr, QParams]]) -> None:
        quantize = self._quantized_as(group.output)
        y = None if quantize is None else self._params(quantize, self._values[quantize])
        tensors = [var for var, _ in inputs]
        xs = [params for _, params in inputs]
        if y is not None and operator_of(group).shares_scale:
            tensors = [self._rescaled(var, x, y) for var, x in inputs]
            xs = [y] * len(xs)
        tensors += [self._float_of(var) for var in group.floats]
        tensors += [relax.const(array) for array in operator_of(group).constant_tensors(group)]
        spec, constants = integer_kernel(group, xs, y, self._requantize)
        if isinstance(spec, Dense):
            tensors = [self._reshaped(tensors[0], spec.shape("x"))]
        var = self._writer.emit(group.name, kernel_call(spec, tensors, constants))
        if quantize is not None:
            self.kernels[str(quantize.name)] = str(var.name)
        if isinstance(spec, Dense):
            var = self._reshaped(var, dataflow.shape(group.output))
        if quantize is None or y is None:
            self._floats[group.output] = var
        else:
            self._integers[quantize] = var, y

    def _float(self, group: Group) -> None:
        for member in group.members:
            value = self._values[member]
            renamed = {
                arg: self._float_of(arg)
                for arg in dataflow.arguments(value)
                if isinstance(arg, relax.Var)
            }
            self._floats[member] = self._writer.emit(
                member.name, dataflow.substitute(value, renamed)
            )

    def _weight(self, var: relax.Var) -> relax.Expr | None:
        """Return the constant that ``var``, a Q or DQ of it, stands for, or None."""
        value = self._values.get(var)
        if value is not None and dataflow.operator(value) == "dequantize":
            value = self._values.get(value.args[0])
        if value is None or dataflow.operator(value) != "quantize":
            return None
        return value.args[0] if dataflow.constant(value.args[0]) is not None else None

    def _float_of(self, var: relax.Var) -> relax.Expr:
        """Return a tensor as an operator of Relax reads it: integers only where a Q gives them."""
        weight = self._weight(var)
        if weight is not None:
            return weight
        if var in self._integers and dataflow.operator(self._values[var]) == "quantize":
            return self._integers[var][0]
        if var in self._inputs and self._pixels:
            raise ConfigError(
                f"input {var.name} is read in float too; a network of raw pixels needs a first "
                "layer in integers, and nothing else that reads the picture"
            )
        if var not in self._floats:
            source, params = self._integers[var]
            kernel = dequantize_kernel(dataflow.shape(source), params)
            self._floats[var] = self._beside(source, "float", "dequantize", kernel)
        return self._floats[var]

    def _rescaled(self, var: relax.Var, x: QParams, y: QParams) -> relax.Var:
        if x == y:
            return var
        if (var, y) not in self._rescaled_to:
            kernel = rescale_kernel(dataflow.shape(var), x, y, self._requantize)
            self._rescaled_to[var, y] = self._beside(var, "rescaled", "rescale", kernel)
        return self._rescaled_to[var, y]

    def _reshaped(self, var: relax.Var, shape: tuple[int, ...]) -> relax.Var:
        if dataflow.shape(var) == tuple(shape):
            return var
        dtype = cast(DType, dataflow.dtype(var))
        spec = Move(move="reshape", x_shape=dataflow.shape(var), y_shape=shape, x=dtype)
        return self._beside(var, "reshaped", "reshape", (spec, {}))

    def _beside(self, source: relax.Var, ending: str, role: Role, kernel: Kernel) -> relax.Var:
        """Emit a kernel that gives ``source`` in another form."""
        spec, constants = kernel
        value = kernel_call(spec, [source], constants)
        var = self._writer.derive(f"{source.name}:{ending}", value)
        self._origins.note(var, str(source.name), role)
        return var

    def _quantized_as(self, var: relax.Var) -> relax.Var | None:
        """Return the quantize that is the only reader of ``var``, or None."""
        readers = self._readers[var]
        if len(readers) != 1 or var in self._results:
            return None
        value = self._values[readers[0]]
        is_pair = dataflow.operator(value) == "quantize" and self._params(readers[0], value)
        return readers[0] if is_pair else None

    def _params(self, var: relax.Var, call: relax.Call) -> QParams | None:
        """Return the parameters of a Q or DQ, or None if integers cannot have them.

        Raises
        ------
        CalibrationError
            They are none: a scale of zero for instance. The tensor is named.
        """
        scale, zero = (dataflow.constant(argument) for argument in call.args[1:])
        quantize = var if dataflow.operator(call) == "quantize" else call.args[0]
        dtype = dataflow.dtype(quantize)
        if scale is None or zero is None or scale.size != 1 or dtype not in BYTES:
            return None
        info = np.iinfo(dtype)
        qmin, qmax = self._qrange.get(quantize.name, (info.min, info.max))
        try:
            return QParams(np.float32(scale), int(zero), qmin, qmax, dtype)  # type: ignore[arg-type]
        except CalibrationError as error:
            raise CalibrationError(f"tensor {quantize.name}: {error}") from error
