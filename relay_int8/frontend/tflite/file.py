"""Read a TFLite file: the tensors and operators of its one graph, weights as views of the file."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from relay_int8.errors import FrontendError, UnsupportedOpError
from relay_int8.file_names import absent
from relay_int8.frontend.tflite.flexible import read_map
from relay_int8.frontend.tflite.model import (
    OptionValue,
    Quantization,
    TfliteGraph,
    TfliteModel,
    TfliteOperator,
    TfliteTensor,
)
from relay_int8.frontend.tflite.schema import (
    CUSTOM,
    CUSTOM_MAPS,
    CUSTOM_OPTIONS,
    GRAPHS,
    IDENTIFIER,
    INTEGERS,
    OPERATORS,
    OPTIONS,
    OTHER_TYPES,
    REALS,
    TEXT,
    TYPES,
    VERSION,
)
from relay_int8.frontend.tflite.sparse import dense_values, with_dense_weights
from relay_int8.frontend.tflite.tables import Array, Flatbuffer, FlatbufferTable

MAX_RANK = 8


def read_model(path: Path) -> TfliteModel:
    """Return the graphs of a TFLite file.

    Raises
    ------
    FrontendError
        There is no such file, it is no whole TFLite model, or its parts do not fit together.
    UnsupportedOpError
        It has several entry points, or tensors of a type or encoding that cannot be read.
    """
    if not path.is_file():
        raise FrontendError(f"{path}: {absent(path)}; expected a TFLite model")
    data = path.read_bytes()
    if data[4:8] != IDENTIFIER:
        raise FrontendError(
            f"{path}: expected a TFLite model, found {len(data)} bytes that start with "
            f"{data[:8].hex(' ')}, not TFL3 from byte 4; check the download"
        )
    root = Flatbuffer(path, data).root
    version = root.number(0, "I")
    if version != VERSION:
        raise FrontendError(f"{path}: version {version} of the TFLite format; expected {VERSION}")
    return _Reader(path, data, root).model()


class _Reader:
    def __init__(self, path: Path, data: bytes, root: FlatbufferTable) -> None:
        self._path, self._data, self._root = path, data, root
        self._kinds = [_kind(code) for code in root.tables(1)]
        self._buffers = list(root.tables(4))

    def model(self) -> TfliteModel:
        """Return all graphs; UnsupportedOpError for one that no other runs."""
        graphs = tuple(self._graph(table) for table in self._root.tables(2))
        if not graphs:
            raise self._fault("it has no graph")
        run = {
            int(operator.options[option])  # type: ignore[arg-type]
            for graph in graphs
            for operator in graph.operators
            for option in GRAPHS
            if option in operator.options
        }
        apart = sorted(set(range(1, len(graphs))) - run)
        if apart:
            raise UnsupportedOpError(
                f"{self._path}: {len(graphs)} graphs, of which graph {apart[0]} is run by no "
                "operator that can be imported: an entry point of its own, or what fills a state; "
                "convert the model with one signature and without states"
            )
        if not graphs[0].inputs or not graphs[0].outputs:
            raise self._fault("it has no inputs or no outputs")
        return TfliteModel(graphs)

    def _graph(self, table: FlatbufferTable) -> TfliteGraph:
        tensors = tuple(self._tensor(i, entry) for i, entry in enumerate(table.tables(0)))
        operators = tuple(self._operator(entry, len(tensors)) for entry in table.tables(3))
        inputs, outputs = (
            self._indices(table.array(field, "i4"), len(tensors), "an input or output of a graph")
            for field in (1, 2)
        )
        return with_dense_weights(TfliteGraph(tensors, operators, inputs, outputs))

    def _fault(self, fault: str) -> FrontendError:
        return FrontendError(f"{self._path}: {fault}; check the download")

    def _indices(self, indices: Array, count: int, what: str, least: int = 0) -> tuple[int, ...]:
        wrong = [int(index) for index in indices if not least <= index < count]
        if wrong:
            raise self._fault(f"{what} is tensor {wrong[0]} of {count}")
        return tuple(int(index) for index in indices)

    def _operator(self, table: FlatbufferTable, tensors: int) -> TfliteOperator:
        index = int(table.number(0, "I"))
        if index >= len(self._kinds):
            raise self._fault(f"an operator of kind {index}, and there are {len(self._kinds)}")
        kind = self._kinds[index]
        inputs, outputs = (table.array(field, "i4") for field in (1, 2))
        return TfliteOperator(
            kind=kind,
            inputs=self._indices(inputs, tensors, f"an input of {kind}", -1),
            outputs=self._indices(outputs, tensors, f"an output of {kind}"),
            options=self._options(kind, table),
        )

    def _options(self, kind: str, table: FlatbufferTable) -> dict[str, OptionValue]:
        if kind in CUSTOM_OPTIONS:
            return self._custom_options(kind, table)
        if kind in CUSTOM_MAPS:
            return self._custom_map(kind, table)
        known = OPTIONS.get(kind)
        if known is None:
            return {}
        kind_field, field = (11, 12) if known.is_new else (3, 4)
        number, options = int(table.number(kind_field, "B")), table.table(field)
        if options is not None and number != known.number:
            raise self._fault(f"{kind} has options of type {number}, not {known.number}")
        return {name: _option(options, *field) for name, field in known.fields.items()}

    def _custom_options(self, kind: str, table: FlatbufferTable) -> dict[str, OptionValue]:
        """Return the options of an operator that is not TFLite's: a C structure of integers."""
        names, data = CUSTOM_OPTIONS[kind], table.array(5, "u1")
        if data.size < 4 * len(names):
            raise self._fault(f"{kind} has {data.size} bytes of options")
        numbers = np.frombuffer(data.tobytes(), "<i4", len(names)).tolist()
        return dict(zip(names, numbers, strict=True))

    def _custom_map(self, kind: str, table: FlatbufferTable) -> dict[str, OptionValue]:
        """Return the options of an operator that is not TFLite's: a map in FlexBuffers."""
        buffer = Flatbuffer(self._path, table.array(5, "u1").tobytes())
        options: dict[str, OptionValue] = {**read_map(buffer)}
        for name in CUSTOM_MAPS[kind]:
            if name not in options:
                raise self._fault(f"{kind} has no option {name}")
        return options

    def _tensor(self, index: int, table: FlatbufferTable) -> TfliteTensor:
        name = table.text(3).split(";")[0] or f"tensor{index}"
        code = int(table.number(1, "b"))
        shape = tuple(int(extent) for extent in self._dims(name, table.array(0, "i4")))
        if code not in TYPES:
            kind = OTHER_TYPES.get(code, f"type {code}")
            raise UnsupportedOpError(f"tensor {name} is of {kind}, which cannot be imported")
        if TYPES[code] == "resource":
            return TfliteTensor(name, shape, TYPES[code])
        values = self._values(name, int(table.number(2, "I")), shape, TYPES[code], table.table(6))
        return TfliteTensor(
            name=name,
            shape=shape,
            dtype=TYPES[code],
            values=values,
            quantization=self._quantization(name, table.table(4), shape, TYPES[code], values),
            open_axes=frozenset(np.flatnonzero(table.array(7, "i4")[: len(shape)] < 0).tolist()),
            is_state=bool(table.number(5, "?")),
        )

    def _dims(self, name: str, dims: Array) -> Array:
        if len(dims) > MAX_RANK or (dims < 0).any():
            raise self._fault(f"tensor {name} has shape {dims[: MAX_RANK + 1].tolist()}")
        return dims

    def _values(
        self,
        name: str,
        index: int,
        shape: tuple[int, ...],
        dtype: str,
        sparsity: FlatbufferTable | None = None,
    ) -> Array | None:
        """Return the elements of a constant, or None where the file has none."""
        if index >= len(self._buffers):
            raise self._fault(f"tensor {name} is in buffer {index} of {len(self._buffers)}")
        buffer = self._buffers[index]
        offset, size = (int(buffer.number(field, "Q")) for field in (1, 2))
        data = buffer.array(0, "u1")
        if offset > 1:  # of files beyond 2 GB weights follow the tables
            if offset + size > len(self._data):
                raise self._fault(f"tensor {name} is {size} bytes from {offset}")
            data = np.frombuffer(self._data, np.uint8, size, offset)
        if not data.size:
            return None
        kind = np.dtype(dtype).newbyteorder("<")
        if sparsity is not None and data.size % kind.itemsize == 0:
            try:
                return dense_values(data.view(kind), shape, sparsity)
            except ValueError as err:
                raise self._fault(f"sparse tensor {name} has {err}") from err
        if data.size != math.prod(shape) * kind.itemsize:
            raise self._fault(f"tensor {name}, {list(shape)} of {dtype}, has {data.size} bytes")
        return data.view(kind).reshape(shape)

    def _quantization(
        self,
        name: str,
        table: FlatbufferTable | None,
        shape: tuple[int, ...],
        dtype: str,
        values: Array | None,
    ) -> Quantization | None:
        """Return scale and zero point, or None where there are none."""
        scale = np.empty(0, "<f4") if table is None else table.array(2, "f4")
        if table is None or not scale.size:
            return None
        zero, axis = table.array(3, "i8"), int(table.number(6, "i"))
        zero = zero if zero.size else np.zeros(1, "<i8")
        by_channel = scale.size > 1
        if shape == scale.shape:
            axis = 0  # early converters wrote the axis of the weights for biases too
        if by_channel and not (0 <= axis < len(shape) and scale.size == shape[axis]):
            raise self._fault(
                f"tensor {name} of {list(shape)} has {scale.size} scales along axis {axis}"
            )
        if zero.size not in (1, scale.size):
            raise self._fault(f"tensor {name} has {scale.size} scales, {zero.size} zero points")
        if np.dtype(dtype).kind in "iu" and (zero.astype(dtype) != zero).any():
            raise self._fault(f"tensor {name} of {dtype} has a zero point of {zero[0]}")
        if by_channel and values is not None and (zero == 0).all():
            scale = _with_dead_channels(scale, values, axis)
        if not (np.isfinite(scale).all() and (scale > 0).all()):
            raise self._fault(f"tensor {name} has a scale that is not positive and finite")
        return Quantization(scale, np.broadcast_to(zero, scale.shape), axis if by_channel else 0)


def _with_dead_channels(scale: Array, values: Array, axis: int) -> Array:
    """Return scales with 1 for channels of zeros alone: TFLite's converter writes 0 for some."""
    others = tuple(other for other in range(values.ndim) if other != axis)
    return np.where((scale == 0) & ~values.any(others), np.float32(1), scale)


def _kind(code: FlatbufferTable) -> str:
    """Return the name of an operator; the old field was a byte, the new one may be absent."""
    number = max(int(code.number(0, "b")), int(code.number(3, "i")))
    if number == CUSTOM:
        return f"CUSTOM {code.text(1)}"
    return OPERATORS.get(number, f"operator {number}")


def _option(options: FlatbufferTable | None, index: int, form: str, default: float) -> OptionValue:
    """Return an option, or its default where the file leaves it out."""
    if form == INTEGERS:
        values = () if options is None else options.array(index, "i4")[: MAX_RANK + 1]
        return tuple(int(value) for value in values)
    if form == REALS:
        return () if options is None else tuple(options.array(index, "f4").tolist())
    if form == TEXT:
        return "" if options is None else options.text(index)
    value: OptionValue = default if options is None else options.number(index, form, default)
    return value
