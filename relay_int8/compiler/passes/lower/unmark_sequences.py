"""Take away marks of TVM's scatters that its own code generator for CPUs does not know.

    Before:  attr "pragma_scope" = "seq": loops, one after the other
    After:   loops

TVM 0.27 warns of the mark on standard error, which users read, and does nothing with it.

Place:  after LegalizeOps, on CPUs; scatters have no root block, so they are no islands.
Exact:  the loops are the same.
"""

from __future__ import annotations

import tvm
import tvm_ffi
from tvm import IRModule, tirx

from relay_int8.compiler.islands import rewrite_islands
from relay_int8.graph.attributes import TEMPLATE

MARK = "pragma_scope"


@tvm.transform.module_pass(opt_level=0, name="UnmarkSequences")
class UnmarkSequences:
    """Take away marks of TVM's scatters that its own code generator for CPUs does not know."""

    def transform_module(self, mod: IRModule, _ctx: tvm.transform.PassContext) -> IRModule:
        """Return the module without the marks; ``mod`` itself is left alone."""
        return rewrite_islands(mod, _unmarked, _is_of_tvm)


def _is_of_tvm(func: tirx.PrimFunc) -> bool:
    return not (func.attrs and TEMPLATE in func.attrs)


def _unmarked(func: tirx.PrimFunc) -> tirx.PrimFunc:
    plain: tirx.PrimFunc = tvm_ffi.structural_map(func, (tirx.AttrStmt, _without_mark))
    return plain


def _without_mark(statement: tirx.AttrStmt) -> tirx.Stmt:
    return statement.body if statement.attr_key == MARK else statement
