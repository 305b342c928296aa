"""Systems for the tests of turns; loaded by name in other processes."""

import threading
import time

from benchmarks.systems import System
from benchmarks.turn import run_for


class Spinner:
    """Echoes its images; a thread of it never rests, as those of a pool that spins."""

    def __init__(self, file, images, threads):
        self._images = images
        threading.Thread(target=self._spin, daemon=True).start()

    def outputs(self):
        return self._images

    def turn(self, seconds):
        return run_for(seconds, lambda: time.sleep(0.01))

    def _spin(self):
        while True:
            pass


def broken(file, images, threads):
    raise OSError(f"{file} cannot be loaded")


def system(loader):
    return System(
        name=loader,
        family="relay-int8",
        goal="latency",
        quantizer="",
        loader=f"tests.benchmarks.fake_systems:{loader}",
        suffix="",
        packages=(),
    )
