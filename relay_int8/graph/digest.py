"""Digests of modules: what tables, plans, reports and artifacts call a network."""

from __future__ import annotations

import hashlib

from tvm import IRModule

from relay_int8.graph import dataflow
from relay_int8.graph.batch import of_one_image


def tensor_names(mod: IRModule) -> set[str]:
    """Return the names of all tensors of ``main``."""
    func = mod["main"]
    return {str(var.name) for var in (*func.params, *(var for var, _ in dataflow.calls(func)))}


def digest(mod: IRModule) -> str:
    """Return the sha256 of ``main``: operators, attributes, constants; names of tensors count."""
    sha = hashlib.sha256()
    func = mod["main"]
    for param in func.params:
        sha.update(f"{param.name} {param.ty}\n".encode())
    for var, value in dataflow.calls(func):
        sha.update(f"{var.name} {var.ty} {dataflow.operator(value)} ".encode())
        sha.update(str(getattr(value, "attrs", None)).encode())
        for argument in dataflow.arguments(value):
            array = dataflow.constant(argument)
            if array is None:
                sha.update(str(getattr(argument, "name", argument)).encode())
            else:
                sha.update(f"{array.dtype} {array.shape}".encode() + array.tobytes())
    sha.update(str([var.name for var in dataflow.results(func)]).encode())
    sha.update(str(sorted(dataflow.attributes(func).items())).encode())
    return sha.hexdigest()


def float_digest(reference: IRModule) -> str:
    """Return what tables, plans and reports call a normalized float module, whatever its batch."""
    return digest(of_one_image(reference))
