"""Meet a demand: measure a quantized network, and leave in float what has to be.

Networks are measured as they run: built for this computer, image by image. Their integers are the
same on every target, so that what is measured here holds there.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import numpy as np
from tvm import IRModule

from relay_int8.api.demand import Array, Demand, DemandMet
from relay_int8.api.float_network import Network, compiled_network
from relay_int8.calibration.observe import Progress
from relay_int8.calibration.table import CalibrationTable
from relay_int8.compiler.pipeline import normalize
from relay_int8.data.dataset import Dataset, Image
from relay_int8.errors import AccuracyError, ConfigError, Int8Error
from relay_int8.graph.batch import with_batch
from relay_int8.graph.plan import LayerPlan
from relay_int8.notices import notice
from relay_int8.numerics.snr import least_snr_db
from relay_int8.quantization.mixed_precision.fewest_floats import fewest_floats
from relay_int8.quantization.mixed_precision.harm import by_harm
from relay_int8.quantization.quantize import leave_in_float
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.report.accuracy import require_labels
from relay_int8.report.label_check import tell_of_labels

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
        self._labels = None if demand.labels is None else _labels(demand.labels, images, held_out)
        self._images = every_second(images, 1) if held_out else images
        self._held_out = held_out
        self._reference = compiled_network(with_batch(normalize()(mod), 1))
        self._fp32 = math.inf
        self._scores: dict[frozenset[str], float] = {}
        self._best: QuantizedModel | None = None  # the last one that met the demand
        if demand.min_snr_db is None:
            self._fp32 = self._score(self._reference, is_fp32=True)
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
        before = {layer.name for layer in quantized.plan.layers if layer.integer}
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
            score = self._score(compiled_network(with_batch(network.mod, 1)))
            self._scores[key] = score
            if self._demand.holds(score, self._fp32):
                self._best = network
            if progress:
                progress(STAGE, len(self._scores), None)
        return self._scores[key]

    def _score(self, network: Network, *, is_fp32: bool = False) -> float:
        if self._demand.min_snr_db is not None:
            return least_snr_db((self._reference(image), network(image)) for image in self._images)
        outputs = (network(image) for image in self._images)
        if self._labels is not None:
            return _top1(outputs, self._labels, warns=is_fp32)
        return _of_metric(self._demand, outputs)


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
            "more, or images to measure on (--eval-data, Demand.data)"
        )


def every_second(images: Dataset, first: int) -> Dataset:
    """Return every second image from number ``first`` (0 or 1) on."""

    def _batches() -> Iterator[tuple[str, Image]]:
        for number, image in enumerate(images):
            if number % 2 == first:
                yield f"image {number}", image

    return Dataset(_batches, images.inputs)


def _labels(labels: Array, images: Dataset, held_out: bool) -> Array:
    """Return the labels of the images that are measured on."""
    labels = np.asarray(labels)
    if labels.dtype.kind not in "iu":
        raise ConfigError(f"labels are {labels.dtype}, integers expected: a class for each image")
    count = sum(1 for _ in images)
    if labels.shape != (count,):
        raise ConfigError(
            f"{count} images, but labels of shape {labels.shape}; give one integer for each image "
            f"of {'the calibration data' if held_out else 'the data to measure on'}"
        )
    return labels[1::2] if held_out else labels


def _top1(outputs: Iterator[dict[str, Array]], labels: Array, *, warns: bool) -> float:
    """Return the fraction of images whose largest value of the first output is the label."""
    first = next(outputs)
    classes = next(iter(first.values())).size
    require_labels(labels, len(labels), classes)
    chosen = np.array([next(iter(y.values())).argmax() for y in chain([first], outputs)])
    if warns:
        tell_of_labels(chosen, labels, classes)
    return float(np.mean(chosen == labels))


def _of_metric(demand: Demand, outputs: Iterator[dict[str, Array]]) -> float:
    """Return what the user's metric says of the outputs."""
    assert demand.metric is not None
    try:
        value = demand.metric(outputs)
    except Int8Error:
        raise
    except Exception as error:  # whatever the user's function raises
        raise ConfigError(
            f"the metric {demand.measure} raised {type(error).__name__}: {error}; it is called "
            "with an iterator over the outputs of the images: for each a dictionary, output name "
            "-> array of batch 1"
        ) from error
    try:
        score = float(value)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"the metric {demand.measure} returned a {type(value).__name__}; a number is "
            "expected, the higher the better"
        ) from error
    if not math.isfinite(score):
        raise ConfigError(
            f"the metric {demand.measure} returned {score}; a finite number is expected, the "
            "higher the better"
        )
    return score
