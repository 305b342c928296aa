"""Bring the Q/DQ pairs of an imported model into the form that InsertQdq writes.

    Before:  w = dequantize(int8 constant, s, z, axis);  y = conv2d(x, w)
    After:   w_q = quantize(float constant, s', z', axis);  w = dequantize(w_q, s', z', axis)
             with z' = 0 where all the integers less z fit int8, and s' = s / n where the integers
             of a whole tensor are so small that n times as large ones do

    Before:  k = dequantize(int8 constant, s, z);  y = maximum(x, k)
    After:   y = maximum(x, constant)                      and the like of all but weights

    Before:  k = dequantize(int8 constant, s, z);  y_q = quantize(add(dequantize(a, ...), k))
    After:   k_q = quantize(constant, s, z);  k = dequantize(k_q, s, z), of as many axes as a
             and the like of multiply: biases behind a quantized product

    Before:  a = quantize(x, s, z);  b = quantize(x, s, z)             and the like of dequantize
    After:   a, which b's readers read

    Before:  b = quantize(dequantize(a, s, z), s, z)
    After:   a

    Before:  y = reshape(dequantize(a, s, z));  or of integers, y_q = reshape(a)
    After:   y_q = quantize(reshape(dequantize(a, s, z)), s, z);  y = dequantize(y_q, s, z)

    Before:  y = concat(dequantize(a, s, z), dequantize(b, s, z))
    After:   y_q = quantize(concat(...), s, z);  y = dequantize(y_q, s, z)

    Before:  y = sample2d(dequantize(a, s, z), places), which convolutions of int8 weights read
    After:   y_q = quantize(sample2d(dequantize(a, s, z), places), s, z);  y = dequantize(y_q, s, z)

Place:  after TransposeQuantized.
Exact:  bit-identical: constants in float, and what an operator moves, are multiples of the scale,
        so that quantizing them gives the integers they were. Constants that no convolution or
        matrix product can take, of more than 8 bits or with other scales than one an output
        channel, become the reals they stand for. Samples between pixels alone are rounded, to the
        image's own steps.
"""

from __future__ import annotations

import numpy as np
import tvm
from tvm import IRModule, relax

from relay_int8.compiler.passes.normalize.integer_operands import operands_of_integers
from relay_int8.compiler.passes.normalize.weight_pair import weight_pair
from relay_int8.graph import dataflow
from relay_int8.graph.declined import Declined
from relay_int8.graph.rewriting import Scope, rewrite_main
from relay_int8.graph.spec_calls import operands, spec_of
from relay_int8.numerics.qparams import WEIGHT_MAX
from schedules.spec import Sample2d

MOST_OF_FEW_BITS = 31  # of 6 bits: those of 7 were made for processors whose sums saturate
OUTPUT_CHANNELS = {"nn.conv2d": 0, "nn.conv2d_transpose": 1, "matmul": 1}
"""Operator -> the axis of its weights, argument 1, that counts output channels."""
MOVES = (
    "expand_dims",
    "nn.max_pool2d",
    "nn.pad",
    "permute_dims",
    "reshape",
    "squeeze",
    "strided_slice",
)
"""Operators whose result holds values of their input, and zeros."""
MOVES_OF_INTEGERS = ("broadcast_to",)
"""Those that have no integer kernel: between integers alone they are moves of reals."""


@tvm.transform.module_pass(opt_level=0, name="CanonicalizeQdq")
class CanonicalizeQdq:
    """Bring the Q/DQ pairs of an imported model into the form that InsertQdq writes."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return ``mod`` with canonical pairs; ``mod`` itself is left alone."""
        return rewrite_main(mod.clone(), _Canonicalizer(mod["main"]).rewrite)


