"""What a calibration table needs before a network is quantized with it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from tvm import IRModule

from relay_int8.calibration.formats import fit
from relay_int8.calibration.table import CalibrationTable
from relay_int8.graph.digest import Identity, tensor_names
from relay_int8.graph.plan import Plan
from relay_int8.notices import notice
from relay_int8.quantization.config import QuantConfig


def fitted_table(
    table: CalibrationTable, plan: Plan, reference: IRModule, others: Collection[str]
) -> CalibrationTable:
    """Return a table as a normalized float module needs it, and note what is to be known of it.

    Parameters
    ----------
    table
        Another tool's, which names no model, is fitted by the names of its tensors.
    plan
        Of the module.
    reference
        The module. Its inputs may have other sizes than those that the table was made for.
    others
        Names of tensors that the module does not have any more, and a table may have.

    Raises
    ------
    CalibrationError
        If the table was made for another network.
    """
    if not table.model_hash:
        table = fit(table, plan.schemes, {*others, *tensor_names(reference)})
    model = Identity.of(reference)
    table.check(plan.schemes, model)
    if not table.is_of_other_sizes(model):
        return table
    note = (
        "ranges are of the same network with inputs of other sizes; relay-int8 evaluate says how "
        "well they fit these"
    )
    notice(note)
    return replace(table, notes=(*table.notes, note))


def with_means(
    config: QuantConfig, table: CalibrationTable, averaged: Sequence[str]
) -> QuantConfig:
    """Return the configuration without bias correction where a table has no means for it."""
    if config.applied.correction != "analytic" or table.means or not averaged:
        return config
    notice(
        "the calibration table holds no means of channels, as another tool's does not: biases stay "
        "as they are, as with QuantConfig(bias_correction=False); calibrate with images to correct "
        "them"
    )
    return replace(config, bias_correction=False)
