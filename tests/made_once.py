"""Folders that one process of a run fills and all others find; gone when the run ends."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

VARIABLE = "RELAY_INT8_TESTS_FOLDER"  # names where they lie; pytest sets it for its processes


def made_once(name: str, make: Callable[[Path], None]) -> Path:
    """Return the folder ``name``, which ``make`` has filled, in this process or another one.

    Parameters
    ----------
    name
        Says all that its content depends on, beside the code of this run.
    make
        Fills an empty folder, which is moved then; it may be called in two processes at once.
    """
    common = os.environ.get(VARIABLE)
    if common is None:  # a process of its own
        folder = Path(tempfile.mkdtemp(prefix="relay-int8-tests-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        make(folder)
        return folder
    place = Path(common) / name
    if not place.exists():
        own = Path(tempfile.mkdtemp(dir=common))
        make(own)
        with suppress(OSError):  # another process was first
            own.rename(place)
    return place
