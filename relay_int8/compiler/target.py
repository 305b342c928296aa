"""Targets as a user names them, and the architectures that a library for GPUs is built for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm.target import Target

from relay_int8.errors import ConfigError
from relay_int8.machine.gpu import Gpus, installed_gpus
from relay_int8.runtime.tvm_runtime import require_threads
from schedules.cuda.device.gpus import capability
from schedules.cuda.toolchain.architectures import choose_architectures
from schedules.targets import machine, named_target, target_config
from schedules.template import ScheduleError

CUDA, NATIVE = "cuda", "native"


@dataclass(frozen=True, kw_only=True)
class Destination:
    """A target, and for GPUs the architectures that the library holds code of.

    Kernels are chosen for ``target``, whose architecture is the oldest of them: what only a newer
    one can do, no kernel of the library does.
    """

    target: Target
    architectures: tuple[str, ...] = ()


def resolve(
    target: str | Target,
    architectures: str = "",
    *,
    find_gpus: Callable[[], Gpus] = installed_gpus,
) -> Destination:
    """Return what ``target`` and ``architectures`` mean.

    Parameters
    ----------
    target
        A TVM target, "cuda", or a name of ``schedules.targets.named_target``.
    architectures
        For GPUs: "native", "all" or names with commas between. If empty: native for "cuda", for
        any other target its own.
    find_gpus
        Asked for "native" only.

    Raises
    ------
    ConfigError
        If the target or an architecture is not known, there is no GPU to be native to, or the two
        contradict each other.
    """
    try:
        if target == CUDA:
            names = _chosen(architectures or NATIVE, find_gpus)
            _check_computers(names)
            return Destination(target=named_target(names[0]), architectures=names)
        where = target if isinstance(target, Target) else named_target(target)
        if where.kind.name != CUDA:
            if architectures:
                raise ConfigError(
                    f"architectures {architectures} are those of GPUs, the target is {target}; "
                    "say BuildOptions(target='cuda', arch=...)"
                )
            return Destination(target=where)
        own = str(where.attrs["arch"])
        names = _chosen(architectures, find_gpus) if architectures else (own,)
    except ScheduleError as error:
        raise ConfigError(str(error)) from error
    older = [name for name in names if capability(name) < capability(own)]
    if older:
        raise ConfigError(
            f"kernels for {own} do not run on {', '.join(older)}; say target cuda, which takes "
            "the oldest architecture, or leave those out"
        )
    return Destination(target=where, architectures=names)


def _check_computers(names: Sequence[str]) -> None:
    """Refuse GPUs that are in different kinds of computers: a library is for one of them."""
    computers = {name: machine(named_target(name)) for name in names}
    if len({*computers.values()}) > 1:
        listed = ", ".join(f"{name} ({computer})" for name, computer in computers.items())
        raise ConfigError(
            f"architectures {listed} are in computers of different kinds; build a library for each"
        )


def resolve_target(target: str | Target, threads: int | None = None) -> Target:
    """Return the target that :func:`resolve` finds, for networks that run on ``threads``.

    The target's own, usually all cores, if None.

    Raises
    ------
    ConfigError
        As :func:`resolve`; if there are no so many threads; and if the target is a GPU, whose
        kernels have none.
    """
    resolved = resolve(target).target
    if threads is not None:
        require_threads(threads)
    if threads and resolved.kind.name == CUDA:
        raise ConfigError(
            f"{threads} threads are asked for, but the target is {target}: threads are those of a "
            "CPU, a GPU's kernels use all of it; leave the number out"
        )
    return Target(target_config(resolved) | {"num-cores": threads}) if threads else resolved


def _chosen(text: str, find_gpus: Callable[[], Gpus]) -> tuple[str, ...]:
    if text != NATIVE:
        return choose_architectures(text)
    gpus = find_gpus()
    if gpus.problem:
        raise ConfigError(
            f"the architecture of this computer's GPU was asked for, but {gpus.problem}; to build "
            "for another computer say BuildOptions(arch='all'), or name architectures, as in "
            "BuildOptions(arch='sm_80,sm_90')"
        )
    return choose_architectures(NATIVE, gpus.architectures)
