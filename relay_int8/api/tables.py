"""Calibration tables of all tools: read, converted from one format to another, compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from relay_int8.argument_types import checked
from relay_int8.calibration.formats import find_format, format_of_name, read_exchange
from relay_int8.calibration.formats.exchange import threshold
from relay_int8.calibration.formats.ncnn import NAME as NCNN
from relay_int8.calibration.formats.qtable import excluded, is_qtable, load_qtable
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import ConfigError
from relay_int8.files import require_outputs, write_atomic

if TYPE_CHECKING:
    from relay_int8.api.model import Model
    from relay_int8.quantization.config import QuantConfig


@dataclass(frozen=True, kw_only=True)
class TableFile:
    """A calibration table and the name of the format that its file has."""

    table: CalibrationTable
    format: str

    @property
    def names_layers(self) -> bool:
        """Whether its entries are layers (ncnn), not tensors; it quantizes once it is converted."""
        return self.format == NCNN


@dataclass(frozen=True, kw_only=True)
class OperatorModes:
    """A qtable of TPU-MLIR: ``modes`` is operator -> mode, ``excluded`` those that stay in float.

    ``excluded`` is what :attr:`relay_int8.QuantConfig.exclude` takes.
    """

    modes: Mapping[str, str]
    excluded: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TableConversion:
    """How a table was converted.

    Parameters
    ----------
    source_format, target_format
        Names of the formats.
    tensors
        Number of entries written.
    losses
        What the target's format cannot carry, as sentences.
    notes
        What was done to fit the table to the model, as sentences.
    """

    source_format: str
    target_format: str
    tensors: int
    losses: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class TableComparison:
    """The thresholds of two tables.

    Parameters
    ----------
    differences
        Tensor that both have -> difference as a share of the larger threshold, the greatest first.
    thresholds
        Tensor that both have -> its two thresholds.
    only_in_first, only_in_second
        Tensors that one of the two lacks, in order of their names.
    """

    differences: Mapping[str, float]
    thresholds: Mapping[str, tuple[float, float]]
    only_in_first: tuple[str, ...]
    only_in_second: tuple[str, ...]


@checked
def read_table(path: str | Path, format_name: str | None = None) -> TableFile:
    """Return the calibration table in a file of any tool.

    Parameters
    ----------
    path
        The file.
    format_name
        Name of its format, as ``relay-int8 table --help`` lists them; None: it is recognized.

    Raises
    ------
    CalibrationError
        The file cannot be read, or is of no known format.
    ConfigError
        There is no format of that name.

    Examples
    --------
    >>> quantized.save_table("table.json")
    >>> relay_int8.read_table("table.json").format
    'relay-int8'
    """
    exchange, form = read_exchange(Path(path), find_format(format_name) if format_name else None)
    return TableFile(table=exchange.table, format=form.name)


@checked
def read_qtable(path: str | Path) -> OperatorModes | None:
    """Return the modes in a qtable of TPU-MLIR; None if the file's name is not that of one.

    Raises
    ------
    CalibrationError
        It cannot be read.
    """
    path = Path(path)
    if not is_qtable(path):
        return None
    modes = load_qtable(path)
    return OperatorModes(modes=modes, excluded=excluded(modes))


@checked
def convert_table(
    source: str | Path,
    target: str | Path,
    *,
    model: Model | None = None,
    config: QuantConfig | None = None,
    source_format: str | None = None,
    target_format: str | None = None,
) -> TableConversion:
    """Write a calibration table in another tool's format.

    Parameters
    ----------
    source, target
        The file to read, and the one to write.
    model
        Float network of batch 1 that the table is fitted to: names, types and channels are checked.
        Needed between a table of layers (ncnn) and one of tensors.
    config
        Preset and exclusions that the model will be quantized with; ``QuantConfig()`` if None.
    source_format, target_format
        Names of the formats; None: the source's is recognized, the target's told by its name.

    Raises
    ------
    CalibrationError
        The table cannot be read, or does not fit the model.
    ConfigError
        A format is unknown, or a model is needed and none given.

    Examples
    --------
    >>> relay_int8.convert_table("table.json", "calib.trt").target_format
    'tensorrt'
    """
    source, target = Path(source), Path(target)
    form = find_format(target_format) if target_format else format_of_name(target)
    require_outputs(target, read=(source,))
    known = find_format(source_format) if source_format else None
    exchange, source_form = read_exchange(source, known)
    if model is None and (form.name == NCNN) != (source_form.name == NCNN):
        raise ConfigError(
            f"{source}: {source_form.name} found, {form.name} is to be written: a table of ncnn "
            "lists layers, others list tensors; give convert_table(model=...), which has the input "
            "of each layer"
        )
    notes_of_source = len(exchange.table.notes)
    if model is not None:
        # Here, not above: normalizing a model needs TVM, converting text does not.
        from relay_int8.quantization.model_tensors import ModelTensors

        tensors = ModelTensors.of(model.module, config)
        by_layers = source_form.name == NCNN
        exchange = tensors.by_tensor(exchange) if by_layers else tensors.fitted(exchange)
        exchange = tensors.by_layer(exchange) if form.name == NCNN else exchange
    losses = tuple(form.losses(exchange))
    write_atomic(target, form.write(exchange).encode())
    return TableConversion(
        source_format=source_form.name,
        target_format=form.name,
        tensors=len(exchange.table.entries),
        losses=losses,
        notes=tuple(exchange.table.notes[notes_of_source:]),
    )


@checked
def compare_tables(first: CalibrationTable, second: CalibrationTable) -> TableComparison:
    """Compare the thresholds (the larger end of each range) of two calibration tables.

    Examples
    --------
    >>> tables = [relay_int8.read_table(name).table for name in ("table.json", "calib.trt")]
    >>> max(relay_int8.compare_tables(*tables).differences.values()) < 1e-6
    True
    """
    thresholds = {
        name: (float(threshold(entry)), float(threshold(second.entries[name])))
        for name, entry in first.entries.items()
        if name in second.entries
    }
    differences = {name: abs(a - b) / max(a, b, 1e-300) for name, (a, b) in thresholds.items()}
    names = [set(table.entries) for table in (first, second)]
    return TableComparison(
        differences=dict(sorted(differences.items(), key=lambda item: -item[1])),
        thresholds=thresholds,
        only_in_first=tuple(sorted(names[0] - names[1])),
        only_in_second=tuple(sorted(names[1] - names[0])),
    )
