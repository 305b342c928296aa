"""The float network that calibration runs: statistics of its tensors, computed inside."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm
from tvm import IRModule
from tvm.target import Target

from relay_int8.calibration.channels import Factors
from relay_int8.calibration.histogram import Grid
from relay_int8.calibration.methods import Method
from relay_int8.calibration.observe import UNSCALED, Statistics
from relay_int8.calibration.observe_tensors import ObserveTensors
from relay_int8.compiler.build import started
from relay_int8.compiler.kernel_library import linked
from relay_int8.compiler.pipeline import finalize, lower
from relay_int8.data.dataset import Image
from relay_int8.errors import CalibrationError
from relay_int8.graph import dataflow
from relay_int8.machine.host import cpu_name, lacking
from relay_int8.numerics.qparams import PlannedScheme
from schedules.targets import needed_flags, target_config

Array = npt.NDArray[Any]


class CalibrationNetwork:
    """A ``calibration.Runner``: batch 1, fixed schedules, one compilation for both passes.

    Several threads may call it at a time: each call has a virtual machine to itself.

    Parameters
    ----------
    mod
        Normalized float module of batch 1.
    schemes
        Name -> scheme of the tensors to observe.
    means
        Names of the tensors whose channel means are wanted.
    target
        Where it runs; calibration runs on the computer that compiles.
    method
        Whose histograms are counted.
    scalable
        Names of the tensors whose channels may be scaled.
    """

    def __init__(
        self,
        mod: IRModule,
        schemes: Mapping[str, PlannedScheme],
        means: Sequence[str],
        target: Target,
        method: Method | None = None,
        scalable: Sequence[str] = (),
    ) -> None:
        self._names = list(schemes)
        self._means = list(means)
        self._inputs = [str(param.name) for param in mod["main"].params]
        observe = ObserveTensors(schemes, means, method, scalable)
        self._observed = tvm.transform.Sequential([observe])(mod)
        params = self._observed["main"].params
        factors = params[len(params) - len(scalable) :]
        self._factor_shapes = {
            name: dataflow.shape(param) for name, param in zip(scalable, factors, strict=True)
        }
        self._target = target
        self._last_grid: tuple[Mapping[str, Grid], list[tvm.runtime.Tensor]] = ({}, [])
        self._lock = threading.Lock()
        self._idle: list[Callable[..., Any]] = []
        self._off = tvm.runtime.tensor(np.zeros(1, np.float32))

    @cached_property
    def _executable(self) -> tvm.runtime.Executable:
        """The compiled network, compiled when the first image comes."""
        with self._target:
            final = finalize()(lower(self._target, transient=True)(self._observed))
            return linked(final, self._target, transient=True).executable

    def _machine(self) -> Callable[..., Any]:
        """Return a virtual machine that no other thread uses."""
        with self._lock:
            if self._idle:
                return self._idle.pop()
            main: Callable[..., Any] = started(self._executable)["main"]
            return main

    def statistics(self, image: Image) -> Statistics:
        """Return the ranges of all tensors, and what is known of the channels of some."""
        return self._statistics(self._run(image, [self._off] * (2 * len(self._names))))

    def histograms(
        self, image: Image, grids: Mapping[str, Grid], factors: Factors = UNSCALED
    ) -> dict[str, Array]:
        """Return of each tensor int32 (bins,), of values times their factors."""
        return self._histograms(self._run(image, self._grid(grids), factors))

    def observe(
        self, image: Image, grids: Mapping[str, Grid]
    ) -> tuple[Statistics, dict[str, Array]]:
        """Return both, of one run."""
        outputs = self._run(image, self._grid(grids))
        return self._statistics(outputs), self._histograms(outputs)

    def _statistics(self, outputs: list[tvm.runtime.Tensor]) -> Statistics:
        means = 2 * len(self._names)
        extremes = means + len(self._means)
        return Statistics(
            ranges=_arrays(self._names, outputs[: len(self._names)]),
            means=_arrays(self._means, outputs[means:extremes]),
            extremes=_arrays(list(self._factor_shapes), outputs[extremes:]),
        )

    def _histograms(self, outputs: list[tvm.runtime.Tensor]) -> dict[str, Array]:
        count = len(self._names)
        return _arrays(self._names, outputs[count : 2 * count])

    def _grid(self, grids: Mapping[str, Grid]) -> list[tvm.runtime.Tensor]:
        known, tensors = self._last_grid
        if grids != known:
            tensors = [
                tvm.runtime.tensor(np.array([number], np.float32))
                for name in self._names
                for number in (grids[name].low, grids[name].inverse)
            ]
            self._last_grid = dict(grids), tensors
        return tensors

    def _run(
        self, image: Image, grid: list[tvm.runtime.Tensor], factors: Factors = UNSCALED
    ) -> list[tvm.runtime.Tensor]:
        inputs = [tvm.runtime.tensor(np.asarray(image[name], order="C")) for name in self._inputs]
        scales = [
            tvm.runtime.tensor(factors.get(name, np.ones(shape, np.float32)).reshape(shape))
            for name, shape in self._factor_shapes.items()
        ]
        main = self._machine()
        outputs = main(*inputs, *grid, *scales)
        self._idle.append(main)
        return [outputs] if isinstance(outputs, tvm.runtime.Tensor) else list(outputs)


def _arrays(names: Sequence[str], tensors: Sequence[tvm.runtime.Tensor]) -> dict[str, Array]:
    """Return tensors as arrays that share their memory, which costs a tenth of a copy."""
    arrays = (np.from_dlpack(tensor) for tensor in tensors)
    return dict(zip(names, arrays, strict=True))


@dataclass(frozen=True)
class CalibrationRecipe:
    """Everything to make a :class:`CalibrationNetwork` of, elsewhere.

    It is compiled for one target wherever it runs, so that floats have the same bits everywhere.
    Parameters are those of the network.
    """

    mod: IRModule
    schemes: Mapping[str, PlannedScheme]
    means: Sequence[str]
    target: Target
    method: Method | None = None
    scalable: Sequence[str] = ()

    def __call__(self) -> CalibrationNetwork:
        """Return the network.

        Raises
        ------
        CalibrationError
            This computer lacks instructions of the target.
        """
        missing = lacking(needed_flags(self.target))
        if missing:
            raise CalibrationError(
                f"{cpu_name()} lacks {missing}, which the computer that "
                "calibration was started on has; use workers of its kind"
            )
        return CalibrationNetwork(
            self.mod, self.schemes, self.means, self.target, self.method, self.scalable
        )

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields with module and target as text, for pickle."""
        return {
            **vars(self),
            "mod": tvm.ir.save_json(self.mod),
            "target": target_config(self.target),
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the fields."""
        mod, target = tvm.ir.load_json(state["mod"]), Target(state["target"])
        vars(self).update(state | {"mod": mod, "target": target})
