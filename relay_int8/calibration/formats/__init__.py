"""Calibration tables of other tools, read and written."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from relay_int8.calibration.formats import (
    aimet,
    native,
    ncnn,
    onnxruntime_json,
    onnxruntime_text,
    ranges,
    tensorrt,
    tpu_mlir,
)
from relay_int8.calibration.formats.exchange import Exchange, Format
from relay_int8.calibration.formats.fit import fit
from relay_int8.calibration.formats.ranges import given_ranges
from relay_int8.errors import CalibrationError, ConfigError
from relay_int8.messages import unreadable

FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        module.FORMAT.name: module.FORMAT
        for module in (
            native,
            tensorrt,
            tpu_mlir,
            ncnn,
            aimet,
            onnxruntime_json,
            ranges,
            onnxruntime_text,
        )
    }
)
"""In the order in which a text is recognized: the first that knows it."""


def find_format(name: str) -> Format:
    """Return the format of this name."""
    if name not in FORMATS:
        raise ConfigError(f"format {name!r} is unknown; choose one of {', '.join(FORMATS)}")
    return FORMATS[name]


def format_of_name(path: Path) -> Format:
    """Return the format that a file of this name has by custom."""
    matching = [
        (len(suffix), form.name)
        for form in FORMATS.values()
        for suffix in form.suffixes
        if path.name.endswith(suffix)
    ]
    if path.suffix == ".cache":
        raise ConfigError(
            f"{path}: TensorRT and ONNX Runtime both name tables so; say which one with "
            "convert_table(target_format='tensorrt') or "
            "convert_table(target_format='onnxruntime-text')"
        )
    if not matching:
        raise ConfigError(
            f"{path}: no format has files of that name; name one of {', '.join(FORMATS)}"
        )
    return FORMATS[max(matching)[1]]


def read_exchange(path: Path | str, form: Format | None = None) -> tuple[Exchange, Format]:
    """Return what the file at ``path`` holds, and its format: the one given, or recognized.

    Raises
    ------
    CalibrationError
        The file cannot be read, or is of no known format.
    """
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(
            f"{path}: cannot be read as a calibration table: {unreadable(error)}"
        ) from error
    known = form or next((each for each in FORMATS.values() if each.recognizes(text)), None)
    if known is None:
        raise CalibrationError(
            f"{path}: of no format that is known ({', '.join(FORMATS)}); is the file complete?"
        )
    try:
        return known.read(text), known
    except CalibrationError as error:
        raise CalibrationError(f"{path}: {error}") from error


__all__ = [
    "FORMATS",
    "Exchange",
    "Format",
    "find_format",
    "fit",
    "format_of_name",
    "given_ranges",
    "read_exchange",
]
