"""Imported MXNet networks beside MXNet 1.9.1, which runs in an environment of its own.

Every result is compared with a bound on the largest difference as a share of the largest value.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from relay_int8 import ImportOptions, float_network, import_mxnet, load_model
from relay_int8.compiler.build import compile_module
from relay_int8.compiler.pipeline import normalize
from relay_int8.graph.dataflow import calls
from relay_int8.graph.spec_calls import spec_of

Array = np.ndarray[Any, Any]
EXPORTER = Path(__file__).with_name("mxnet_exporter.py")
TOLERANCE = 1e-4


def export(mxnet: Path, folder: Path, *arguments: str) -> str:
    """Run the exporter under MXNet's Python and return what it printed."""
    # oneDNN lacks some of the operators that MXNet itself has.
    environment = {**os.environ, "MXNET_MKLDNN_ENABLED": "0", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [str(mxnet), str(EXPORTER), str(folder), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{EXPORTER.name} failed under MXNet:\n{done.stderr}")
    return done.stdout


def read(file: Path) -> tuple[dict[str, Array], list[Array]]:
    """Return the inputs and the results that the exporter wrote."""
    arrays = dict(np.load(file))
    results = [arrays.pop(name) for name in sorted(arrays) if name.startswith("output")]
    return arrays, results


def difference(actual: Sequence[Array], expected: Sequence[Array]) -> float:
    """Return the largest difference as a share of the largest value; inf where shapes differ."""
    if [a.shape for a in actual] != [e.shape for e in expected]:
        return float("inf")
    return max(
        float(np.abs(a - e).max() / max(np.abs(e).max(), 1e-6))
        for a, e in zip(actual, expected, strict=True)
    )


def operators(mxnet: Path) -> Iterator[tuple[str, float]]:
    """Yield name and difference of every operator case."""
    target = tvm.target.Target({"kind": "llvm", "opt-level": 0})
    with tempfile.TemporaryDirectory() as folder:
        export(mxnet, Path(folder), "--operators")
        for file in sorted(Path(folder).glob("*.npz")):
            inputs, expected = read(file)
            shapes = {name: array.shape for name, array in inputs.items()}
            mod = import_mxnet(_symbol(file), inputs=shapes)
            arrays = [inputs[str(param.name)] for param in mod["main"].params]
            main = relax.VirtualMachine(_built(mod, target), tvm.cpu())["main"]
            result = main(*(tvm.runtime.tensor(array) for array in arrays))
            single = isinstance(result, tvm.runtime.Tensor)
            actual = [tensor.numpy() for tensor in ([result] if single else result)]
            yield file.stem, difference(actual, expected)


def _built(mod: tvm.IRModule, target: tvm.target.Target) -> relax.VMExecutable:
    """Compile with TVM's own kernels, without optimization, unless a kernel of ours is called."""
    if all(spec_of(value) is None for _, value in calls(mod["main"])):
        return relax.build(relax.get_pipeline("zero")(mod), target)
    return compile_module(normalize()(mod), target).executable


def network(mxnet: Path, name: str) -> float:
    """Return the difference of one network."""
    with tempfile.TemporaryDirectory() as folder:
        export(mxnet, Path(folder), "--network", name)
        file = Path(folder) / f"{name}.npz"
        inputs, expected = read(file)
        shapes = {key: array.shape for key, array in inputs.items()}
        run = float_network(load_model(_symbol(file), ImportOptions(inputs=shapes)))
        return difference(list(run(inputs).values()), expected)


def _symbol(file: Path) -> Path:
    return file.with_name(f"{file.stem}-symbol.json")


def main() -> None:
    """Compare what the command line names, and exit with 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", help="all of Gluon's vision zoo by default")
    parser.add_argument("--mxnet", type=Path, required=True, help="Python that has MXNet 1.9.1")
    parser.add_argument("--no-operators", action="store_true", help="leave single operators out")
    args = parser.parse_args()
    worst = 0.0
    if not args.no_operators:
        found = dict(operators(args.mxnet))
        worst = max(found.values())
        print(f"{len(found)} cases of operators: {worst:.1e} at most", flush=True)
        for name, share in found.items():
            if not share <= TOLERANCE:
                print(f"{name} differs by {share:.1e}", flush=True)
    names = args.networks or export(args.mxnet, Path(), "--list").split()
    for name in names:
        start = time.perf_counter()
        share = network(args.mxnet, name)
        worst = max(worst, share)
        verdict = "equal" if share <= TOLERANCE else "DIFFERS"
        seconds = time.perf_counter() - start
        print(f"{name:18s} {share:.1e} {verdict} ({seconds:.0f} s)", flush=True)
    if not worst <= TOLERANCE:
        sys.exit(f"a difference of {worst:.1e} is more than {TOLERANCE:.0e}")


if __name__ == "__main__":
    main()
