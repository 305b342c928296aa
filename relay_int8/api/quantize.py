"""The second stage: an imported network becomes integers, the same for every target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from relay_int8.api.bind_metric import bound_metric
from relay_int8.api.demand import Demand, DemandMet
from relay_int8.api.meet_demand import DemandTrial, every_second, require_halves
from relay_int8.api.metrics import MEAN_IOU, TOP1
from relay_int8.api.model import Model, data_inputs
from relay_int8.argument_types import checked
from relay_int8.calibration.methods import find_method
from relay_int8.calibration.observe import Progress
from relay_int8.calibration.table import CalibrationTable
from relay_int8.data.dataset import Dataset
from relay_int8.data.images import open_images
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.data.sources import Batches
from relay_int8.errors import ConfigError
from relay_int8.export.qdq import BiasForm, export_qdq
from relay_int8.files import write_atomic
from relay_int8.graph import dataflow
from relay_int8.quantization import quantize as quantization
from relay_int8.quantization.adopt import adopt
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.metric import BoundMetric, ImageLabels, Metric
from relay_int8.quantization.plan_file import with_plan
from relay_int8.quantization.quantize import require_auto
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.report.contents import Hazard
from relay_int8.report.hazards import find_hazards

Source = str | Path | Batches | CalibrationTable
"""Calibration images in any form :func:`relay_int8.open_data` takes, or a calibration table."""


@dataclass(frozen=True, kw_only=True)
class Quantized:
    """A quantized network with what it came from.

    Parameters
    ----------
    model
        The network that was imported.
    network
        Plan, calibration table, Q/DQ module and digest.
    images
        The calibration images; None where ranges came from a table, or from the model itself.
    preprocessing
        From picture to input, where the images were pictures.
    met
        How the accuracy was reached that was demanded, if any was.
    """

    model: Model
    network: QuantizedModel
    images: Dataset | None = None
    preprocessing: Preprocessing | None = None
    met: DemandMet | None = None

    def __repr__(self) -> str:
        """Return the name of the model and what became of it."""
        return f"<Quantized {self.model.name}: {self.network!r}>"

    @property
    def digest(self) -> str:
        """sha256 of the quantized network: equal digests give equal integers on every target."""
        return self.network.digest

    @property
    def table(self) -> CalibrationTable:
        """The range of each tensor."""
        return self.network.table

    @property
    def hazards(self) -> tuple[Hazard, ...]:
        """What may go wrong with these integers, here or in other runtimes."""
        network = self.network
        return find_hazards(network.reference, network.plan, network.table)

    @property
    def integer_layers(self) -> tuple[int, int]:
        """Number of layers in integers, and of all layers."""
        layers = self.network.plan.layers
        return sum(layer.integer for layer in layers), len(layers)

    def save_table(self, path: str | Path) -> None:
        """Write the calibration table as JSON.

        Raises
        ------
        ConfigError
            If the model was quantized already: it has no such table.
        """
        if self.network.adopted:
            raise ConfigError(
                "the model is quantized already: there is no calibration table to write"
            )
        self.table.save(path)

    def save_qdq(
        self, path: str | Path, *, bias: BiasForm = "int32", open_batch: bool = False
    ) -> None:
        """Write the network as QDQ ONNX, whole or not at all.

        Parameters
        ----------
        bias, open_batch
            As :func:`relay_int8.export.qdq.export_qdq` takes them.
        """
        outputs = [str(var.name) for var in dataflow.results(self.network.reference["main"])]
        proto = export_qdq(self.network.mod, outputs, bias=bias, open_batch=open_batch)
        write_atomic(Path(path), proto.SerializeToString())


@checked
def quantize(
    model: Model,
    data: Source | None,
    config: QuantConfig | None = None,
    *,
    preprocessing: Preprocessing | None = None,
    plan: str | Path | None = None,
    metric: str | Metric | None = None,
    labels: ImageLabels | None = None,
    demand: Demand | None = None,
    keep_histograms: bool = False,
    progress: Progress | None = None,
) -> Quantized:
    """Return ``model`` in integers; a model that is quantized already keeps its scales.

    Parameters
    ----------
    model
        What :func:`relay_int8.load_model` gave.
    data
        Calibration images, or a table. None for a model that is quantized already (images, where
        given, then serve the comparison with FP32 alone).
    config
        Preset, method, exclusions; ``QuantConfig()`` if None.
    preprocessing
        From picture to input, for a folder of pictures.
    plan
        Plan file, as ``relay-int8 sensitivity`` writes it; what it leaves in float by choice stays.
    metric
        What the preset "auto" goes by, before decibels: a name or a function, as
        :class:`relay_int8.Demand` takes them. A function is called with outputs of some of the
        images, FP32's first, and must have a meaning for these alone. None: decibels.
    labels
        For the metric, one for each image of ``data``; None: it compares with the outputs of FP32.
    demand
        An accuracy to reach: layers stay in float as far as it needs them to. ``Quantized.met``
        says which, and what was measured.
    keep_histograms
        Whether the table that is made of images carries the counts; the integers are the same.
    progress
        Called as calibration goes on.

    Raises
    ------
    ConfigError, CoverageError, CalibrationError, RecordError
        By what is wrong: the configuration, or a metric that raises or gives no finite number; an
        operator without integers where all must be integers; images or table; the plan.
    AccuracyError
        If the demand is not met even in float.

    Examples
    --------
    >>> quantized = relay_int8.quantize(model, images.calibration)
    >>> quantized.network
    <QuantizedModel ...: 11 of 11 layers in integers (int8-asymmetric, mse-affine)>
    >>> quantized.save_table("table.json")
    """
    config = config or QuantConfig()
    find_method(config.method)
    config = config if plan is None else with_plan(config, plan, model.module)
    _check_demand(model, config, demand)
    judge = _judge(model, config, metric, labels)
    source = _opened(model, data, preprocessing)
    if judge is not None and judge.labels is not None and isinstance(source, Dataset):
        judge.require_images(sum(1 for _ in source), "the calibration data")
    trial = None
    if demand is not None:
        if judge is not None and demand.data is None:
            judge = judge.of_every_second(0)
        trial, source = _tried(model, demand, source, preprocessing)
    met: DemandMet | None = None
    if model.is_quantized:
        network = adopt(model.module, config)
    else:
        assert source is not None
        network = quantization.quantize(
            model.module,
            source,
            config,
            metric=judge,
            keep_histograms=keep_histograms,
            progress=progress,
        )
        if trial is not None:
            network, met = trial.meet(network, source, progress)
    return Quantized(
        model=model,
        network=network,
        met=met,
        images=source if isinstance(source, Dataset) else None,
        preprocessing=preprocessing,
    )


def _check_demand(model: Model, config: QuantConfig, demand: Demand | None) -> None:
    """Refuse a demand where no layer may be left in float for it."""
    if demand is None:
        return
    if model.is_quantized:
        raise ConfigError(
            f"{demand} is demanded, but the model is quantized already and keeps its own scales; "
            "give the float model"
        )
    if config.require_int8:
        raise ConfigError(
            f"int8 is required of every layer, and {demand}, for which layers are left in float; "
            "demand one of the two"
        )


def _judge(
    model: Model, config: QuantConfig, metric: str | Metric | None, labels: ImageLabels | None
) -> BoundMetric | None:
    """Return the metric with the labels; refuse it where nothing is chosen by it."""
    if metric is None:
        if labels is not None:
            raise ConfigError(
                f"labels were given, and no metric that looks at them; give {TOP1}, {MEAN_IOU} or "
                "a function as metric (those of a demand are its own: Demand.labels)"
            )
        return None
    judge = bound_metric(metric, labels)
    if model.is_quantized:
        raise ConfigError(
            f"the metric {judge.name} was given, but the model is quantized already and keeps its "
            "own scales; give the float model"
        )
    require_auto(config, judge)
    return judge


def _tried(
    model: Model,
    demand: Demand,
    source: Dataset | CalibrationTable | None,
    preprocessing: Preprocessing | None,
) -> tuple[DemandTrial, Dataset | CalibrationTable | None]:
    """Return the trial of a demand, and what is left to calibrate with."""
    if demand.data is not None:
        is_folder = isinstance(demand.data, str | Path) and Path(demand.data).is_dir()
        inputs = data_inputs(model.module)
        images = open_images(inputs, demand.data, preprocessing if is_folder else None)
        return DemandTrial(model.module, demand, images, held_out=False), source
    if not isinstance(source, Dataset):
        raise ConfigError(
            f"{demand} is demanded, and ranges come from a table: there are no images to measure "
            "on; give some, as Demand(data=...)"
        )
    require_halves(source)
    trial = DemandTrial(model.module, demand, source, held_out=True)
    return trial, every_second(source, 0)


def _opened(
    model: Model, data: Source | None, preprocessing: Preprocessing | None
) -> Dataset | CalibrationTable | None:
    """Return opened images or a table; refuse what does not go with the model."""
    if model.is_quantized and isinstance(data, CalibrationTable):
        raise ConfigError(
            "the model is quantized already and keeps its own scales; leave the table out"
        )
    if data is None and not model.is_quantized:
        raise ConfigError(
            "the model is in float: give calibration images or a calibration table, as "
            "quantize(data=...)"
        )
    if data is None or isinstance(data, CalibrationTable):
        return data
    return open_images(data_inputs(model.module), data, preprocessing)
