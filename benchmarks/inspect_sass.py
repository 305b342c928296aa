"""List the machine code of a library for GPUs, kernel by kernel, and check what multiplies.

Fails where a kernel for integer instructions has neither dp4a (IDP) nor a matrix instruction
(IMMA), or where a thread's registers spill.

Of an artifact it also says how each kernel fills the GPU that stands for its architecture: blocks
on a multiprocessor, what keeps it from more, waves of blocks, products among the instructions of
the main loop, and the share of the peak that these two allow; then the medians of these figures
over all convolutions and dense layers of one instruction.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay_int8.cli.terminal import show, table, terminal
from relay_int8.errors import ArtifactError
from relay_int8.runtime.artifact import LIBRARY, read_manifest
from schedules.catalog import TEMPLATES
from schedules.cuda.choice import ESTIMATES
from schedules.cuda.device.occupancy import Occupancy, occupancy_of
from schedules.cuda.toolchain.main_loop import MainLoop, main_loop
from schedules.cuda.toolchain.prediction import share_of_peak
from schedules.cuda.toolchain.sass import KernelCode, disassemble
from schedules.template import ScheduleError, ScheduleTemplate

_NAME = re.compile(r"(\w+?)_\d+_kernel\w*")
COLUMNS = ("kernel", "registers", "shared bytes", "IDP.4A", "IMMA", "LDL/STL", "stack bytes")
FILLING = ("blocks", "a core", "limit", "waves", "in loop", "of peak")
MEDIANS = ("by", "kernels", "a core", "fewer than 2", "waves", "busy", "in loop", "of peak")


@dataclass(frozen=True, kw_only=True)
class Filling:
    """How a kernel fills a GPU; ``share`` of the peak is None where it multiplies nothing."""

    blocks: int | None
    occupancy: Occupancy
    loop: MainLoop
    share: float | None

    @classmethod
    def of(cls, code: KernelCode, kernel: Mapping[str, Any]) -> Filling:
        """Return it by machine code, and by what the manifest says of the kernel."""
        filling = occupancy_of(
            code.architecture, kernel["usage"][code.architecture], kernel["launch"]
        )
        loop = main_loop(code.text)
        return cls(
            blocks=kernel["launch"]["blocks"],
            occupancy=filling,
            loop=loop,
            share=share_of_peak(code.architecture, loop, filling),
        )


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
        codes = [kernel for kernel in found.kernels if kernel.architecture == architecture]
        fillings = {
            code.name: Filling.of(code, kernels[code.name])
            for code in codes
            if code.name in kernels
        }
        columns = COLUMNS + (FILLING if kernels else ())
        rows = table(console, *columns, right=columns[1:])
        for kernel in codes:
            filling = _filling(fillings.get(kernel.name)) if kernels else ()
            usage = kernels[kernel.name]["usage"] if kernel.name in kernels else {}
            shared_bytes = usage.get(architecture, {}).get("shared_bytes", kernel.shared_bytes)
            rows.add_row(*_row(kernel, shared_bytes), *filling)
        show(console, architecture, rows)
        console.print()
        _show_medians(console, architecture, fillings)
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


def _filling(kernel: Filling | None) -> tuple[str, ...]:
    if kernel is None:
        return ("",) * len(FILLING)
    waves = kernel.occupancy.waves
    return (
        str(kernel.blocks or "any"),
        str(kernel.occupancy.resident),
        kernel.occupancy.limit,
        "any" if waves is None else f"{waves:.2f}",
        f"{kernel.loop.share:.2f}" if kernel.loop.products else "",
        "" if kernel.share is None else f"{kernel.share:.2f}",
    )


def _show_medians(console: Any, architecture: str, fillings: Mapping[str, Filling]) -> None:
    """Print a row for dp4a and one for mma; open batches are left out."""
    rows = table(console, *MEDIANS, right=MEDIANS[1:])
    for instruction in ("dp4a", "mma"):
        kernels = [
            kernel
            for name, kernel in fillings.items()
            if name.startswith((f"conv2d_{instruction}", f"dense_{instruction}"))
            and kernel.occupancy.waves is not None
        ]
        if kernels:
            rows.add_row(instruction, *medians(kernels))
    if rows.row_count:
        show(console, f"{architecture}, medians", rows)
        console.print()


def medians(kernels: Sequence[Filling]) -> tuple[str, ...]:
    """Return what ``MEDIANS`` says of kernels of one instruction."""
    resident = [kernel.occupancy.resident for kernel in kernels]
    figures = (
        [kernel.occupancy.waves or 0.0 for kernel in kernels],
        [kernel.occupancy.busy or 0.0 for kernel in kernels],
        [kernel.loop.share for kernel in kernels],
        [kernel.share or 0.0 for kernel in kernels],
    )
    return (
        str(len(kernels)),
        f"{min(resident)} to {max(resident)}",
        str(sum(count < 2 for count in resident)),
        *(f"{statistics.median(values):.2f}" for values in figures),
    )


def faults_of(kernel: KernelCode) -> list[str]:
    """Say what should not be as it is in a kernel."""
    where, template = f"{kernel.architecture}, {kernel.name}", template_of(kernel.name)
    faults = []
    # Those with an estimate are the convolutions and dense layers by dp4a and by tensor cores.
    if template is not None and template.name in ESTIMATES and not kernel.dp4a + kernel.mma:
        faults.append(f"{where}: neither IDP.4A nor IMMA; {template.name} is made for them")
    if kernel.spills:
        faults.append(f"{where}: {kernel.spills} loads and stores of spilled registers (LDL, STL)")
    return faults


def template_of(kernel: str) -> ScheduleTemplate | None:
    """Return the template that a kernel is named after; None for one of a float island."""
    match = _NAME.fullmatch(kernel)
    return TEMPLATES.get(match[1]) if match else None


def _row(kernel: KernelCode, shared_bytes: int) -> tuple[str, ...]:
    numbers = (kernel.registers, shared_bytes, kernel.dp4a, kernel.mma, kernel.spills)
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
