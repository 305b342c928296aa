"""Digests of modules: what tables, plans, reports and artifacts call a network."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tvm import IRModule

from relay_int8.graph import dataflow
from relay_int8.graph.batch import of_one_image

PRODUCTS = ("matmul", "nn.conv")
"""How the operators begin whose constants are a network's weights."""


@dataclass(frozen=True)
class Identity:
    """What tells one float network from another.

    Parameters
    ----------
    model
        :func:`float_digest`.
    weights
        Digest of the constants that convolutions and dense layers read, in order, "" without any.
        It is the same for inputs of every size, for which masks, positions and paddings differ.
    """

    model: str = ""
    weights: str = ""

    @classmethod
    def of(cls, reference: IRModule) -> Identity:
        """Return that of a normalized float module, whatever its batch."""
        return cls(float_digest(reference), _weights_digest(reference))


UNKNOWN = Identity()
"""Of a table that names no model."""


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
                _update(sha, array)
    sha.update(str([var.name for var in dataflow.results(func)]).encode())
    sha.update(str(sorted(dataflow.attributes(func).items())).encode())
    return sha.hexdigest()


def float_digest(reference: IRModule) -> str:
    """Return what tables, plans and reports call a normalized float module, whatever its batch."""
    return digest(of_one_image(reference))


def _weights_digest(reference: IRModule) -> str:
    sha, of_nothing = hashlib.sha256(), hashlib.sha256().digest()
    for array in _weights(reference):
        _update(sha, array)
    return "" if sha.digest() == of_nothing else sha.hexdigest()


def _weights(reference: IRModule) -> Iterator[npt.NDArray[np.generic]]:
    for _, value in dataflow.calls(reference["main"]):
        if dataflow.operator(value).startswith(PRODUCTS):
            arrays = map(dataflow.constant, dataflow.arguments(value))
            yield from (array for array in arrays if array is not None)


def _update(sha: hashlib._Hash, array: npt.NDArray[np.generic]) -> None:
    """Take type, shape and elements in, without a copy of large weights."""
    sha.update(f"{array.dtype} {array.shape}".encode())
    sha.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
