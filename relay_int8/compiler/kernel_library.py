"""Machine code of kernels: compiled by all cores, once for all networks of one context.

A network's executable is its bytecode and the modules that hold its kernels. A kernel is known by
its name, which AlterLayout makes of what it computes, and by its loops, which are compared: so the
FP32 network that calibrates, the one that layers are compared with, and the quantized network with
its inner tensors as outputs compile only what no network before them has.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import tvm
import tvm_ffi
from tvm import IRModule, relax, tirx
from tvm.relax import vm_build
from tvm.target import Target
from tvm.target.codegen import llvm_version_major

from relay_int8.compiler.code_cache import CodeCache
from relay_int8.compiler.thread_team import runs_in_team, team_module
from relay_int8.compiler.weights import inputs_of
from relay_int8.errors import ConfigError
from relay_int8.graph import dataflow
from relay_int8.graph.attributes import TEMPLATE
from schedules.cores import usable_cores
from schedules.targets import target_config

NO_CHECKS = {"tirx.disable_assert": True}  # TVM's option: kernels do not check their arguments
NEEDLESS = [
    "tirx.RemoveNoOp"
]  # takes a fifth of TVM's own passes, and LLVM gives the same bytes without it
CHUNKS = 8  # whatever the number of cores, which bytes of an artifact must not depend on
FEW_CHUNKS = 4  # of networks that run in the call alone: each takes 30 ms however small it is
CODE_VERSION = 1  # of what is kept on disk: to be raised where the same kernels get other code
QUICK_LEVEL = 2  # LLVM's; of float networks it takes a fifth less time than 3, and they run as fast

Kernels = Mapping[tvm.ir.GlobalVar, tirx.PrimFunc]


@dataclass(frozen=True)
class CompiledKernel:
    """A scheduled kernel, and the module that holds its code among that of others."""

    func: tirx.PrimFunc
    module: tvm.runtime.Module


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

    def find(self, target: Target, name: str, func: tirx.PrimFunc) -> tvm.runtime.Module | None:
        """Return the module that holds ``func``, if there is one."""
        known = self.compiled.get((str(target), name))
        same = known is not None and tvm_ffi.structural_equal(known.func, func)
        return known.module if known and same else None

    def keep(self, target: Target, mod: IRModule, module: tvm.runtime.Module) -> None:
        """Remember the kernels of templates in ``module``; a name that is known stays with it."""
        for gvar, func in mod.functions_items():
            if TEMPLATE in func.attrs:
                known = CompiledKernel(func, module)
                self.compiled.setdefault((str(target), gvar.name_hint), known)

    def run_from(self, library: tvm.runtime.Module, instead_of: tvm.runtime.Executable) -> None:
        """Take the kernels of a network from its linked ``library`` from now on."""
        modules = set(instead_of.mod.imports)
        linked = {key: kernel for key, kernel in self.compiled.items() if kernel.module in modules}
        for key, kernel in linked.items():
            self.compiled[key] = CompiledKernel(kernel.func, library)


_shared: ContextVar[KernelLibrary | None] = ContextVar("shared_kernels", default=None)


@contextmanager
def sharing_kernels() -> Iterator[None]:
    """Let the networks that are compiled inside of the context share their kernels."""
    token = _shared.set(_shared.get() or KernelLibrary())
    try:
        yield
    finally:
        _shared.reset(token)


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


def linked(final: IRModule, target: Target, *, alone: bool = False) -> tvm.runtime.Executable:
    """Return the executable of a module that phase 6 is done with, for a CPU.

    Parameters
    ----------
    final
        The module: scheduled kernels, and functions of the virtual machine.
    target
        What kernels are compiled for.
    alone
        Compile every kernel anew and optimize it fully, as for a library that is exported and holds
        its own kernels alone. Networks after it share them.
    """
    library = _shared.get() or KernelLibrary()
    builder = relax.ExecBuilder()
    left = vm_build._vmcodegen(builder, final)  # as relax.build does, which compiles all kernels
    kernels = dict(_kernels(left))
    known = {} if alone else _known(kernels, target, library)
    missing = {gvar: func for gvar, func in kernels.items() if gvar not in known}
    checked = _reading_inputs(final) if alone else frozenset()
    compiled = _compiled(missing, left, target, library, alone, checked)
    if not alone:
        _load({**compiled, **{module: gvar for gvar, module in known.items()}})
    # The root gets the others as imports, so it is of this network alone. Names are looked up in
    # it and its own first: kernels of float islands have the same names in many networks.
    modules = [*compiled, *dict.fromkeys(known.values())]
    root = modules.pop(0) if compiled else _empty_module(target)
    if alone and compiled and runs_in_team(final, target):
        modules.append(team_module(target))
    constants = dict(final.attrs.get("const_name_to_constant", {})) if final.attrs else {}
    return vm_build.VMExecutable(
        vm_build._ffi_api.VMLink(builder, target, root, modules, constants)
    )


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
) -> dict[tvm.ir.GlobalVar, tvm.runtime.Module]:
    """Return the kernels that were compiled before, each with the module that holds it."""
    modules = {gvar: library.find(target, gvar.name_hint, func) for gvar, func in kernels.items()}
    return {gvar: module for gvar, module in modules.items() if module is not None}


def _reading_inputs(final: IRModule) -> frozenset[str]:
    """Return the names of the kernels that read what a caller gives, or a view of it."""
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
    mod: IRModule,
    target: Target,
    library: KernelLibrary,
    alone: bool,
    checked: Collection[str],
) -> dict[tvm.runtime.Module, tvm.ir.GlobalVar]:
    """Return modules with the code of ``kernels``, each with one of them; all cores compile.

    Those named ``checked`` check their arguments. Of the others that would be half of their code:
    the virtual machine makes their arguments, and has checked the shapes and types of its inputs.
    """
    machine = target if alone else Target({**target_config(target), "opt-level": QUICK_LEVEL})
    inner = [item for item in kernels.items() if item[0].name_hint not in checked]
    outer = [item for item in kernels.items() if item[0].name_hint in checked]
    most = CHUNKS if alone else FEW_CHUNKS
    chunks = [inner[i::most] for i in range(min(len(inner), most))]
    configs = [NO_CHECKS] * len(chunks) + [{}] * len(outer)
    chunks += [[item] for item in outer]

    mods = [IRModule(dict(chunk), attrs=mod.attrs) for chunk in chunks]
    modules = _machine_modules(mods, configs, machine)
    for chunk, module in zip(mods, modules, strict=True):
        library.keep(target, chunk, module)
    return {module: chunk[0][0] for module, chunk in zip(modules, chunks, strict=True)}


def _machine_modules(
    mods: Sequence[IRModule], configs: Sequence[Mapping[str, bool]], target: Target
) -> list[tvm.runtime.Module]:
    """Return the optimized LLVM code of modules, from the user's cache where they are in it.

    All of it is read from text, whether it was compiled just now or before: so that artifacts have
    the same bytes.
    """
    cache = CodeCache.of_user()
    keys = [_key(mod, config, target) for mod, config in zip(mods, configs, strict=True)]
    cached = [cache.find(key) for key in keys]

    def _text(text: str | None, mod: IRModule, config: Mapping[str, bool]) -> str:
        if text is not None:
            return text
        with tvm.transform.PassContext(config=config, disabled_pass=NEEDLESS):
            return str(tvm.tirx.build(mod, target=target).inspect_source("ll"))

    with ThreadPoolExecutor(usable_cores()) as pool:
        texts = list(pool.map(_text, cached, mods, configs))
        modules = _modules_of(texts, pool)
    compiled = zip(keys, texts, cached, strict=True)
    cache.keep({key: text for key, text, known in compiled if known is None})
    return modules


def _modules_of(texts: Sequence[str], pool: ThreadPoolExecutor) -> list[tvm.runtime.Module]:
    """Return modules of LLVM texts, which TVM reads from files.

    Raises
    ------
    ConfigError
        If they cannot be written to the temporary folder.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="relay-int8-") as folder:
            files = [Path(folder) / f"{number}.ll" for number in range(len(texts))]
            for file, text in zip(files, texts, strict=True):
                file.write_text(text)
            return list(pool.map(tvm.runtime.load_module, map(str, files)))
    except OSError as error:
        raise ConfigError(
            f"the temporary folder: kernels cannot be written to it ({error.strerror}); make room, "
            "or name another by TMPDIR"
        ) from error


def _key(mod: IRModule, config: Mapping[str, bool], target: Target) -> str:
    """Return the sha256 of all that the code of a module depends on."""
    versions = (tvm.__version__, llvm_version_major(), CODE_VERSION)
    options = (target_config(target), dict(config), NEEDLESS)
    text = json.dumps([versions, options, tvm.ir.save_json(mod)])
    return hashlib.sha256(text.encode()).hexdigest()


def _load(kernels: Mapping[tvm.runtime.Module, tvm.ir.GlobalVar]) -> None:
    """Let all cores make machine code of modules, which their first use would do one by one."""
    with ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(lambda item: item[0].get_function(item[1].name_hint), kernels.items()))
