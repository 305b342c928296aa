"""Cells with made-up times."""

from benchmarks.measurement import Measurement
from benchmarks.turn import Turn


def cell(times_ms, **changes):
    turns = {
        key: tuple(Turn(wall_s=ms / 1e3, cpu_s=ms / 2e3) for ms in values)
        for key, values in times_ms.items()
    }
    values = {
        "network": "net",
        "image_size": 8,
        "batch": 1,
        "threads": 1,
        "clock": "wall",
        "macs": 1_000_000,
        "peak_macs_s": 1e9,
        "turns": turns,
        "cosines": dict.fromkeys(turns, 0.5),
        "snr_db": dict.fromkeys(turns, 20.0),
    }
    return Measurement(**values | changes)
