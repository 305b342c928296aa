"""``--run``: the systems take turns on a device, each in a process of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np

from benchmarks import apart
from benchmarks.gpu.bundle import PEAKS, Bundle, Entry, Kernel, digest
from benchmarks.gpu.device import Kind, open_device
from benchmarks.gpu.measurement import GpuMeasurement
from benchmarks.gpu.peaks import Peaks
from benchmarks.gpu.pictures import pictures
from benchmarks.gpu.roofline import Layer, layer
from benchmarks.gpu.systems import SYSTEMS
from benchmarks.rounds import Rules, cosine, take_rounds
from benchmarks.turns import Start, racers
from schedules.layout import LAYOUTS

Say = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class GpuRules(Rules):
    """Rules of a comparison on a device; ``layers``: whether kernels are timed one by one."""

    layers: bool = True


def survey(bundle: Bundle) -> tuple[dict[str, Any], Peaks, Peaks]:
    """Return what the device is, its measured peaks, and those of its data sheet."""
    file = bundle.folder / PEAKS
    return apart.call(_survey, bundle.kind, file.read_bytes() if file.exists() else b"")


def compare_systems(
    bundle: Bundle, entry: Entry, peaks: Peaks, rules: GpuRules, say: Say
) -> GpuMeasurement:
    """Return what one network of a build does."""
    say(f"{entry.network}, batch {entry.batch}: load")
    images, expected = pictures(entry.batch, entry.image_size), bundle.reference(entry)
    failures: dict[str, str] = {}
    wrong, checked, layers = _inspect(bundle, entry, images, peaks, rules, failures, say)
    starts, missing = _starts(bundle, entry, images, rules)
    failures |= missing
    say(f"{entry.network}, batch {entry.batch}: {rules.rounds} rounds of {len(starts)} systems")
    with racers(starts) as (running, absent):
        logits = {key: racer.logits for key, racer in running.items()}
        turns, ended = take_rounds(running, rules)
    failures |= absent | ended
    for key in logits:
        if SYSTEMS[key].is_own and (fault := _fault(logits[key], expected)):
            wrong[key] = fault
    return GpuMeasurement(
        network=entry.network,
        image_size=entry.image_size,
        batch=entry.batch,
        macs=entry.macs,
        digest=entry.digest,
        target=entry.target,
        peaks=peaks,
        turns=turns,
        cosines={key: cosine(found, expected) for key, found in logits.items()},
        wrong=wrong,
        checked=checked,
        failures=failures,
        layers=layers,
    )


def _survey(kind: Kind, image: bytes) -> tuple[dict[str, Any], Peaks, Peaks]:
    device = open_device(kind)
    measured, sheet = device.peaks(image)
    return {**device.facts(), **device.reading()}, measured, sheet


def _inspect(
    bundle: Bundle,
    entry: Entry,
    images: np.ndarray,
    peaks: Peaks,
    rules: GpuRules,
    failures: dict[str, str],
    say: Say,
) -> tuple[dict[str, str], int, tuple[Layer, ...]]:
    """Compare what each kernel writes, where it is known, and time each by itself."""
    artifact = bundle.artifact(entry, "calls", rules.folder)
    where = f"{entry.network}, batch {entry.batch}"
    compared, launches, failure = None, None, ""
    if any(kernel.expected for kernel in entry.kernels):
        say(f"{where}: compare every tensor with the oracle's")
        compared, failure = apart.attempt(_compare, artifact, images, bundle.kind, entry.kernels)
    if rules.layers and not failure:
        say(f"{where}: time {len(entry.kernels)} kernels")
        launches, failure = apart.attempt(_time_kernels, artifact, images, bundle.kind)
    if failure:
        failures["kernel by kernel"] = failure
    wrong, checked = compared or ({}, 0)
    if not launches:
        return wrong, checked, ()
    if [name for name, _ in launches] != [kernel.function for kernel in entry.kernels]:
        wrong["kernels"] = f"{len(launches)} ran, not the {len(entry.kernels)} that were built"
        return wrong, checked, ()
    layers = (
        layer(kernel, seconds, peaks)
        for kernel, (_, seconds) in zip(entry.kernels, launches, strict=True)
    )
    return wrong, checked, tuple(layers)


def _compare(
    artifact: Path, images: np.ndarray, kind: Kind, kernels: tuple[Kernel, ...]
) -> tuple[dict[str, str], int]:
    """Return which kernels write other integers than the oracle, and how many were compared."""
    from benchmarks.gpu.network import Network

    wrong: dict[str, str] = {}
    checked = 0

    def _see(place: int, name: str, y: np.ndarray) -> None:
        nonlocal checked
        kernel = kernels[place]
        if not kernel.expected:
            return
        checked += 1
        logical = LAYOUTS[kernel.layout].unpack(y, kernel.shape)
        if digest(logical) != kernel.expected:
            wrong[name] = f"{kernel.tensor}: other integers than the NumPy oracle's"

    Network(artifact, images, kind).watch(_see)
    return wrong, checked


def _time_kernels(artifact: Path, images: np.ndarray, kind: Kind) -> list[tuple[str, float]]:
    from benchmarks.gpu.network import Network

    return [(one.function, one.seconds) for one in Network(artifact, images, kind).launches()]


def _starts(
    bundle: Bundle, entry: Entry, images: np.ndarray, rules: GpuRules
) -> tuple[dict[str, Start], dict[str, str]]:
    """Return what each system starts from, and why others cannot."""
    starts: dict[str, Start] = {}
    failures: dict[str, str] = {}
    cores = tuple(sorted(os.sched_getaffinity(0)))
    for key in rules.systems:
        system = dataclasses.replace(SYSTEMS[key], kind=bundle.kind)
        if reason := system.missing():
            failures[key] = reason
            continue
        file = _file(bundle, entry, system.source, rules.folder)
        starts[key] = (cast(Any, system), file, images, len(cores), cores)
    return starts, failures


def _file(bundle: Bundle, entry: Entry, source: str, folder: Path) -> Path:
    if source != "onnx":
        return bundle.artifact(entry, source, folder)
    file = folder / f"{entry.name}-{bundle.facts.get('depth', 'full')}.onnx"
    if not file.exists():
        apart.call(_write_float, entry.network, entry.image_size, entry.batch, bundle.facts, file)
    return file


def _write_float(
    network: str, image_size: int, batch: int, facts: Mapping[str, str], file: Path
) -> None:
    from benchmarks import zoo

    depth = cast(zoo.Depth, facts.get("depth", "full"))
    model = zoo.build(network, image_size=image_size, batch=batch, depth=depth)
    with contextlib.redirect_stdout(io.StringIO()):
        file.write_bytes(model.SerializeToString())


def _fault(found: np.ndarray, expected: np.ndarray) -> str:
    """Say how logits differ from those that were computed at the build, or nothing."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"logits {found.shape} {found.dtype}, not {expected.shape} {expected.dtype}"
    different = np.count_nonzero(found.view(np.uint32) != expected.view(np.uint32))
    return f"{different} of {found.size} logits differ" if different else ""


def systems_for(wanted: tuple[str, ...], kind: Kind) -> Iterator[str]:
    """Yield the systems of ``wanted`` that have networks for devices of ``kind``."""
    for key in wanted:
        if kind == "cuda" or key != "tensorrt-int8":
            yield key
