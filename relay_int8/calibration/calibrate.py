"""From calibration images to a range per tensor, in two passes over the data or in one.

The first pass finds the exact range of every tensor, the second counts values over bins of that
range; a method that reads no counts needs the first alone, and one whose bins grow does both at
once. What is merged from image to image are minima, maxima, integer counts and exact sums, so the
table does not depend on order, batch size or how the images were dealt out, and memory does not
depend on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import numpy as np

from relay_int8.calibration.channels import (
    Factors,
    ScalableChannels,
    chosen_factors,
    factors_of_tensors,
    scaled_range,
)
from relay_int8.calibration.checkpoint import Checkpoint
from relay_int8.calibration.choose import FLOAT32_MAX, choose
from relay_int8.calibration.histogram import Grid, Histogram, Range
from relay_int8.calibration.mapper import (
    CountAndGrow,
    CountOverGrids,
    Mapper,
    OneByOne,
    Task,
    TaskResult,
    observe_ranges,
    smallest_grids,
)
from relay_int8.calibration.methods import Method, find_method
from relay_int8.calibration.methods.base import Function
from relay_int8.calibration.observe import Progress, Runner
from relay_int8.calibration.statistics import RunningStatistics
from relay_int8.calibration.table import CalibrationTable
from relay_int8.data.dataset import Image
from relay_int8.errors import CalibrationError
from relay_int8.graph.digest import UNKNOWN, Identity
from relay_int8.numerics.qparams import PlannedScheme, Scheme, resolve_scheme

FEW_IMAGES = 20
NO_TENSOR = "no layer is in integers, so no image was looked at"


def calibrate(
    runner: Runner | Mapper,
    tensors: Mapping[str, PlannedScheme],
    data: Iterable[Image],
    *,
    method: str | Method = "max",
    functions: Mapping[str, Function] | None = None,
    scalable: Sequence[ScalableChannels] = (),
    model: Identity = UNKNOWN,
    keep_histograms: bool = False,
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
) -> CalibrationTable:
    """Return a range for every tensor.

    Parameters
    ----------
    runner
        The float network, or where it runs: several processes, or other computers.
    tensors
        Name -> scheme of every tensor that needs a range; "input" becomes u8 or s8 by its data.
        Without any the network is not run.
    data
        Images; iterated once a pass, so a :class:`~relay_int8.data.dataset.Dataset`.
    method
        A name of ``METHODS``, or a method with its own parameters.
    functions
        Name -> what reads the tensor, of those that nothing but a function of real numbers reads
        (:func:`relay_int8.quantization.functions.read_functions`).
    scalable
        Channels that may be scaled, so that their tensor's range serves all of them; the table has
        the factors, and ranges and means of the scaled tensors. Methods that read the data once
        scale none.
    model
        The float model, kept in the table.
    keep_histograms
        Whether the table carries the counts; costs the second pass with every method.
    checkpoint
        A file to go on from after being killed; removed when all images are done.
    progress
        Called after every image.

    Raises
    ------
    CalibrationError
        The data or a tensor cannot be calibrated with.
    """
    if not tensors:
        return CalibrationTable(
            entries={}, model_hash=model.model, weights_hash=model.weights, notes=(NO_TENSOR,)
        )
    chosen = find_method(method)
    work = runner if isinstance(runner, Mapper) else OneByOne(runner)
    running = (checkpoint and checkpoint.load()) or RunningStatistics.of(tensors)
    passes = _Passes(work, data, chosen, running, scalable, checkpoint, progress)
    schemes, observed, factors = passes.run(tensors, counts=chosen.needs_counts or keep_histograms)
    entries = {
        name: choose(
            scheme,
            observed[name],
            running.histograms[name],
            chosen,
            function=(functions or {}).get(name),
            keep_histogram=keep_histograms,
        )
        for name, scheme in schemes.items()
    }
    if checkpoint:
        checkpoint.discard()
    of_tensors = factors_of_tensors(scalable, factors)
    return CalibrationTable(
        entries=entries,
        means={
            name: mean.mean() * of_tensors.get(name, np.float32(1))
            for name, mean in running.means.items()
        },
        factors=factors,
        model_hash=model.model,
        weights_hash=model.weights,
        images=running.images,
        notes=_notes(running.images, chosen, scalable),
    )


def _notes(images: int, method: Method, scalable: Sequence[ScalableChannels]) -> tuple[str, ...]:
    notes = []
    if images < FEW_IMAGES:
        many = f"{FEW_IMAGES} or more, better a few hundred"
        notes.append(f"only {images} images; {many}, make ranges reliable")
    if scalable and not method.scales_channels:
        notes.append(
            f"{method} reads the data once, so that no channels in front of depthwise layers, of "
            "norms or along residual additions are scaled; other methods do that"
        )
    return tuple(notes)


class _Ranged(NamedTuple):
    """What is known before a range is chosen: schemes and exact ranges of the scaled tensors."""

    schemes: dict[str, Scheme]
    observed: Mapping[str, Range]
    factors: dict[str, np.ndarray]


@dataclass(frozen=True)
class _Passes:
    """Passes over the data, each from the images that the statistics have."""

    work: Mapper
    data: Iterable[Image]
    method: Method
    running: RunningStatistics
    scalable: Sequence[ScalableChannels]
    checkpoint: Checkpoint | None
    progress: Progress | None

    def run(self, tensors: Mapping[str, PlannedScheme], *, counts: bool) -> _Ranged:
        """Count all images; without ``counts``, with empty histograms."""
        if self.method.one_pass:
            self.grow()
        else:
            self.observe()
        observed, followed = self.running.observed, self.running.followed
        factors: dict[str, np.ndarray] = {}
        of_tensors: Factors = {}
        if self.method.scales_channels:
            factors = chosen_factors(self.scalable, self.running.extremes, observed)
            of_tensors = factors_of_tensors(self.scalable, factors)
            observed = self._scaled(observed, of_tensors)
            followed = self._scaled(followed, of_tensors)
        schemes = {
            name: resolve_scheme(tensors[name], float(observed[name].low)) for name in tensors
        }
        _require_sound(schemes, observed)
        if self.method.one_pass:
            return _Ranged(schemes, observed, factors)
        grids = {name: self.method.grid(schemes[name], followed[name]) for name in schemes}
        if counts:
            self.count(grids, of_tensors)
        else:
            self.running.histograms = {name: _empty(grid) for name, grid in grids.items()}
        return _Ranged(schemes, observed, factors)

    def _scaled(self, ranges: Mapping[str, Range], factors: Factors) -> dict[str, Range]:
        extremes = self.running.extremes
        return {
            name: scaled_range(seen, extremes[name], factors[name]) if name in factors else seen
            for name, seen in ranges.items()
        }

    def observe(self) -> None:
        """Find the range of every tensor, unless counting has begun already."""
        if not self.running.counted:
            for _ in self._results(lambda: observe_ranges, self.running.images):
                self._report("ranges", self.running.images, None)

    def count(self, grids: Mapping[str, Grid], factors: Factors) -> None:
        """Count scaled values over known grids."""
        images = self.running.images
        task = CountOverGrids(grids, self.method.counts_zeros, factors)
        for _ in self._results(lambda: task, self.running.counted):
            self._report("histograms", self.running.counted, images)
        if self.running.counted != images:
            raise CalibrationError(
                f"the first pass over the data gave {images} images, the second "
                f"{self.running.counted}; give a list, or a function that returns the same batches "
                "each time it is called"
            )

    def grow(self) -> None:
        """Observe and count over grids that grow."""
        smallest = smallest_grids(self.running.observed, self.method.bins)

        def _task() -> CountAndGrow:
            histograms = self.running.histograms
            return CountAndGrow({name: item.grid for name, item in histograms.items()} or smallest)

        for _ in self._results(_task, self.running.counted):
            self._report("histograms", self.running.counted, None)

    def _results(self, task: Callable[[], Task], done: int) -> Iterator[TaskResult]:
        for result in self.work.map(task, islice(self.data, done, None)):
            self.running.add(result, self.method)
            if self.checkpoint:
                self.checkpoint.keep(self.running)
            yield result

    def _report(self, stage: str, done: int, total: int | None) -> None:
        if self.progress:
            self.progress(stage, done, total)


def _empty(grid: Grid) -> Histogram:
    return Histogram(grid, np.zeros(grid.bins, np.int64))


def _require_sound(schemes: Mapping[str, Scheme], observed: Mapping[str, Range]) -> None:
    faults = []
    for name, scheme in schemes.items():
        extent = observed[name]
        if extent.empty:
            faults.append(f"{name} has no finite value ({extent.nonfinite} are NaN or infinite)")
        elif scheme == "u8" and extent.low < 0:
            faults.append(f"{name} was planned as never negative (u8), but falls to {extent.low!s}")
        elif scheme == "asymmetric" and float(extent.high) - float(extent.low) > FLOAT32_MAX:
            faults.append(
                f"{name} spans [{extent.low!s}, {extent.high!s}], more than float32 holds"
            )
    if faults:
        raise CalibrationError(
            f"these tensors cannot be calibrated: {'; '.join(faults)}; leave them float, or plan "
            "them signed"
        )
