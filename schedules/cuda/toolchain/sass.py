"""What machine code a library holds for a GPU: its instructions, counted by kernel.

Fat binaries lie among a module's data, where NVIDIA's ``cuobjdump`` does not look; they are cut out
and given to it one by one. It comes with the toolkit, or from the package index
(``nvidia-cuda-cuobjdump`` and ``nvidia-cuda-nvdisasm``, 6 MB, the extra ``sass`` of this project).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from schedules.cuda.toolchain.fat_binary import MAGIC
from schedules.cuda.toolchain.main_loop import name_of
from schedules.template import ScheduleError

TOOL, DISASSEMBLER = "cuobjdump", "nvdisasm"
PACKAGES = ("nvidia.cu13", "nvidia.cuda_cuobjdump")
_HEADER = struct.Struct("<4sHHQ")  # magic, version, bytes of the header, bytes that follow it
_FUNCTION = re.compile(r"^\s*Function : (\w+)$", re.M)
_OPCODE = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_.]*)")
_USAGE = re.compile(r"Function (\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


@dataclass(frozen=True, kw_only=True)
class KernelCode:
    """The machine code of one kernel for one architecture.

    Parameters
    ----------
    text
        What the disassembler prints, one instruction a line, encodings included.
    registers
        Of a thread.
    shared_bytes
        Of a block, those that are known when it is compiled; on sm_80 and newer 1,024 of them are
        the system's.
    stack_bytes
        Of a thread, in memory; more than 0 where registers spill or arrays are indexed.
    """

    architecture: str
    name: str
    text: str
    registers: int
    shared_bytes: int
    stack_bytes: int

    @cached_property
    def opcodes(self) -> Counter[str]:
        """Return how often each instruction occurs, by ``main_loop.name_of``."""
        return Counter(map(name_of, _OPCODE.findall(self.text)))

    @property
    def dp4a(self) -> int:
        """Return the instructions that add four products of bytes."""
        return self.opcodes["IDP.4A"]

    @property
    def mma(self) -> int:
        """Return the matrix instructions of integers, those of Hopper's warp groups included."""
        return self.opcodes["IMMA"] + self.opcodes["IGMMA"]

    @property
    def spills(self) -> int:
        """Return the loads from and stores to a thread's own memory."""
        return self.opcodes["LDL"] + self.opcodes["STL"]


@dataclass(frozen=True, kw_only=True)
class Disassembly:
    """What a library holds; ``unread`` are architectures that the tool does not know, and why."""

    kernels: tuple[KernelCode, ...]
    unread: dict[str, str]


def fat_binaries_in(content: bytes) -> Iterator[bytes]:
    """Yield the fat binaries that lie anywhere in ``content``."""
    begin = content.find(MAGIC)
    while begin >= 0:
        end = begin + len(MAGIC)
        if len(content) >= begin + _HEADER.size:
            _, version, header, size = _HEADER.unpack_from(content, begin)
            whole = begin + header + size
            if version == 1 and header >= _HEADER.size and whole <= len(content):
                yield content[begin:whole]
                end = whole
        begin = content.find(MAGIC, end)


def disassemble(content: bytes, architectures: tuple[str, ...] = ()) -> Disassembly:
    """Return the kernels of a library, an object file or a fat binary.

    Parameters
    ----------
    content
        The file.
    architectures
        As in ``sm_80``; all that the file holds if none are named.

    Raises
    ------
    ScheduleError
        If there is no disassembler, no machine code, or none of a named architecture.
    """
    tool = find_tool()
    kernels: list[KernelCode] = []
    unread: dict[str, str] = {}
    held: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        for number, binary in enumerate(fat_binaries_in(content)):
            file = Path(folder) / f"{number}.fatbin"
            file.write_bytes(binary)
            cubins = _members(tool, file)
            held.update(cubins)
            for name in cubins:
                if not architectures or name in architectures:
                    _add(tool, file, name, kernels, unread)
    if not held:
        raise ScheduleError("no machine code for a GPU is in it; build it for one, as for sm_80")
    missing = sorted(set(architectures) - held)
    if missing:
        raise ScheduleError(
            f"no machine code for {', '.join(missing)}; it holds {', '.join(sorted(held))}"
        )
    return Disassembly(kernels=tuple(kernels), unread=unread)


def find_tool() -> Path:
    """Return where ``cuobjdump`` is.

    Raises
    ------
    ScheduleError
        If it, or the ``nvdisasm`` that it calls, is not installed.
    """
    for package in PACKAGES:
        try:
            spec = importlib.util.find_spec(package)
        except ModuleNotFoundError:
            continue
        for folder in (spec.submodule_search_locations if spec else None) or ():
            tool = Path(folder) / "bin" / TOOL
            if tool.exists() and tool.with_name(DISASSEMBLER).exists():
                return tool
    path = shutil.which(TOOL)
    if path and (Path(path).with_name(DISASSEMBLER).exists() or shutil.which(DISASSEMBLER)):
        return Path(path)
    raise ScheduleError(
        f"{TOOL} and {DISASSEMBLER} were not found, neither among the packages nor on PATH; "
        "pip install 'relay-int8[sass]'"
    )


def _members(tool: Path, file: Path) -> list[str]:
    listed = _run(tool, "--list-elf", str(file)).stdout
    return re.findall(r"\.(sm_\w+)\.cubin", listed)


def _add(
    tool: Path, file: Path, name: str, kernels: list[KernelCode], unread: dict[str, str]
) -> None:
    usage = _run(tool, "--dump-resource-usage", "-arch", name, str(file))
    sass = _run(tool, "--dump-sass", "-arch", name, str(file))
    if usage.returncode or sass.returncode:
        complaint = (usage.stderr + sass.stderr).strip().splitlines() or ["no message"]
        unread[name] = complaint[0]
        return
    texts = _FUNCTION.split(sass.stdout)[1:]
    by_name = dict(zip(texts[::2], texts[1::2], strict=True))
    for kernel, registers, stack, shared, local in _USAGE.findall(usage.stdout):
        kernels.append(
            KernelCode(
                architecture=name,
                name=kernel,
                text=by_name[kernel],
                registers=int(registers),
                shared_bytes=int(shared),
                stack_bytes=int(stack) + int(local),
            )
        )


def _run(tool: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = f"{tool.parent}{os.pathsep}{os.environ.get('PATH', '')}"  # where it looks for nvdisasm
    command = [str(tool), *arguments]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, env={**os.environ, "PATH": path}
        )
    except OSError as error:
        raise ScheduleError(f"{tool}: {error}; install it again") from error
