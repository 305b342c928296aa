"""A device whose times are a formula: tuners are tested without compiling anything."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from tvm.target import Target

from relay_int8.tuning.batch import Measured
from relay_int8.tuning.measurer import MeasuringDevice
from relay_int8.tuning.trial_log import LogManifest
from schedules.space import Choices
from schedules.spec import Conv2d, to_json
from schedules.targets import TARGETS
from schedules.task import Task

VNNI = Target(TARGETS["x86-vnni"])
TEMPLATE = "conv2d_vnni"


def conv_task(channels: int = 256, size: int = 14, occurrences: int = 1) -> Task:
    spec = Conv2d(
        batch=1,
        in_channels=channels,
        out_channels=channels,
        height=size,
        width=size,
        kernel=(3, 3),
        padding=(1, 1, 1, 1),
        x="uint8",
        y="uint8",
    )
    layouts = ("NCHW16c", "NCHW16c")
    return Task(template=TEMPLATE, spec=to_json(spec), layouts=layouts, occurrences=occurrences)


def seconds(choices: Choices | None) -> float:
    """Return the time of a point: best at 4 blocks, 2 rows, 3 columns; the default is poor."""
    if choices is None:
        return 3e-4
    blocks, rows, columns = choices
    distance = (
        np.log2(blocks[-1] / 4) ** 2
        + 0.3 * np.log2(rows[-1] / 2) ** 2
        + 2 * np.log2(columns / 3) ** 2
        + 0.2 * (blocks[-1] * columns > 12)
    )
    return float(1e-4 * (1 + distance))


class FakeDevice:
    """Measures by formula; ``wrong`` are candidates whose outputs are wrong, and that are fast."""

    def __init__(self, wrong: Sequence[Choices] = ()) -> None:
        self.wrong = set(wrong)
        self.measured: list[tuple[str, Choices | None]] = []

    def describe(self) -> MeasuringDevice:
        return MeasuringDevice(name="fake")

    def defaults(self, tasks: Sequence[Task]) -> Iterator[Measured]:
        return (self.measure(task, [None])[0] for task in tasks)

    def compare(self, task: Task, candidates: Sequence[Choices | None]) -> list[Measured]:
        return self.measure(task, candidates)

    def measure(
        self, task: Task, candidates: Sequence[Choices | None], best_s: float = float("inf")
    ) -> list[Measured]:
        self.measured += [(task.key, choices) for choices in candidates]
        return [
            Measured(verdict="wrong", reason="planted")
            if choices in self.wrong
            else Measured(verdict="ok", seconds=(seconds(choices) * 1.1, seconds(choices)))
            for choices in candidates
        ]


def manifest(tasks: Sequence[Task]) -> LogManifest:
    return LogManifest(
        device="fake",
        network="net",
        network_digest="",
        target=TARGETS["x86-vnni"] | {"num-cores": 2},
        seed=1,
        peak_macs_s=1e12,
        kernels={task.key: "1" for task in tasks},
        occurrences={task.key: task.occurrences for task in tasks},
    )


def database_lines(folder: Path) -> int:
    return len((folder / "database_tuning_record.json").read_text().splitlines())
