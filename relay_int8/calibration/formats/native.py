"""relay-int8's own table: JSON that carries everything but scales of weights."""

from __future__ import annotations

from relay_int8.calibration.formats.exchange import Exchange, Format
from relay_int8.calibration.table import FORMAT as MARK
from relay_int8.calibration.table import CalibrationTable

NAME = "relay-int8"


def recognizes(text: str) -> bool:
    """Say whether it is marked as one."""
    return text.lstrip().startswith("{") and f'"{MARK}"' in text[:200]


def read(text: str) -> Exchange:
    """Return the table."""
    return Exchange(table=CalibrationTable.from_json(text))


def write(exchange: Exchange) -> str:
    """Return the table as JSON."""
    return exchange.table.to_json()


def losses(exchange: Exchange) -> list[str]:
    """Say that weights are quantized from the model itself."""
    if not exchange.weights:
        return []
    layers = len(exchange.weights)
    return [f"scales of the weights of {layers} layers are left out: relay-int8 makes its own"]


FORMAT = Format(
    name=NAME,
    suffixes=(".json",),
    recognizes=recognizes,
    read=read,
    write=write,
    losses=losses,
)
