"""What a converter of a TFLite operator gets: its operands in Relax, in the order it asks for.

TFLite's images are NHWC, those of the compiler NCHW. A tensor is held in the order in which it was
computed; the other one is made where it is asked for, once. Elementwise operators take what there
is (:meth:`Step.together`), so that transposes are left only at inputs, outputs and reshapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from tvm import relax

from relay_int8.errors import FrontendError
from relay_int8.frontend.tflite.model import OptionValue, TfliteOperator, TfliteTensor
from relay_int8.frontend.tflite.schema import ACTIVATIONS
from relay_int8.frontend.tflite.tables import Array
from relay_int8.frontend.tflite.tensors import (
    QUANTIZED,
    TO_NCHW,
    TO_NHWC,
    Held,
    Image,
    Parts,
    Result,
    axis_of,
    dequantize,
    ordered,
    quantization_of,
    quantize,
)
from relay_int8.graph.dataflow import constant, shape


@dataclass(frozen=True)
class TfliteStep:
    """Operands and options of one TFLite operator, as its converter reads them.

    Parameters
    ----------
    operator
        Its kind and options.
    inputs, outputs
        Its tensors, as the file has them; None for an operand that is left out.
    held
        Index of an operand -> what was computed of it, constants left out.
    bind
        Binds a value to a variable of a given name.
    scaled
        Whether the shapes are for another batch than the one that settings were written for.
    """

    operator: TfliteOperator
    inputs: Sequence[TfliteTensor | None]
    outputs: Sequence[TfliteTensor]
    bind: Callable[[str, relax.Expr], relax.Expr]
    held: Mapping[int, Held] = field(default_factory=dict)
    scaled: bool = False

    def emit(self, name: str, value: relax.Expr) -> relax.Expr:
        """Bind a value on the way to the result, as ``<result>/<name>``."""
        return self.bind(f"{self.outputs[0].name}/{name}", value)

    @property
    def options(self) -> Mapping[str, OptionValue]:
        """Return the operator's options by name."""
        return self.operator.options

    def integer(self, name: str, least: int = -(2**31)) -> int:
        """Return an option that is an integer of ``least`` or more."""
        value = int(self.options[name])  # type: ignore[arg-type]
        if value < least:
            raise ValueError(f"its {name} is {value}, not {least} or more")
        return value

    def number(self, name: str) -> float:
        """Return an option that is a finite number."""
        value = self.options[name]
        if not isinstance(value, int | float) or not np.isfinite(value):
            raise ValueError(f"its {name} is {value}")
        return float(value)

    def has(self, index: int) -> bool:
        """Whether the operator has such an operand."""
        return index < len(self.inputs) and self.inputs[index] is not None

    def tensor(self, index: int) -> TfliteTensor:
        """Return an operand as the file has it."""
        tensor = self.inputs[index] if index < len(self.inputs) else None
        if tensor is None:
            raise ValueError(f"it has no operand {index}")
        return tensor

    def known(self, index: int) -> Array | None:
        """Return the elements of an operand that is constant, or computed of constants alone."""
        held = self.held.get(index)
        if held is None or held.plain is None:
            return self.tensor(index).values
        return constant(held.plain)

    def integers(self, index: int, what: str) -> tuple[int, ...]:
        """Return a constant operand of integers."""
        values = self.known(index)
        if values is None:
            raise NotImplementedError(f"its {what} is computed, not constant")
        if values.dtype.kind not in "iu" or values.size > 64:
            raise ValueError(f"its {what} is {values.size} of {values.dtype}")
        return tuple(int(value) for value in values.reshape(-1))

    def plain(self, index: int) -> relax.Expr:
        """Return an operand in the order of the file."""
        held = self.held.get(index)
        if held is None:
            return self.moved(index, range(len(self.tensor(index).shape)))
        if held.plain is None:
            held.plain = self._emit(index, "nhwc", relax.op.permute_dims(held.image, TO_NHWC))
        return held.plain

    def image(self, index: int) -> relax.Expr:
        """Return an operand of four dimensions in NCHW; a smaller one as it would be broadcast."""
        held = self.held.get(index)
        rank = len(self.tensor(index).shape) if held is None else len(shape(self._any(held)))
        if rank > 4:
            raise ValueError(f"an operand of {rank} dimensions, where an image has four")
        if held is None:
            return self.moved(index, TO_NCHW)
        if held.image is None:
            x = held.plain
            if rank < 4:
                dims = (*(1,) * (4 - rank), *shape(x))
                x = self._emit(index, "nhwc", relax.op.reshape(x, dims))
            image = self._emit(index, "nchw", relax.op.permute_dims(x, TO_NCHW))
            if rank < 4:
                return image
            held.image = image
        return held.image

    def moved(self, index: int, order: Sequence[int]) -> relax.Expr:
        """Return an operand transposed; a constant of fewer axes gets leading ones."""
        tensor = self.tensor(index)
        if tensor.values is None:
            return self._emit(index, "moved", relax.op.permute_dims(self.plain(index), list(order)))
        quantization, lead = tensor.quantization, len(order) - tensor.values.ndim
        if lead < 0:
            raise ValueError(f"its operand {tensor.name} has {tensor.values.ndim} dimensions")
        if quantization is None or not self._reads_integers:
            is_real = quantization is not None or tensor.dtype.startswith("float")
            values = self.reals(index) if is_real else tensor.values
            return relax.const(ordered(values, lead, order), values.dtype.name)
        q = relax.const(ordered(tensor.values, lead, order))
        by_channel = quantization.scale.size > 1
        axis = list(order).index(quantization.axis + lead) if by_channel else 0
        return self._emit(index, "dq", dequantize(q, tensor, axis))

    def reals(self, index: int) -> Array:
        """Return what a constant operand stands for, float32."""
        tensor = self.tensor(index)
        if index in self.held and (known := self.known(index)) is not None:
            return known.astype(np.float32)
        values, quantization = tensor.values, tensor.quantization
        if values is None or (quantization and tensor.dtype not in (*QUANTIZED, "int16", "int32")):
            raise NotImplementedError(f"operand {tensor.name}, of {tensor.dtype}, is no constant")
        if quantization:
            along = [
                -1 if dimension == quantization.axis else 1 for dimension in range(values.ndim)
            ]
            steps = values.astype(np.float64) - quantization.zero.reshape(along)
            return (steps * quantization.scale.reshape(along)).astype(np.float32)
        if np.isnan(values).any():  # masks are infinite; check_finite refuses weights that are
            raise FrontendError(
                f"tensor {tensor.name} has NaN or infinite values; weights must be finite: check "
                "the training or the export"
            )
        return values.astype(np.float32)

    @property
    def is_complex(self) -> bool:
        """Whether an operand is complex."""
        return any(held.imaginary is not None for held in self.held.values())

    @property
    def of_imaginary(self) -> TfliteStep:
        """Return the same operator on the imaginary parts of its operands."""
        held = {
            index: held if held.imaginary is None else Held(plain=held.imaginary)
            for index, held in self.held.items()
        }
        return replace(self, held=held)

    def part(self, index: int) -> Parts:
        """Return the parts of a complex operand."""
        held = self.held.get(index)
        if held is None or held.imaginary is None:
            raise NotImplementedError(f"its operand {self.tensor(index).name} is not complex")
        return Parts(self.plain(index), held.imaginary)

    @property
    def is_image(self) -> bool:
        """Whether an operand was computed in NCHW, and the others can be broadcast to it."""
        if not any(held.is_image for held in self.held.values()):
            return False
        return all(tensor is None or len(tensor.shape) <= 4 for tensor in self.inputs)

    def shape(self, index: int) -> tuple[int, ...]:
        """Return the shape of an operand in the order of the file."""
        held = self.held.get(index)
        if held is None:
            return self.tensor(index).shape
        if held.plain is not None:
            return shape(held.plain)
        n, c, h, w = shape(held.image)
        return n, h, w, c

    def together(self, *indices: int) -> tuple[list[relax.Expr], Callable[[relax.Expr], Result]]:
        """Return operands in one order, NCHW if one has it, and what says so of a result."""
        if self.is_image:
            return [self.image(index) for index in indices], Image
        return [self.plain(index) for index in indices], lambda value: value

    def axis(self, axis: int, rank: int) -> int:
        """Return where an axis of the file is among those that :meth:`together` gives."""
        file_axis = axis_of(axis, rank)
        return TO_NCHW.index(file_axis) if self.is_image else file_axis

    def activated(self, value: relax.Expr) -> relax.Expr:
        """Return ``value`` under the operator's fused activation."""
        kind = self.integer("activation", 0)
        name = ACTIVATIONS[kind] if kind < len(ACTIVATIONS) else str(kind)
        if name == "NONE":
            return value
        if name not in FUSED:
            raise NotImplementedError(f"a fused activation {name}")
        return FUSED[name](self.emit("linear", value))

    def quantized(self, value: relax.Expr) -> relax.Expr:
        """Return ``value``, bound, rounded to the integers of the first result if it has such."""
        real = self.emit("kept", value)
        if quantization_of(self.outputs[0]) is None:
            return real
        q = self.emit("q", quantize(real, self.outputs[0]))
        return self.emit("dq", dequantize(q, self.outputs[0]))

    @property
    def _reads_integers(self) -> bool:
        """Whether it computes with integers; float operators take weights as reals."""
        return any(quantization_of(self.tensor(index)) for index in self.held)

    def _emit(self, index: int, what: str, value: relax.Expr) -> relax.Expr:
        return self.bind(f"{self.tensor(index).name}/{what}", value)

    @staticmethod
    def _any(held: Held) -> relax.Expr:
        return held.image if held.plain is None else held.plain


def clip(low: float, high: float) -> Callable[[relax.Expr], relax.Expr]:
    """Return what keeps a value between two bounds."""
    return lambda x: relax.op.clip(x, relax.prim_value(low), relax.prim_value(high))


FUSED: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "RELU": relax.op.nn.relu,
    "RELU6": clip(0.0, 6.0),
    "RELU_N1_TO_1": clip(-1.0, 1.0),
    "TANH": relax.op.tanh,
}
"""Activations that other operators may end with."""

Converter = Callable[[TfliteStep], "Result | Sequence[Result]"]
"""Returns an operator's result, or one for each of several; raises ValueError where a file does not
fit the operator, NotImplementedError where we lack something, each with what was found."""
