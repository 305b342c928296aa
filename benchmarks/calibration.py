"""What calibration costs: time and memory, beside ONNX Runtime's entropy calibrator and NNCF.

Every system gets the same images from the same file, one at a time, in a process of its own, and
uses the threads it wants. ``seconds`` is from an imported model to the result: of relay-int8 a
table, of ONNX Runtime its ranges, of NNCF a quantized model (it has no calibration alone). The
threshold search is timed apart, over all tensors of the network.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import logging
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from types import MappingProxyType

import numpy as np
import onnx

from benchmarks import zoo
from benchmarks.subject import INPUT, Subject, subject
from relay_int8.machine.host import cpu_name

KIB, MIB = 2**10, 2**20
AT_ONCE = 8  # images whose activations ONNX Runtime keeps: some 100 MB each of ResNet-50


@dataclass(frozen=True, kw_only=True)
class Cost:
    """What one system took.

    ``seconds`` includes compiling the float network; ``search_seconds``, where it can be told
    apart, is the part of it that chose thresholds. ``peak_mib`` is the largest resident size of the
    process (of relay-int8, the mapped file of images counts), ``idle_mib`` that before it
    calibrated.
    """

    seconds: float
    peak_mib: float
    idle_mib: float
    search_seconds: float | None = None


def calibrated_by(method: str) -> Callable[[Path, Path], float]:
    """Return what calibrates by ``method`` and returns the seconds of its threshold search."""

    def _run(model: Path, data: Path) -> float:
        from relay_int8.api.calibrate import calibrate_model
        from relay_int8.calibration.choose import choose
        from relay_int8.calibration.methods import find_method
        from relay_int8.quantization.config import QuantConfig

        with tempfile.TemporaryDirectory() as folder:
            table = calibrate_model(
                model,
                data,
                Path(folder) / "table.json",
                config=QuantConfig(method=method),
                keep_histograms=True,
            )
        start = time.perf_counter()
        for entry in table.entries.values():
            assert entry.histogram is not None
            choose(entry.scheme, entry.observed, entry.histogram, find_method(method))
        return time.perf_counter() - start

    return _run


def onnxruntime_entropy(model: Path, data: Path) -> None:
    """Calibrate with ONNX Runtime's entropy calibrator and its defaults.

    It keeps every activation of the images that it is given at once, of 500 more than most
    computers hold, so it gets a few at a time; its histograms grow from part to part.
    """
    from onnxruntime import quantization
    from onnxruntime.quantization.calibrate import create_calibrator

    from benchmarks.static_quantization import ImageReader

    with tempfile.TemporaryDirectory() as folder:
        calibrator = create_calibrator(
            str(model),
            calibrate_method=quantization.CalibrationMethod.Entropy,
            augmented_model_path=str(Path(folder) / "augmented.onnx"),
        )
        for part in parts(images(data), AT_ONCE):
            calibrator.collect_data(ImageReader(INPUT, part))
        calibrator.compute_data()


def parts(items: Iterator[np.ndarray], size: int) -> Iterator[list[np.ndarray]]:
    """Yield lists of so many items, the last perhaps shorter."""
    while part := list(islice(items, size)):
        yield part


def nncf_mixed(model: Path, data: Path) -> None:
    """Quantize with NNCF's defaults on all images."""
    import nncf
    import openvino

    nncf.set_log_level(logging.ERROR)
    count = len(np.load(data, mmap_mode="r"))
    nncf.quantize(
        openvino.Core().read_model(model),
        nncf.Dataset(list(range(count)), lambda place: {INPUT: image(data, place)}),
        preset=nncf.QuantizationPreset.MIXED,
        subset_size=count,
    )


def image(data: Path, place: int) -> np.ndarray:
    """Return one image of the file, float32 (1, 3, h, w)."""
    return np.array(np.load(data, mmap_mode="r")[place : place + 1])


def images(data: Path) -> Iterator[np.ndarray]:
    """Yield the images of the file one at a time."""
    for place in range(len(np.load(data, mmap_mode="r"))):
        yield image(data, place)


SYSTEMS: Mapping[str, Callable[[Path, Path], float | None]] = MappingProxyType(
    {
        "relay-int8 kl-tensorrt": calibrated_by("kl-tensorrt"),
        "relay-int8 kl-tensorrt-onepass": calibrated_by("kl-tensorrt-onepass"),
        "relay-int8 max": calibrated_by("max"),
        "ONNX Runtime Entropy": onnxruntime_entropy,
        "NNCF": nncf_mixed,
    }
)


def measure(name: str, model: Path, data: Path) -> Cost:
    """Run one system in this process and return what it took."""
    idle = _peak_mib()
    start = time.perf_counter()
    with contextlib.redirect_stdout(io.StringIO()):  # what they print of their progress
        search = SYSTEMS[name](model, data)
    seconds = time.perf_counter() - start - (search or 0.0)
    return Cost(seconds=seconds, peak_mib=_peak_mib(), idle_mib=idle, search_seconds=search)


def _peak_mib() -> float:
    """Return the high-water mark of this program; getrusage's is at least that of its parent."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (kib,) = (line.split()[1] for line in lines if line.startswith("VmHWM"))
    return int(kib) * KIB / MIB


def write_inputs(chosen: Subject, folder: Path) -> tuple[Path, Path]:
    """Write the model, of batch 1, and its images; return both paths."""
    model, data = folder / "model.onnx", folder / "images.npy"
    onnx.save(chosen.model(batch=1), model)
    shape = (chosen.calibration_images, 3, chosen.image_size, chosen.image_size)
    array = np.lib.format.open_memmap(data, "w+", np.float32, shape)
    # As many different pictures as matter, each at another brightness: made in a moment.
    drawn = Subject(**asdict(chosen) | {"calibration_images": 8}).calibration()
    base = np.concatenate([inputs[INPUT] for inputs in drawn])
    for place in range(len(array)):
        array[place] = base[place % len(base)] * np.float32(0.8 + 0.4 * place / len(array))
    array.flush()
    return model, data


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; return the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/bench_calibration", description=__doc__)
    parser.add_argument("--network", choices=zoo.NETWORKS, default="resnet50")
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--image-size", type=int, help="default: as published")
    parser.add_argument("--system", choices=SYSTEMS, action="append", help="default: all")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    options = parser.parse_args(arguments)
    chosen = subject(options.network, options.image_size, options.images)
    costs: dict[str, Cost] = {}
    with tempfile.TemporaryDirectory() as folder:
        model, data = write_inputs(chosen, Path(folder))
        for name in options.system or SYSTEMS:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
                costs[name] = pool.submit(measure, name, model, data).result()
            print(f"{name}: {costs[name].seconds:.1f} s", file=sys.stderr, flush=True)
    print(table(chosen, costs))
    if options.json:
        numbers = {name: asdict(cost) for name, cost in costs.items()}
        options.json.write_text(json.dumps({"cpu": cpu_name(), "systems": numbers}, indent=1))
    return 0


def table(chosen: Subject, costs: Mapping[str, Cost]) -> str:
    """Return the costs as Markdown."""
    rows = [
        f"{chosen.network}, {chosen.calibration_images} images of {chosen.image_size} pixels, on "
        f"{cpu_name()}",
        "",
        "| system | seconds | threshold search, s | peak MiB | of it before |",
        "|---|---|---|---|---|",
    ]
    for name, cost in costs.items():
        search = "-" if cost.search_seconds is None else f"{cost.search_seconds:.2f}"
        rows.append(
            f"| {name} | {cost.seconds:.1f} | {search} | {cost.peak_mib:.0f} "
            f"| {cost.idle_mib:.0f} |"
        )
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
