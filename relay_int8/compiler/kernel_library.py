"""Machine code of kernels: compiled by all cores, once for all networks of one context.

A network's executable is its bytecode and the modules that hold its kernels. A kernel is known by
its name, which AlterLayout makes of what it computes, and by its loops, which are compared: so the
FP32 network that calibrates, the one that layers are compared with, and the quantized network with
its inner tensors as outputs compile only what no network before them has.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path

import tvm
import tvm_ffi
from tvm import IRModule, relax, tirx
from tvm.relax import vm_build
from tvm.target import Target

from relay_int8.compiler.kernel_code import as_loops, code_modules
from relay_int8.compiler.merge_kernels import merged_kernels
from relay_int8.compiler.thread_team import runs_in_team, team_module
from relay_int8.compiler.weights import inputs_of
from relay_int8.graph import dataflow
from relay_int8.graph.attributes import TEMPLATE
from relay_int8.scopes import sharing
from schedules.cores import usable_cores
from schedules.targets import target_config

CHUNKS = 8  # whatever the number of cores, which bytes of an artifact must not depend on
FEW_CHUNKS = 4  # of networks that run in the call alone
CHUNK_KERNELS = 4  # at least so many in a chunk: each takes 15 ms however small it is
QUICK_LEVEL = 2  # LLVM's; of float networks it takes a fifth less time than 3, and they run as fast

Kernels = Mapping[tvm.ir.GlobalVar, tirx.PrimFunc]


@dataclass(frozen=True)
class CompiledKernel:
    """A scheduled kernel, the module that holds its code among that of others, and its name there.

    That is another kernel's where one serves several.
    """

    func: tirx.PrimFunc
    module: tvm.runtime.Module
    symbol: str


@dataclass(frozen=True, kw_only=True)
class Linked:
    """A network that runs, and by which name its code has each kernel."""

    executable: tvm.runtime.Executable
    symbols: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class KernelLibrary:
    """Kernels that were made before.

    Parameters
    ----------
    functions
        What :func:`shared_function` made, by its key.
    compiled
        By target and name.
    """

    functions: dict[tuple[str, ...], tirx.PrimFunc] = field(default_factory=dict)
    compiled: dict[tuple[str, str], CompiledKernel] = field(default_factory=dict)

    def find(self, target: Target, name: str, func: tirx.PrimFunc) -> CompiledKernel | None:
        """Return ``func`` as it was compiled, if it was."""
        known = self.compiled.get((str(target), name))
        same = known is not None and tvm_ffi.structural_equal(known.func, func)
        return known if same else None

    def keep(self, target: Target, kernels: Mapping[tvm.ir.GlobalVar, CompiledKernel]) -> None:
        """Remember the kernels of templates; a name that is known stays with what it has."""
        for gvar, kernel in kernels.items():
            if TEMPLATE in kernel.func.attrs:
                self.compiled.setdefault((str(target), gvar.name_hint), kernel)

    def run_from(self, library: tvm.runtime.Module, instead_of: tvm.runtime.Executable) -> None:
        """Take the kernels of a network from its linked ``library`` from now on."""
        modules = set(instead_of.mod.imports)
        linked = {key: kernel for key, kernel in self.compiled.items() if kernel.module in modules}
        for key, kernel in linked.items():
            self.compiled[key] = replace(kernel, module=library)


_shared: ContextVar[KernelLibrary | None] = ContextVar("shared_kernels", default=None)


@contextmanager
def sharing_kernels() -> Iterator[None]:
    """Let the networks that are compiled inside of the context share their kernels."""
    with sharing(_shared, KernelLibrary):
        yield


def shared_function(make: Callable[[], tirx.PrimFunc], *key: str) -> tirx.PrimFunc:
    """Return what ``make`` returns, made once for all networks of the context; ``key`` says all."""
    library = _shared.get()
    if library is None:
        return make()
    if key not in library.functions:
        library.functions[key] = make()
    return library.functions[key]


def share_library(executable: tvm.runtime.Executable, path: Path) -> None:
    """Let the networks after it, in this context, run the kernels of a linked library.

    They are machine code there; without it LLVM makes it again, of each kernel that is shared. The
    file may be removed afterwards.

    Parameters
    ----------
    executable
        What was linked; this computer must have the instructions of its target.
    path
        Its library.
    """
    library = _shared.get()
    if library is not None:
        (machine_code,) = tvm.runtime.load_module(str(path)).imports
        library.run_from(machine_code, executable)


def linked(final: IRModule, target: Target, *, transient: bool) -> Linked:
    """Return the executable of a module after phase 6 of the pipeline, for a CPU.

    Parameters
    ----------
    final
        The module: scheduled kernels, and functions of the virtual machine.
    target
        What kernels are compiled for.
    transient
        The network runs in this call alone: it takes kernels from those before it, and what it
        compiles is optimized less. Without it every kernel is compiled anew and optimized fully, as
        for a library that is exported and holds its own kernels alone; kernels that differ in
        numbers of channels are one. Networks after either share them.
    """
    library = _shared.get() or KernelLibrary()
    kernels = dict(_kernels(final))
    known = _known(kernels, target, library) if transient else {}
    missing = {gvar: func for gvar, func in kernels.items() if gvar not in known}
    checked = frozenset() if transient else _reading_inputs(final)
    compiled = _compiled(missing, target, library, transient, checked)
    every = {**compiled, **known}
    modules = list(dict.fromkeys(kernel.module for kernel in compiled.values()))
    others = dict.fromkeys(kernel.module for kernel in known.values())
    if transient:
        _load({kernel.module: kernel.symbol for kernel in every.values()})
    # The root gets the others as imports, so it is of this network alone. Names are looked up in
    # it and its own first: kernels of float islands have the same names in many networks.
    root, *imports = [*(modules or [_empty_module(target)]), *others]
    if not transient and compiled and runs_in_team(final, target):
        imports.append(team_module(target))
    symbols = {gvar.name_hint: kernel.symbol for gvar, kernel in every.items()}
    builder = relax.ExecBuilder()
    # As relax.build does, which compiles all kernels.
    vm_build._vmcodegen(builder, _calling(final, symbols))
    constants = dict(final.attrs.get("const_name_to_constant", {})) if final.attrs else {}
    executable = vm_build.VMExecutable(
        vm_build._ffi_api.VMLink(builder, target, root, imports, constants)
    )
    return Linked(executable=executable, symbols=symbols)


def _calling(final: IRModule, symbols: Mapping[str, str]) -> IRModule:
    """Return a module whose functions call the symbols of kernels, where these are other names."""
    mod = final.clone()
    for gvar, _ in _kernels(final):
        symbol = symbols[gvar.name_hint]
        if symbol != gvar.name_hint:
            mod[gvar] = relax.ExternFunc(symbol)
    return mod


def _empty_module(target: Target) -> tvm.runtime.Module:
    """Return a module to put under a network that has no kernel of its own.

    TVM's would be of C text: for the sake of that a virtual machine links and loads everything.
    """
    nothing = tirx.PrimFunc([], tirx.Evaluate(0)).with_attr("global_symbol", "nothing")
    return tvm.tirx.build(IRModule({"nothing": nothing}), target=target)


def _kernels(mod: IRModule) -> Iterator[tuple[tvm.ir.GlobalVar, tirx.PrimFunc]]:
    for gvar, func in mod.functions_items():
        if isinstance(func, tirx.PrimFunc):
            yield gvar, func


def _known(
    kernels: Kernels, target: Target, library: KernelLibrary
) -> dict[tvm.ir.GlobalVar, CompiledKernel]:
    """Return the kernels that were compiled before."""
    found = {gvar: library.find(target, gvar.name_hint, func) for gvar, func in kernels.items()}
    return {gvar: kernel for gvar, kernel in found.items() if kernel is not None}


def _reading_inputs(final: IRModule) -> frozenset[str]:
    """Return the names of the kernels that read an input of the network, or a view of it."""
    given, names = set(inputs_of(final["main"])), set()
    for block in final["main"].body.blocks:
        for binding in block.bindings:
            arguments = dataflow.arguments(binding.value)
            if not any(argument in given for argument in arguments):
                continue
            callee = getattr(binding.value, "op", None)
            if isinstance(callee, tvm.ir.GlobalVar):
                names.add(str(callee.name_hint))
            else:
                given.add(binding.var)
    return frozenset(names)


def _compiled(
    kernels: Kernels,
    target: Target,
    library: KernelLibrary,
    transient: bool,
    checked: Collection[str],
) -> dict[tvm.ir.GlobalVar, CompiledKernel]:
    """Return the code of ``kernels``; all cores compile.

    Those named ``checked`` check their arguments. Of the others that would be half of their code:
    the virtual machine makes their arguments, and has checked the shapes and types of its inputs.
    """
    quick = {"opt-level": QUICK_LEVEL}
    machine = Target({**target_config(target), **quick}) if transient else target
    loops = as_loops(kernels, target)
    outer = {gvar: loops.pop(gvar) for gvar in kernels if gvar.name_hint in checked}
    inner, sources = (loops, {}) if transient else merged_kernels(loops)
    most = min(FEW_CHUNKS if transient else CHUNKS, -(-len(inner) // CHUNK_KERNELS))
    chunks = [dict([*inner.items()][first::most]) for first in range(most)]
    checks = [False] * len(chunks) + [True] * len(outer)
    chunks += [{gvar: func} for gvar, func in outer.items()]

    modules = code_modules([IRModule(chunk) for chunk in chunks], checks, machine)
    holding = {gvar: each for chunk, each in zip(chunks, modules, strict=True) for gvar in chunk}
    compiled = {}
    for gvar, func in kernels.items():
        source = sources.get(gvar, gvar)
        compiled[gvar] = CompiledKernel(func, holding[source], str(source.name_hint))
    library.keep(target, compiled)
    return compiled


def _load(symbols: Mapping[tvm.runtime.Module, str]) -> None:
    """Let all cores make machine code of modules, which their first use would do one by one."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(lambda item: item[0].get_function(item[1]), symbols.items()))
