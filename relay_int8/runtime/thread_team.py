"""Runs whose threads stay together: parallel loops are announced to them, not queued.

The machine code is part of a library (``relay_int8/compiler/thread_team.py``). One without it, as
that of an older artifact, runs its loops through TVM's pool.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tvm_ffi

INSTALL, RUN, MAKE_CALLS = "install_team", "run_in_team", "make_calls"


def in_team(library: tvm_ffi.Module, main: Callable[..., Any]) -> Callable[..., Any]:
    """Return what runs ``main`` of a virtual machine on ``library`` by a team of threads.

    ``main`` itself, where the library has no code for that.
    """
    if not library.implements_function(RUN, query_imports=True):
        return main
    is_installed = library.get_function(INSTALL, query_imports=True)()
    return partial(library.get_function(RUN, query_imports=True), main) if is_installed else main
