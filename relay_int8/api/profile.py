"""Where the time of a run goes, on this computer's CPU."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from relay_int8.argument_types import checked
from relay_int8.compiler.run_recorder import record_runs
from relay_int8.errors import ConfigError
from relay_int8.report.profile import Profile, Rates
from relay_int8.report.profile_parts import footprint_bytes, profile_of
from relay_int8.runtime.artifact import extracted
from relay_int8.runtime.inputs import Inputs
from relay_int8.runtime.kernel_entry import KernelEntry
from relay_int8.runtime.manifest import Manifest
from relay_int8.runtime.profiling import random_inputs
from schedules.bandwidth import read_bandwidth
from schedules.cpu.dot import F32, PLAIN
from schedules.peak import best_dot, peak
from schedules.targets import native_target

LEAST_BYTES, MOST_BYTES, STEP = 1 << 16, 1 << 28, 4  # buffers whose bandwidth is measured


@checked
def profile(
    path: str | Path,
    *,
    threads: int | None = None,
    inputs: Inputs | None = None,
    batch: int = 1,
    repeats: int = 20,
    warmup: int = 3,
) -> Profile:
    """Return where the time of a run goes: products, waiting, memory, and what is between kernels.

    The parts add up to the whole run. What they mean, and what they cannot see, is said in
    :mod:`relay_int8.report.profile_parts`. The peak of the CPU's instruction and its bandwidth are
    measured first, which takes some seconds and the compiler.

    Parameters
    ----------
    path
        Artifact that runs on the CPU of this computer.
    threads
        As :func:`relay_int8.load` takes them.
    inputs
        What is run; random inputs of ``batch`` images, always the same, if None.
    batch
        Images of random inputs, where the artifact's batch is open.
    repeats
        Runs that are recorded; the half of them around the median counts.
    warmup
        Runs before.

    Raises
    ------
    ArtifactError
        As :func:`relay_int8.load` does, or if the inputs are not those of the artifact.
    ConfigError
        If the artifact runs on a GPU or its batch is not open, or nothing is to be recorded.

    Examples
    --------
    >>> profile = relay_int8.profile("digits.ri8", threads=1)
    >>> profile
    <Profile on 1 threads: ... ms = products ..., waiting ..., memory ..., other ..., between ...>
    """
    if repeats < 1:
        raise ConfigError(f"{repeats} runs to record; at least 1 is needed")
    with extracted(path) as contents:
        manifest = contents.manifest
        _check(path, manifest, batch)
        module = contents.module(threads=threads)
        # The same library, so that the variable in it is the one that its kernels read.
        symbols = ctypes.CDLL(str(contents.library))
    inputs = random_inputs(manifest.inputs, batch) if inputs is None else inputs
    arguments, count = module.arguments(inputs), module.threads
    images = int(arguments[0].shape[0]) if arguments and arguments[0].shape else 1
    entries = manifest.kernels
    if manifest.max_batch is not None:  # what they say is of one image
        entries = tuple(entry.of_images(images) for entry in entries)
    rates = _rates(entries, count)
    undisturbed_ms = float(np.median(module.time(inputs, repeats, warmup=warmup)))
    recording = record_runs(
        module.machine,
        symbols,
        arguments,
        threads=count,
        runs=repeats,
        main=module.main,
        listed=module.noted,
    )
    return profile_of(
        recording,
        entries,
        rates,
        threads=count,
        batch=images,
        undisturbed_ms=undisturbed_ms,
    )


def _check(path: str | Path, manifest: Manifest, batch: int) -> None:
    if manifest.max_batch is None and batch != 1:
        raise ConfigError(
            f"{path}: was built for one batch, batch {batch} is asked for; leave it out, or build "
            "the artifact with max_batch"
        )
    if manifest.gpu:
        raise ConfigError(
            f"{path}: runs on a GPU, whose time a profile cannot take apart: there is no clock of "
            "its workers, and its peak and bandwidth are not measured; bench times whole runs, "
            "Module.profile the kernels of an artifact built with "
            "BuildOptions(cuda_graphs=False)"
        )


def _rates(entries: Sequence[KernelEntry], threads: int) -> Rates:
    """Measure this computer: peaks of one core, bandwidth of ``threads`` as far as it is needed."""
    target = native_target()
    dot = best_dot(target) or PLAIN
    peaks = {"int8": peak(dot, target), "float32": peak(F32, target)}
    sizes = _sizes(footprint_bytes(entries))
    bandwidths = {size: read_bandwidth(size, threads, target) for size in sizes}
    return Rates(instruction=dot.name, peak_macs_s=peaks, bandwidths=bandwidths)


def _sizes(most_bytes: int) -> list[int]:
    """Return sizes of buffers from the least on, up to one that holds ``most_bytes``."""
    sizes = [LEAST_BYTES]
    while sizes[-1] < min(most_bytes, MOST_BYTES):
        sizes.append(sizes[-1] * STEP)
    return sizes
