"""What a GPU can do, by the name of its architecture."""

from __future__ import annotations

from tvm.target import Target

from schedules.cuda.device.gpus import GpuFigures, capability, gpu_of

COMMON = ("sm_61", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
"""One of each generation that is sold, for a library that serves every GPU."""
NEWEST = ("sm_100", "sm_120")
"""Those that NVRTC 12.6 does not know yet; PTX of sm_90 serves them."""
ARCHITECTURES = (
    *("sm_61", "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90"),
    *NEWEST,
)
"""Those with dp4a, the oldest first."""
JETSON = ("sm_72", "sm_87")
"""Those that are part of an Arm processor, NVIDIA's Xavier and Orin."""
FIRST_DP4A = 61  # sm_61: the first with dp4a; sm_62 is without
FIRST_MMA = 75  # the first whose tensor cores multiply bytes


def compute_capability(target: Target) -> int | None:
    """Return 80 for ``sm_80`` or ``sm_80a``, None where the target names no architecture."""
    return capability(_architecture(target)) or None


def gpu_for(target: Target) -> GpuFigures:
    """Return the figures of the GPU that stands for ``target``."""
    return gpu_of(_architecture(target))


def _architecture(target: Target) -> str:
    return str(target.attrs.get("arch", ""))


def refuses_cuda(target: Target) -> str | None:
    """Say why no CUDA kernel can be made for ``target``, or None."""
    return None if target.kind.name == "cuda" else f"target is {target.kind.name}, not cuda"


def refuses_dp4a(x: str, target: Target) -> str | None:
    """Say why dp4a cannot multiply ``x`` on ``target``, or None."""
    refusal = refuses_cuda(target)
    if refusal:
        return refusal
    if x not in ("int8", "uint8"):
        return f"x is {x}, not int8 or uint8"
    capability = compute_capability(target)
    if capability is None or capability < FIRST_DP4A or capability == FIRST_DP4A + 1:
        return f"{target.attrs.get('arch', 'no architecture')} has no dp4a; sm_61 has"
    return None


def refuses_mma(x: str, target: Target) -> str | None:
    """Say why tensor cores cannot multiply ``x`` on ``target``, or None."""
    refusal = refuses_cuda(target)
    if refusal:
        return refusal
    if x not in ("int8", "uint8"):
        return f"x is {x}, not int8 or uint8"
    if (compute_capability(target) or 0) < FIRST_MMA:
        architecture = target.attrs.get("arch", "no architecture")
        return f"{architecture} has no tensor cores for bytes; sm_{FIRST_MMA} has"
    return None


def refuses_f32(x: str, target: Target) -> str | None:
    """Say why float32 kernels cannot multiply ``x`` on ``target``, or None."""
    return refuses_cuda(target) or (None if x == "float32" else f"x is {x}, not float32")
