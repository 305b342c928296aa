"""Small TFLite models: written by the schema's own builder, quantized, and run by TFLite itself."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest

from relay_int8.frontend.tflite import import_tflite

schema = pytest.importorskip("ai_edge_litert.schema_py_generated")
interpreter = pytest.importorskip("ai_edge_litert.interpreter")

TYPES = {
    "float32": 0, "float16": 1, "int32": 2, "uint8": 3, "int64": 4, "bool": 6, "int16": 7, "int8": 9,
    "complex64": 8, "resource": 13,
}  # fmt: skip
SAME = {
    "BATCH_TO_SPACE_ND": (0,), "SPACE_TO_BATCH_ND": (0,), "BROADCAST_TO": (0,), "GATHER": (0,),
    "GATHER_ND": (0,), "REVERSE_V2": (0,), "TILE": (0,),
    "AVERAGE_POOL_2D": (0,), "DEPTH_TO_SPACE": (0,), "EXPAND_DIMS": (0,), "MAX_POOL_2D": (0,),
    "MIRROR_PAD": (0,), "PAD": (0,), "PADV2": (0,), "REDUCE_MAX": (0,),
    "REDUCE_MIN": (0,), "RESHAPE": (0,),
    "RESIZE_BILINEAR": (0,), "RESIZE_NEAREST_NEIGHBOR": (0,), "SLICE": (0,), "SPACE_TO_DEPTH": (0,),
    "SPLIT": (1,), "SPLIT_V": (0,), "SQUEEZE": (0,), "STRIDED_SLICE": (0,), "TRANSPOSE": (0,),
    "UNPACK": (0,), "CONCATENATION": None, "PACK": None, "MAXIMUM": None, "MINIMUM": None,
}  # fmt: skip
"""Operator -> operands that share their scale with the result, None for all: TFLite's rule."""
FIXED = {
    "SOFTMAX": (1 / 256, -128),
    "LOGISTIC": (1 / 256, -128),
    "TANH": (1 / 128, 0),
    "LOG_SOFTMAX": (16 / 256, 127),
    "L2_NORMALIZATION": (1 / 128, 0),
}
"""Operator -> scale and zero point of its result, whatever the data: TFLite's rule."""
WEIGHTED = {"CONV_2D": 0, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 0, "TRANSPOSE_CONV": 0}
"""Operator with weights, its operand 1 -> their axis of output channels."""


VERSIONS = {"BROADCAST_TO": 2, "STRIDED_SLICE": 8}
"""Operator -> its version, where that is not the first."""


def packed(model: Any) -> bytes:
    """Return the file that says what a ``schema.ModelT`` says."""
    builder = flatbuffers.Builder(1 << 16)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    return bytes(builder.Output())


