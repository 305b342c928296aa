"""The log of one network on one device: a manifest, and a line for every trial.

    tuning_logs/<device>/<network>/manifest.json                device, versions, kernels, seed
                                   trials.jsonl                 every trial, right or wrong
                                   database_workload.json       MetaSchedule's database of the
                                   database_tuning_record.json  right ones

A trial that :meth:`Log.append` returned from is on disk. Lines are only ever added; what a killed
process left of a last line is cut off when the log is opened again, and MetaSchedule's files, which
follow from the trials, are then made to agree.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from relay_int8 import finite_json
from relay_int8.errors import RecordError
from relay_int8.field_types import require_types
from relay_int8.files import write_atomic
from relay_int8.tuning.batch import Measured
from schedules.space import Choices
from schedules.task import MISREAD, Task
from schedules.template import ScheduleError

FORMAT = 1
MANIFEST, TRIALS = "manifest.json", "trials.jsonl"


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One measured candidate: ``choices`` in the space of task ``task``, None for the default.

    ``predicted`` is the share of the fastest's speed that the cost model expected, if it knew
    enough. ``final`` trials are comparisons: the default, then those that took turns with it.
    """

    task: str
    choices: Choices | None
    measured: Measured
    predicted: float | None = None
    final: bool = False

    def to_json(self) -> str:
        """Return one line of the log, without its end."""
        fields = dataclasses.asdict(self.measured)
        if self.predicted is not None:
            fields["predicted"] = self.predicted
        if self.final:
            fields["final"] = True
        return json.dumps({"task": self.task, "choices": self.choices, **fields})

    @classmethod
    def from_json(cls, text: str) -> Trial:
        """Return the trial that :meth:`to_json` wrote."""
        fields = finite_json.loads(text)
        measured = Measured(
            verdict=fields["verdict"], seconds=tuple(fields["seconds"]), reason=fields["reason"]
        )
        trial = cls(
            task=fields["task"],
            choices=_choices(fields["choices"]),
            measured=measured,
            predicted=fields.get("predicted"),
            final=fields.get("final", False),
        )
        require_types(trial)
        if measured.verdict == "ok" and not all(0 < s < math.inf for s in measured.seconds or (0,)):
            raise ValueError(f"it is ok and took {list(measured.seconds)} seconds")
        return trial


