"""Faster schedules for the kernels of a network, measured on this computer or on others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tvm.target import Target

from relay_int8.api.model import Model
from relay_int8.argument_types import checked
from relay_int8.compiler.target import resolve_target
from relay_int8.errors import ConfigError
from relay_int8.quantization.config import QuantConfig
from relay_int8.tuning.log_folders import LOGS
from relay_int8.tuning.network import network_tasks, seconds_of
from relay_int8.tuning.session import TuneOptions, obstacle, tune_tasks
from relay_int8.tuning.tuner import TrialListener
from schedules.space import size
from schedules.task import Task


@dataclass(frozen=True, kw_only=True)
class KernelToTune:
    """A kernel that would be tuned.

    Parameters
    ----------
    kernel, template
        What it computes, as reports name it, and the template of its loops.
    layers
        Names of the layers that it computes.
    calls
        How often the network calls it.
    schedules
        Number of schedules that the template has for it; None if they are too many to count.
    default_us
        Time of one call with the default schedule; None if it was not measured.
    """

    kernel: str
    template: str
    layers: tuple[str, ...]
    calls: int
    schedules: int | None
    default_us: float | None


@dataclass(frozen=True, kw_only=True)
class NetworkKernels:
    """The distinct kernels that a network would have on a target, what :func:`tune` takes.

    Parameters
    ----------
    network
        Name of the network; that of its log, unless another is given.
    target
        Where it will run.
    tasks
        The kernels.
    """

    network: str
    target: Target
    tasks: tuple[Task, ...]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.tasks)

    @property
    def obstacle(self) -> str | None:
        """Why this computer cannot run code for the target; None if it can."""
        return obstacle(self.target)

    def listed(self, *, timed: bool = True) -> tuple[KernelToTune, ...]:
        """Return what is known of each kernel, those that take most of the time first.

        Parameters
        ----------
        timed
            Measure the default schedules on this computer, which has to be able to run them;
            without times kernels stay in the order of the network.

        Raises
        ------
        ConfigError
            If times are asked for and this computer cannot run code for the target.
        """
        if timed and (reason := self.obstacle):
            raise ConfigError(reason)
        seconds: Mapping[str, float] = seconds_of(self.tasks, self.target) if timed else {}
        slowest_first = sorted(
            self.tasks, key=lambda task: -task.occurrences * seconds.get(task.key, 0.0)
        )
        return tuple(
            KernelToTune(
                kernel=task.title,
                template=task.template,
                layers=tuple(task.layers),
                calls=task.occurrences,
                schedules=size(task.kernel(self.target)),
                default_us=seconds[task.key] * 1e6 if timed else None,
            )
            for task in slowest_first
        )


@checked
def find_kernels(
    model: Model,
    *,
    target: str | Target = "native",
    threads: int | None = None,
    config: QuantConfig | None = None,
    unsigned_input: bool = False,
) -> NetworkKernels:
    """Return the kernels that a network would have, before anything is calibrated or measured.

    Parameters
    ----------
    model
        The float network, of the batch it will have; it is not calibrated for this.
    target, threads
        What it will be built for, as :class:`relay_int8.BuildOptions` has them.
    config
        Preset and requantization; they decide which kernels there are.
    unsigned_input
        Whether the network's input is never negative.

    Raises
    ------
    ConfigError
        If the target is unknown.

    Examples
    --------
    >>> kernels = relay_int8.find_kernels(model, target="x86-vnni")
    >>> [kernel.kernel for kernel in kernels.listed(timed=False)][:1]
    ['...']
    """
    where = resolve_target(target, threads)
    tasks = network_tasks(model.module, where, config or QuantConfig(), signed=not unsigned_input)
    return NetworkKernels(network=Path(model.name).stem, target=where, tasks=tasks)


@checked
def tune(
    model: Model | NetworkKernels,
    options: TuneOptions | None = None,
    *,
    target: str | Target = "native",
    threads: int | None = None,
    config: QuantConfig | None = None,
    unsigned_input: bool = False,
    name: str | None = None,
    logs: str | Path = LOGS,
    progress: TrialListener | None = None,
) -> Path:
    """Measure schedules of a network's kernels, and return the folder of the log.

    Every schedule's integers are checked before its time counts; what was measured is in the log,
    whatever happens. Then build with ``BuildOptions(tuning_logs=...)``.

    Parameters
    ----------
    model
        The float network, of the batch it will have; it is not calibrated for this. Or its kernels,
        as :func:`find_kernels` returned them.
    options
        Trials, search, seed, where to measure; ``TuneOptions()`` if None.
    target, threads, config, unsigned_input
        As :func:`find_kernels` takes them; not used for kernels that it has found.
    name
        Name of the log's folder; the network's if None.
    logs
        Folder of all logs.
    progress
        Called as trials end.

    Raises
    ------
    ConfigError
        If this computer is to measure and cannot run code for the target, or an option is unknown.
    DeployError
        If there is no device, or none any more.
    RecordError
        If the log cannot be used.
    """
    kernels = (
        model
        if isinstance(model, NetworkKernels)
        else find_kernels(
            model, target=target, threads=threads, config=config, unsigned_input=unsigned_input
        )
    )
    return tune_tasks(
        kernels.tasks,
        kernels.target,
        name or kernels.network,
        options or TuneOptions(),
        folder=Path(logs),
        report=progress,
    )
