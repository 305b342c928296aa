"""The operators of MXNet's NumPy interface: other names, and other attributes, of known ones.

``_np_`` and ``_npi_`` are NumPy's own functions, ``_npx_`` what neural networks have beyond them.
Truth values are booleans there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tvm import relax

from relay_int8.frontend.einsum import einsum
from relay_int8.frontend.mxnet.reshapes import reshaped
from relay_int8.frontend.mxnet.step import Converter, MxnetStep
from relay_int8.graph.dataflow import dtype, shape

Binary = Callable[[relax.Expr, relax.Expr], relax.Expr]

BINARY: dict[str, Binary] = {
    "add": relax.op.add,
    "maximum": relax.op.maximum,
    "minimum": relax.op.minimum,
    "multiply": relax.op.multiply,
    "power": relax.op.power,
    "subtract": relax.op.subtract,
    "true_divide": relax.op.divide,
}
COMPARISONS: dict[str, Binary] = {
    "equal": relax.op.equal,
    "greater": relax.op.greater,
    "greater_equal": relax.op.greater_equal,
    "less": relax.op.less,
    "less_equal": relax.op.less_equal,
    "not_equal": relax.op.not_equal,
}
NUMPY: dict[str, str] = {
    "absolute": "abs",
    "arange": "_arange",
    "arccos": "arccos",
    "arccosh": "arccosh",
    "arcsin": "arcsin",
    "arcsinh": "arcsinh",
    "arctan": "arctan",
    "arctanh": "arctanh",
    "argmax": "argmax",
    "argmin": "argmin",
    "argsort": "argsort",
    "broadcast_to": "broadcast_to",
    "cbrt": "cbrt",
    "ceil": "ceil",
    "clip": "clip",
    "copy": "_copy",
    "cos": "cos",
    "cosh": "cosh",
    "cumsum": "cumsum",
    "degrees": "degrees",
    "exp": "exp",
    "expand_dims": "expand_dims",
    "expm1": "expm1",
    "fix": "fix",
    "flip": "reverse",
    "floor": "floor",
    "log": "log",
    "log10": "log10",
    "log1p": "log1p",
    "log2": "log2",
    "max": "max",
    "mean": "mean",
    "min": "min",
    "negative": "negative",
    "ones": "_ones",
    "ones_like": "ones_like",
    "prod": "prod",
    "radians": "radians",
    "reciprocal": "reciprocal",
    "repeat": "repeat",
    "rint": "rint",
    "rsqrt": "rsqrt",
    "sign": "sign",
    "sin": "sin",
    "sinh": "sinh",
    "sort": "sort",
    "sqrt": "sqrt",
    "square": "square",
    "squeeze": "squeeze",
    "stack": "stack",
    "sum": "sum",
    "swapaxes": "SwapAxis",
    "tan": "tan",
    "tanh": "tanh",
    "tile": "tile",
    "transpose": "transpose",
    "trunc": "trunc",
    "where": "where",
    "zeros": "_zeros",
    "zeros_like": "zeros_like",
}
"""NumPy's function -> the operator that is one with it."""
NETWORKS: dict[str, str] = {
    "activation": "Activation",
    "arange_like": "_contrib_arange_like",
    "batch_dot": "batch_dot",
    "batch_flatten": "Flatten",
    "batch_norm": "BatchNorm",
    "convolution": "Convolution",
    "deconvolution": "Deconvolution",
    "div_sqrt_dim": "_contrib_div_sqrt_dim",
    "dropout": "Dropout",
    "embedding": "Embedding",
    "erf": "erf",
    "fully_connected": "FullyConnected",
    "gather_nd": "gather_nd",
    "group_norm": "GroupNorm",
    "instance_norm": "InstanceNorm",
    "interleaved_matmul_encdec_qk": "_contrib_interleaved_matmul_encdec_qk",
    "interleaved_matmul_encdec_valatt": "_contrib_interleaved_matmul_encdec_valatt",
    "interleaved_matmul_selfatt_qk": "_contrib_interleaved_matmul_selfatt_qk",
    "interleaved_matmul_selfatt_valatt": "_contrib_interleaved_matmul_selfatt_valatt",
    "layer_norm": "LayerNorm",
    "leaky_relu": "LeakyReLU",
    "log_softmax": "log_softmax",
    "masked_log_softmax": "masked_log_softmax",
    "masked_softmax": "masked_softmax",
    "one_hot": "one_hot",
    "pick": "pick",
    "pooling": "Pooling",
    "relu": "relu",
    "reshape_like": "reshape_like",
    "rnn": "RNN",
    "roi_pooling": "ROIPooling",
    "sequence_mask": "SequenceMask",
    "sigmoid": "sigmoid",
    "slice": "slice",
    "softmax": "softmax",
    "topk": "topk",
}
"""Name in ``mxnet.numpy_extension`` -> the operator that is one with it."""


