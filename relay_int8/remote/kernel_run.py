"""The kernels of a network, one after the other, each with the inputs that a reference has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from relay_int8.remote.kernel_check import Results, of_sign
from relay_int8.runtime.cuda_graphs import regions_run_by, run_region
from relay_int8.runtime.kernel_results import run_watched
from relay_int8.runtime.tvm_runtime import RuntimeDevice, load_library, start

Array = np.ndarray[Any, Any]


def run_kernels(
    library: Path,
    kind: str,
    inputs: Sequence[Array],
    functions: Sequence[str],
    expected: Results,
    *,
    weights: Sequence[Array] = (),
    all_results: bool = False,
) -> dict[int, Array]:
    """Run a network once and return what kernels wrote otherwise than expected.

    Parameters
    ----------
    library
        File of the compiled network.
    kind
        "cpu" or "cuda".
    inputs
        In the order of the network's.
    functions
        The kernel of each call, in the order of execution.
    expected
        By index in ``functions``. What a kernel wrote is replaced by what is expected of it.
    weights
        What ``main`` takes behind the inputs.
    all_results
        Return what every kernel wrote.
    """
    device = RuntimeDevice(kind)
    graphs = regions_run_by(run_region) if kind == "cuda" else None
    machine = start(load_library(library, device), device, graphs, weights)
    different: dict[int, Array] = {}

    def _compare(index: int, tensor: Any) -> None:
        if not all_results and index not in expected:
            return
        actual = device.get(tensor)
        wanted = expected.get(index)
        if wanted is not None:
            wanted = of_sign(wanted, actual.dtype)
        if wanted is None or wanted.tobytes() != actual.tobytes():
            different[index] = actual
        if wanted is not None:
            device.write(tensor, wanted)

    run_watched(machine, [device.put(x) for x in inputs], functions, device.wait, _compare)
    return different


def numbered(arrays: Mapping[int, Array]) -> dict[str, Array]:
    """Return arrays with names that files can have."""
    return {str(index): array for index, array in arrays.items()}


def by_number(arrays: Mapping[str, Array]) -> dict[int, Array]:
    """Return the arrays that :func:`numbered` named."""
    return {int(name): array for name, array in arrays.items()}
