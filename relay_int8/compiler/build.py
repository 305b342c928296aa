"""From a quantized model to a library for one target."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import tvm
from tvm import IRModule, relax
from tvm.target import Target

from relay_int8.compiler.gpu_code import GpuCode, gpu_code
from relay_int8.compiler.kernel_calls import KernelCall, kernel_calls_of
from relay_int8.compiler.kernel_library import Linked, linked
from relay_int8.compiler.link import export_library
from relay_int8.compiler.memory import memory_of
from relay_int8.compiler.pipeline import CUDA_GRAPHS, finalize, lower
from relay_int8.compiler.tuned_schedules import TunedSchedules
from relay_int8.compiler.weights import Array, lift_weights
from relay_int8.errors import ConfigError, UnsupportedOpError
from relay_int8.graph.declined import Declined, collecting_declined
from relay_int8.graph.readings import keeping_readings
from relay_int8.machine.host import lacking
from relay_int8.runtime.tvm_runtime import use_all_cores
from schedules.cuda.toolchain.compiler import device_code
from schedules.targets import needed_flags
from schedules.template import ScheduleError

TVM_REFUSALS = (
    AssertionError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What TVM's operators and passes raise where they have no code; its own are RuntimeErrors."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """A compiled network: ``executable`` runs on the Relax VM, ``calls`` says what it does.

    ``gpu`` is what there is to say of code for GPUs; None where there is none. ``declined`` is what
    passes left alone, and why. ``memory`` is what it reserves, in bytes by kind. ``weights`` are
    the arguments of ``main`` behind the inputs.
    """

    executable: tvm.runtime.Executable
    target: Target
    calls: tuple[KernelCall, ...]
    gpu: GpuCode | None = None
    declined: tuple[Declined, ...] = ()
    memory: Mapping[str, int] = field(default_factory=dict)
    weights: tuple[Array, ...] = ()

    def export(self, path: Path | str) -> None:
        """Write the shared library.

        Raises
        ------
        ArtifactError
            If there is no compiler for the target's machine, or it fails.
        """
        export_library(self.executable, self.target, path)


@keeping_readings()
def compile_module(
    mod: IRModule,
    target: Target,
    records: TunedSchedules | None = None,
    architectures: Sequence[str] = (),
    *,
    cuda_graphs: bool = True,
    float16: bool = False,
    transient: bool = False,
    weights_apart: bool = False,
) -> Built:
    """Compile a QDQ module, or a normalized float one, for ``target``.

    Kernels that ``records`` has run as they were tuned, others with their default schedules.
    For a GPU the library holds machine code of all ``architectures``, as in ``sm_80``; of the
    target's own if none are named. With ``cuda_graphs`` all launches between the first kernel and
    the last are one, from the second run on. With ``float16``, for GPUs alone, convolutions and
    dense layers that stay in float multiply float16. A ``transient`` network runs in this call
    alone: it shares kernels with those before it, and takes some that serve tensors of any size.
    With ``weights_apart``, on CPUs, large constants are arguments of ``main``; GPUs have copies of
    them anyway, and their graphs do not take arguments.

    Raises
    ------
    UnsupportedOpError
        If no template computes some kernel on ``target``, or TVM has no code for an operator.
    ConfigError
        If a compiler for ``target`` is not installed, or does not know an architecture; if float16
        is asked for and ``target`` is no GPU.
    """
    check_float16(float16, target)
    with collecting_declined() as declined, _refusals_explained():
        lowered = _lowered(mod, target, records, float16, transient=transient)
    on_gpu = target.kind.name == "cuda"
    try:
        with _refusals_explained(), target, device_code(target, architectures) as compiled:
            final = finalized(lowered, cuda_graphs and on_gpu)
            apart = weights_apart and not on_gpu
            whole, weights = lift_weights(final) if apart else (final, ())
            network = (
                Linked(executable=tvm.compile(whole, target=target, relax_pipeline=None))
                if on_gpu
                else linked(whole, target, transient=transient)
            )
            gpu = gpu_code(final, compiled)
    except ScheduleError as error:
        raise ConfigError(str(error)) from error
    return Built(
        executable=network.executable,
        target=target,
        calls=_linked_calls(lowered, network),
        gpu=gpu,
        declined=tuple(declined),
        memory=memory_of(final),
        weights=weights,
    )


@contextmanager
def _refusals_explained() -> Iterator[None]:
    """Turn what TVM raises at operands that it has no code for into an error of ours.

    Raises
    ------
    UnsupportedOpError
        With the last line of TVM's own words.
    """
    try:
        yield
    except ScheduleError:  # of our own templates
        raise
    except TVM_REFUSALS as error:
        said = str(error).strip().splitlines()
        raise UnsupportedOpError(
            f"TVM cannot compile the network: {said[-1] if said else type(error).__name__}; an "
            "operator computes with a type or a shape that TVM has no code for: export the model "
            "with float32 there, or cut it before"
        ) from error


def _linked_calls(lowered: IRModule, network: Linked) -> tuple[KernelCall, ...]:
    """Return the calls of a network with the names that its code has for kernels."""
    symbols = network.symbols
    return tuple(
        dataclasses.replace(call, function=symbols.get(call.function, call.function))
        for call in kernel_calls_of(lowered)
    )


def check_float16(float16: bool, target: Target) -> None:
    """Refuse float16 where ``target`` is no GPU.

    Raises
    ------
    ConfigError
        If it is asked for there.
    """
    if float16 and target.kind.name != "cuda":
        raise ConfigError(
            f"float layers in float16 are asked for, but the target is {target.kind.name}: only "
            "GPUs have such kernels; leave float16 out, or build for cuda"
        )


def kernel_calls(mod: IRModule, target: Target) -> tuple[KernelCall, ...]:
    """Return the calls that :func:`compile_module` would compile."""
    return kernel_calls_of(_lowered(mod, target))


def _lowered(
    mod: IRModule,
    target: Target,
    records: TunedSchedules | None = None,
    float16: bool = False,
    *,
    transient: bool = False,
) -> IRModule:
    with target:
        try:
            return lower(target, records, float16, transient=transient)(mod)
        except ScheduleError as error:
            raise UnsupportedOpError(str(error)) from error


def finalized(lowered: IRModule, cuda_graphs: bool) -> IRModule:
    """Return a lowered module as the virtual machine runs it."""
    if not cuda_graphs:
        return finalize()(lowered)
    with tvm.transform.PassContext(config={CUDA_GRAPHS: True}):
        return finalize(cuda_graphs)(lowered)


def virtual_machine(built: Built) -> relax.VirtualMachine:
    """Return the network ready to run on this computer.

    Raises
    ------
    ConfigError
        If it is compiled for a GPU, and there is none, or for a CPU that can do more.
    """
    missing = lacking(needed_flags(built.target))
    if missing:
        raise ConfigError(
            f"compiled for a CPU with {missing}, which this one lacks; copy the library to a "
            "computer that has it, or compile for target native"
        )
    device = tvm.device("cuda" if built.target.kind.name == "cuda" else "cpu")
    if not device.exist:
        raise ConfigError(
            f"compiled for {built.target.attrs['arch']}, but TVM finds no NVIDIA GPU here; "
            "copy the library to a computer that has one, and its driver"
        )
    machine = started(built.executable, device)
    if built.weights:
        machine.save_function("main", "main", *map(tvm.runtime.tensor, built.weights))
    return machine


def started(
    executable: tvm.runtime.Executable, device: tvm.runtime.Device | None = None
) -> relax.VirtualMachine:
    """Return a network ready to run on this computer, by every core unless the user said how many.

    Whatever runs a network in the process that compiled it comes through here: TVM's pool of
    threads is made by the first run, and never grows.
    """
    use_all_cores()
    return relax.VirtualMachine(executable, device or tvm.cpu())
