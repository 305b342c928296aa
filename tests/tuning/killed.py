"""A tuner to be killed: ``python -m tests.tuning.killed FOLDER TRIALS``; prints what is on disk."""

import sys
import time
from pathlib import Path

from relay_int8.tuning.trial_log import Log
from relay_int8.tuning.tuner import TrialProgress, Tuner
from tests.tuning.fake_device import VNNI, FakeDevice, conv_task, manifest


class SlowDevice(FakeDevice):
    def measure(self, task, candidates, best_s=float("inf")):
        time.sleep(0.002 * len(candidates))
        return super().measure(task, candidates, best_s)


def acknowledge(progress: TrialProgress) -> None:
    print(progress.trial.to_json(), flush=True)


if __name__ == "__main__":
    tasks = (conv_task(128), conv_task(256))
    log = Log(Path(sys.argv[1]), manifest(tasks), resume=True)
    tuner = Tuner(tasks, VNNI, SlowDevice(), log, search="random", report=acknowledge)
    print("ready", flush=True)
    tuner.run(int(sys.argv[2]), batch=4)
    log.close()
