"""Several blocks of one launch, all their threads at once: registers are arrays with a lane for each.

Lanes part where a branch says so. Those that are furthest behind in the text run first, until they
meet the others again; a barrier holds them until all of their block are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.cuda.ptx.errors import Fault, PtxError
from tests.cuda.ptx.memory import GARBAGE, GlobalMemory, PrivateMemory, SharedMemory
from tests.cuda.ptx.text import Instruction, Kernel
from tests.cuda.ptx.warps import WARP

Step = Callable[["Machine"], None]
AT_BARRIER = 1 << 20  # added to the block that follows it
EXITED = 1 << 30
PARTED = "is at a barrier that other threads of its block do not reach"


@dataclass
class Copy:
    """One asynchronous copy of some lanes: ``groups`` are those it was committed in."""

    lanes: np.ndarray
    to: np.ndarray
    source: np.ndarray
    groups: np.ndarray


@dataclass
class Machine:
    """The threads of ``blocks``, of which each has ``threads``, and their memories."""

    kernel: Kernel
    parameters: dict[str, int]
    memory: GlobalMemory
    shared: SharedMemory
    local: PrivateMemory
    special: dict[str, np.ndarray]
    threads: int
    registers: dict[str, np.ndarray] = field(default_factory=dict)
    copies: list[Copy] = field(default_factory=list)

    def __post_init__(self) -> None:
        exists = self.special["exists"]
        self.count = len(exists)
        self.position = np.where(exists, 0, EXITED)
        self.groups = np.zeros(self.count, np.int64)
        self.active = exists
        self.all_lanes = np.arange(self.count)

    def run(self, program: Sequence[Sequence[tuple[Instruction, Step]]]) -> None:
        """Execute the kernel to its end.

        Raises
        ------
        PtxError
            If a thread does what it may not.
        """
        with np.errstate(all="ignore"):
            while True:
                block = int(self.position.min())
                if block >= AT_BARRIER:
                    if block == EXITED:
                        return
                    self._pass_barriers()
                    continue
                self.active = self.position == block
                self.has_all = bool((self.active | (self.position == EXITED)).all())
                self.position[self.active] = block + 1 if block + 1 < len(program) else EXITED
                for instruction, step in program[block]:
                    try:
                        step(self)
                    except Fault as fault:
                        raise self.error(instruction, fault) from fault

    def _pass_barriers(self) -> None:
        """Let all blocks go on whose threads are all at one barrier."""
        exists = self.special["exists"]
        position = self.position.reshape(-1, self.threads)
        last = np.where(exists.reshape(position.shape), position, -1).max(axis=1)
        parted = exists & (self.position != np.repeat(last, self.threads))
        if parted.any():
            waiting = exists & (self.position < EXITED)
            lane = int(
                np.argmax(waiting & np.repeat(parted.reshape(position.shape).any(1), self.threads))
            )
            raise PtxError(f"{self.kernel.name}: {self.thread(lane)} {PARTED}")
        lanes = np.flatnonzero(self.position < EXITED)
        self.shared.pass_barrier(lanes)
        self.position[lanes] -= AT_BARRIER

    def error(self, instruction: Instruction, fault: Fault) -> PtxError:
        """Return what a fault is called outside."""
        return PtxError(
            f"{self.kernel.name}, line {instruction.line}, {instruction.text!r}: "
            f"{self.thread(fault.lane)} {fault.reason}"
        )

    def thread(self, lane: int) -> str:
        """Return the name of a thread."""
        block, thread = (
            ", ".join(str(int(self.special[f"{kind}.{axis}"][lane])) for axis in "xyz")
            for kind in ("%ctaid", "%tid")
        )
        return f"thread ({thread}) of block ({block})"

    def executing(self, guard: np.ndarray | None) -> np.ndarray:
        """Return the lanes that execute an instruction, where ``guard`` is true."""
        return np.flatnonzero(self.active if guard is None else self.active & guard)

    def register(self, name: str, dtype: np.dtype) -> np.ndarray:
        """Return a register; garbage before it is written, which compilers let half a word be."""
        found = self.registers.get(name)
        if found is None:
            bytes_ = np.full(self.count * dtype.itemsize, GARBAGE, np.uint8)
            found = bytes_.astype(bool) if dtype.kind == "b" else bytes_.view(dtype)
            self.registers[name] = found
        return found

    def write(self, name: str, value: np.ndarray, guard: np.ndarray | None) -> None:
        """Set a register in the lanes that execute; arrays are never written to."""
        value = np.broadcast_to(value, (self.count,))
        if guard is not None or not self.has_all:
            mask = self.active if guard is None else self.active & guard
            value = np.where(mask, value, self.register(name, value.dtype))
        self.registers[name] = value

    def write_lanes(self, name: str, value: np.ndarray, lanes: np.ndarray) -> None:
        """Set a register in some lanes."""
        if len(lanes) == self.count:
            self.registers[name] = value
            return
        after = self.register(name, value.dtype).copy()
        after[lanes] = value
        self.registers[name] = after

    def wait_for_copies(self, lanes: np.ndarray, pending: int) -> None:
        """Let the lanes' copies arrive, but those of the last ``pending`` groups; no other does."""
        waits = np.zeros(self.count, bool)
        waits[lanes] = True
        left = []
        for copy in self.copies:
            done = waits[copy.lanes] & (copy.groups < self.groups[copy.lanes] - pending)
            if done.any():
                words = self.memory.load(copy.lanes[done], copy.source[done], 4, 4)
                self.shared.end_copy(copy.lanes[done], copy.to[done], words)
            if not done.all():
                kept = ~done
                left.append(
                    Copy(copy.lanes[kept], copy.to[kept], copy.source[kept], copy.groups[kept])
                )
        self.copies = left


def special_registers(
    grid: tuple[int, ...], block: tuple[int, ...], blocks: np.ndarray
) -> dict[str, np.ndarray]:
    """Return the special registers of the threads of ``blocks``, which number those of the grid.

    Blocks are filled with lanes that do not exist, up to whole warps.
    """
    threads = int(np.prod(block))
    padded = -(-threads // WARP) * WARP
    thread, of_block = np.arange(padded), np.repeat(blocks, padded)
    result = {"exists": np.tile(thread < threads, len(blocks))}
    thread = np.tile(thread, len(blocks))
    for kind, extents, number in (("tid", block, thread), ("ctaid", grid, of_block)):
        size = "n" + kind
        for axis, extent in zip("xyz", extents, strict=True):
            result[f"%{kind}.{axis}"] = (number % extent).astype(np.uint32)
            result[f"%{size}.{axis}"] = np.full(len(number), extent, np.uint32)
            number = number // extent
    result["%laneid"] = (thread % WARP).astype(np.uint32)
    return result
