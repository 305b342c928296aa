"""TVM's runtime for a computer without TVM: 10 MB that stand in a folder of PYTHONPATH.

The compiler, 260 MB, stays behind. What is copied is what an artifact is loaded with: the runtime
libraries of the installed ``apache-tvm``, and ``apache-tvm-ffi`` for the other computer's Python.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from importlib.metadata import distribution, version
from pathlib import Path

TVM, FFI = "apache-tvm", "apache-tvm-ffi"
IMPORTED = "typing_extensions"  # by apache-tvm-ffi; one file
UNUSED = ("__pycache__", "3rdparty", "include", "share", "src", "stub", "testing")
LIBRARIES = ("libtvm_runtime.so", "libtvm_runtime_cuda.so")
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")


class RuntimeCopyError(RuntimeError):
    """The runtime cannot be had; the message says what is missing."""


def bundle_runtime(folder: Path, python: str, wheels: Path | None = None) -> None:
    """Fill ``folder`` for Python ``python``, as in "3.12", from the package index or ``wheels``.

    Raises
    ------
    RuntimeCopyError
        If there is no package of ``apache-tvm-ffi`` for it.
    """
    libraries = folder / "tvm" / "lib"
    libraries.mkdir(parents=True)
    source = _installed("tvm") / "lib"
    for name in LIBRARIES:
        shutil.copy(source / name, libraries / name)
    module = importlib.util.find_spec(IMPORTED)
    if module is None or module.origin is None:
        raise RuntimeCopyError(f"{IMPORTED} is not installed")
    shutil.copy(module.origin, folder)
    metadata = folder / f"apache_tvm-{version(TVM)}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(distribution(TVM).read_text("METADATA") or "")
    if python == sysconfig.get_python_version():
        shutil.copytree(
            _installed("tvm_ffi"), folder / "tvm_ffi", ignore=shutil.ignore_patterns(*UNUSED)
        )
        metadata = folder / f"apache_tvm_ffi-{version(FFI)}.dist-info"
        metadata.mkdir()
        (metadata / "METADATA").write_text(distribution(FFI).read_text("METADATA") or "")
    else:
        _download(folder, python, wheels)


def _installed(package: str) -> Path:
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations if spec else None) or ():
        return Path(folder)
    raise RuntimeCopyError(f"{package} is not installed")


def _download(folder: Path, python: str, source: Path | None) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", scratch]
        command += ["--only-binary=:all:", "--implementation", "cp", "--python-version", python]
        if source is not None:
            command += ["--no-index", "--find-links", str(source)]
        for platform in PLATFORMS:
            command += ["--platform", platform]
        done = subprocess.run([*command, f"{FFI}=={version(FFI)}"], capture_output=True, text=True)
        wheels = list(Path(scratch).glob("*.whl"))
        if not wheels:
            raise RuntimeCopyError(
                f"no {FFI} {version(FFI)} for Python {python}: {done.stderr.strip()[-300:]}"
            )
        with zipfile.ZipFile(wheels[0]) as archive:
            names = (name for name in archive.namelist() if not set(UNUSED) & {*name.split("/")})
            archive.extractall(folder, names)
