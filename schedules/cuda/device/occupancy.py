"""How many blocks of a kernel a multiprocessor holds at a time, by the rules of allocation.

Of the CUDA programming guide's table of compute capabilities: a warp takes registers in units of
256, a block shared memory in units of 128 bytes (256 before sm_80), and from sm_80 on 1 KiB of it
is the system's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from schedules.cuda.device.gpus import KIB, capability, gpu_of

WARP = 32
REGISTERS = 65536  # of a multiprocessor, on all of these GPUs
REGISTER_UNIT = 256  # of a warp
AMPERE = 80


@dataclass(frozen=True, kw_only=True)
class Occupancy:
    """How a kernel fills a GPU.

    Parameters
    ----------
    resident
        Blocks on a multiprocessor at a time; 0 where not even one fits.
    limit
        What keeps it from more: "registers", "shared memory", "threads" or "blocks".
    waves
        Rounds of resident blocks on all multiprocessors until every block has run, as 1.6; None
        where the number of blocks is not known before the run.
    busy
        The part of all multiprocessors' time that has work, where the busiest has no pause; None as
        above.
    """

    resident: int
    limit: str
    waves: float | None
    busy: float | None


def occupancy(
    architecture: str, *, threads: int, registers: int, shared_bytes: int, blocks: int | None
) -> Occupancy:
    """Return how a kernel fills the GPU that stands for ``architecture`` (as "sm_80").

    Parameters
    ----------
    threads
        Of a block.
    registers
        Of a thread.
    shared_bytes
        Of a block, the system's left out.
    blocks
        Of a launch; None where a symbolic batch decides.
    """
    gpu = gpu_of(architecture)
    is_ampere = capability(architecture) >= AMPERE
    warps = -(-threads // WARP)
    of_block = _rounded(registers * WARP, REGISTER_UNIT) * warps
    shared = _rounded(shared_bytes + is_ampere * KIB, 128 if is_ampere else 256)
    limits = {
        "threads": gpu.threads // (warps * WARP),
        "blocks": gpu.blocks,
        "registers": REGISTERS // of_block if of_block else gpu.blocks,
        "shared memory": gpu.shared_kib * KIB // shared if shared else gpu.blocks,
    }
    limit = min(limits, key=limits.__getitem__)
    resident = limits[limit]
    if blocks is None or not resident:
        return Occupancy(resident=resident, limit=limit, waves=None, busy=None)
    return Occupancy(
        resident=resident,
        limit=limit,
        waves=blocks / (gpu.cores * resident),
        busy=blocks / (gpu.cores * -(-blocks // gpu.cores)),
    )


def occupancy_of(
    architecture: str, usage: Mapping[str, int], launch: Mapping[str, int | None]
) -> Occupancy:
    """Return how a kernel fills a GPU, by ``usage`` and ``launch`` of an artifact's manifest."""
    return occupancy(
        architecture,
        threads=launch["threads"] or 1,
        registers=usage["registers"],
        shared_bytes=usage["shared_bytes"],
        blocks=launch["blocks"],
    )


def _rounded(size: int, unit: int) -> int:
    return -(-size // unit) * unit
