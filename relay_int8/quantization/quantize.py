"""The main job up to the target: a float network and data in, a quantized model out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import tvm
from tvm import IRModule

from relay_int8.calibration.calibrate import calibrate
from relay_int8.calibration.channels import observed_channels
from relay_int8.calibration.methods import find_method
from relay_int8.calibration.network import CalibrationNetwork
from relay_int8.calibration.observe import Progress
from relay_int8.calibration.side_by_side import by_all_cores
from relay_int8.calibration.table import CalibrationTable
from relay_int8.compiler.kernel_library import sharing_kernels
from relay_int8.compiler.passes.qdq.correct_bias import CorrectBias
from relay_int8.compiler.passes.qdq.insert_qdq import InsertQdq
from relay_int8.compiler.passes.qdq.replace_weights import ReplaceWeights
from relay_int8.compiler.pipeline import normalized
from relay_int8.data.dataset import Dataset
from relay_int8.errors import ConfigError
from relay_int8.graph.batch import of_one_image, with_batch
from relay_int8.graph.digest import Identity, digest, float_digest, tensor_names
from relay_int8.graph.groups import find_groups
from relay_int8.graph.layers import averaged_tensors
from relay_int8.graph.plan import Plan
from relay_int8.graph.readings import keeping_readings
from relay_int8.graph.requantize import with_requantize
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import AUTO, QuantConfig
from relay_int8.quantization.fit_table import fitted_table, with_means
from relay_int8.quantization.functions import read_functions
from relay_int8.quantization.kept_float.rules import magnified_layers
from relay_int8.quantization.metric import BoundMetric
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.quantization.refine.auto import SearchResult, choose_config
from relay_int8.quantization.refine.equalize import equalize
from relay_int8.quantization.refine.factors import scalable_channels, with_factors
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.programs import sharing_programs
from relay_int8.quantization.refine.reconstruct import reconstruct
from relay_int8.quantization.refine.simulation import Simulation
from relay_int8.quantization.refine.thresholds import HISTOGRAMS, tuned_thresholds
from relay_int8.quantization.refusals import out_of_range, plan_without, require_integers
from schedules.targets import native_target


@sharing_kernels()
@sharing_programs()
@keeping_readings()
def quantize(
    mod: IRModule,
    data: Dataset | CalibrationTable,
    config: QuantConfig | None = None,
    *,
    metric: BoundMetric | None = None,
    keep_histograms: bool = False,
    progress: Progress | None = None,
) -> QuantizedModel:
    """Return ``mod`` quantized.

    Parameters
    ----------
    mod
        Imported float module.
    data
        Calibration images, or a table: made before, or of another tool or the user, which is
        fitted to the network (:func:`relay_int8.calibration.formats.fit`).
    config
        Preset, method, exclusions; ``QuantConfig()`` if None.
    metric
        What the preset "auto" goes by, with labels of all of ``data`` or none; None: decibels.
    keep_histograms
        Whether the table that is made of images carries the counts; the integers are the same.
    progress
        Called after every calibration image.

    Raises
    ------
    CoverageError
        With ``config.require_int8``, if a layer that was not excluded stays in float.
    CalibrationError
        If data or table do not fit the network.
    ConfigError
        If the metric fails, or there is one and the preset is another.
    """
    config = config or QuantConfig()
    require_auto(config, metric)
    reference, declined = normalized(mod)
    model_hash = float_digest(reference)
    search: SearchResult | None = None
    if isinstance(data, CalibrationTable):
        require_ranges_alone(config, "a calibration table was given; give the images")
    else:
        if config.preset == AUTO:
            search = choose_config(reference, data, config, progress, metric)
            config = search.config
        reference = equalize(reference, data, config.applied.equalization)
    plan = annotate(reference, config)
    table = (
        fitted_table(data, plan, reference, tensor_names(mod))
        if isinstance(data, CalibrationTable)
        else _calibrated(reference, plan, data, config, keep_histograms, progress)
    )
    if table.factors:
        unscaled, reference = reference, with_factors(reference, table.factors)
        if tensor_names(reference) != tensor_names(unscaled):  # a norm may be written twice
            plan = annotate(reference, config)
            table.check(plan.schemes)
    config = with_means(config, table, averaged_tensors(reference["main"], plan))
    plan, corrected = _in_range(reference, plan, table, config, data, progress)
    require_integers(plan, config)
    quantized = _with_pairs(corrected, plan, table, config)
    return QuantizedModel(
        mod=quantized,
        reference=reference,
        plan=plan,
        table=table,
        digest=digest(quantized),
        model_hash=model_hash,
        config=config,
        choices=search.choices if search else (),
        metric_scores=search.scores if search else None,
        declined=declined,
        table_given=isinstance(data, CalibrationTable),
    )


def planned_with_floats(
    quantized: QuantizedModel, layers: Collection[str]
) -> tuple[QuantConfig, Plan]:
    """Return configuration and plan of a quantized model with more layers in float, by name.

    What stays in integers keeps the parameters of its tensors.
    """
    # By their first operators: the name of a layer that ends in a residual addition excludes that
    # addition alone, and leaves the convolution in integers.
    roots = [layer.root for layer in quantized.plan.layers if layer.name in layers]
    config = replace(quantized.config, exclude=(*quantized.config.exclude, *roots))
    refused = {
        layer.name: layer.reason
        for layer in quantized.plan.layers
        if layer.reason and layer.cause == "unsupported"
    }
    return config, plan_without(refused, quantized.plan, quantized.reference, config)


def leave_in_float(
    quantized: QuantizedModel,
    layers: Collection[str],
    data: Dataset | CalibrationTable,
) -> QuantizedModel:
    """Return a quantized model with more layers in float; tensors keep their ranges.

    Biases and weights that tools chose are chosen anew, as they make up for the error of the layers
    before them.

    Parameters
    ----------
    quantized
        What :func:`quantize` returned.
    layers
        Names of the layers.
    data
        What it was quantized with.
    """
    config, plan = planned_with_floats(quantized, layers)
    reference = quantized.reference
    plan, corrected = _in_range(reference, plan, quantized.table, config, data, None)
    entries = {name: quantized.table.entries[name] for name in plan.calibrated}
    mod = _with_pairs(corrected, plan, quantized.table, config)
    return replace(
        quantized,
        mod=mod,
        plan=plan,
        table=replace(quantized.table, entries=entries),
        digest=digest(mod),
        config=config,
    )


def _in_range(
    reference: IRModule,
    plan: Plan,
    table: CalibrationTable,
    config: QuantConfig,
    data: Dataset | CalibrationTable,
    progress: Progress | None,
) -> tuple[Plan, IRModule]:
    """Return the plan without layers that have no integers, and the network to be quantized."""
    refused: dict[str, str] = {}
    while True:
        params = table.qparams(plan.calibrated)
        corrected = _corrected(reference, plan, table, config, data, progress)
        found = _spoiled(reference, plan, table, config) | out_of_range(corrected, plan, params)
        if not found:
            return plan, corrected
        refused |= found
        plan = plan_without(refused, plan, reference, config)


def _spoiled(
    reference: IRModule, plan: Plan, table: CalibrationTable, config: QuantConfig
) -> dict[str, str]:
    """Return the layers whose rounding others would magnify; none where integers are required."""
    if config.require_int8:
        return {}
    groups = find_groups(reference["main"], separate=plan.additions)
    return magnified_layers(groups, plan, table)


def _with_pairs(
    corrected: IRModule, plan: Plan, table: CalibrationTable, config: QuantConfig
) -> IRModule:
    """Return the QDQ module."""
    params = table.qparams(plan.calibrated)
    quantized = tvm.transform.Sequential([InsertQdq(plan, params)])(corrected)
    return with_requantize(quantized, config.requantize)


def _calibrated(
    reference: IRModule,
    plan: Plan,
    data: Dataset,
    config: QuantConfig,
    keep_histograms: bool,
    progress: Progress | None,
) -> CalibrationTable:
    single = of_one_image(reference)
    tools = config.applied
    means = averaged_tensors(reference["main"], plan) if tools.correction == "analytic" else []
    tuned = tools.thresholds == "output-error"
    method = HISTOGRAMS if tuned else find_method(config.method)
    scalable = scalable_channels(single, plan, config)
    network = CalibrationNetwork(
        single, plan.schemes, means, native_target(), method, observed_channels(scalable, method)
    )
    table = calibrate(
        by_all_cores(network),
        plan.schemes,
        data,
        method=method,
        functions=read_functions(reference["main"], plan),
        scalable=scalable,
        model=Identity.of(single),
        keep_histograms=tuned or keep_histograms,
        progress=progress,
    )
    if not tuned:
        return table
    scaled = with_factors(single, table.factors)
    best = tuned_thresholds(NumpyNetwork(scaled), plan, table, data, progress=progress)
    return best.with_histograms_of(table) if keep_histograms else best


def _corrected(
    reference: IRModule,
    plan: Plan,
    table: CalibrationTable,
    config: QuantConfig,
    data: Dataset | CalibrationTable,
    progress: Progress | None,
) -> IRModule:
    """Return the float network with the weights and biases that are to be quantized."""
    tools = config.applied
    params = table.qparams(plan.calibrated)
    if tools.correction == "none":
        return reference
    if tools.correction == "analytic":
        return tvm.transform.Sequential([CorrectBias(plan, params, table.means)])(reference)
    assert not isinstance(data, CalibrationTable)
    separate = plan.additions
    network = NumpyNetwork(with_batch(reference, 1), separate)
    simulation = Simulation(plan=plan, params=params)
    reconstruction = reconstruct(
        network, simulation, data, rounding=tools.rounding, progress=progress
    )
    weights = {name: w.reals(network.layers[name]) for name, w in reconstruction.weights.items()}
    replaced = ReplaceWeights(weights, reconstruction.biases, separate)
    return tvm.transform.Sequential([replaced])(reference)


def require_auto(config: QuantConfig, metric: BoundMetric | None) -> None:
    """Raise a ConfigError if there is a metric, and a preset that tries nothing."""
    if metric is not None and config.preset != AUTO:
        raise ConfigError(
            f"the metric {metric.name} was given, and preset {config.preset} searches nothing; "
            f"leave it out, or choose preset {AUTO}"
        )


def require_ranges_alone(config: QuantConfig, instead: str) -> None:
    """Raise a ConfigError if ranges are not enough; ``instead`` says why they must be."""
    if config.preset == AUTO or config.applied.need_images:
        wanted = f"preset {config.preset}" if config.tools is None else str(config.tools)
        raise ConfigError(
            f"{wanted} looks at calibration images, and {instead}, or choose a preset and tools "
            "that need ranges alone"
        )
