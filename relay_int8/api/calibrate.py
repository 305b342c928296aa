"""From a model file and images to a calibration table: resumable, on one process or many."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tvm import IRModule

from relay_int8.api.model import load_model
from relay_int8.argument_types import checked
from relay_int8.calibration.calibrate import calibrate
from relay_int8.calibration.channels import ScalableChannels, observed_channels
from relay_int8.calibration.checkpoint import Checkpoint
from relay_int8.calibration.mapper import Mapper
from relay_int8.calibration.methods import find_method
from relay_int8.calibration.network import CalibrationRecipe
from relay_int8.calibration.observe import Progress
from relay_int8.calibration.side_by_side import by_all_cores
from relay_int8.calibration.table import CalibrationTable
from relay_int8.compiler.pipeline import normalize
from relay_int8.data.dataset import data_digest
from relay_int8.data.images import open_images
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.data.sources import Batches
from relay_int8.errors import ConfigError
from relay_int8.files import require_outputs
from relay_int8.frontend.options import ImportOptions
from relay_int8.graph.batch import of_one_image
from relay_int8.graph.digest import Identity, digest
from relay_int8.graph.interface import open_inputs
from relay_int8.graph.layers import averaged_tensors
from relay_int8.graph.plan import Plan
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.functions import read_functions
from relay_int8.quantization.quantize import require_ranges_alone
from relay_int8.quantization.refine.factors import scalable_channels
from relay_int8.version import __version__
from schedules.targets import native_target, target_config


@checked
def calibrate_model(
    model: str | Path,
    data: str | Path | Batches,
    output: str | Path,
    *,
    imports: ImportOptions | None = None,
    config: QuantConfig | None = None,
    preprocessing: Preprocessing | None = None,
    keep_histograms: bool = False,
    resume: bool = False,
    seconds: float = 10.0,
    scheduler: str | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> CalibrationTable:
    """Calibrate a model and write the table; ``quantize`` takes it from there.

    While it runs, ``OUTPUT.partial`` holds what was learned so far; it is removed at the end.

    Parameters
    ----------
    model, imports, config, preprocessing
        As :func:`relay_int8.compile_model` takes them.
    data
        Images; a file or a folder where it is to be resumed.
    output
        The table to write, as JSON.
    keep_histograms
        Whether the table carries the counts behind each range.
    resume
        Go on from ``OUTPUT.partial``, where there is one.
    seconds
        The least time between two writes of it.
    scheduler
        Address of a Dask scheduler whose workers share the work.
    workers
        So many processes of this computer share it; None: this process does it.
    progress
        Called as images are done.

    Raises
    ------
    Int8Error
        One of its kinds, by what is wrong.

    Examples
    --------
    >>> options = relay_int8.ImportOptions(batch=1)
    >>> table = relay_int8.calibrate_model(
    ...     "digits.onnx", images.calibration[:20], "table.json", imports=options
    ... )
    >>> table.images
    20
    """
    config, imports = config or QuantConfig(), imports or ImportOptions()
    require_outputs(output, read=(model, imports.params))
    require_ranges_alone(
        config,
        "a table holds ranges alone; give the images to quantize, whose "
        "compile_model(save_table=...) writes the ranges that its tools find",
    )
    reference = normalize()(load_model(model, imports).module)
    images = open_images(open_inputs(reference), data, preprocessing)
    plan = annotate(reference, config)
    scalable = scalable_channels(reference, plan, config)
    recipe = _recipe(reference, plan, config, scalable)
    settings = [_identity(recipe), keep_histograms, preprocessing and preprocessing.to_dict()]
    checkpoint = _checkpoint(Path(output), data, settings, resume, seconds)
    with _runner(recipe, scheduler, workers) as runner:
        table = calibrate(
            runner,
            recipe.schemes,
            images,
            method=config.method,
            functions=read_functions(reference["main"], plan),
            scalable=scalable,
            model=Identity.of(recipe.mod),
            keep_histograms=keep_histograms,
            checkpoint=checkpoint,
            progress=progress,
        )
    table.save(output)
    return table


def _recipe(
    reference: IRModule, plan: Plan, config: QuantConfig, scalable: Sequence[ScalableChannels]
) -> CalibrationRecipe:
    method = find_method(config.method)
    return CalibrationRecipe(
        of_one_image(reference),
        plan.schemes,
        averaged_tensors(reference["main"], plan),
        native_target(),
        method,
        observed_channels(scalable, method),
    )


def _identity(recipe: CalibrationRecipe) -> list[object]:
    """Return what the bits of statistics depend on, besides the data."""
    return [
        __version__,
        digest(recipe.mod),
        str(recipe.method),
        recipe.schemes,
        recipe.means,
        recipe.scalable,
        target_config(recipe.target),
    ]


def _checkpoint(
    output: Path, data: str | Path | Batches, settings: list[object], resume: bool, seconds: float
) -> Checkpoint | None:
    if not isinstance(data, str | Path):
        if resume:
            raise ConfigError("images in memory cannot be told again; resume with a file or folder")
        return None
    text = json.dumps([*settings, data_digest(Path(data))])
    key = hashlib.sha256(text.encode()).hexdigest()
    return Checkpoint(output.with_name(f"{output.name}.partial"), key, seconds, resume)


@contextmanager
def _runner(
    recipe: CalibrationRecipe, scheduler: str | None, workers: int | None
) -> Iterator[Mapper]:
    if scheduler is not None and workers is not None:
        raise ConfigError(
            "give calibrate_model(scheduler=...) or calibrate_model(workers=...): a scheduler has "
            "workers of its own"
        )
    if scheduler is None and workers is None:
        yield by_all_cores(recipe())
        return
    from relay_int8.calibration.cluster import DaskMapper, connected

    with connected(scheduler, workers) as client:
        yield DaskMapper(client, recipe)
