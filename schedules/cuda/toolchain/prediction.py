"""What share of the peak a kernel's machine code allows, before any GPU has run it.

Two things bound it: instructions beside the products, which take their turns at the schedulers, and
blocks that are not enough for all multiprocessors, or leave some idle in the end. Memory, and
latency that too few warps cannot hide, come on top and are not looked at.
"""

from __future__ import annotations

from schedules.cuda.device.gpus import GpuFigures, capability, gpu_of
from schedules.cuda.device.occupancy import WARP, Occupancy
from schedules.cuda.toolchain.main_loop import MainLoop

ISSUE_WIDTH = 4  # instructions that a multiprocessor starts in one clock, on all of these GPUs
AMPERE = 80
MMA_MACS = {False: 8 * 8 * 16, True: 16 * 8 * 32}
"""Products of one matrix instruction, before sm_80 and from it on."""


def share_of_peak(architecture: str, loop: MainLoop, occupancy: Occupancy) -> float | None:
    """Return the most that a kernel can reach of its unit's peak; None where it has no products.

    Parameters
    ----------
    architecture
        As "sm_80".
    loop
        Where the kernel spends its time.
    occupancy
        How its blocks fill the GPU that stands for the architecture.
    """
    if not loop.products:
        return None
    issued = loop.share / needed_share(architecture, loop)
    return min(1.0, issued) * (1.0 if occupancy.busy is None else occupancy.busy)


def needed_share(architecture: str, loop: MainLoop) -> float:
    """Return the part of all instructions that products must be for their unit to have no pause."""
    gpu = gpu_of(architecture)
    if loop.opcodes["IDP.4A"]:
        return gpu.dp4a / WARP / ISSUE_WIDTH
    return _mma_a_clock(gpu, architecture) / ISSUE_WIDTH


def _mma_a_clock(gpu: GpuFigures, architecture: str) -> float:
    macs = MMA_MACS[capability(architecture) >= AMPERE]
    return gpu.mma_peak * gpu.mma_share / macs
