"""TPU-MLIR's qtable: which operators stay in float.

::

    # qtable
    ###
    # op_name  quantize_mode
    conv1 F16

Rows are ``name mode``; modes are F32, F16, BF16, INT8 and others. Lines that begin with ``#`` are
skipped.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from relay_int8.errors import CalibrationError
from relay_int8.messages import unreadable

FLOATS = ("F32", "F16", "BF16")


def is_qtable(path: Path) -> bool:
    """Say whether a file of this name is one by custom."""
    return path.name.endswith("qtable")


def load_qtable(path: Path) -> dict[str, str]:
    """Return name -> mode of a file; a CalibrationError if it cannot be read."""
    try:
        return read_qtable(path.read_text(encoding="utf-8-sig"))
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(
            f"{path}: cannot be read as a qtable: {unreadable(error)}"
        ) from error
    except CalibrationError as error:
        raise CalibrationError(f"{path}: {error}") from error


def read_qtable(text: str) -> dict[str, str]:
    """Return name -> mode."""
    modes: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, *mode = line.rstrip().rsplit(None, 1)
        if not mode or not mode[0][:1].isalpha():
            raise CalibrationError(
                f"broken qtable: line {number}: {line[:60]!r} is not: name mode, as in conv1 F16"
            )
        modes[name] = mode[0]
    return modes


def excluded(modes: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that stay in float, for ``QuantConfig.exclude``."""
    return tuple(name for name, mode in modes.items() if mode.upper() in FLOATS)
