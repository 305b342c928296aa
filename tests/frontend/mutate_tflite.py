"""Run alone: import damaged TFLite files (see ``mutations.survive``).

::

    python -m tests.frontend.mutate_tflite FOLDER float|int8 COUNT
"""

import random
import sys
from pathlib import Path
from typing import Any

from relay_int8.frontend.tflite import import_tflite
from tests.frontend.mutations import ABSURD, BYTES, Mutation, edited, survive
from tests.tflite_models import TfliteModel, packed, quantized, schema

BYTE_OPTIONS = (
    "activation",
    "fusedActivationFunction",
    "padding",
    "weightsFormat",
    "quantizedBiasType",
)
"""Options that are numbers of one byte."""


def network() -> TfliteModel:
    """A small network in which every kind of option and setting occurs."""
    net = TfliteModel(5)
    x = net.input("x", (1, 9, 9, 3))
    y = net.conv(x, 8, 3, 3, strideW=2, strideH=2, fusedActivationFunction=3)
    z = net.depthwise(y, 8, 3, fusedActivationFunction=1)
    y = net.op("ADD", y, z, options="AddOptions")
    y = net.op("LEAKY_RELU", y, options="LeakyReluOptions", alpha=0.1)
    y = net.op("CONCATENATION", y, z, options="ConcatenationOptions", axis=3)
    y = net.pool("MAX_POOL_2D", y, 2, 1, padding=1)
    widths, size = net.constant([(0, 0), (1, 1), (1, 1), (0, 0)]), net.constant((12, 12))
    y = net.op("PAD", y, widths, options="PadOptions")
    y = net.op("RESIZE_BILINEAR", y, size, options="ResizeBilinearOptions", halfPixelCenters=True)
    corner = [net.constant(bounds) for bounds in ((0, 1, 0, 0), (1, 11, 12, 16), (1, 2, 1, 1))]
    y = net.op("STRIDED_SLICE", y, *corner, options="StridedSliceOptions")
    axis = net.constant(3)
    y = net.op("SPLIT", axis, y, results=2, options="SplitOptions", numSplits=2)[1]
    y = net.op("TRANSPOSE", y, net.constant((0, 2, 1, 3)), options="TransposeOptions")
    w, b = net.weights(4, 3, 3, 8), net.weights(4, scale=0.1)
    y = net.op(
        "TRANSPOSE_CONV", net.constant((1, 24, 10, 4)), w, y, b, options="TransposeConvOptions",
        strideH=2, strideW=2,
    )  # fmt: skip
    y = net.op("MEAN", y, net.constant((1, 2)), options="ReducerOptions")
    y = net.op("RESHAPE", y, net.constant((1, -1)))
    return net.finish(net.op("SOFTMAX", net.dense(y, 5, 4), options="SoftmaxOptions", beta=1.0))


def _read(data: bytes) -> Any:
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(data, 0))


def _number(rng: random.Random, bits: int = 32) -> int:
    value = rng.choice((*ABSURD, 2, 3, 5)) & (2**bits - 1)
    return value - 2**bits if value >= 2 ** (bits - 1) else value


def other_operator(rng: random.Random, model: Any) -> None:
    code = rng.randrange(160)
    entry = rng.choice(model.operatorCodes)
    entry.builtinCode, entry.deprecatedBuiltinCode = code, min(code, 127)


def other_tensors(rng: random.Random, model: Any) -> None:
    """Let an operator read or give something else, or more, or less."""
    graph = model.subgraphs[0]
    operator = rng.choice(graph.operators)
    name = rng.choice(("inputs", "inputs", "outputs"))
    found = [*getattr(operator, name), rng.randrange(-1, len(graph.tensors) + 1)]
    rng.shuffle(found)
    setattr(operator, name, found[rng.randrange(3) :])


def other_option(rng: random.Random, model: Any) -> None:
    options = [o.builtinOptions for o in model.subgraphs[0].operators if o.builtinOptions]
    known = [(o, name) for o in options for name, value in vars(o).items() if value is not None]
    found, name = rng.choice(known)
    value = getattr(found, name)
    if isinstance(value, bool):
        setattr(found, name, not value)
    elif isinstance(value, float):
        setattr(found, name, rng.choice((float("nan"), float("inf"), -1e30, 0.0)))
    else:
        setattr(found, name, _number(rng, 8 if name in BYTE_OPTIONS else 32))


def other_tensor(rng: random.Random, model: Any) -> None:
    """Change the shape, the type, the buffer or the quantization of a tensor."""
    tensor = rng.choice(model.subgraphs[0].tensors)
    what = rng.choice(("shape", "shape", "type", "buffer", "scale", "zero", "axis"))
    if what == "shape":
        dims = list(tensor.shape) if tensor.shape is not None else []
        dims.insert(rng.randrange(len(dims) + 1), _number(rng))
        del dims[rng.randrange(len(dims)) : rng.randrange(len(dims) + 1)]
        tensor.shape = dims
    elif what == "type":
        tensor.type = rng.randrange(20)
    elif what == "buffer":
        tensor.buffer = rng.randrange(len(model.buffers) + 1)
    elif tensor.quantization is not None:
        found = tensor.quantization
        if what == "scale":
            found.scale = [rng.choice((0.0, -1.0, 1e-45, 1e38, float("nan")))] * rng.randrange(4)
        elif what == "zero":
            found.zeroPoint = [_number(rng, 64)] * rng.randrange(4)
        else:
            found.quantizedDimension = _number(rng)


def other_setting(rng: random.Random, model: Any) -> None:
    """Put an extreme number into a shape, a list of axes, or the like."""
    small = [b for b in model.buffers if b.data is not None and 0 < len(b.data) <= 64]
    found = rng.choice(small)
    data = bytearray(bytes(found.data))
    place = 4 * rng.randrange(len(data) // 4) if len(data) >= 4 else 0
    data[place : place + 4] = (_number(rng) & 0xFFFFFFFF).to_bytes(4, "little")
    found.data = list(data)


MUTATIONS: tuple[Mutation, ...] = (
    *BYTES,
    *(
        edited(edit, _read, packed)
        for edit in (other_operator, other_tensors, other_option, other_tensor, other_setting)
    ),
)


def main(folder: Path, kind: str, count: int) -> None:
    net = network() if kind == "float" else quantized(network())
    path = folder / "model.tflite"
    path.write_bytes(net.written())
    survive(path, lambda: import_tflite(path), MUTATIONS, count)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
