"""TVM's CUDA runtime where there is no driver, so that modules for GPUs can be made.

``libtvm_runtime_cuda.so`` holds the class of CUDA modules, and needs ``libcuda`` and ``libcudart``
to be loaded. Those that are missing are stood in for by libraries of the same names whose every
function answers "no device". TVM then makes and exports CUDA modules; none can run.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import tvm
import tvm_ffi

from schedules.cuda.device.cudart import CUDART, STAND_IN, load_cudart
from schedules.template import ScheduleError

MODULE_FACTORY = "ffi.Module.create.cuda"
NO_DEVICE = 100  # cudaErrorNoDevice, CUDA_ERROR_NO_DEVICE
LIBRARIES: dict[str, tuple[str, Callable[[], bool]]] = {
    "libcuda.so.1": (r"\bcu[A-Z]\w*", lambda: _is_loadable("libcuda.so.1")),
    CUDART: (r"\bcuda[A-Z]\w*", load_cudart),
}
"""Names that the runtime asks for -> the functions of each, and what loads the library."""


def load_cuda_runtime() -> None:
    """Load TVM's CUDA runtime, with stand-ins for what this computer lacks; once a process.

    Raises
    ------
    ScheduleError
        If TVM was built without CUDA, or no C compiler makes the stand-ins.
    """
    if tvm_ffi.get_global_func(MODULE_FACTORY, allow_missing=True) is not None:
        return
    runtime = Path(tvm.__file__).parent / "lib" / "libtvm_runtime_cuda.so"
    if not runtime.exists():
        raise ScheduleError(f"{runtime} is missing: this TVM was built without CUDA")
    functions = _run("nm", "-D", "--undefined-only", str(runtime))
    with tempfile.TemporaryDirectory() as folder:
        for name, (pattern, is_loaded) in LIBRARIES.items():
            if not is_loaded():
                _stand_in(Path(folder), name, sorted(set(re.findall(pattern, functions))))
        ctypes.CDLL(str(runtime), mode=ctypes.RTLD_GLOBAL)


def _is_loadable(name: str) -> bool:
    try:
        ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
    except OSError:
        return False
    return True


def _stand_in(folder: Path, name: str, functions: list[str]) -> None:
    """Make and load a library whose functions all fail."""
    mark = f"int {STAND_IN};"
    (folder / "functions.c").write_text("\n".join([mark, *map(_definition, functions)]))
    (folder / "versions").write_text(f"{name} {{ global: *; }};")
    script = f"-Wl,-soname,{name},--version-script,{folder / 'versions'}"
    path = folder / name
    _run("cc", "-shared", "-fPIC", "-w", script, str(folder / "functions.c"), "-o", str(path))
    ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)


def _definition(function: str) -> str:
    """Return the C function that says that there is no device, or what that error is called."""
    if function in ("cudaGetErrorName", "cudaGetErrorString"):
        return f'const char* {function}(int error) {{ return "no CUDA device"; }}'
    if function in ("cuGetErrorName", "cuGetErrorString"):
        arguments = "int error, const char** text"
        return f'int {function}({arguments}) {{ *text = "no CUDA device"; return 0; }}'
    return f"int {function}(void) {{ return {NO_DEVICE}; }}"


def _run(*command: str) -> str:
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        detail = getattr(error, "stderr", "") or str(error)
        raise ScheduleError(
            f"{command[0]} failed: {detail.strip()}; a C compiler and binutils are needed to make "
            "CUDA modules without a driver"
        ) from error
