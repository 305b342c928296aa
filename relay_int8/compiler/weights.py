"""Large constants as arguments of ``main``, so that an artifact can hold them beside its library.

    Before:  main(x):            conv2d_0(x, <constant of 9 MB>, y)
    After:   main(x, weights_0): conv2d_0(x, weights_0, y)

The virtual machine copies the constants of a library into memory of each process. Arguments stay
where they are: in the file that they are mapped from (:mod:`relay_int8.runtime.weights`).
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from tvm import IRModule, ir, relax

from relay_int8.graph import dataflow

Array = np.ndarray[Any, Any]
LEAST_BYTES = 4096  # a page: what is smaller shares its page, and costs an argument all the same
INPUTS = "num_input"  # TVM's attribute of a function whose later parameters are weights


def lift_weights(final: IRModule) -> tuple[IRModule, tuple[Array, ...]]:
    """Return a module whose kernels take large constants from ``main``, and these, in order.

    Parameters
    ----------
    final
        A module that phase 6 is done with, for a CPU; it is left alone. TVM checks the types of
        parameters in front of a run, but those that come after this phase cost nothing there.

    Returns
    -------
    IRModule
        Further parameters of ``main`` follow its own; equal constants are one. It is ``final``
        where no constant has ``LEAST_BYTES``.
    tuple of arrays
        What these parameters are.
    """
    main, lifted = final["main"], _LiftedConstants()
    blocks = [
        relax.BindingBlock(
            [relax.VarBinding(item.var, lifted.without(item.value)) for item in block.bindings]
        )
        for block in main.body.blocks
    ]
    if not lifted.arrays:
        return final, ()
    body = relax.BlockBuilder().normalize(relax.SeqExpr(blocks, main.body.body))
    params = [*main.params, *lifted.params]
    func = relax.Function(params, body, main.ret_ty, main.is_pure, main.attrs)
    mod = final.clone()
    mod["main"] = func.with_attr(INPUTS, len(main.params))
    return mod, tuple(lifted.arrays)


def inputs_of(main: relax.Function) -> list[relax.Var]:
    """Return the parameters that a caller gives, weights left out."""
    attrs = main.attrs or {}
    return list(main.params)[: int(attrs[INPUTS]) if INPUTS in attrs else None]


class _LiftedConstants:
    """Constants that have become parameters."""

    def __init__(self) -> None:
        self.params: list[relax.Var] = []
        self.arrays: list[Array] = []
        self._known: dict[tuple[object, ...], relax.Var] = {}

    def without(self, value: relax.Expr) -> relax.Expr:
        """Return the call of a kernel with parameters for large constants; others as they are."""
        if not (isinstance(value, relax.Call) and isinstance(value.op, ir.GlobalVar)):
            return value
        args = [self._parameter(argument) for argument in value.args]
        if all(new is old for new, old in zip(args, value.args, strict=True)):
            return value
        return dataflow.with_arguments(value, args)

    def _parameter(self, argument: relax.Expr) -> relax.Expr:
        array = dataflow.constant(argument)
        if array is None or array.nbytes < LEAST_BYTES:
            return argument
        key = (array.shape, str(array.dtype), hashlib.sha256(array.tobytes()).digest())
        if key not in self._known:
            self._known[key] = relax.Var(f"weights_{len(self.params)}", argument.ty)
            self.params.append(self._known[key])
            self.arrays.append(array)
        return self._known[key]
