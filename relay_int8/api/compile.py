"""From a model file to an artifact and its report: every stage, in order, in one call."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from relay_int8.api.build import Artifact, BuildOptions, build, library_bytes, resolve_options
from relay_int8.api.clock import StageClock
from relay_int8.api.demand import Demand
from relay_int8.api.measure import measure, require_sensitivity_inputs
from relay_int8.api.model import Model, load_model
from relay_int8.api.quantize import Source, quantize
from relay_int8.argument_types import checked
from relay_int8.calibration.methods import find_method
from relay_int8.calibration.observe import Progress
from relay_int8.calibration.table import CalibrationTable
from relay_int8.compiler.kernel_library import sharing_kernels
from relay_int8.compiler.link import cross_linker
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.errors import ConfigError, Int8Error
from relay_int8.files import require_outputs, require_space
from relay_int8.frontend.options import ImportOptions
from relay_int8.messages import of_system
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.metric import ImageLabels, Metric
from relay_int8.report.contents import Report
from relay_int8.report.hazards import require_calibrated
from relay_int8.report.html_page import is_page, write_report_page


@checked
@sharing_kernels()
def compile_model(
    model: str | Path,
    data: Source | None,
    output: str | Path,
    *,
    imports: ImportOptions | None = None,
    config: QuantConfig | None = None,
    options: BuildOptions | None = None,
    preprocessing: Preprocessing | None = None,
    plan: str | Path | None = None,
    metric: str | Metric | None = None,
    labels: ImageLabels | None = None,
    demand: Demand | None = None,
    samples: int = 8,
    sensitivity: int = 0,
    report: str | Path | None = None,
    save_table: str | Path | None = None,
    qdq: str | Path | None = None,
    strict: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Quantize a model, compile it and write the artifact.

    Parameters
    ----------
    model
        File of a format that :func:`relay_int8.load_model` reads.
    data, config, preprocessing, plan, metric, labels, demand
        As :func:`relay_int8.quantize` takes them.
    output
        The artifact to write.
    imports
        What the model file leaves open.
    options
        Target, threads, tuning records, form of the inputs: as :func:`relay_int8.build` takes them.
    samples, sensitivity
        Images to compare and to measure on, as :func:`relay_int8.measure` takes them.
    report
        Where to write the report, if anywhere: as JSON, or as a page if the name ends in ".html".
        The table holds the counts then, for the page's histograms.
    save_table
        Where to write the calibration table as JSON, if anywhere.
    qdq
        Where to write the quantized network as QDQ ONNX, if anywhere.
    strict
        Make it an error that a tensor has one value on all calibration images, values that are not
        finite or no range: hazards otherwise, since such images may be meant.
    progress
        Called as stages go on.

    Raises
    ------
    Int8Error
        One of its kinds, by what is wrong. No artifact is written then, unless what is written
        beside it is all that fails: the message says so.

    Examples
    --------
    >>> report = relay_int8.compile_model(
    ...     "digits.onnx",
    ...     images.calibration[:20],
    ...     "digits.ri8",
    ...     imports=relay_int8.ImportOptions(batch=1),
    ...     samples=0,
    ... )
    >>> report.coverage["int8_layers"]
    11
    """
    config, imports = config or QuantConfig(), imports or ImportOptions()
    find_method(config.method)
    resolved = resolve_options(options)
    cross_linker(resolved.target)  # before the work: without one it would come to nothing
    imports = _with_batch(imports, resolved.options)
    require_outputs(output, report, save_table, qdq, read=(model, imports.params, plan))
    clock = StageClock(progress)

    with clock.stage("import"):
        imported = load_model(model, imports)
    _check_goals(imported, data, sensitivity, save_table)
    require_space(Path(output).absolute().parent, library_bytes(imported) // 2)
    with clock.stage("quantize"):
        quantized = quantize(
            imported,
            data,
            config,
            preprocessing=preprocessing,
            plan=plan,
            metric=metric,
            labels=labels,
            demand=demand,
            keep_histograms=is_page(report),
            progress=clock.step,
        )
    if strict:
        require_calibrated(quantized.hazards)
    with clock.stage("build"):
        artifact = build(quantized, resolved)
    result = measure(
        artifact,
        samples=samples,
        sensitivity=sensitivity,
        threads=resolved.options.threads,
        progress=progress,
    )
    result = dataclasses.replace(result, seconds={**clock.seconds, **result.seconds})
    if qdq is not None:  # other runtimes get the network too, with what is a hazard there alone
        result = dataclasses.replace(result, hazards=quantized.hazards)
    artifact.save(output)
    try:
        _write_beside(result, artifact, report, save_table, qdq)
    except (Int8Error, OSError) as error:
        said = of_system(error) if isinstance(error, OSError) else error
        raise ConfigError(f"{said}; {output} is written") from error
    return result


def _with_batch(imports: ImportOptions, options: BuildOptions) -> ImportOptions:
    """Return options that import batch 1 for an open one; refuse two answers to the batch."""
    if options.max_batch is None:
        return imports
    if imports.batch is not None:
        raise ConfigError(
            f"batch {imports.batch} and batches 1 to {options.max_batch} are both asked for; "
            "choose one"
        )
    return dataclasses.replace(imports, batch=1)


def _check_goals(
    model: Model, data: Source | None, sensitivity: int, save_table: str | Path | None
) -> None:
    """Refuse results that such a model, or such a source of ranges, cannot give."""
    has_images = data is not None and not isinstance(data, CalibrationTable)
    require_sensitivity_inputs(sensitivity, model.is_quantized, has_images)
    if save_table is not None and model.is_quantized:
        raise ConfigError("the model is quantized already: there is no calibration table to write")


def _write_beside(
    result: Report,
    artifact: Artifact,
    report: str | Path | None,
    save_table: str | Path | None,
    qdq: str | Path | None,
) -> None:
    """Write what was asked for beside the artifact."""
    if save_table is not None:
        artifact.quantized.save_table(save_table)
    if qdq is not None:
        artifact.quantized.save_qdq(qdq)
    if report is not None and is_page(report):
        write_report_page(result, artifact.quantized.table, report)
    elif report is not None:
        result.save(report)
