"""The float network that calibration runs: statistics of its tensors, computed inside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule, relax
from tvm.target import Target

from relay_int8.calibration.histogram import Grid
from relay_int8.calibration.observe import Image
from relay_int8.passes.observe_tensors import ObserveTensors
from relay_int8.pipeline import finalize, lower
from relay_int8.qparams import PlannedScheme

Array = npt.NDArray[Any]


class CalibrationNetwork:
    """A ``calibration.Runner``: batch 1, fixed schedules, one compilation for both passes.

    Parameters
    ----------
    mod
        Normalized float module of batch 1.
    schemes
        Name -> scheme of the tensors to observe.
    target
        Where it runs; calibration runs on the computer that compiles.
    """

    def __init__(self, mod: IRModule, schemes: Mapping[str, PlannedScheme], target: Target) -> None:
        self._names = list(schemes)
        self._inputs = [str(param.name) for param in mod["main"].params]
        observed = tvm.transform.Sequential([ObserveTensors(schemes)])(mod)
        with target:
            executable = tvm.compile(
                lower(target)(observed), target=target, relax_pipeline=finalize()
            )
        self._main = relax.VirtualMachine(executable, tvm.cpu())["main"]
        self._off = tvm.runtime.tensor(np.zeros(1, np.float32))

    def ranges(self, image: Image) -> dict[str, Array]:
        """Return of each tensor float32 (3,): minimum, maximum, count of values not finite."""
        grid = [self._off] * (2 * len(self._names))
        return dict(zip(self._names, self._run(image, grid)[: len(self._names)], strict=True))

    def histograms(self, image: Image, grids: Mapping[str, Grid]) -> dict[str, Array]:
        """Return of each tensor int32 (bins,)."""
        grid = [
            tvm.runtime.tensor(np.array([number], np.float32))
            for name in self._names
            for number in (grids[name].low, grids[name].inverse)
        ]
        return dict(zip(self._names, self._run(image, grid)[len(self._names) :], strict=True))

    def _run(self, image: Image, grid: list[tvm.runtime.Tensor]) -> list[Array]:
        inputs = [tvm.runtime.tensor(np.ascontiguousarray(image[name])) for name in self._inputs]
        outputs = self._main(*inputs, *grid)
        single = isinstance(outputs, tvm.runtime.Tensor)
        return [output.numpy() for output in ([outputs] if single else outputs)]
