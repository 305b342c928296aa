"""The fourth stage: what a built network loses in accuracy, and how fast it is here."""

from __future__ import annotations

import dataclasses
import tempfile
from pathlib import Path

from relay_int8.api.build import Artifact
from relay_int8.api.clock import StageClock
from relay_int8.argument_types import checked
from relay_int8.calibration.observe import Progress
from relay_int8.compiler.kernel_library import share_library, sharing_kernels
from relay_int8.errors import ConfigError
from relay_int8.report.assembly import with_fidelity, with_sensitivity, with_times
from relay_int8.report.contents import Report
from relay_int8.runtime.artifact import LIBRARY
from relay_int8.runtime.module import refusal


@checked
@sharing_kernels()
def measure(
    artifact: Artifact,
    *,
    samples: int = 8,
    sensitivity: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Return the report of a built network with what can be measured on this computer.

    Parameters
    ----------
    artifact
        What :func:`relay_int8.build` gave.
    samples
        Calibration images to compare every layer with FP32 on; 0 leaves the comparison out, as
        does a network that was made without images.
    sensitivity
        Images to measure each layer's sensitivity on; 0 leaves it out.
    threads
        Threads to time it with; as many as the runtime of this process has, if None. An artifact
        that this computer cannot run is not timed.
    progress
        Called as stages go on.

    Raises
    ------
    ConfigError
        If sensitivity is asked for and there are no images, or the model was quantized already.

    Examples
    --------
    >>> report = relay_int8.measure(artifact, samples=2)
    >>> report.coverage["int8_layers"], report.outputs[0].snr_db > 30
    (11, True)
    """
    quantized, report = artifact.quantized, artifact.report
    network, images = quantized.network, quantized.images
    clock = StageClock(progress)
    require_sensitivity_inputs(sensitivity, network.adopted, images is not None)
    if sensitivity and images is not None:
        with clock.stage("sensitivity"):
            report = with_sensitivity(report, network, images, sensitivity, progress)
    with tempfile.TemporaryDirectory() as folder:
        trial = Path(folder) / "network.ri8"
        with clock.stage("export"):
            artifact.save(trial)
        is_runnable = not refusal(artifact.manifest)
        if is_runnable and artifact.built.gpu is None:
            file = Path(folder) / LIBRARY
            file.write_bytes(artifact.library)
            share_library(artifact.built.executable, file)
        if samples and images is not None:
            with clock.stage("compare"):
                report = with_fidelity(report, network, images, samples, progress)
        if is_runnable:
            with clock.stage("measure"):
                compared = bool(samples) and images is not None
                reference = network.reference if compared else None
                report = with_times(report, artifact.built, trial, threads, reference)
        return dataclasses.replace(
            report, artifact_bytes=trial.stat().st_size, seconds=clock.seconds
        )


def require_sensitivity_inputs(sensitivity: int, adopted: bool, has_images: bool) -> None:
    """Refuse to measure sensitivity where nothing can be quantized anew.

    Raises
    ------
    ConfigError
        If it is asked for of a model that was quantized already, or without images.
    """
    if sensitivity and (adopted or not has_images):
        raise ConfigError(
            "sensitivity quantizes a float model anew on images; give both, or leave it out"
        )