class TfliteModel:
    """A graph in the making; every method returns the index of a tensor to hand to the next."""

    def __init__(self, seed: int = 0) -> None:
        self.graph = schema.SubGraphT(tensors=[], operators=[], inputs=[], outputs=[])
        self.model = schema.ModelT(
            version=3, subgraphs=[self.graph], buffers=[schema.BufferT()], operatorCodes=[]
        )
        self.rng = np.random.default_rng(seed)

    def tensor(
        self, name: str, shape: Sequence[int], dtype: str = "float32", values: Any = None
    ) -> int:
        """Add a tensor; ``values`` make it a constant."""
        tensor = schema.TensorT(name=name, shape=list(shape), type=TYPES[dtype])
        if values is not None:
            tensor.buffer = len(self.model.buffers)
            data = np.frombuffer(np.ascontiguousarray(values).tobytes(), np.uint8)
            self.model.buffers.append(schema.BufferT(data=data))
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def input(self, name: str, shape: Sequence[int], dtype: str = "float32") -> int:
        self.graph.inputs.append(self.tensor(name, shape, dtype))
        return self.graph.inputs[-1]

    def constant(self, values: Any, dtype: str | None = None, name: str = "") -> int:
        array = np.asarray(values, dtype or "int32")
        return self.tensor(
            name or f"c{len(self.graph.tensors)}", array.shape, array.dtype.name, array
        )

    def weights(self, *shape: int, scale: float | None = None) -> int:
        """Add random weights; by default so that sums have the spread of what they sum."""
        spread = scale or (2 / max(1, np.prod(shape[1:]))) ** 0.5
        return self.constant(self.rng.normal(0, spread, shape).astype("float32"), "float32")

    def op(
        self, kind: str, *inputs: int, options: str = "", results: int = 1, name: str = "",
        dtype: str = "float32", **fields: Any,
    ) -> Any:  # fmt: skip
        """Add an operator; shapes of results are TFLite's own, when the model is written."""
        code = getattr(schema.BuiltinOperator, kind)
        codes = [entry.builtinCode for entry in self.model.operatorCodes]
        if code not in codes:
            entry = schema.OperatorCodeT(deprecatedBuiltinCode=min(code, 127), builtinCode=code)
            entry.version = VERSIONS.get(kind, 1)
            self.model.operatorCodes.append(entry)
            codes.append(code)
        operator = schema.OperatorT(opcodeIndex=codes.index(code), inputs=list(inputs))
        names = [name or f"{kind.lower()}{len(self.graph.tensors) + i}" for i in range(results)]
        operator.outputs = [self.tensor(title, (), dtype) for title in names]
        if options:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(schema, f"{options}T")()
            for field, value in fields.items():
                assert hasattr(operator.builtinOptions, field), field
                setattr(operator.builtinOptions, field, value)
        self.graph.operators.append(operator)
        return operator.outputs[0] if results == 1 else operator.outputs

    def conv(self, x: int, channels: int, kernel: int, fan_in: int, **fields: Any) -> int:
        w = self.weights(channels, kernel, kernel, fan_in)
        return self._windowed("CONV_2D", "Conv2DOptions", x, w, channels, fields)

    def depthwise(self, x: int, channels: int, kernel: int, multiplier: int = 1, **fields: Any):
        w = self.weights(1, kernel, kernel, channels * multiplier, scale=0.5)
        fields = {"depthMultiplier": multiplier, **fields}
        return self._windowed(
            "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions", x, w, channels * multiplier, fields
        )

    def _windowed(self, kind: str, options: str, x: int, w: int, channels: int, fields: dict):
        b = self.weights(channels, scale=0.1)
        return self.op(kind, x, w, b, options=options, **{"strideW": 1, "strideH": 1, **fields})

    def pool(self, kind: str, x: int, size: int, stride: int, **fields: Any) -> int:
        return self.op(
            kind, x, options="Pool2DOptions", filterWidth=size, filterHeight=size, strideW=stride,
            strideH=stride, **fields,
        )  # fmt: skip

    def dense(self, x: int, units: int, fan_in: int, **fields: Any) -> int:
        w, b = self.weights(units, fan_in), self.weights(units, scale=0.1)
        return self.op("FULLY_CONNECTED", x, w, b, options="FullyConnectedOptions", **fields)

    def finish(self, *outputs: int) -> TfliteModel:
        """Name the results, and write the shapes that TFLite finds."""
        self.graph.outputs = list(outputs)
        found = _interpreter(self.written(), "optimized")
        shapes = {d["index"]: d["shape"] for d in found.get_tensor_details()}
        for index, tensor in enumerate(self.graph.tensors):
            tensor.shape = [int(extent) for extent in shapes[index]]
        return self

    def written(self) -> bytes:
        return packed(self.model)

    def imported(self, folder: Path, **options: Any):
        path = folder / "model.tflite"
        path.write_bytes(self.written())
        return import_tflite(path, **options)

    def inputs(self, seed: int = 1) -> list[np.ndarray]:
        """Return random inputs: of images with neighbouring pixels alike."""
        rng = np.random.default_rng(seed)
        arrays = []
        for tensor in (self.graph.tensors[index] for index in self.graph.inputs):
            x = rng.normal(size=tensor.shape).astype("float32")
            if len(x.shape) == 4:
                x = x[:, ::2, ::2].repeat(2, 1).repeat(2, 2)[:, : x.shape[1], : x.shape[2]]
            arrays.append(quantized_as(x, tensor))
        return arrays

    def kind(self, operator: Any) -> str:
        code = self.model.operatorCodes[operator.opcodeIndex].builtinCode
        names = vars(schema.BuiltinOperator).items()
        return next(name for name, value in names if name.isupper() and value == code)