def numpy_operators(known: Mapping[str, Converter]) -> dict[str, Converter]:
    """Return the converters of the NumPy interface, made of those of all other operators."""
    converters: dict[str, Converter] = {}
    for name, op in BINARY.items():
        converters[f"_npi_{name}"] = _binary(op)
        converters[f"_npi_{name}_scalar"] = _with_scalar(op)
        converters[f"_npi_r{name}_scalar"] = _with_scalar(op, backward=True)
    for name, op in COMPARISONS.items():
        converters[f"_npi_{name}"] = _binary(op)
        converters[f"_npi_{name}_scalar"] = _with_scalar(op)
    for prefix in ("_np_", "_npi_"):
        converters |= {f"{prefix}{name}": known[op] for name, op in NUMPY.items()}
        converters[f"{prefix}concatenate"] = _renamed(known["Concat"], {"axis": "dim"}, dim="0")
        converters[f"{prefix}dot"] = converters[f"{prefix}matmul"] = _matmul
        converters[f"{prefix}einsum"] = _einsum
        converters[f"{prefix}full_like"] = _full_like
        converters[f"{prefix}reshape"] = _renamed(known["Reshape"], {"newshape": "shape"})
        converters[f"{prefix}std"] = _spread(relax.op.std)
        converters[f"{prefix}var"] = _spread(relax.op.variance)
    converters |= {f"_npx_{name}": known[op] for name, op in NETWORKS.items()}
    return {**converters, "_npx_reshape": _reshape}


def _numbers(step: MxnetStep) -> list[relax.Expr]:
    """Return operands; truth values as numbers."""
    return [
        step.emit("numbers", relax.op.astype(x, "float32")) if dtype(x) == "bool" else x
        for x in step.inputs
    ]


def _binary(op: Binary) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        step.operands("lhs", "rhs")
        return op(*_numbers(step))

    return _convert


def _with_scalar(op: Binary, *, backward: bool = False) -> Converter:
    def _convert(step: MxnetStep) -> relax.Expr:
        step.operands("data")
        (x,) = _numbers(step)
        scalar = relax.const(step.attributes.real("scalar"), dtype(x))
        return op(scalar, x) if backward else op(x, scalar)

    return _convert


def _renamed(convert: Converter, names: Mapping[str, str], **defaults: str) -> Converter:
    """Return a converter that finds its attributes under other names."""

    def _convert(step: MxnetStep) -> relax.Expr | Sequence[relax.Expr]:
        return convert(replace(step, attributes=step.attributes.renamed(names, defaults)))

    return _convert


def _matmul(step: MxnetStep) -> relax.Expr:
    a, b = step.operands("a", "b")
    if len(shape(b)) > 2 and len(shape(a)) != len(shape(b)):
        raise NotImplementedError(f"a product of {list(shape(a))} and {list(shape(b))}")
    return relax.op.matmul(a, b)


def _einsum(step: MxnetStep) -> relax.Expr:
    return einsum(step.inputs, step.attributes.text("subscripts"), step.emit)


def _full_like(step: MxnetStep) -> relax.Expr:
    value = relax.const(step.attributes.real("fill_value"), dtype(step.x))
    return relax.op.full_like(step.x, value)


def _spread(reduce: Callable[..., relax.Expr]) -> Converter:
    """Variance and deviation, divided by the number of elements."""

    def _convert(step: MxnetStep) -> relax.Expr:
        attrs = step.attributes
        if attrs.integer("ddof", 0):
            raise NotImplementedError(f"ddof {attrs.integer('ddof')}; only 0")
        axes = [axis or 0 for axis in attrs.integers("axis")] or None
        return reduce(step.x, axes, keepdims=attrs.flag("keepdims", False))

    return _convert


COPY, ONE, REST, MERGE, SPLIT = -2, -3, -4, -5, -6
"""What numbers below -1 mean in ``npx.reshape``: copy an extent, leave out one of 1, copy all that
are left, merge two, split one into the next two numbers."""


def _reshape(step: MxnetStep) -> relax.Expr:
    """Reshape by a list with the special numbers of ``npx.reshape``."""
    legacy = {COPY: 0, REST: -2, MERGE: -3, SPLIT: -4}
    dims, target = list(shape(step.x)), list[int]()
    if step.attributes.flag("reverse", False):
        raise NotImplementedError("reshape from the right")
    for number in (value or 0 for value in step.attributes.integers("newshape")):
        if number == ONE:
            raise NotImplementedError("reshape that leaves out an extent of 1 (-3)")
        target.append(legacy.get(number, number))
    return relax.op.reshape(step.x, reshaped(dims, target))
