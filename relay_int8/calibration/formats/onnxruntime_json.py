"""ONNX Runtime's calibration ranges as JSON: both ends of every tensor.

``calibration.json`` of ``write_calibration_table`` is name -> TensorData; ``save_tensors_data``
puts the same under "data", beside the method. Numbers are ``{"data": 1.5, "dtype": "float32",
"CLS": "numpy.array"}`` or plain. The second form is written, since ``load_tensors_data`` reads it.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from relay_int8 import finite_json
from relay_int8.calibration.entry import Entry
from relay_int8.calibration.formats.exchange import Exchange, Format, entry, left_out
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import CalibrationError

NAME = "onnxruntime"


def recognizes(text: str) -> bool:
    """Say whether it is JSON with ranges as ONNX Runtime writes them."""
    return text.lstrip().startswith("{") and '"TensorData"' in text


def read(text: str) -> Exchange:
    """Return the table."""
    try:
        document = finite_json.loads(text)
        tensors = document["data"] if document.get("CLS") == "TensorsData" else document
        entries = {name: _entry(name, fields) for name, fields in tensors.items()}
    except finite_json.MISREAD as error:
        raise CalibrationError(
            f"broken ONNX Runtime ranges ({type(error).__name__}: {error}); is the file complete?"
        ) from error
    return Exchange(table=CalibrationTable(entries=entries))


def _entry(name: str, fields: Any) -> Entry:
    low, high = _number(fields["lowest"]), _number(fields["highest"])
    try:
        return entry(
            min(low, 0.0),
            max(high, 0.0),
            NAME,
            scheme="u8" if low >= 0 else "asymmetric",
            observed=(low, high),
        )
    except CalibrationError as error:
        raise CalibrationError(f"{name}: {error}") from error


def _number(value: Any) -> float:
    numbers = np.asarray(value["data"] if isinstance(value, dict) else value, np.float64)
    if numbers.size != 1:
        raise ValueError(f"{numbers.size} numbers found; ranges per channel are not supported")
    return float(numbers.reshape(()))


def write(exchange: Exchange) -> str:
    """Return the JSON that onnxruntime.quantization's load_tensors_data reads."""
    data = {
        name: {"lowest": _array(item.low), "highest": _array(item.high), "CLS": "TensorData"}
        for name, item in exchange.table.entries.items()
    }
    method = {"CLS": "CalibrationMethod", "value": "CalibrationMethod.MinMax"}
    document = {"CLS": "TensorsData", "data": data, "calibration_method": method}
    return json.dumps({**document, "smooth_quant": False})


def _array(value: np.float32) -> dict[str, object]:
    return {"data": float(value), "dtype": "float32", "CLS": "numpy.array"}


def losses(exchange: Exchange) -> list[str]:
    """Return what the ranges cannot carry."""
    return left_out(exchange, ends=False)


FORMAT = Format(
    name=NAME,
    suffixes=("calibration.json",),
    recognizes=recognizes,
    read=read,
    write=write,
    losses=losses,
)