def quantized_as(x: np.ndarray, tensor: Any) -> np.ndarray:
    """Return reals as a tensor of the file holds them."""
    if tensor.quantization is None:
        return x
    dtype = next(name for name, code in TYPES.items() if code == tensor.type)
    info = np.iinfo(dtype)
    q = np.rint(x / tensor.quantization.scale[0]) + tensor.quantization.zeroPoint[0]
    return np.clip(q, info.min, info.max).astype(dtype)


def quantized(model: TfliteModel, dtype: str = "int8") -> TfliteModel:
    """Return a float model in integers, as TFLite's specification wants them.

    Activations have the range they take on a random input, weights one scale an output channel
    (all of a matrix one), biases the product of the scales of what they are added to.
    """
    done = copy.deepcopy(model)
    tensors, scales = done.graph.tensors, _activation_scales(model)
    for index, (scale, zero) in scales.items():
        shift = 128 if dtype == "uint8" else 0
        _set_quantization(tensors[index], TYPES[dtype], [scale], [zero + shift], 0)
    for operator in done.graph.operators:
        kind = done.kind(operator)
        if kind in WEIGHTED:
            image = operator.inputs[2 if kind == "TRANSPOSE_CONV" else 0]
            bias = operator.inputs[-1]
            w_scales = _quantize_weights(done, operator.inputs[1], WEIGHTED[kind])
            b_scales = np.float32(scales[image][0]) * w_scales
            q = np.rint(_values(done, bias) / b_scales).astype("int32")
            _put(done, bias, q, TYPES["int32"], b_scales)
            continue
        for index in operator.inputs:
            if index >= 0 and tensors[index].type == 0:  # a constant operand
                values = _values(done, index)
                scale, zero = np.float32(max(np.abs(values).max(), 1e-6) / 127), 0
                if kind == "PADV2":
                    scale, zero = scales[operator.inputs[0]]
                q = np.rint(values / scale) + zero
                _put(done, index, q.astype("int8"), TYPES["int8"], [scale], zero=zero)
    return done


def _activation_scales(model: TfliteModel) -> dict[int, tuple[float, int]]:
    """Return scale and zero point by tensor; operators that share them have the widest range."""
    found = _float_tensors(model)
    ranges = {
        index: (min(0.0, float(x.min())), max(0.0, float(x.max()), 1e-3))
        for index, x in found.items()
    }
    fixed: dict[int, tuple[float, int]] = {}
    for _ in range(len(model.graph.operators) + 1):
        for operator in model.graph.operators:
            kind = model.kind(operator)
            if kind in FIXED:
                fixed[operator.outputs[0]] = FIXED[kind]
            if kind not in SAME:
                continue
            places = SAME[kind] or range(len(operator.inputs))
            shared = [*(operator.inputs[place] for place in places), *operator.outputs]
            wide = [ranges[index] for index in shared if index in ranges]
            for index in shared:
                ranges[index] = min(low for low, _ in wide), max(high for _, high in wide)
    scales = {}
    for index, (low, high) in ranges.items():
        scale = np.float32((high - low) / 255)
        zero = int(np.clip(np.rint(-128 - low / scale), -128, 127))
        scales[index] = fixed.get(index, (float(scale), zero))
    return scales


def set_scale(model: TfliteModel, index: int, scale: float, zero: int) -> None:
    """Say what the integers of an int8 tensor stand for."""
    _set_quantization(model.graph.tensors[index], TYPES["int8"], [scale], [zero], 0)


