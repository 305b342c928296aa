"""A network quantized with one half of its images, and judged by its outputs for the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, lru_cache
from itertools import islice
from typing import Any, NamedTuple

from tvm import IRModule

from relay_int8.calibration.calibrate import calibrate
from relay_int8.calibration.methods.base import Function
from relay_int8.calibration.table import CalibrationTable
from relay_int8.compiler.passes.qdq.correct_bias import corrected_biases
from relay_int8.data.dataset import Image
from relay_int8.errors import CalibrationError
from relay_int8.graph.compared import compared_tensors
from relay_int8.graph.groups import find_groups
from relay_int8.graph.layers import averaged_tensors, linear_layers
from relay_int8.graph.plan import Plan
from relay_int8.numerics.judgement import Judgement
from relay_int8.operators.registry import operator_of
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig, Tools
from relay_int8.quantization.functions import read_functions
from relay_int8.quantization.metric import BoundMetric
from relay_int8.quantization.refine.equalize import Equalized, equalized_by, maxima_of
from relay_int8.quantization.refine.float_tensors import FloatTensors, KnownRunner
from relay_int8.quantization.refine.held_out import HeldOut
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.parallel import in_parallel
from relay_int8.quantization.refine.reconstruct import reconstruct
from relay_int8.quantization.refine.simulation import Array, Arrays, Simulation, with_rounded
from relay_int8.quantization.refine.trial_result import TrialResult

IMAGES = 64  # at most, that constants are made of, in halves
JUDGING_IMAGES = 128  # at most
FEWEST_IMAGES = 16  # whatever a run of them takes
MACS = 10**10  # that a run of the images may take that constants are made of
JUDGING_MACS = 3 * 10**10  # and of all those that answers are judged by
HALVES = 2
LARGEST_K = 2304  # 3 x 3 x 256: wider layers are rounded to nearest until all is chosen
IMAGE_BYTES = 2**28  # that these images may take

Run = Callable[[Arrays], Arrays]
"""What gives the outputs of a stack of images."""


class Trial:
    """A network with two halves of images, each judged with what was made of the other.

    Judging takes a run, making constants several: where the network is large, images beside those
    halves are judged too.

    Parameters
    ----------
    mod
        Normalized float module of batch 1.
    data
        Calibration images.
    config
        The default: its additions are those of the float network.
    metric
        Of outputs, with labels of all of ``data`` or none; one thread calls it.
    """

    def __init__(
        self,
        mod: IRModule,
        data: Iterable[Image],
        config: QuantConfig,
        metric: BoundMetric | None = None,
    ) -> None:
        work = max(sum(operator_of(group).macs(group) for group in find_groups(mod["main"])), 1)
        judging = list(islice(data, _count(JUDGING_IMAGES, JUDGING_MACS // work)))
        if not judging:
            raise CalibrationError("no image found; preset auto needs calibration images")
        size = sum(array.nbytes for array in judging[0].values())
        judging = judging[: max(2, IMAGE_BYTES // max(size, 1))]
        fitting = _count(IMAGES, MACS // work)
        additions = annotate(mod, config).additions
        numbers = list(range(len(judging)))
        halves, others = _halves(numbers[:fitting]), _halves(numbers[fitting:])
        # A metric is of results; decibels of what can be compared.
        outputs = None if metric is not None else list(compared_tensors(mod["main"]))
        self._fits = [_Fit(mod, [judging[i] for i in half], additions, outputs) for half in halves]
        self._held_out = [
            HeldOut(
                self._fits[1 - half].floats,
                [judging[i] for i in others[half]],
                [*halves[1 - half], *others[half]],
                metric,
            )
            for half in range(HALVES)
        ]
        self._has_metric = metric is not None

    def judged(self, tasks: Sequence[tuple[QuantConfig, int]]) -> list[TrialResult]:
        """Return how good outputs are on images not seen: near to FP32, and by the metric.

        Parameters
        ----------
        tasks
            Configurations, and by which half of the images each is to be made.

        Raises
        ------
        ConfigError
            If the metric fails: in front of the work, where it fails with what FP32 gives.
        """
        made = [
            (self._fits[half].calibrated(config), self._held_out[half]) for config, half in tasks
        ]
        for _, held in made:
            _ = held.float_score if self._has_metric else held.runs  # by this thread, not by two
        keeps_outputs = self._has_metric
        judged = in_parallel(lambda task: _judgement(*task, keeps_outputs), made)
        return [
            held.result(judgement, outputs)
            for (_, held), (judgement, outputs) in zip(made, judged, strict=True)
        ]


def _count(most: int, affordable: int) -> int:
    return max(FEWEST_IMAGES, min(most, affordable))


def _halves(numbers: list[int]) -> tuple[list[int], list[int]]:
    return (numbers[::2], numbers[1::2]) if len(numbers) > 1 else (numbers, numbers)


def _judgement(
    make: Callable[[], Run], held: HeldOut, keeps_outputs: bool
) -> tuple[Judgement, list[Arrays]]:
    """Return the judgement of the network that is made, and its outputs where they are wanted."""
    outputs = in_parallel(make(), [stack for stack, _ in held.runs])
    return held.judgement(outputs), outputs if keeps_outputs else []


class _Planned(NamedTuple):
    """A plan of the equalized network, what reads its tensors, and these in float."""

    plan: Plan
    functions: Mapping[str, Function]
    means: list[str]
    floats: FloatTensors


class _Fit:
    """A network quantized with some images.

    Parameters
    ----------
    mod
        Normalized float module of batch 1.
    images
        In their order.
    additions
        Those that are layers of their own in the default's plan.
    outputs
        Names of the tensors that are judged; None: the results.
    """

    def __init__(
        self,
        mod: IRModule,
        images: list[Image],
        additions: frozenset[str],
        outputs: list[str] | None,
    ) -> None:
        self._mod = mod
        self._outputs = outputs
        self._images = images
        self._additions = additions
        self.floats = FloatTensors(NumpyNetwork(mod, additions, outputs=outputs), images)
        self._equalized = lru_cache(maxsize=None)(self._equalize)
        self._planned = lru_cache(maxsize=None)(self._plan)
        self._calibrated = lru_cache(maxsize=None)(self._calibrate)

    def calibrated(self, config: QuantConfig) -> Callable[[], Run]:
        """Return what makes the network quantized as ``config`` wants it, all by NumPy."""
        tools = config.applied
        ranges = replace(config, tools=_of_ranges(tools))
        planned = self._planned(replace(ranges, method=QuantConfig.method))
        table = self._calibrated(ranges)
        params = table.qparams(planned.plan.calibrated)
        simulation = Simulation(plan=planned.plan, params=params)
        network = planned.floats.network
        if tools.correction == "analytic":
            layers = linear_layers(network.mod["main"], planned.plan)
            biases = corrected_biases(layers, planned.plan, params, table.means)
            simulation = replace(simulation, biases=biases)

        def _made() -> Run:
            made = simulation
            if tools.correction == "empirical":
                made = self._reconstructed(simulation, planned.floats, tools.rounding)
            made = with_rounded(network.layers, made)
            return lambda images: network.run(images, made)

        return _made

    def _reconstructed(
        self, simulation: Simulation, floats: FloatTensors, rounding: str
    ) -> Simulation:
        constants = reconstruct(
            floats.network,
            simulation,
            self._images,
            rounding=rounding,
            floats=floats,
            largest_k=LARGEST_K,
        )
        return replace(simulation, weights=constants.weights, biases=constants.biases)

    def _plan(self, config: QuantConfig) -> _Planned:
        equalized = self._equalized(config.applied.equalization)
        func = equalized.mod["main"]
        plan = annotate(equalized.mod, config)
        network = NumpyNetwork(equalized.mod, plan.additions, outputs=self._outputs)
        return _Planned(
            plan=plan,
            functions=read_functions(func, plan),
            means=averaged_tensors(func, plan),
            floats=(
                self.floats.scaled(network, equalized.factors)
                if plan.additions == self._additions
                else FloatTensors(network, self._images)
            ),
        )

    def _equalize(self, how: Any) -> Equalized:
        images = len(self._images)
        return equalized_by(self._mod, self._maxima, how, images, self._additions)

    @cached_property
    def _maxima(self) -> dict[str, Array]:
        stacks = (self.floats.tensors(number) for number in range(len(self.floats)))
        return maxima_of(self.floats.network, stacks)

    def _calibrate(self, config: QuantConfig) -> CalibrationTable:
        planned = self._planned(replace(config, method=QuantConfig.method))
        return calibrate(
            KnownRunner(planned.floats, planned.plan.schemes, planned.means),
            planned.plan.schemes,
            planned.floats,
            method=config.method,
            functions=planned.functions,
        )


def _of_ranges(tools: Tools) -> Tools:
    """Return the tools without those that ranges do not depend on."""
    kept = asdict(tools) | {"correction": "analytic", "rounding": "nearest"}
    return Tools(**kept)
