"""Targets by name, and the CPU flags that their code needs."""

from __future__ import annotations

import json
from typing import Any

from tvm.target import Target, codegen

from schedules.compact import COMPACT
from schedules.cores import usable_cores
from schedules.cpu_flags import cpu_flags
from schedules.cuda.device.devices import ARCHITECTURES, JETSON
from schedules.target_features import has_feature
from schedules.template import ScheduleError

TARGETS: dict[str, dict[str, Any]] = {
    "x86-vnni": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "cascadelake"},
    "x86-avx2": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "haswell"},
    "x86": {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64"},
    "aarch64": {"kind": "llvm", "mtriple": "aarch64-linux-gnu"},
}
"""Besides "native", which is this computer."""

MACHINES = ("x86_64", "aarch64")
"""Computers that code is built for, as ``uname -m`` and triples call them."""

MAX_CORES = 1024
"""As many as an artifact may have threads."""

EXAMPLE = '{"kind": "llvm", "mcpu": "znver4"}'
"""What a target as JSON looks like, for messages."""

CPU_FLAGS = {
    "sse3": "pni",
    "ssse3": "ssse3",
    "sse4.1": "sse4_1",
    "sse4.2": "sse4_2",
    "popcnt": "popcnt",
    "movbe": "movbe",
    "lzcnt": "abm",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "f16c": "f16c",
    "fma": "fma",
    "avx": "avx",
    "avx2": "avx2",
    "avxvnni": "avx_vnni",
    "avx512f": "avx512f",
    "avx512bw": "avx512bw",
    "avx512cd": "avx512cd",
    "avx512dq": "avx512dq",
    "avx512vl": "avx512vl",
    "avx512vnni": "avx512_vnni",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avx512ifma": "avx512ifma",
    "avx512vbmi": "avx512vbmi",
    "avx512vbmi2": "avx512_vbmi2",
    "avx512bitalg": "avx512_bitalg",
    "avx512vpopcntdq": "avx512_vpopcntdq",
    "gfni": "gfni",
    "neon": "asimd",
    "fullfp16": "asimdhp",
    "dotprod": "asimddp",
    "i8mm": "i8mm",
    "lse": "atomics",
    "sve": "sve",
}
"""LLVM's name of a feature -> its flag in /proc/cpuinfo, for all that generated code may contain.

Features that only system code or intrinsics of other fields use (pku, shstk, ...) are left out:
virtual machines often hide them.
"""


def named_target(name: str) -> Target:
    """Return the target called ``name``.

    That is "native", a key of ``TARGETS``, a GPU's architecture as in "sm_80", or TVM's target as
    JSON. The computer that a GPU is in is a plain one of this computer's kind, that of a Jetson's
    GPU a 64-bit Arm, unless JSON says.

    Parameters
    ----------
    name
        As typed.

    Raises
    ------
    ScheduleError
        If there is no such target, or TVM refuses it.
    """
    if name == "native":
        return native_target()
    if name in TARGETS:
        return Target(TARGETS[name])
    if name == "cuda":
        raise ScheduleError("target cuda: choose an architecture before; kernels depend on it")
    if name in ARCHITECTURES:
        host = TARGETS["aarch64"] if name in JETSON else {"kind": "llvm"}
        return Target({"kind": "cuda", "arch": name}, host=Target(host))
    target = _from_json(name)
    refusal = _refusal(target)
    if refusal:
        raise ScheduleError(f"target {name}: {refusal}")
    return target