def _quantize_weights(model: TfliteModel, index: int, axis: int) -> np.ndarray:
    w = _values(model, index)
    others = tuple(i for i in range(w.ndim) if i != axis)
    scales = np.maximum(np.abs(w).max(axis=others), 1e-6).astype("float32") / np.float32(127)
    if w.ndim == 2:
        scales = scales.max(keepdims=True)
    along = [-1 if i == axis else 1 for i in range(w.ndim)]
    q = np.clip(np.rint(w / scales.reshape(along)), -127, 127).astype("int8")
    _put(model, index, q, TYPES["int8"], scales, axis)
    return scales


def _values(model: TfliteModel, index: int) -> np.ndarray:
    tensor = model.graph.tensors[index]
    data = np.asarray(model.model.buffers[tensor.buffer].data, np.uint8)
    return data.view("float32").reshape(tensor.shape)


def _put(
    model: TfliteModel,
    index: int,
    q: np.ndarray,
    code: int,
    scales: Any,
    axis: int = 0,
    zero: int = 0,
) -> None:
    tensor = model.graph.tensors[index]
    model.model.buffers[tensor.buffer].data = np.frombuffer(q.tobytes(), np.uint8)
    _set_quantization(tensor, code, scales, [zero] * len(scales), axis)


def _set_quantization(tensor: Any, code: int, scales: Any, zeros: Any, axis: int) -> None:
    tensor.type = code
    tensor.quantization = schema.QuantizationParametersT(
        scale=[float(scale) for scale in scales],
        zeroPoint=[int(zero) for zero in zeros],
        quantizedDimension=axis,
    )


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep TFLite's notices, which it writes to file 2, out of the output."""
    kept, nothing = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nothing, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nothing)


KERNELS = {
    "reference": "BUILTIN_REF",
    "optimized": "BUILTIN_WITHOUT_DEFAULT_DELEGATES",
    "xnnpack": "AUTO",
}
"""The three sets of kernels that TFLite has for a CPU; it runs the last by default."""


def _interpreter(data: bytes, kernels: str, *, every: bool = False) -> Any:
    with _quiet():
        found = interpreter.Interpreter(
            model_content=data,
            num_threads=1,
            experimental_op_resolver_type=interpreter.OpResolverType[KERNELS[kernels]],
            experimental_preserve_all_tensors=every,
        )
        found.allocate_tensors()
    return found


def run_interpreter(
    model: TfliteModel | bytes, arrays: Sequence[np.ndarray], kernels: str = "optimized"
) -> list[np.ndarray]:
    """Return what TFLite computes with one set of its kernels."""
    found = _interpreter(model if isinstance(model, bytes) else model.written(), kernels)
    return [array for _, array in _invoked(found, arrays, found.get_output_details())]


def run_stream(
    model: TfliteModel, steps: Sequence[Sequence[np.ndarray]], kernels: str = "xnnpack"
) -> list[list[np.ndarray]]:
    """Return what one interpreter computes in several runs, between which it keeps variables."""
    found = _interpreter(model.written(), kernels)
    details = found.get_output_details()
    return [[array for _, array in _invoked(found, arrays, details)] for arrays in steps]


def _float_tensors(model: TfliteModel) -> dict[int, np.ndarray]:
    """Return every tensor that is computed from a random input, by index."""
    found = _interpreter(model.written(), "optimized", every=True)
    computed = [i for i, t in enumerate(model.graph.tensors) if not t.buffer and t.type == 0]
    details = [d for d in found.get_tensor_details() if d["index"] in computed]
    return dict(_invoked(found, model.inputs(), details))


def _invoked(
    found: Any, arrays: Sequence[np.ndarray], details: Sequence[Mapping[str, Any]]
) -> list[tuple[int, np.ndarray]]:
    for detail, array in zip(found.get_input_details(), arrays, strict=True):
        found.set_tensor(detail["index"], array)
    found.invoke()
    return [(d["index"], found.get_tensor(d["index"])) for d in details]
