"""The kernels of the tests as libraries for a GPU, with what NumPy computes of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import tvm
import tvm_ffi
from tvm.target import Target

from benchmarks.gpu.kernel_cases import KernelCase, save_index
from relay_int8.compiler.link import export_library
from schedules.cuda.device.gpus import capability
from schedules.cuda.toolchain.compiler import fat_binaries
from tests.cuda.ptx.families import FAMILIES, Family
from tests.cuda.run_template import batch_of, memory_of, scheduled
from tests.schedules.any_layout_runs import sizes


def prepare_kernels(
    folder: Path, architecture: str, say: Callable[[str], None], families: Sequence[str] = ()
) -> None:
    """Write libraries with machine code for ``architecture``, of all families if none are named.

    Each family is scheduled for the architectures that its tests name, as far as their code runs on
    the one asked for: dp4a runs on a GPU with tensor cores, too. Kernels that are the same for two
    architectures are there once.
    """
    libraries: dict[str, list[KernelCase]] = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name in families or FAMILIES:
        family, made = FAMILIES[name], list[tvm.IRModule]()
        for scheduled_for in family.architectures:
            target = Target({"kind": "cuda", "arch": scheduled_for}, host="llvm")
            mod = scheduled(family.cases, target)
            is_known = any(_equal(mod, other) for other in made)
            if capability(scheduled_for) <= capability(architecture) and not is_known:
                made.append(mod)
                library = f"{name}-{scheduled_for}"
                say(f"kernels {library}")
                libraries[library] = _library(folder / library, family, mod, target, architecture)
    save_index(folder, libraries)


def _equal(mod: tvm.IRModule, other: tvm.IRModule) -> bool:
    return all(
        tvm_ffi.structural_equal(func, other[var.name_hint]) for var, func in mod.functions_items()
    )


def _library(
    file: Path, family: Family, mod: tvm.IRModule, target: Target, architecture: str
) -> list[KernelCase]:
    """Write one library of scheduled kernels and its arrays; return what it holds."""
    with target, fat_binaries((architecture,)):
        built = tvm.compile(mod, target=target)
    export_library(built, target, file.with_suffix(".so"))
    arrays: dict[str, np.ndarray] = {}
    cases = []
    for name, case in family.cases.items():
        spec, template, given = case.spec, case.choice(target), family.arrays(name)
        layouts = template.layouts(spec, case.wanted)
        memory = memory_of(template, spec, layouts, given)
        arrays |= {f"{name}:{index}": array for index, array in enumerate(memory)}
        arrays[f"{name}:expected"] = family.expected(spec, given)
        cases.append(
            KernelCase(
                name=name,
                arguments=len(memory),
                layout=layouts.output.name,
                shape=tuple(map(int, sizes(spec, "y", batch_of(spec, given)))),
                is_exact=family.is_exact(name),
            )
        )
    np.savez_compressed(file.with_suffix(".npz"), allow_pickle=False, **arrays)
    return cases
