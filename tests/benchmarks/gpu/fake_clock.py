"""Events, graphs and memory for the driver of a GPU that is none."""

import functools
import shutil
from pathlib import Path

from tests.cuda import fake_gpu
from tests.cuda.fake_gpu import DRIVER, compiled
from tests.made_once import made_once

HERE = Path(__file__).parent
EMULATOR = Path(fake_gpu.__file__).parent


def with_clock(gpu):
    """Give the driver of ``gpu`` what kernels are timed by; return the GPU."""
    shutil.copy(timing_driver(), gpu.folder / DRIVER)
    return gpu


@functools.cache
def timing_driver():
    """Compile the driver that can time, which is that of every GPU; once a run."""
    return made_once("timing-driver", _compile_timing_driver) / DRIVER


def _compile_timing_driver(folder):
    driver = folder / DRIVER
    renamed = ["-x", "c", "-DcuDeviceGetAttribute=known_attribute", "-c"]
    compiled([*renamed, str(EMULATOR / "fake_driver.c"), "-o", str(folder / "known.o")])
    files = [
        str(EMULATOR / "fake_launches.cc"),
        str(EMULATOR / "fake_runtime.cc"),  # which the clock calls; the runtime has its own
        str(HERE / "fake_clock.cc"),
        str(folder / "known.o"),
    ]
    (folder / "driver").write_text("{ global: cu[A-Z]*; *fake*; count_*; launch_*; local: *; };")
    script = f"-Wl,-soname,{driver.name},--version-script,{folder / 'driver'}"
    compiled([*files, "-shared", script, "-ldl", "-o", str(driver)])
