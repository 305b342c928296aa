"""The tensors and layers of a model, to which calibration tables of other tools are fitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from tvm import IRModule

from relay_int8.calibration.formats import fit
from relay_int8.calibration.formats.exchange import Exchange, renamed
from relay_int8.calibration.formats.ncnn import PARAM
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import CalibrationError
from relay_int8.graph.digest import Identity, tensor_names
from relay_int8.graph.group import Group
from relay_int8.graph.layers import linear_layers
from relay_int8.numerics.qparams import PlannedScheme
from relay_int8.operators.conv2d import Conv2d
from relay_int8.operators.registry import linear_of
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig

WINOGRAD_MAX, WEIGHT_MAX = 31, 127  # ncnn: 3x3 of stride 1 has 6 bits


@dataclass(frozen=True, kw_only=True)
class ModelTensors:
    """Tensors and integer layers of a model.

    Parameters
    ----------
    schemes
        Name -> scheme of the tensors that need a range.
    others
        Names of all other tensors, those included that normalization removes.
    inputs
        Layer, by the name of any of its results -> tensor whose range is its input's.
    weights
        Layer, by the name of its first result -> ncnn's scales of its weights.
    model
        What calibration tables keep of it.
    """

    schemes: Mapping[str, PlannedScheme]
    others: frozenset[str]
    inputs: Mapping[str, str]
    weights: Mapping[str, npt.NDArray[np.float64]]
    model: Identity

    @classmethod
    def of(cls, imported: IRModule, config: QuantConfig | None = None) -> ModelTensors:
        """Return those of a float module, as a frontend gives it."""
        reference = normalize()(imported)
        plan = annotate(reference, config or QuantConfig())
        layers = linear_layers(reference["main"], plan)
        names = tensor_names(imported) | tensor_names(reference)
        schemes = plan.schemes
        return cls(
            schemes=schemes,
            others=frozenset(names - set(schemes)),
            inputs={
                str(member.name): plan.tensors[str(layer.inputs[0].name)].like
                for layer in layers
                for member in layer.members
            },
            weights={str(layer.members[0].name): _ncnn_scales(layer) for layer in layers},
            model=Identity.of(reference),
        )

    def by_tensor(self, exchange: Exchange) -> Exchange:
        """Return an exchange whose entries bear names of layers, by their inputs, and fit it.

        Raises
        ------
        CalibrationError
            A layer's weights have another number of channels in the model, or a range is missing.
        """
        faults = [
            f"{key} has {len(scales)} scales, the model {len(self.weights[layer])}"
            for key, scales in exchange.weights.items()
            for layer in [key.partition(PARAM)[0]]
            if layer in self.weights and len(scales) != len(self.weights[layer])
        ]
        if faults:
            raise CalibrationError(f"the table does not fit the model: {'; '.join(faults)}")
        return self.fitted(renamed(exchange, self.inputs))

    def fitted(self, exchange: Exchange) -> Exchange:
        """Return the exchange as the model needs it."""
        table = fit(exchange.table, self.schemes, self.others)
        table = replace(table, model_hash=self.model.model, weights_hash=self.model.weights)
        return replace(exchange, table=table)

    def by_layer(self, exchange: Exchange) -> Exchange:
        """Return an exchange with an entry for each layer's input, and ncnn's scales of weights."""
        entries = exchange.table.entries
        table = replace(
            exchange.table, entries={name: entries[self.inputs[name]] for name in self.weights}
        )
        weights = {f"{name}{PARAM}0": scales for name, scales in self.weights.items()}
        return replace(exchange, table=table, weights=weights)


def _ncnn_scales(layer: Group) -> npt.NDArray[np.float64]:
    """Return ``max|w| / 127`` of each output channel, or of each group of a grouped convolution."""
    record, rows, steps = linear_of(layer), layer.weight_rows, WEIGHT_MAX
    if isinstance(record, Conv2d):
        fields, groups = record.fields(layer), record.groups(layer)
        plain = (fields["kernel"], fields["strides"], fields["dilation"])
        if groups == 1 and plain == ((3, 3), (1, 1), (1, 1)):
            steps = WINOGRAD_MAX
        rows = rows.reshape(groups if groups > 1 else len(rows), -1)
    largest = np.abs(rows.astype(np.float64)).max(axis=1)
    return np.where(largest > 0, largest, 1.0) / steps
