"""Faster schedules for the kernels of a network, measured on this computer or on others."""

from __future__ import annotations

from pathlib import Path

from tvm.target import Target

from relay_int8.api.model import Model
from relay_int8.compiler.target import resolve_target
from relay_int8.quantization.config import QuantConfig
from relay_int8.tuning.network import network_tasks
from relay_int8.tuning.records import LOGS
from relay_int8.tuning.session import TuneOptions, tune_tasks
from relay_int8.tuning.tuner import TrialListener


def tune(
    model: Model,
    options: TuneOptions | None = None,
    *,
    target: str | Target = "native",
    threads: int | None = None,
    config: QuantConfig | None = None,
    unsigned_input: bool = False,
    logs: str | Path = LOGS,
    progress: TrialListener | None = None,
) -> Path:
    """Measure schedules of a network's kernels, and return the folder of the log.

    Every schedule's integers are checked before its time counts; what was measured is in the log,
    whatever happens. Then build with ``BuildOptions(tuning_logs=...)``.

    Parameters
    ----------
    model
        The float network, of the batch it will have; it is not calibrated for this.
    options
        Trials, search, seed, where to measure; ``TuneOptions()`` if None.
    target, threads
        What it will be built for, as :class:`relay_int8.BuildOptions` has them.
    config
        Preset and requantization; they decide which kernels there are.
    unsigned_input
        Whether the network's input is never negative.
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
    where = resolve_target(target, threads)
    tasks = network_tasks(model.module, where, config or QuantConfig(), signed=not unsigned_input)
    name = Path(model.name).stem
    options = options or TuneOptions()
    return tune_tasks(tasks, where, name, options, folder=Path(logs), report=progress)
