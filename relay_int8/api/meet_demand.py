"""Meet a demand: measure a quantized network, and leave in float what has to be.

Networks are measured as they run: built for this computer, image by image. Their integers are the
same on every target, so that what is measured here holds there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tvm import IRModule

from relay_int8.api.demand import Demand, DemandMet
from relay_int8.api.float_network import Network, compiled_network
from relay_int8.calibration.observe import Progress
from relay_int8.calibration.table import CalibrationTable
from relay_int8.compiler.pipeline import normalize
from relay_int8.data.dataset import Dataset, Image
from relay_int8.errors import AccuracyError, ConfigError
from relay_int8.graph.batch import with_batch
from relay_int8.graph.compared import compared_tensors, returning
from relay_int8.graph.plan import LayerPlan
from relay_int8.notices import notice
from relay_int8.numerics.snr import least_snr_db
from relay_int8.quantization.metric import BoundMetric
from relay_int8.quantization.mixed_precision.fewest_floats import fewest_floats
from relay_int8.quantization.mixed_precision.harm import by_harm
from relay_int8.quantization.quantize import leave_in_float
from relay_int8.quantization.quantized_model import QuantizedModel

STAGE = "demand"


class DemandTrial:
    """A demand, the images it is measured on, and the FP32 network.

    Parameters
    ----------
    mod
        Imported float module.
    demand
        What has to be reached.
    images
        To measure on, or, where ``held_out``, those that every second one is taken of.
    held_out
        Whether the others calibrate.

    Raises
    ------
    ConfigError
        If labels do not fit the images, or the metric fails.
    AccuracyError
        If FP32 itself does not meet the demand.
    """

    def __init__(self, mod: IRModule, demand: Demand, images: Dataset, *, held_out: bool) -> None:
        self._demand = demand
        self._metric = _judge(demand, images, held_out)
        self._images = every_second(images, 1) if held_out else images
        self._held_out = held_out
        reference = with_batch(normalize()(mod), 1)
        # A metric is of results; decibels of what can be compared.
        by_decibels = demand.min_snr_db is not None
        self._compared = list(compared_tensors(reference["main"])) if by_decibels else None
        self._reference = self._compiled(reference)
        self._fp32 = math.inf
        self._scores: dict[frozenset[str], float] = {}
        self._best: QuantizedModel | None = None  # the last one that met the demand
        if demand.min_snr_db is None:
            self._fp32 = self._score(self._reference)
        if not demand.holds(self._fp32, self._fp32):
            raise AccuracyError(
                f"{demand} is demanded, and FP32 itself has {self._fp32:.4g}: no quantized network "
                "will do; look at data and labels, or demand less"
            )

    def meet(
        self,
        quantized: QuantizedModel,
        data: Dataset | CalibrationTable,
        progress: Progress | None = None,
    ) -> tuple[QuantizedModel, DemandMet]:
        """Return the network with the fewest layers in float that meets the demand.

        Parameters
        ----------
        quantized
            All in integers.
        data
            What it was quantized with.
        progress
            Called as layers and networks are measured.

        Raises
        ------
        AccuracyError
            If the demand is not met with all layers in float.
        """
        int8 = self._measured(quantized, (), data, progress)
        order: tuple[str, ...] = ()
        if self._best is None:
            seen = data if isinstance(data, Dataset) else self._images
            order = by_harm(quantized, seen, progress)
        macs = {layer.name: layer.macs for layer in quantized.plan.layers}

        def _holds(floats: Sequence[str]) -> bool:
            score = self._measured(quantized, floats, data, progress)
            return self._demand.holds(score, self._fp32)

        floats = fewest_floats(order, macs, _holds)
        if floats is None or self._best is None:
            least = self._measured(quantized, order, data, progress)
            raise AccuracyError(
                f"{self._demand} is demanded; all in integers the network has {int8:.4g}, with all "
                f"{len(order)} layers in float {least:.4g} (FP32: {self._fp32:.4g}); demand less"
            )
        if floats and not any(layer.integer for layer in self._best.plan.layers):
            notice(f"{self._demand} is demanded, and every layer is in float for it")
        reached = self._measured(quantized, floats, data, progress)
        return self._best, self._met(quantized, self._best, int8, reached)

    def _met(
        self, quantized: QuantizedModel, network: QuantizedModel, int8: float, reached: float
    ) -> DemandMet:
        before = quantized.plan.integer_layers
        layers = network.plan.layers
        floats = [layer for layer in layers if not layer.integer and layer.name in before]
        return DemandMet(
            demand=str(self._demand),
            measure=self._demand.measure,
            images=sum(1 for _ in self._images),
            held_out=self._held_out,
            fp32=self._fp32,
            int8=int8,
            reached=reached,
            floats=tuple(layer.name for layer in floats),
            float_macs=_macs(floats) / max(_macs(layers), 1),
            measurements=len(self._scores),
        )

    def _measured(
        self,
        quantized: QuantizedModel,
        floats: Sequence[str],
        data: Dataset | CalibrationTable,
        progress: Progress | None,
    ) -> float:
        """Return the score with layers in float; keep the network if it meets the demand."""
        key = frozenset(floats)
        if key not in self._scores:
            network = leave_in_float(quantized, key, data) if key else quantized
            score = self._score(self._compiled(with_batch(network.mod, 1)))
            self._scores[key] = score
            if self._demand.holds(score, self._fp32):
                self._best = network
            if progress:
                progress(STAGE, len(self._scores), None)
        return self._scores[key]

    def _compiled(self, mod: IRModule) -> Network:
        """Return a network of batch 1 that gives what is measured, under equal names."""
        if self._compared is None:
            return compiled_network(mod)
        network = compiled_network(returning(mod, self._compared))
        names = self._compared
        return lambda image: dict(zip(names, network(image).values(), strict=True))

    def _score(self, network: Network) -> float:
        if self._metric is None:
            return least_snr_db((self._reference(image), network(image)) for image in self._images)
        labels = self._metric.labels
        floats = (self._reference(image) for image in self._images)
        outputs = (network(image) for image in self._images)
        return self._metric.score(outputs, floats if labels is None else labels)


def _macs(layers: Iterable[LayerPlan]) -> int:
    return sum(layer.macs for layer in layers)


def require_halves(images: Dataset) -> None:
    """Refuse calibration images of which none could be held out.

    Raises
    ------
    ConfigError
        If there is one alone.
    """
    if len(list(islice(images, 2))) < 2:
        raise ConfigError(
            "a demand is measured on every second calibration image, and there is one alone; give "
            "more, or images to measure on, as Demand(data=...)"
        )


def every_second(images: Dataset, first: int) -> Dataset:
    """Return every second image from number ``first`` (0 or 1) on."""

    def _batches() -> Iterator[tuple[str, Image]]:
        for number, image in enumerate(images):
            if number % 2 == first:
                yield f"image {number}", image

    return Dataset(_batches, images.inputs)


def _judge(demand: Demand, images: Dataset, held_out: bool) -> BoundMetric | None:
    """Return what a demand measures by, with labels of the images that are measured on."""
    metric = demand.judge
    if metric is None:
        return None
    if metric.labels is not None:
        data = "the calibration data" if held_out else "the data to measure on"
        metric.require_images(sum(1 for _ in images), data)
    return metric.of_every_second(1) if held_out else metric