class _Canonicalizer:
    def __init__(self, func: relax.Function) -> None:
        self._channels = _channel_axes(func)
        self._quantized = _quantized_at_once(func)
        self._convolved = _convolved_in_integers(func)
        self._operands = operands_of_integers(func)

    def rewrite(self, scope: Scope, value: relax.Expr) -> relax.Expr | Declined | None:
        """Return what takes the place of ``value``, or None to keep it."""
        operator = dataflow.operator(value)
        if scope.name in self._convolved and isinstance(spec := spec_of(value), Sample2d):
            return self._sampled(scope, value, spec)
        if operator in MOVES + MOVES_OF_INTEGERS:
            return self._moved(scope, value)
        if operator == "concat" and scope.name not in self._quantized:
            return _joined(scope, value)
        if operator not in ("quantize", "dequantize"):
            return None
        q = dataflow.constant(value.args[0])
        if q is not None:
            return self._constant(scope, value, q) if operator == "dequantize" else None
        inner = _inverted(scope, value)
        return _written_before(scope, value) if inner is None else inner

    def _moved(self, scope: Scope, value: relax.Call) -> relax.Expr | Declined | None:
        """Return the move of a quantized tensor between a DQ and a Q of its parameters."""
        source = scope.value(value.args[0])
        is_integer = dataflow.operator(source) == "quantize"
        if not is_integer and dataflow.operator(source) != "dequantize":
            return None
        if not is_integer and dataflow.operator(value) in MOVES_OF_INTEGERS:
            return None
        scale, zero = source.args[1:]
        if _fill(value) and not is_integer:
            return None  # its result may have other parameters: a pad of its own
        if not is_integer and scope.name in self._quantized:
            return None
        real, axis = value.args[0], int(source.attrs.axis)
        array, offset = dataflow.constant(scale), dataflow.constant(zero)
        if offset is None or array is None:
            return Declined(
                f"{real.name} is quantized by a scale or zero point that is no constant"
            )
        if array.size != 1:
            return Declined(f"{real.name} is quantized by {array.size} scales, not one")
        if is_integer:
            real = scope.emit("dq", relax.op.dequantize(real, scale, zero, axis))
        moved = dataflow.with_arguments(value, [real, *value.args[1:]])
        if dataflow.operator(value) == "nn.pad":
            widths = [int(width) for width in value.attrs.pad_width]
            mode, fill = str(value.attrs.pad_mode), 0.0
            if is_integer and mode == "constant":
                fill = (_fill(value) - float(offset.reshape(-1)[0])) * float(array.reshape(-1)[0])
            moved = relax.op.nn.pad(real, widths, mode, fill)
        y = scope.emit("moved", moved)
        integers = relax.op.quantize(y, scale, zero, -1, str(zero.ty.dtype))
        if is_integer:
            return integers
        return relax.op.dequantize(scope.emit("q", integers), scale, zero, -1)

    def _sampled(
        self, scope: Scope, value: relax.Call, spec: Sample2d
    ) -> relax.Expr | Declined | None:
        """Return the samples of a quantized image by its scale, where no mask exceeds 1."""
        (image, *others), _ = operands(value, spec)
        source = scope.value(image)
        if dataflow.operator(source) != "dequantize":
            return Declined(f"its image {image.name} is not quantized")
        scale, zero = source.args[1:]
        array = dataflow.constant(scale)
        if array is None or array.size != 1:
            return Declined(f"its image {image.name} is not quantized by one constant scale")
        if spec.masked and not _is_share(scope.value(others[1])):
            return Declined(
                f"its mask {others[1].name} may exceed 1, which the scale does not hold"
            )
        y = scope.emit("sampled", value)
        integers = relax.op.quantize(y, scale, zero, -1, str(zero.ty.dtype))
        return relax.op.dequantize(scope.emit("q", integers), scale, zero, -1)

    def _constant(self, scope: Scope, value: relax.Call, q: np.ndarray) -> relax.Expr:
        """Return integer weights as a pair, other constants as the reals they stand for."""
        scale, zero = (dataflow.constant(argument) for argument in value.args[1:])
        if scale is None or zero is None:
            raise TypeError(f"{scope.name}: scale and zero point of a constant are no constants")
        steps = q.astype(np.int64) - _along(zero.astype(np.int64), value, q.ndim)
        reals = steps * _along(scale.astype(np.float64), value, q.ndim)
        if (rank := self._operands.get(scope.name)) and q.dtype in (np.int8, np.uint8):
            constant = relax.const(reals.reshape((1,) * (rank - q.ndim) + q.shape), "float32")
            parameters = relax.const(scale.reshape(())), relax.const(zero.reshape(()))
            integers = relax.op.quantize(constant, *parameters, -1, str(q.dtype))
            return relax.op.dequantize(scope.emit("q", integers), *parameters, -1)
        axis = self._channels.get(scope.name)
        if (
            axis is None
            or q.dtype not in (np.int8, np.uint8)
            or not all(_is_by_channel(each, value, axis, q.ndim) for each in (scale, zero))
        ):
            return relax.const(np.ascontiguousarray(reals, np.float32))
        scales, zeros = (np.broadcast_to(p.reshape(-1), q.shape[axis]) for p in (scale, zero))
        if not _fits(steps):
            return weight_pair(scope, reals, scales.astype(np.float32), axis, zeros.astype(q.dtype))
        return weight_pair(scope, reals, scales.astype(np.float32) / _factor(steps), axis)


