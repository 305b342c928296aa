"""Single kernels with their arguments and what they must return, made once and run elsewhere.

    kernels.json       libraries, and the kernels of each
    NAME.so            the kernels of one family, with machine code for the GPU
    NAME.npz           arguments as they lie in memory, and results as they are meant

What runs them needs TVM's runtime and NumPy, and no compiler.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

INDEX = "kernels.json"
RTOL, ATOL = 1e-5, 5e-5  # of products of floats, whose order of sums is free


@dataclass(frozen=True, kw_only=True)
class KernelCase:
    """One kernel of a library.

    Parameters
    ----------
    name
        Of its function.
    arguments
        How many it takes; the last is y.
    layout, shape
        Of y: the name of its layout, and its logical shape.
    is_exact
        Whether every bit is known; else numbers are compared within ``RTOL`` and ``ATOL``.
    """

    name: str
    arguments: int
    layout: str
    shape: tuple[int, ...]
    is_exact: bool


def save_index(folder: Path, libraries: dict[str, list[KernelCase]]) -> None:
    """Write which libraries there are."""
    plain = {name: list(map(dataclasses.asdict, cases)) for name, cases in libraries.items()}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / INDEX).write_text(json.dumps(plain, indent=1) + "\n")


def read_index(folder: Path) -> dict[str, list[KernelCase]]:
    """Return the kernels by library; none where no index was written."""
    file = folder / INDEX
    plain = json.loads(file.read_text()) if file.exists() else {}
    return {
        name: [KernelCase(**case | {"shape": tuple(case["shape"])}) for case in cases]
        for name, cases in plain.items()
    }


def wrong_kernels(folder: Path, library: str) -> dict[str, str]:
    """Run the kernels of a library on the first GPU; return what is wrong, by kernel."""
    from relay_int8.runtime.tvm_runtime import RuntimeDevice, load_library

    device, found = RuntimeDevice("cuda"), dict[str, str]()
    module = load_library(folder / f"{library}.so", device)
    with np.load(folder / f"{library}.npz") as arrays:
        for case in read_index(folder)[library]:
            before = [arrays[f"{case.name}:{index}"] for index in range(case.arguments)]
            tensors = [device.put(array) for array in before]
            module[case.name](*tensors)
            after = [device.get(tensor) for tensor in tensors]
            if reason := fault(case, before, after, arrays[f"{case.name}:expected"]):
                found[case.name] = reason
    return found


def fault(
    case: KernelCase, before: list[np.ndarray], after: list[np.ndarray], expected: np.ndarray
) -> str:
    """Say how arguments, after a kernel ran, are not as they must be, or ""."""
    from schedules.layout import LAYOUTS

    for index, (old, new) in enumerate(zip(before[:-1], after[:-1], strict=True)):
        if old.tobytes() != new.tobytes():
            return f"argument {index} was overwritten"
    layout = LAYOUTS[case.layout]
    y = layout.unpack(after[-1], case.shape)
    if case.is_exact:
        different = int(np.count_nonzero(y != expected))
    else:
        different = int(np.count_nonzero(~np.isclose(y, expected, RTOL, ATOL)))
    if different:
        return f"{different} of {y.size} numbers of y differ"
    if y.dtype.kind == "f" and layout.block and layout.pack(y).tobytes() != after[-1].tobytes():
        return "lanes past the last channel are not zero"
    return ""