def _from_json(name: str) -> Target:
    if not name.startswith("{"):
        known = ", ".join(("native", *TARGETS, "cuda", *ARCHITECTURES))
        raise ScheduleError(
            f"target {name!r} is unknown; choose one of {known}, or give TVM's target as JSON, "
            f"for example '{EXAMPLE}'"
        )
    try:
        options = json.loads(name)
    except (RecursionError, ValueError) as error:
        raise ScheduleError(f"target {name}: no JSON; it looks like '{EXAMPLE}'") from error
    if "kind" not in options:
        raise ScheduleError(f"target {name}: it has no kind; it looks like '{EXAMPLE}'")
    try:
        return Target(options)
    except (RuntimeError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[-1].partition(" Target creation from config")[0]
        raise ScheduleError(f"target {name}: TVM refuses it: {reason}") from error


def _refusal(target: Target) -> str | None:
    """Say why no code can be built for ``target``, or None."""
    if target.kind.name == "cuda":
        return _gpu_refusal(target)
    if target.kind.name != "llvm":
        return f"kind {target.kind.name} is not supported; use llvm or cuda"
    cores = target.attrs.get("num-cores", 1)
    if not 1 <= cores <= MAX_CORES:
        return f"num-cores {cores} found, a number from 1 to {MAX_CORES} expected"
    fast = [option for option in target.attrs if str(option).startswith("fast-math")]
    if any(target.attrs[option] for option in fast):
        return f"{', '.join(fast)} changes results, and integers must be the same everywhere"
    triple = target.attrs.get("mtriple") or codegen.llvm_get_system_triple()
    if machine(target) not in MACHINES:  # LLVM of TVM 0.27 ends the process for an unknown one
        return f"mtriple {triple} is not of {' or '.join(MACHINES)}, such as x86_64-linux-gnu"
    cpu = target.attrs.get("mcpu")
    if cpu and not codegen.llvm_is_valid_cpu(cpu, triple):
        return f"LLVM knows no CPU {cpu} for {triple}; see llc -mcpu=help"
    for feature in target.attrs.get("mattr") or ():
        if not _is_feature(str(feature), triple):
            return f"LLVM knows no feature {feature} of {triple}, such as +sse4.2 or -avx512f"
    return None


def _is_feature(feature: str, triple: str) -> bool:
    """Whether LLVM knows what is written in ``mattr``; it ignores what it does not know."""
    name = feature.removeprefix("+").removeprefix("-")
    on = Target({"kind": "llvm", "mtriple": triple, "mattr": [f"+{name}"]})
    return name != feature and name in codegen.llvm_get_cpu_features(on)


def _gpu_refusal(target: Target) -> str | None:
    """Say why no code can be built for a GPU or for the computer it is in, or None."""
    architecture = target.attrs.get("arch")
    if architecture not in ARCHITECTURES:
        return f"arch {architecture} is not one of {', '.join(ARCHITECTURES)}"
    if target.host is None:
        return 'has no host; add "host": {"kind": "llvm"}'
    return _refusal(target.host)


def _cpu_of(target: Target) -> Target:
    """Return the target itself, or of a GPU the computer that it is in."""
    return target if target.host is None else target.host


def native_target(present: frozenset[str] | None = None) -> Target:
    """Return the target of this computer.

    LLVM goes by the CPU's model; features that a virtual machine hides, those that are not among
    the flags of /proc/cpuinfo, are switched off. Where there is no such file, none is.

    Parameters
    ----------
    present
        The flags, if not this computer's own.
    """
    present = cpu_flags() if present is None else present
    config = {
        "kind": "llvm",
        "mcpu": codegen.llvm_get_system_cpu(),
        "num-cores": usable_cores(),
    }
    hidden = [
        f"-{feature}"
        for feature in _features(Target(config))
        if feature in CPU_FLAGS and CPU_FLAGS[feature] not in present
    ]
    return Target(config | ({"mattr": hidden} if hidden and present else {}))


def needed_flags(target: Target) -> tuple[str, ...]:
    """Return the flags of /proc/cpuinfo without which code for ``target`` must not run."""
    return tuple(
        sorted(CPU_FLAGS[feature] for feature in _features(target) if feature in CPU_FLAGS)
    )


def machine(target: Target) -> str:
    """Return what ``uname -m`` says on the computers that code for ``target`` runs on."""
    triple = _cpu_of(target).attrs.get("mtriple") or codegen.llvm_get_system_triple()
    return str(triple).partition("-")[0]


def compact(target: Target) -> Target:
    """Return ``target`` for networks whose weights take no more memory than they must."""
    config = target_config(target)
    return Target(config | {"keys": [*(key for key in config["keys"] if key != COMPACT), COMPACT]})


def target_config(target: Target) -> dict[str, Any]:
    """Return the options of ``target`` as plain values; ``Target`` makes it again from them."""
    return _plain(target.export())


def _plain(options: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {}
    for key, value in options.items():
        if key == "host":
            plain[key] = _plain(value)
        elif "feature." not in key and value != "":
            plain[key] = value if isinstance(value, str | int) else [str(item) for item in value]
    return plain


def _features(target: Target) -> list[str]:
    """Return LLVM's names of the features of ``target``."""
    return sorted(str(feature) for feature in codegen.llvm_get_cpu_features(_cpu_of(target)))


def stores_unsigned(target: Target) -> bool:
    """Say whether the instructions of ``target`` multiply u8 by s8, so that s8 is kept as u8."""
    return target.kind.name == "llvm" and any(
        has_feature(feature, target) for feature in ("avx512vnni", "avxvnni")
    )
