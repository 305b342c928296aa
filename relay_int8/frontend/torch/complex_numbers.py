"""PyTorch operators of complex numbers, each as operators of their real and imaginary parts."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.torch.converters import CONVERTERS
from relay_int8.frontend.torch.creation import CREATION
from relay_int8.frontend.torch.file import COMPLEX, DTYPES
from relay_int8.frontend.torch.movement import MOVES
from relay_int8.frontend.torch.parts import PARTS
from relay_int8.frontend.torch.spectra import TRANSFORMS, complex_operand
from relay_int8.frontend.torch.step import ComplexTensor, Converter, Result, TorchStep
from relay_int8.graph.dataflow import shape

LINEAR = {
    *MOVES,
    *PARTS,
    *("alias", "clone", "contiguous", "cumsum", "detach", "diagonal", "dropout", "gather"),
    *("fft_fftshift", "fft_ifftshift"),
    *("index", "index_put", "index_select", "lift_fresh_copy", "mean", "neg", "roll"),
    *("select_scatter", "slice_scatter", "sum", "tril", "triu"),
    "unfold",
}
"""Operators of aten that do the same to the real and the imaginary parts."""
FLOAT = next(number for number, name in DTYPES.items() if name == "float32")
BILINEAR = {"bmm", "einsum", "matmul", "mm", "mul"}
"""Operators of aten that are linear in each of two operands."""


def convert(step: TorchStep) -> Result:
    """Return what a node computes, whether its operands are of real or of complex numbers."""
    step = _with_constants(step)
    is_complex = step.arguments.get("dtype") in COMPLEX or _complex_operands(step.arguments)
    if not is_complex and step.operator in CONVERTERS:
        return CONVERTERS[step.operator](step)
    name = step.operator.removeprefix("aten.")
    if name in CREATION:
        return _created(step)
    if name in OPERATORS:
        return OPERATORS[name](step)
    if name in BILINEAR:
        return _bilinear(step)
    if name in LINEAR:
        if step.arguments.get("value"):
            raise NotImplementedError("complex numbers with a border that is not zero")
        return _joined(*(_part(step, key) for key in ("real", "imaginary")))
    raise NotImplementedError("its operands are of complex numbers")


def _with_constants(step: TorchStep) -> TorchStep:
    """Return a node whose complex numbers, as in ``1j * x``, are tensors without axes."""
    numbers = {
        name: ComplexTensor(relax.const(given.real, "float32"), relax.const(given.imag, "float32"))
        for name, given in step.arguments.items()
        if isinstance(given, complex)
    }
    return dataclasses.replace(step, arguments={**step.arguments, **numbers}) if numbers else step


def _complex_operands(given: Any) -> list[ComplexTensor]:
    """Return the complex tensors among arguments, in order."""
    if isinstance(given, ComplexTensor):
        return [given]
    if not isinstance(given, Mapping | list):
        return []
    entries = given.values() if isinstance(given, Mapping) else given
    return [operand for entry in entries for operand in _complex_operands(entry)]


def _chosen(given: Any, keys: list[str]) -> Any:
    """Return an argument with the parts of its complex tensors that ``keys`` name in order."""
    if isinstance(given, ComplexTensor):
        return getattr(given, keys.pop(0))
    if isinstance(given, list):
        return [_chosen(entry, keys) for entry in given]
    return given


def _part(step: TorchStep, *keys: str) -> Result:
    """Convert a node with one part of each complex operand; a single key counts for all."""
    count = len(_complex_operands(step.arguments))
    rest = list(keys) if len(keys) == count else list(keys) * count
    title = "_".join(keys)
    return CONVERTERS[step.operator](
        dataclasses.replace(
            step,
            arguments={name: _chosen(given, rest) for name, given in step.arguments.items()},
            emit=lambda name, value: step.emit(f"{title}/{name}", value),
        )
    )


def _joined(real: Result, imaginary: Result) -> Result:
    """Return one or several results whose parts are given."""
    if isinstance(real, Sequence) and isinstance(imaginary, Sequence):
        pairs = zip(real, imaginary, strict=True)
        return [ComplexTensor(*pair) for pair in pairs]
    if isinstance(real, relax.Expr) and isinstance(imaginary, relax.Expr):
        return ComplexTensor(real, imaginary)
    return real  # a number, as of an extent


def _bilinear(step: TorchStep) -> Result:
    """Multiply: ``(a + bi)(c + di) = ac - bd + (ad + bc)i``; by reals part by part."""
    if len(_complex_operands(step.arguments)) == 1:
        return _joined(_part(step, "real"), _part(step, "imaginary"))
    product = {
        (a, b): step.emit(f"{a}_{b}", _part(step, a, b))
        for a in ("real", "imaginary")
        for b in ("real", "imaginary")
    }
    return ComplexTensor(
        relax.op.subtract(product["real", "real"], product["imaginary", "imaginary"]),
        relax.op.add(product["real", "imaginary"], product["imaginary", "real"]),
    )


def _sum(step: TorchStep) -> Result:
    """Add or subtract; a real operand has no imaginary parts."""
    a, b = (step.arguments[name] for name in ("self", "other"))
    if isinstance(b, ComplexTensor):
        both = dataclasses.replace(
            step, arguments={**step.arguments, "self": complex_operand(step)}
        )
        return _joined(_part(both, "real"), _part(both, "imaginary"))
    real = step.emit("real", _part(step, "real"))
    return ComplexTensor(real, relax.op.broadcast_to(a.imaginary, shape(real)))


def _quotient(step: TorchStep) -> Result:
    """Divide; by complex numbers as a product with their reciprocals."""
    b = step.arguments["other"]
    if not isinstance(b, ComplexTensor):
        return _joined(_part(step, "real"), _part(step, "imaginary"))
    inverse = _reciprocal(dataclasses.replace(step, arguments={"self": b}))
    assert isinstance(inverse, ComplexTensor)
    parts = (step.emit("real", inverse.real), step.emit("imaginary", inverse.imaginary))
    arguments = {**step.arguments, "other": ComplexTensor(*parts)}
    return _bilinear(dataclasses.replace(step, arguments=arguments, operator="aten.mul"))


def _reciprocal(step: TorchStep) -> Result:
    z = complex_operand(step)
    power = _power(step, z)
    quotient = step.emit("quotient", relax.op.divide(z.imaginary, power))
    return ComplexTensor(relax.op.divide(z.real, power), relax.op.negative(quotient))


def _square(step: TorchStep) -> Result:
    if step.arguments.get("exponent", 2) != 2:
        raise NotImplementedError("powers of complex numbers other than squares")
    arguments = {"self": step.arguments["self"], "other": step.arguments["self"]}
    return _bilinear(dataclasses.replace(step, arguments=arguments, operator="aten.mul"))


def _power(step: TorchStep, z: ComplexTensor) -> relax.Expr:
    squares = [step.emit("square", relax.op.square(part)) for part in (z.real, z.imaginary)]
    return step.emit("power", relax.op.add(*squares))


def _magnitude(step: TorchStep) -> Result:
    return relax.op.sqrt(_power(step, complex_operand(step)))


def _polar(step: TorchStep) -> Result:
    size, angle = step.tensor("abs"), step.tensor("angle")
    return _of_angle(step, size, angle)


def _exponential(step: TorchStep) -> Result:
    z = complex_operand(step)
    return _of_angle(step, step.emit("size", relax.op.exp(z.real)), z.imaginary)


def _tanh(step: TorchStep) -> Result:
    """``(t + i s c (1 - t^2)) / (c^2 + t^2 s^2)``, with t = tanh(a), s = sin(b) and c = cos(b)."""
    z, emit = complex_operand(step), step.emit
    t, s, c = (
        emit("tanh", relax.op.tanh(z.real)),
        emit("sin", relax.op.sin(z.imaginary)),
        emit("cos", relax.op.cos(z.imaginary)),
    )
    square = emit("square", relax.op.square(t))
    ahead = emit("ahead", relax.op.square(c))
    aside = emit("aside", relax.op.multiply(square, emit("sin_square", relax.op.square(s))))
    divisor = emit("divisor", relax.op.add(ahead, aside))
    rest = emit("rest", relax.op.subtract(relax.const(1.0, "float32"), square))
    slope = emit("slope", relax.op.multiply(emit("turn", relax.op.multiply(s, c)), rest))
    return ComplexTensor(relax.op.divide(t, divisor), relax.op.divide(slope, divisor))


def _of_angle(step: TorchStep, size: relax.Expr, angle: relax.Expr) -> ComplexTensor:
    c, s = step.emit("cos", relax.op.cos(angle)), step.emit("sin", relax.op.sin(angle))
    return ComplexTensor(relax.op.multiply(size, c), relax.op.multiply(size, s))


def _conjugate(step: TorchStep) -> Result:
    z = complex_operand(step)
    return ComplexTensor(z.real, relax.op.negative(z.imaginary))


def _angle(step: TorchStep) -> Result:
    z = complex_operand(step)
    return relax.op.atan2(z.imaginary, z.real)


def _same(step: TorchStep) -> Result:
    number = step.arguments.get("dtype")
    if number is not None and number not in COMPLEX:
        raise NotImplementedError("complex numbers as real ones")
    return complex_operand(step)


def _created(step: TorchStep) -> Result:
    """Make a constant; its value is a real number."""
    operand = step.arguments.get("self")
    given = dict(step.arguments)
    if isinstance(operand, ComplexTensor):
        given["self"] = operand.real
    if given.get("dtype") in COMPLEX:
        given["dtype"] = FLOAT
    elif given.get("dtype") is not None:
        return CONVERTERS[step.operator](dataclasses.replace(step, arguments=given))
    real = CONVERTERS[step.operator](dataclasses.replace(step, arguments=given))
    assert isinstance(real, relax.Expr)
    return ComplexTensor(real, relax.const(np.zeros(shape(real), "float32")))


def _overwritten(step: TorchStep) -> Result:
    """Return the source in the shape of the tensor that it overwrites."""
    target, source = (complex_operand(step, name) for name in ("self", "src"))
    if not isinstance(step.arguments["self"], ComplexTensor):
        raise NotImplementedError("complex numbers as real ones")
    given = {**step.arguments, "self": target, "src": source}
    both = dataclasses.replace(step, arguments=given)
    return _joined(_part(both, "real"), _part(both, "imaginary"))


def _from_pairs(step: TorchStep) -> Result:
    """Read the last axis of two as real and imaginary parts."""
    *outer, _ = shape(step.x)
    parts = []
    for index, name in enumerate(("real", "imaginary")):
        part = relax.op.strided_slice(step.x, [len(outer)], [index], [index + 1])
        parts.append(step.emit(f"{name}_pair", part))
    return ComplexTensor(*(relax.op.reshape(part, outer) for part in parts))


def _to_pairs(step: TorchStep) -> Result:
    z = complex_operand(step)
    return relax.op.stack([z.real, z.imaginary], -1)


OPERATORS: dict[str, Converter] = TRANSFORMS | {
    "_conj": _conjugate,
    "_to_copy": _same,
    "abs": _magnitude,
    "add": _sum,
    "angle": _angle,
    "complex": lambda step: ComplexTensor(step.tensor("real"), step.tensor("imag")),
    "conj": _conjugate,
    "conj_physical": _conjugate,
    "copy": _overwritten,
    "div": _quotient,
    "exp": _exponential,
    "imag": lambda step: complex_operand(step).imaginary,
    "istft": CONVERTERS["aten.istft"],
    "polar": _polar,
    "pow": _square,
    "real": lambda step: complex_operand(step).real,
    "reciprocal": _reciprocal,
    "resolve_conj": _same,
    "resolve_neg": _same,
    "square": _square,
    "sub": _sum,
    "tanh": _tanh,
    "to": _same,
    "view_as_complex": _from_pairs,
    "view_as_real": _to_pairs,
}
"""Operators of the namespace aten that read or write complex numbers."""
COMPLEX_ONLY = {f"aten.{name}" for name in OPERATORS} - CONVERTERS.keys()
"""Those that no operator of real numbers is called like."""
