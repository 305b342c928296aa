"""Events, graphs and memory for the driver of a GPU that is none."""

import subprocess
from pathlib import Path

from tests.cuda import fake_gpu

HERE = Path(__file__).parent
EMULATOR = Path(fake_gpu.__file__).parent


def with_clock(gpu):
    """Give the driver of ``gpu`` what kernels are timed by; return the GPU."""
    folder = gpu.folder
    driver = folder / "libcuda.so.1"
    renamed = ["-x", "c", "-DcuDeviceGetAttribute=known_attribute", "-c"]
    files = [str(EMULATOR / "fake_driver.c"), "-o", str(folder / "known.o")]
    subprocess.run(["gcc", "-fPIC", "-w", *renamed, *files], check=True)
    files = [
        str(EMULATOR / "fake_launches.cc"),
        str(EMULATOR / "fake_runtime.cc"),  # which the clock calls; the runtime has its own
        str(HERE / "fake_clock.cc"),
        str(folder / "known.o"),
    ]
    (folder / "driver").write_text("{ global: cu[A-Z]*; *fake*; count_*; launch_*; local: *; };")
    script = f"-Wl,-soname,{driver.name},--version-script,{folder / 'driver'}"
    options = ["-std=c++17", "-fPIC", "-w", "-shared", script, "-ldl"]
    subprocess.run(["g++", *files, *options, "-o", str(driver)], check=True)
    return gpu
