"""Optimized LLVM code of kernels: made by all cores, or read from the user's cache."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tvm
from tvm import IRModule, ir, tirx
from tvm.target import Target
from tvm.target.codegen import llvm_version_major

from relay_int8.compiler.code_cache import CodeCache
from relay_int8.compiler.lower_kernels import llvm_module, plain_loops
from relay_int8.errors import ConfigError
from schedules.cores import usable_cores
from schedules.targets import target_config

CODE_VERSION = 2  # of what is kept on disk: to be raised where the same kernels get other code

Kernels = Mapping[ir.GlobalVar, tirx.PrimFunc]


def as_loops(kernels: Kernels, target: Target) -> dict[ir.GlobalVar, tirx.PrimFunc]:
    """Return scheduled kernels as plain loops."""
    parts = [dict([*kernels.items()][first :: usable_cores()]) for first in range(usable_cores())]
    with ThreadPoolExecutor(usable_cores()) as pool:
        mods = list(pool.map(lambda part: plain_loops(IRModule(part), target), parts))
    loops = {gvar.name_hint: func for mod in mods for gvar, func in mod.functions_items()}
    return {gvar: loops[gvar.name_hint] for gvar in kernels}


def code_modules(
    mods: Sequence[IRModule], checks: Sequence[bool], target: Target
) -> list[tvm.runtime.Module]:
    """Return the optimized LLVM code of modules of plain loops.

    All of it is read from text, whether it was compiled just now or before: so that artifacts have
    the same bytes.

    Parameters
    ----------
    mods
        Kernels as plain loops.
    checks
        For each module, whether its kernels check their arguments.
    target
        What they are compiled for.

    Raises
    ------
    ConfigError
        If the text cannot be written to the temporary folder.
    """
    cache = CodeCache.of_user()
    keys = [_key(mod, check, target) for mod, check in zip(mods, checks, strict=True)]
    cached = [cache.find(key) for key in keys]

    def _text(text: str | None, mod: IRModule, check: bool) -> str:
        if text is not None:
            return text
        return str(llvm_module(mod, target, checks=check).inspect_source("ll"))

    with ThreadPoolExecutor(usable_cores()) as pool:
        texts = list(pool.map(_text, cached, mods, checks))
        modules = _modules_of(texts, pool)
    compiled = zip(keys, texts, cached, strict=True)
    cache.keep({key: text for key, text, known in compiled if known is None})
    return modules


def _modules_of(texts: Sequence[str], pool: ThreadPoolExecutor) -> list[tvm.runtime.Module]:
    """Return modules of LLVM texts, which TVM reads from files."""
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


def _key(mod: IRModule, checks: bool, target: Target) -> str:
    """Return the sha256 of all that the code of a module depends on."""
    versions = (tvm.__version__, llvm_version_major(), CODE_VERSION)
    text = json.dumps([versions, target_config(target), checks, tvm.ir.save_json(mod)])
    return hashlib.sha256(text.encode()).hexdigest()
