"""Facts about code compiled for GPUs: what it needs, registers, launches of the CUDA graph."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm_ffi
from tvm import IRModule, ir, relax, tirx
from tvm.target import Target

from relay_int8.compiler.memory import known_product, memory_of, relax_functions, tensor_bytes
from relay_int8.graph import dataflow
from relay_int8.graph.attributes import TEMPLATE
from relay_int8.machine.gpu import GpuNeeds
from schedules.cuda.device.limits import asked_shared_bytes
from schedules.cuda.device.occupancy import occupancy_of
from schedules.cuda.toolchain.compiler import least_driver
from schedules.cuda.toolchain.nvrtc import Compiled, KernelUsage

CAPTURED = "_cuda_graph_capture"  # TVM's name of a function whose launches a CUDA graph replays
HOST_FUNCTION = "tirx.is_host_func"  # TVM's attribute of a PrimFunc
_PTX_VERSION = re.compile(rb"^\.version (\S+)", re.M)
_KERNEL = re.compile(r"(\w+)_kernel(?:_\d+)?")  # TVM's names of the kernels of one PrimFunc


@dataclass(frozen=True, kw_only=True)
class Launch:
    """How a kernel is launched.

    Parameters
    ----------
    blocks
        That run it; None where the batch is open.
    threads
        Of a block.
    shared_bytes
        Of a block, that the launch asks for.
    """

    blocks: int | None
    threads: int
    shared_bytes: int


@dataclass(frozen=True, kw_only=True)
class GpuCode:
    """The device side of a compiled network.

    Parameters
    ----------
    needs
        What it takes to run.
    usage
        Kernel -> architecture -> registers and memory. A PrimFunc of a template is one kernel.
    launched_as
        Kernels of templates -> blocks and threads of their launch.
    captured, launched
        The calls that a CUDA graph replays, and those that the host launches one by one, by
        PrimFunc.
    """

    needs: GpuNeeds
    usage: Mapping[str, Mapping[str, KernelUsage]]
    launched_as: Mapping[str, Launch]
    captured: tuple[str, ...]
    launched: tuple[str, ...]

    def to_dict(self, tensors: Mapping[str, Sequence[str]]) -> dict[str, Any]:
        """Return it as plain values, for reports and manifests.

        ``tensors`` are those that each PrimFunc computes.
        """
        return {
            "needs": dataclasses.asdict(self.needs)
            | {"architectures": [*self.needs.architectures]},
            "graph": {"captured": list(self.captured), "launched": list(self.launched)},
            "kernels": {
                kernel: {
                    "tensors": list(tensors.get(function_of(kernel), ())),
                    **_launched(by_architecture, self.launched_as.get(function_of(kernel))),
                }
                for kernel, by_architecture in self.usage.items()
            },
        }


def _launched(
    by_architecture: Mapping[str, KernelUsage], launch: Launch | None
) -> dict[str, dict[str, Any]]:
    """Return usage by architecture, with how a known launch fills a GPU, and that launch."""
    usage = {name: dataclasses.asdict(use) for name, use in by_architecture.items()}
    if launch is None:
        return {"usage": usage, "launch": {}}
    launched = dataclasses.asdict(launch)
    for architecture, use in usage.items():
        use["shared_bytes"] += launch.shared_bytes
        filling = occupancy_of(architecture, use, launched)
        use |= {"resident": filling.resident, "waves": filling.waves}
    return {"usage": usage, "launch": launched}


def gpu_code(final: IRModule, compiled: Sequence[Compiled]) -> GpuCode | None:
    """Return what a module in its final form and its binaries say; None where nothing was compiled.

    Parameters
    ----------
    final
        After phase 6: memory is planned, regions that a graph replays are functions.
    compiled
        Code of each architecture, then PTX.
    """
    if not compiled:
        return None
    *codes, ptx = compiled
    version = _PTX_VERSION.search(ptx.binary)
    assert version
    usage: dict[str, dict[str, KernelUsage]] = {}
    for code in codes:
        for kernel, kernel_usage in code.usage.items():
            usage.setdefault(kernel, {})[code.architecture] = kernel_usage
    captured, launched = launches(final)
    return GpuCode(
        needs=GpuNeeds(
            architectures=tuple(code.architecture for code in codes),
            ptx_architecture=ptx.architecture,
            ptx_version=version[1].decode(),
            driver=least_driver(),
            memory_bytes=_memory_bytes(final),
        ),
        usage=usage,
        launched_as={name: launch for name, launch in _template_launches(final)},
        captured=captured,
        launched=launched,
    )


def gpu_needs(target: Target) -> GpuNeeds | None:
    """Return what kernels for ``target`` need of a GPU, their memory left out; None for a CPU."""
    if target.kind.name != "cuda":
        return None
    architecture = str(target.attrs["arch"])
    return GpuNeeds(
        architectures=(architecture,),
        ptx_architecture=architecture,
        ptx_version="",
        driver=least_driver(),
        memory_bytes=0,
    )


def launches(final: IRModule) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the calls of kernels that a CUDA graph replays, and those the host launches."""
    calls = {name: tuple(_launches(final, func)) for name, func in relax_functions(final)}
    replayed = [call for name in calls if name.endswith(CAPTURED) for call in calls[name]]
    return tuple(replayed), calls["main"]


def _template_launches(final: IRModule) -> Iterator[tuple[str, Launch]]:
    for var, func in final.functions_items():
        if isinstance(func, tirx.PrimFunc) and TEMPLATE in func.attrs:
            yield str(var.name_hint), launch_of(func)


def launch_of(func: tirx.PrimFunc) -> Launch:
    """Return how the one kernel of a scheduled function is launched."""
    extents: dict[str, Any] = {}

    def _note(loop: tirx.For) -> None:
        if loop.thread_binding is not None:
            extents[str(loop.thread_binding.thread_tag)] = loop.extent

    tvm_ffi.structural_walk(func.body, (tirx.For, _note))
    blocks = [extent for tag, extent in extents.items() if tag.startswith("blockIdx")]
    threads = [extent for tag, extent in extents.items() if tag.startswith("threadIdx")]
    return Launch(
        blocks=known_product(blocks) or None,
        threads=known_product(threads),
        shared_bytes=asked_shared_bytes(func),
    )


def function_of(kernel: str) -> str:
    """Return the PrimFunc that a kernel belongs to."""
    match = _KERNEL.fullmatch(kernel)
    return match[1] if match else kernel


def _launches(final: IRModule, func: relax.Function) -> Iterator[str]:
    """Yield the PrimFunc of every call that launches kernels, in order."""
    for _, value in dataflow.calls(func):
        if not isinstance(value, relax.Call) or not isinstance(value.op, ir.GlobalVar):
            continue
        # What computes the sizes of an open batch runs on the host.
        if HOST_FUNCTION not in final[value.op].attrs:
            yield str(value.op.name_hint)


def _memory_bytes(final: IRModule) -> int:
    """Return the bytes of constants, inputs and planned activations of known size."""
    return sum(memory_of(final).values()) + sum(map(tensor_bytes, final["main"].params))
