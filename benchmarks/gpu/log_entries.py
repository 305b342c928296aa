"""``--record``: what a run measured, as tuning logs: the default schedule of every kernel, timed.

Done where TVM is, from the JSON of a run. A later ``relay-int8 tune`` has them as ``--warm-start``,
and a build with ``--tuning-logs`` takes them for what they are: defaults.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tvm.target import Target

from relay_int8.errors import RecordError
from relay_int8.tuning.batch import Measured
from relay_int8.tuning.log_folders import device_folder, slug
from relay_int8.tuning.log_summary import log_summary
from relay_int8.tuning.metaschedule_database import Database
from relay_int8.tuning.trial_log import Log, LogManifest, Trial
from schedules.task import Task


def record(result: Path, folder: Path) -> list[Path]:
    """Write a log for each network and batch of a run's JSON, and return their folders.

    Raises
    ------
    RecordError
        If it cannot be read, or a folder holds a log already.
    """
    try:
        content = json.loads(result.read_text())
    except (OSError, ValueError) as error:
        raise RecordError(f"{result} cannot be read: {error}; --run writes it") from error
    facts = content["facts"]
    device = device_folder(str(facts["device"]), facts.get("multiprocessors", 0))
    return [
        _record(cell, content, folder / device / slug(f"{cell['network']}-b{cell['batch']}"))
        for cell in content["cells"]
        if cell["layers"]
    ]


def _record(cell: Mapping[str, Any], content: Mapping[str, Any], folder: Path) -> Path:
    layers = [layer for layer in cell["layers"] if layer["kernel"]["key"]]
    layers = [layer for layer in layers if not layer["kernel"]["tuned"]]
    counts = Counter(layer["kernel"]["key"] for layer in layers)
    peak = content["measured"]["dp4a_macs_s"] or 0.0
    manifest = LogManifest(
        device=content["facts"]["device"],
        clocks=content["facts"].get("clocks", ""),
        peak_macs_s=peak,
        multiprocessors=content["facts"].get("multiprocessors", 0),
        network=f"{cell['network']}, batch {cell['batch']}",
        network_digest=hashlib.sha256("\n".join(sorted(counts)).encode()).hexdigest(),
        target=cell["target"],
        seed=0,
        kernels={layer["kernel"]["key"]: layer["kernel"]["version"] for layer in layers},
        occurrences=dict(counts),
        results={"bench_gpu": dict(content["facts"])},
    )
    log = Log(folder, manifest)
    tasks = {key: Task.from_key(key, count) for key, count in counts.items()}
    database = Database(folder, tasks, Target(dict(cell["target"])), [])
    try:
        for key in counts:
            trial = Trial(task=key, choices=None, measured=_measured(key, layers, cell["wrong"]))
            log.append(trial)
            database.append(trial)
        log.save(_with_results(log))
    finally:
        log.close()
    return folder


def _measured(key: str, layers: list[Any], wrong: Mapping[str, str]) -> Measured:
    """Return the times of a kernel wherever it is called; nothing is right in a wrong network."""
    seconds = tuple(layer["seconds"] for layer in layers if layer["kernel"]["key"] == key)
    if wrong:
        return Measured(verdict="wrong", reason="; ".join(wrong.values()))
    return Measured(verdict="ok", seconds=seconds)


def _with_results(log: Log) -> LogManifest:
    found = {**log.manifest.results, **log_summary(log.manifest, log.trials)}
    return dataclasses.replace(log.manifest, results=found)
