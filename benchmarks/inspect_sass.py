"""List the machine code of a library for GPUs, kernel by kernel, and check what multiplies.

Fails where a kernel for integer instructions has neither dp4a (IDP) nor a matrix instruction
(IMMA), or where a thread's registers spill.

Of an artifact it also says how each kernel fills the GPU that stands for its architecture: blocks
on a multiprocessor, what keeps it from more, waves of blocks, products among the instructions of
the main loop, and the share of the peak that these two allow.
"""

from __future__ import annotations

import argparse
import re
import sys
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relay_int8.cli.terminal import show, table, terminal
from relay_int8.errors import ArtifactError
from relay_int8.runtime.artifact import LIBRARY, read_manifest
from schedules.catalog import TEMPLATES
from schedules.cuda.device.occupancy import occupancy_of
from schedules.cuda.toolchain.main_loop import main_loop
from schedules.cuda.toolchain.prediction import share_of_peak
from schedules.cuda.toolchain.sass import KernelCode, disassemble
from schedules.template import ScheduleError, ScheduleTemplate

_NAME = re.compile(r"(\w+?)_\d+_kernel\w*")
COLUMNS = ("kernel", "registers", "shared bytes", "IDP.4A", "IMMA", "LDL/STL", "stack bytes")
FILLING = ("blocks", "a core", "limit", "waves", "in loop", "of peak")


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, disassemble, print; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        found = disassemble(library_of(options.file), tuple(options.arch))
        kernels = launched_kernels(options.file)
    except (ArtifactError, ScheduleError) as error:
        print(f"error: {options.file}: {error}", file=sys.stderr)
        return 1
    console = terminal()
    for architecture in dict.fromkeys(kernel.architecture for kernel in found.kernels):
        columns = COLUMNS + (FILLING if kernels else ())
        rows = table(console, *columns, right=columns[1:])
        for kernel in found.kernels:
            if kernel.architecture == architecture:
                rows.add_row(*_row(kernel), *(_filling(kernel, kernels) if kernels else ()))
        show(console, architecture, rows)
        console.print()
    for architecture, reason in found.unread.items():
        print(f"{architecture} is there, but cannot be shown: {reason}", file=sys.stderr)
    if options.text:
        options.text.write_text("\n".join(_listing(kernel) for kernel in found.kernels))
    faults = [line for kernel in found.kernels for line in faults_of(kernel)]
    for line in faults:
        print(f"error: {line}", file=sys.stderr)
    return 1 if faults or not found.kernels else 0


def library_of(path: Path) -> bytes:
    """Return the library in an artifact, or the file itself where it is none.

    Raises
    ------
    ArtifactError
        If it cannot be read.
    """
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                return archive.read(LIBRARY)
        return path.read_bytes()
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ArtifactError(f"cannot be read: {error}") from error


def launched_kernels(path: Path) -> Mapping[str, Any]:
    """Return what an artifact says of its kernels' launches and usage; nothing of other files."""
    if not zipfile.is_zipfile(path):
        return {}
    kernels = read_manifest(path).gpu_code["kernels"]
    return {name: kernel for name, kernel in kernels.items() if kernel["launch"]}


def _filling(code: KernelCode, kernels: Mapping[str, Any]) -> tuple[str, ...]:
    kernel = kernels.get(code.name)
    if kernel is None:
        return ("",) * len(FILLING)
    filling = occupancy_of(code.architecture, kernel["usage"][code.architecture], kernel["launch"])
    loop = main_loop(code.text)
    share = share_of_peak(code.architecture, loop, filling)
    return (
        str(kernel["launch"]["blocks"] or "any"),
        str(filling.resident),
        filling.limit,
        "any" if filling.waves is None else f"{filling.waves:.2f}",
        f"{loop.share:.2f}" if loop.products else "",
        "" if share is None else f"{share:.2f}",
    )


def faults_of(kernel: KernelCode) -> list[str]:
    """Say what should not be as it is in a kernel."""
    where, template = f"{kernel.architecture}, {kernel.name}", template_of(kernel.name)
    faults = []
    if template is not None and _multiplies_integers(template) and not kernel.dp4a + kernel.mma:
        faults.append(f"{where}: neither IDP.4A nor IMMA; {template.name} is made for them")
    if kernel.spills:
        faults.append(f"{where}: {kernel.spills} loads and stores of spilled registers (LDL, STL)")
    return faults


def template_of(kernel: str) -> ScheduleTemplate | None:
    """Return the template that a kernel is named after; None for one of a float island."""
    match = _NAME.fullmatch(kernel)
    return TEMPLATES.get(match[1]) if match else None


def _multiplies_integers(template: ScheduleTemplate) -> bool:
    """Whether it is a convolution or dense layer of an instruction that takes integers alone."""
    return template.kind in ("conv2d", "dense") and "float32" not in template.x_types


def _row(kernel: KernelCode) -> tuple[str, ...]:
    numbers = (kernel.registers, kernel.shared_bytes, kernel.dp4a, kernel.mma, kernel.spills)
    return (kernel.name, *map(str, numbers), str(kernel.stack_bytes))


def _listing(kernel: KernelCode) -> str:
    return f"// {kernel.architecture} {kernel.name}\n{kernel.text.strip()}\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/inspect_sass", description=__doc__)
    parser.add_argument("file", type=Path, help="artifact (.ri8), shared library or fat binary")
    parser.add_argument("--arch", nargs="+", default=[], help="as sm_80; all it holds by default")
    parser.add_argument("--text", type=Path, help="file to write the whole disassembly to")
    return parser


if __name__ == "__main__":
    sys.exit(main())
