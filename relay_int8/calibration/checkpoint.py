"""A file from which calibration goes on after it was killed."""

from __future__ import annotations

import io
import json
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.histogram import Grid, Histogram, Range
from relay_int8.calibration.means import ChannelMeans
from relay_int8.calibration.statistics import RunningStatistics
from relay_int8.errors import CalibrationError
from relay_int8.files import write_atomic

Array = npt.NDArray[Any]
FORMAT = "relay-int8 calibration checkpoint 1"


@dataclass
class Checkpoint:
    """Keeps a :class:`RunningStatistics` in a file, whole or not at all.

    Parameters
    ----------
    path
        The file.
    key
        Digest of model, data, settings and target; a file with another key is refused.
    seconds
        The least time between two writes.
    resume
        Whether to go on from the file, where there is one.
    """

    path: Path
    key: str
    seconds: float = 10.0
    resume: bool = False
    _written: float = field(default_factory=time.monotonic, init=False)

    def load(self) -> RunningStatistics | None:
        """Return what was kept, None if nothing was or it is not asked for.

        Raises
        ------
        CalibrationError
            The file is damaged, or of another model, other data or other settings.
        """
        if not self.resume or not self.path.exists():
            return None
        try:
            with np.load(io.BytesIO(self.path.read_bytes()), allow_pickle=False) as arrays:
                fields = json.loads(str(arrays["fields"]))
                if fields["format"] != FORMAT:
                    raise ValueError(f"format {fields['format']!r}")
                running = _from_arrays(fields, arrays) if fields["key"] == self.key else None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise CalibrationError(
                f"{self.path}: no calibration checkpoint ({error}); delete it and calibrate anew"
            ) from error
        if running is None:
            raise CalibrationError(
                f"{self.path}: made with another model, other data or other settings, or on a CPU "
                "of another kind; give the same ones, or calibrate anew without "
                "calibrate_model(resume=True)"
            )
        return running

    def keep(self, running: RunningStatistics) -> None:
        """Write the statistics, unless that was done a moment ago."""
        if time.monotonic() - self._written < self.seconds:
            return
        write_atomic(self.path, _to_bytes(running, self.key))
        self._written = time.monotonic()

    def discard(self) -> None:
        """Remove the file: calibration is done."""
        self.path.unlink(missing_ok=True)


def _to_bytes(running: RunningStatistics, key: str) -> bytes:
    fields = {
        "format": FORMAT,
        "key": key,
        "images": running.images,
        "counted": running.counted,
        "tensors": list(running.observed),
        "means": list(running.means),
        "extremes": list(running.extremes),
        "histograms": {
            name: {
                "low": float(item.grid.low),
                "high": float(item.grid.high),
                "absolute": item.grid.absolute,
                "zeros": item.zeros,
            }
            for name, item in running.histograms.items()
        },
    }
    arrays: dict[str, Array] = {"fields": np.array(json.dumps(fields))}
    for title, ranges in (("observed", running.observed), ("followed", running.followed)):
        arrays[f"{title} ends"] = np.array([(r.low, r.high) for r in ranges.values()], np.float32)
        arrays[f"{title} counts"] = np.array(
            [(r.images, r.nonfinite) for r in ranges.values()], np.int64
        )
    for index, mean in enumerate(running.means.values()):
        arrays[f"slots {index}"], arrays[f"values {index}"] = mean.slots, mean.counts
    for index, extremes in enumerate(running.extremes.values()):
        arrays[f"extremes {index}"] = extremes
    for index, histogram in enumerate(running.histograms.values()):
        arrays[f"bins {index}"] = histogram.counts
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _from_arrays(fields: Mapping[str, Any], arrays: Mapping[str, Array]) -> RunningStatistics:
    names = fields["tensors"]
    return RunningStatistics(
        observed=_ranges(names, arrays["observed ends"], arrays["observed counts"]),
        followed=_ranges(names, arrays["followed ends"], arrays["followed counts"]),
        means={
            name: ChannelMeans(arrays[f"slots {index}"], arrays[f"values {index}"])
            for index, name in enumerate(fields["means"])
        },
        extremes={name: arrays[f"extremes {i}"] for i, name in enumerate(fields["extremes"])},
        histograms={
            name: _histogram(item, arrays[f"bins {index}"])
            for index, (name, item) in enumerate(fields["histograms"].items())
        },
        images=int(fields["images"]),
        counted=int(fields["counted"]),
    )


def _ranges(names: list[str], ends: Array, counts: Array) -> dict[str, Range]:
    return {
        name: Range(low, high, int(images), int(nonfinite))
        for name, (low, high), (images, nonfinite) in zip(names, ends, counts, strict=True)
    }


def _histogram(fields: Mapping[str, Any], counts: Array) -> Histogram:
    low, high = np.float32(fields["low"]), np.float32(fields["high"])
    return Histogram(Grid(low, high, fields["absolute"], len(counts)), counts, fields["zeros"])
