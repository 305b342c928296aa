"""Small whole networks for a GPU, with what a CPU computes of an input: every kernel, every output.

    NAME.ri8           the artifact
    NAME.npz           inputs "input:<name>", outputs "output:<name>", and by the index of a call
                       what its kernel writes, as it lies in the GPU's memory, "kernel:<index>"

What runs them needs TVM's runtime and NumPy, and no compiler.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

RUNS = 3  # the first captures a CUDA graph, the others replay it
INPUT, OUTPUT, KERNEL = "input:", "output:", "kernel:"


def network_names(folder: Path) -> list[str]:
    """Return the networks that were written into ``folder``."""
    return sorted(file.stem for file in folder.glob("*.ri8"))


def wrong_network(folder: Path, name: str) -> dict[str, str]:
    """Run a network on the first GPU; return what is wrong, by kernel or output.

    Each kernel is given what the CPU's have computed before it, so that a float rounded otherwise
    is no difference of the kernels behind it. Outputs of the whole are compared where all bits of
    all kernels are equal.
    """
    from relay_int8.remote.kernel_check import check_kernels
    from relay_int8.remote.kernel_run import run_kernels
    from relay_int8.runtime.artifact import extracted, load

    with np.load(folder / f"{name}.npz") as arrays:
        inputs, outputs, expected = (
            {key.removeprefix(kind): arrays[key] for key in arrays.files if key.startswith(kind)}
            for kind in (INPUT, OUTPUT, KERNEL)
        )
    with extracted(folder / f"{name}.ri8") as contents:
        manifest = contents.manifest
        functions = [kernel.function for kernel in manifest.kernels]
        given = [inputs[info.name] for info in manifest.inputs]
        results = {int(index): array for index, array in expected.items()}
        actual = run_kernels(contents.library, "cuda", given, functions, results)
    found = {}
    check = check_kernels(manifest.kernels, results, actual)
    for each in check.differences:
        if not each.tolerated:
            found[each.result.name] = (
                f"{each.result.function}: {each.different} of {each.elements} numbers differ, "
                f"by up to {each.largest:.3g}"
            )
    module = load(folder / f"{name}.ri8")
    runs = [module.run(inputs) for _ in range(RUNS)]
    for output, wanted in outputs.items():
        if any(run[output].tobytes() != runs[0][output].tobytes() for run in runs):
            found[output] = f"{RUNS} runs of the whole differ"
        elif not check.differences and runs[0][output].tobytes() != wanted.tobytes():
            found[output] = "the whole differs, although no kernel does"
    return found
