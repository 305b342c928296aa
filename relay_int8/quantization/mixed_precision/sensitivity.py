"""How much each layer's integers cost in accuracy: alone, and when it is the one left in float.

Every number is of a network that could be built: the plan of ``annotate`` with other layers
excluded, its tensors and weights quantized as in the quantized model, run in NumPy on calibration
images (:mod:`relay_int8.quantization.refine.network`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from relay_int8.calibration.observe import Progress
from relay_int8.data.dataset import Image
from relay_int8.errors import CalibrationError
from relay_int8.graph.batch import with_batch
from relay_int8.graph.compared import compared_tensors
from relay_int8.graph.groups import find_groups
from relay_int8.graph.plan import LayerPlan, Plan
from relay_int8.numerics import qparams
from relay_int8.numerics.snr import least_snr_db
from relay_int8.quantization.quantize import planned_with_floats
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.simulation import Arrays, Simulation, weights_of

SAMPLES = 16


@dataclass(frozen=True, kw_only=True)
class Fit:
    """How near the outputs are to FP32.

    Parameters
    ----------
    snr_db
        Signal-to-noise ratio of the least exact output.
    agreement
        Fraction of images whose first output has its largest value at the same place.
    """

    snr_db: float
    agreement: float


@dataclass(frozen=True, kw_only=True)
class LayerSensitivity:
    """One layer: the fit with it alone in integers, and with it alone left in float."""

    name: str
    kind: str
    macs: int
    alone: Fit
    without: Fit


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """All convolutions and dense layers, and the fit of the whole quantized network.

    ``model_hash`` is :attr:`QuantizedModel.model_hash`.
    """

    whole: Fit
    layers: tuple[LayerSensitivity, ...]
    samples: int
    model_hash: str = ""


class Variants:
    """A quantized model with any of its layers left in float, on a few images.

    Parameters
    ----------
    quantized
        The model.
    images
        Calibration images, of which the first ``samples`` are used.
    """

    def __init__(
        self, quantized: QuantizedModel, images: Iterable[Image], samples: int = SAMPLES
    ) -> None:
        self.quantized = quantized
        self._mod = with_batch(quantized.reference, 1)
        self._simulation = simulation_of(quantized)
        self._outputs = list(compared_tensors(self._mod["main"]))
        network = self._network(quantized.plan)
        chunks = list(network.images(islice(images, samples)))
        if not chunks:
            raise CalibrationError("no image found; sensitivity is measured on images")
        self.samples = sum(len(chunk[network.inputs[0]]) for chunk in chunks)
        self._wanted = [(chunk, network.run(chunk)) for chunk in chunks]

    @property
    def layers(self) -> list[LayerPlan]:
        """The convolutions and dense layers that are integers."""
        return [layer for layer in self.quantized.plan.layers if layer.integer and layer.macs]

    def plan(self, floats: Sequence[str]) -> Plan:
        """Return the plan with the layers ``floats`` left in float, beside those that are."""
        return planned_with_floats(self.quantized, floats)[1]

    def fit(self, plan: Plan) -> Fit:
        """Return how near the network of ``plan`` is to FP32."""
        network = self._network(plan)
        simulation = replace(self._simulation, plan=plan)
        runs = [(wanted, network.run(chunk, simulation)) for chunk, wanted in self._wanted]
        same = sum(_agreeing(*run, network.outputs[0]) for run in runs)
        return Fit(snr_db=least_snr_db(runs), agreement=same / self.samples)

    def _network(self, plan: Plan) -> NumpyNetwork:
        return NumpyNetwork(self._mod, plan.additions, outputs=self._outputs)


def measure_sensitivity(variants: Variants, progress: Progress | None = None) -> Sensitivity:
    """Return the sensitivity of every convolution and dense layer that is an integer one.

    Parameters
    ----------
    variants
        The quantized model and images.
    progress
        Called after every layer.
    """
    layers = variants.layers
    names = [layer.name for layer in layers]
    sensitivities = []
    for done, layer in enumerate(layers, 1):
        others = [name for name in names if name != layer.name]
        sensitivities.append(
            LayerSensitivity(
                name=layer.name,
                kind=layer.kind,
                macs=layer.macs,
                alone=variants.fit(variants.plan(others)),
                without=variants.fit(variants.plan([layer.name])),
            )
        )
        if progress:
            progress("sensitivity", done, len(layers))
    whole = variants.fit(variants.quantized.plan)
    return Sensitivity(
        whole=whole,
        layers=tuple(sensitivities),
        samples=variants.samples,
        model_hash=variants.quantized.model_hash,
    )


def simulation_of(quantized: QuantizedModel) -> Simulation:
    """Return what a quantized model computes, with its own weights and biases."""
    weights, biases = {}, {}
    for group in find_groups(quantized.mod["main"], quantized.plan.additions):
        if group.weight is None or group.weight.scale is None:
            continue
        scales, dtype = group.weight.scale, group.weight.dtype
        steps = qparams.quantize_weight(group.weight_rows, scales, dtype).astype(np.float32)
        weights[group.name] = weights_of(group, steps, scales)
        if group.bias is not None:
            biases[group.name] = group.bias
    return Simulation(plan=quantized.plan, params=quantized.params, weights=weights, biases=biases)


def _agreeing(wanted: Arrays, outputs: Arrays, output: str) -> int:
    first, second = (
        arrays[output].reshape(len(arrays[output]), -1) for arrays in (wanted, outputs)
    )
    return int((first.argmax(axis=1) == second.argmax(axis=1)).sum())