def _factor(steps: np.ndarray) -> np.float32:
    """Return what weights of few bits are multiplied by, as far as they stay int8.

    Products are as they were, and the bias is rounded to steps that are as much finer.
    """
    largest = int(np.abs(steps).max(initial=0))
    return np.float32(WEIGHT_MAX // largest if 0 < largest <= MOST_OF_FEW_BITS else 1)


def _joined(scope: Scope, value: relax.Call) -> relax.Expr | Declined | None:
    """Return a concat of quantized tensors between a DQ and a Q of the parameters that all have."""
    sources = [scope.value(part) for part in dataflow.arguments(value)]
    if any(dataflow.operator(source) != "dequantize" for source in sources):
        return None
    first = sources[0]
    scale, zero = first.args[1:]
    array = dataflow.constant(scale)
    if array is None or array.size != 1 or dataflow.constant(zero) is None:
        return Declined("its inputs are not quantized by one constant scale each")
    if any(_parameters(source) != _parameters(first) for source in sources):
        return Declined("its inputs are quantized by different scales, and its result is not")
    y = scope.emit("joined", value)
    kind = dataflow.dtype(first.args[0])
    integers = relax.op.quantize(y, scale, zero, -1, kind)
    return relax.op.dequantize(scope.emit("q", integers), scale, zero, -1)


def _channel_axes(func: relax.Function) -> dict[str, int]:
    """Return name of a tensor -> the axis of output channels, if all that reads it agrees."""
    axes_by_tensor: dict[str, set[int | None]] = {}
    for _, value in dataflow.calls(func):
        for position, argument in enumerate(dataflow.arguments(value)):
            if isinstance(argument, relax.Var):
                axis = OUTPUT_CHANNELS.get(dataflow.operator(value)) if position == 1 else None
                axes_by_tensor.setdefault(str(argument.name), set()).add(axis)
    return {
        name: axis
        for name, axes in axes_by_tensor.items()
        if len(axes) == 1 and (axis := axes.pop()) is not None
    }


def _quantized_at_once(func: relax.Function) -> set[str]:
    """Return the names of tensors that one quantize alone reads."""
    values = dict(dataflow.calls(func))
    return {
        str(var.name)
        for var, readers in dataflow.consumers(func).items()
        if len(readers) == 1 and dataflow.operator(values[readers[0]]) == "quantize"
    }


def _convolved_in_integers(func: relax.Function) -> set[str]:
    """Return the names of tensors that only convolutions of dequantized constants read."""
    values = dict(dataflow.calls(func))

    def _is_quantized(reader: relax.Expr) -> bool:
        weight = values.get(reader.args[1]) if dataflow.operator(reader) == "nn.conv2d" else None
        return weight is not None and dataflow.operator(weight) == "dequantize"

    return {
        str(var.name)
        for var, readers in dataflow.consumers(func).items()
        if readers and all(_is_quantized(values[reader]) for reader in readers)
    }


def _is_share(mask: relax.Expr) -> bool:
    """Whether a mask lies between -1 and 1, so that what it scales keeps its range."""
    if dataflow.operator(mask) == "clip":
        return all(abs(dataflow.number(bound)) <= 1 for bound in mask.args[1:])
    return dataflow.operator(mask) in ("sigmoid", "tanh")


def _fill(value: relax.Call) -> float:
    """Return what an operator pads with; 0 where it does not pad, or not with a constant."""
    if dataflow.operator(value) != "nn.pad" or value.attrs.pad_mode != "constant":
        return 0.0
    return dataflow.pad_fill(value)


def _along(parameter: np.ndarray, value: relax.Call, rank: int) -> np.ndarray:
    """Return scale or zero point, shaped to broadcast with the tensor it belongs to."""
    if parameter.size == 1:
        return parameter.reshape(())
    return parameter.reshape([-1 if i == int(value.attrs.axis) % rank else 1 for i in range(rank)])


def _fits(steps: np.ndarray) -> bool:
    info = np.iinfo(np.int8)
    return bool(info.min <= steps.min(initial=0) and steps.max(initial=0) <= info.max)


def _is_by_channel(parameter: np.ndarray, value: relax.Call, axis: int, rank: int) -> bool:
    return parameter.size == 1 or int(value.attrs.axis) % rank == axis


def _inverted(scope: Scope, value: relax.Call) -> relax.Expr | None:
    """Return the integers that ``value`` quantizes again, if it changes nothing."""
    inner = scope.value(value.args[0])
    if dataflow.operator(value) != "quantize" or dataflow.operator(inner) != "dequantize":
        return None
    same = dataflow.dtype(inner.args[0]) == str(value.attrs.out_dtype) and _parameters(
        value
    ) == _parameters(inner)
    return inner.args[0] if same else None


def _written_before(scope: Scope, value: relax.Call) -> relax.Expr | None:
    """Return the tensor that an equal call has computed already, or None."""
    for var, other in reversed(scope.bindings):
        if (
            dataflow.operator(other) == dataflow.operator(value)
            and other.args[0].same_as(value.args[0])
            and str(other.attrs.out_dtype) == str(value.attrs.out_dtype)
            and _parameters(other) == _parameters(value)
        ):
            return var
    return None


def _parameters(value: relax.Call) -> tuple[object, ...]:
    arrays = [dataflow.constant(argument) for argument in value.args[1:]]
    return (
        *(None if array is None else (array.dtype.str, array.tobytes()) for array in arrays),
        int(value.attrs.axis) if any(a is not None and a.size > 1 for a in arrays) else None,
    )