@dataclass(frozen=True, kw_only=True)
class LogManifest:
    """What the trials of a log are trials of.

    ``kernels`` maps the key of each task to its version, ``occurrences`` to its calls, ``layers``
    to the tensors that it computes (logs of earlier versions have none);
    ``peak_macs_s`` is what one core of the device multiplies in a second at most, 0 if not known;
    ``multiprocessors`` are a GPU's.
    """

    device: str
    network: str
    network_digest: str
    target: Mapping[str, Any]
    seed: int
    kernels: Mapping[str, str]
    occurrences: Mapping[str, int]
    layers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    clocks: str = ""
    peak_macs_s: float = 0.0
    multiprocessors: int = 0
    results: Mapping[str, Any] = field(default_factory=dict)
    tvm: str = field(default_factory=lambda: version("apache-tvm"))
    format: int = FORMAT

    def to_json(self) -> str:
        """Return the manifest as text."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"

    def refusal(self) -> str | None:
        """Say why this TVM cannot use the trials, or None."""
        running = version("apache-tvm")
        if self.tvm != running:
            return f"recorded with tvm {self.tvm}, running {running}; re-run relay-int8 tune"
        return None


class Log:
    """One log, open for adding.

    Parameters
    ----------
    folder
        Where it is.
    manifest
        What is measured now.
    resume
        Go on with what is there; without it, only an empty folder is taken.

    Raises
    ------
    RecordError
        If there are trials already and ``resume`` is not set, or they are not trials of the same
        kernels, or a line that is not the last is damaged.
    """

    def __init__(self, folder: Path, manifest: LogManifest, *, resume: bool = False) -> None:
        self.folder = folder
        self.manifest = manifest
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / TRIALS).exists():
            if not resume:
                raise RecordError(
                    f"{folder} holds trials already; TuneOptions(resume=True) goes on with them, "
                    "another tune(name=...) starts anew"
                )
            _check(folder, manifest)
        self.trials = repair(folder)
        self._file = (folder / TRIALS).open("ab")
        self.save(manifest)

    def append(self, trial: Trial) -> None:
        """Add a trial; it is on disk when this returns."""
        self._file.write(trial.to_json().encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.trials.append(trial)

    def save(self, manifest: LogManifest) -> None:
        """Replace the manifest."""
        self.manifest = manifest
        write_atomic(self.folder / MANIFEST, manifest.to_json().encode())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_manifest(folder: Path) -> LogManifest:
    """Return the manifest of a log; RecordError if it is none of ours."""
    path = folder / MANIFEST
    try:
        fields = finite_json.loads(path.read_bytes())
        format_name = fields.get("format")
        if format_name != FORMAT:
            raise RecordError(
                f"{path}: format {format_name}, expected {FORMAT}; use a newer relay-int8"
            )
        manifest = LogManifest(**fields)
        require_types(manifest)
        return manifest
    except FileNotFoundError as error:
        raise RecordError(f"{folder} has no {MANIFEST}; it is no tuning log") from error
    except (ValueError, TypeError, AttributeError) as error:
        raise RecordError(f"{path} is damaged: {error}; delete its folder") from error


def read_trials(folder: Path) -> list[Trial]:
    """Return the trials of a log, a torn last line left out.

    Raises
    ------
    RecordError
        If any other line is damaged.
    """
    return _parsed(folder)[0]


def task_of(manifest: LogManifest, key: str) -> Task:
    """Return a trial's kernel, its calls and layers; RecordError if it is none of this version."""
    with damaged(f"the log of {manifest.network} on {manifest.device}"):
        if key not in manifest.kernels:
            raise ScheduleError(f"its manifest does not name the kernel {key[:200]}")
        task = Task.from_key(key, manifest.occurrences.get(key, 1))
        return dataclasses.replace(task, layers=tuple(manifest.layers.get(key, ())))


@contextmanager
def damaged(log: object) -> Iterator[None]:
    """Raise a RecordError where a kernel or its choices, as the log has them, make no schedule."""
    try:
        yield
    except (ScheduleError, *MISREAD) as error:
        raise RecordError(
            f"{log} is damaged, or was recorded with another version of relay-int8: {error}; "
            "re-run relay-int8 tune"
        ) from error


def repair(folder: Path) -> list[Trial]:
    """Cut off what is torn, and return the trials."""
    trials, length = _parsed(folder)
    path = folder / TRIALS
    if path.exists() and path.stat().st_size != length:
        os.truncate(path, length)
    return trials


def _parsed(folder: Path) -> tuple[list[Trial], int]:
    """Return the trials, and how many bytes they take."""
    path = folder / TRIALS
    content = path.read_bytes() if path.exists() else b""
    whole = content.rfind(b"\n") + 1
    trials = []
    for number, line in enumerate(content[:whole].splitlines(), start=1):
        try:
            trials.append(Trial.from_json(line.decode()))
        except (ValueError, KeyError, TypeError) as error:
            raise RecordError(
                f"{path}, line {number} is damaged: {error}; delete that line"
            ) from error
    return trials, whole


def _check(folder: Path, manifest: LogManifest) -> None:
    """Refuse to go on with trials of something else."""
    written = read_manifest(folder)
    reason = written.refusal()
    for name in ("device", "multiprocessors", "network_digest", "target", "seed"):
        there, here = getattr(written, name), getattr(manifest, name)
        if reason is None and there != here:
            reason = f"recorded with {name} {there}, now {here}; use another tune(name=...)"
    if reason is None and written.kernels != manifest.kernels:
        reason = "recorded with other versions of the templates; use another tune(name=...)"
    if reason:
        raise RecordError(f"{folder}: {reason}")


def _choices(value: Any) -> Choices | None:
    if value is None:
        return None
    return tuple(tuple(item) if isinstance(item, list) else item for item in value)
