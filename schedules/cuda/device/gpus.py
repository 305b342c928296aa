"""Figures of NVIDIA's GPUs, for rules, estimates and peaks; needs nothing but Python.

Of the vendor's data sheets, architecture papers and programming guide, for the largest common GPU
of an architecture. Rates are of one multiprocessor in one clock.
"""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True, kw_only=True)
class GpuFigures:
    """What a GPU has.

    Parameters
    ----------
    cores
        Multiprocessors.
    mhz
        Their clock.
    cached
        Bytes from the second-level cache.
    shared_kib, block_kib
        Shared memory of a multiprocessor, and of it what a launch may ask for for one block.
    dp4a
        dp4a of all lanes: the rate of 32-bit integer multiply-adds.
    mma_peak
        Multiply-adds of bytes by the matrix units; 0 where there are none.
    mma_share
        The part of ``mma_peak`` that ``mma.sync`` reaches; warp-group instructions have the rest.
    threads, blocks
        That a multiprocessor holds at a time, at most.
    """

    cores: int
    mhz: int
    cached: int
    shared_kib: int
    block_kib: int
    dp4a: int = 64
    mma_peak: int = 0
    mma_share: float = 1.0
    threads: int = 2048
    blocks: int = 32


GPUS = {
    61: GpuFigures(cores=20, mhz=1733, cached=32, shared_kib=96, block_kib=48, dp4a=128),
    70: GpuFigures(cores=80, mhz=1530, cached=32, shared_kib=96, block_kib=96),
    72: GpuFigures(cores=8, mhz=1377, cached=32, shared_kib=96, block_kib=96),
    75: GpuFigures(
        cores=40, mhz=1590, cached=32, shared_kib=64, block_kib=64, mma_peak=1024,
        threads=1024, blocks=16,
    ),
    80: GpuFigures(cores=108, mhz=1410, cached=48, shared_kib=164, block_kib=163, mma_peak=2048),
    86: GpuFigures(
        cores=84, mhz=1695, cached=32, shared_kib=100, block_kib=99, mma_peak=1024,
        threads=1536, blocks=16,
    ),
    87: GpuFigures(
        cores=16, mhz=1300, cached=32, shared_kib=164, block_kib=163, mma_peak=2048,
        threads=1536, blocks=16,
    ),
    89: GpuFigures(
        cores=128, mhz=2520, cached=32, shared_kib=100, block_kib=99, mma_peak=1024,
        threads=1536, blocks=24,
    ),
    90: GpuFigures(
        cores=132, mhz=1755, cached=40, shared_kib=228, block_kib=227, mma_peak=4096,
        mma_share=5 / 8,
    ),
    100: GpuFigures(  # the share is a guess: what mma.sync reaches on sm_90
        cores=148, mhz=1965, cached=40, shared_kib=228, block_kib=227, mma_peak=8192,
        mma_share=5 / 16,
    ),
    120: GpuFigures(
        cores=170, mhz=2407, cached=32, shared_kib=100, block_kib=99, mma_peak=1024,
        threads=1536, blocks=24,
    ),
}  # fmt: skip
"""By compute capability, the oldest with dp4a first."""


def capability(architecture: str) -> int:
    """Return 80 for ``sm_80`` or ``sm_80a``, 0 for what names none."""
    return int("".join(filter(str.isdigit, architecture)) or 0)


def gpu_of(architecture: str) -> GpuFigures:
    """Return the newest GPU that is not newer than ``architecture``, or else the oldest."""
    known = [number for number in GPUS if number <= capability(architecture)]
    return GPUS[max(known, default=min(GPUS))]
