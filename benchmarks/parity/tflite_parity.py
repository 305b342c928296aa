"""Compare imported TFLite files with TFLite's own interpreter, on the same inputs.

::

    python -m benchmarks.parity.tflite_parity FILE.tflite ... [--inputs INPUTS.npy]

A line for each file and each set of kernels that TFLite has: the share of results that are equal,
the largest difference (of integers: in steps), the share of rows whose largest element is the same;
a line for TFLite's two sets; then the layers that are not computed in integers. The inputs of a
file with variables are the steps of one stream.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from tvm import IRModule

from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.tflite import import_tflite
from relay_int8.frontend.tflite.file import read_model
from relay_int8.frontend.tflite.variables import variables_of
from relay_int8.graph import dataflow
from relay_int8.quantization.adopt import adopt
from schedules.targets import native_target

Array = np.ndarray[Any, Any]
KERNELS = {"xnnpack": OpResolverType.AUTO, "reference": OpResolverType.BUILTIN_REF}


def main() -> None:
    """Compare the files that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--inputs", type=Path, help=".npy of inputs along the first axis")
    parser.add_argument("--samples", type=int, default=4, help="random inputs, without --inputs")
    given = parser.parse_args()
    for file in given.files:
        mod, states = import_tflite(file), _first_states(file)
        drawn = _random(mod, given.samples, len(states))
        inputs = list(_given(given.inputs) if given.inputs else drawn)
        compare(file, mod, inputs, states)


def compare(
    file: Path, mod: IRModule, inputs: Sequence[list[Array]], states: Sequence[Array] = ()
) -> None:
    """Print how near the results of ``mod`` are to TFLite's; ``states`` are before the first."""
    print(file.name)
    adopted = adopt(mod) if dataflow.is_quantized(mod) else None
    ours = _ours(adopted.mod if adopted else normalize()(mod), inputs, states)
    theirs = {name: _theirs(file, inputs, kind) for name, kind in KERNELS.items()}
    for name, found in theirs.items():
        print(f"  here and {name}: {_difference(ours, found)}")
    print(f"  xnnpack and reference: {_difference(theirs['xnnpack'], theirs['reference'])}")
    for layer in adopted.plan.layers if adopted else ():
        if layer.reason:
            print(f"  in float: {layer.name} ({layer.kind}): {layer.reason}")


def _given(path: Path) -> Iterator[list[Array]]:
    for x in np.load(path):
        yield [np.ascontiguousarray(x[None])]


def _first_states(file: Path) -> list[Array]:
    """Return the variables of a file before the first run, in the order of the inputs."""
    return [
        np.zeros(state.tensor.shape, state.tensor.dtype) if state.first is None else state.first
        for state in variables_of(read_model(file))
        if state.is_assigned
    ]


def _random(mod: IRModule, count: int, states: int) -> Iterator[list[Array]]:
    """Yield inputs of normal numbers, or of any integers, but none for the last ones, states."""
    rng = np.random.default_rng(0)
    params = mod["main"].params
    for _ in range(count):
        drawn = []
        for param in params[: len(params) - states]:
            dims, kind = dataflow.shape(param), np.dtype(dataflow.dtype(param))
            if kind.kind == "f":
                drawn.append(rng.normal(size=dims).astype(kind))
            else:
                info = np.iinfo(kind)
                drawn.append(rng.integers(info.min, info.max + 1, dims).astype(kind))
        yield drawn


def _ours(mod: IRModule, inputs: Sequence[list[Array]], states: Sequence[Array]) -> list[Array]:
    """Return all results, one input after the other; states go from run to run."""
    network = virtual_machine(compile_module(mod, native_target()))["main"]
    found = []
    for arrays in inputs:
        results = network(*map(tvm.runtime.tensor, (*arrays, *states)))
        tensors = [results] if isinstance(results, tvm.runtime.Tensor) else list(results)
        values = [tensor.numpy() for tensor in tensors]
        found += values[: len(values) - len(states)]
        states = values[len(values) - len(states) :]
    return found


def _theirs(file: Path, inputs: Sequence[list[Array]], kernels: OpResolverType) -> list[Array]:
    network = Interpreter(
        model_path=str(file), num_threads=1, experimental_op_resolver_type=kernels
    )
    network.allocate_tensors()
    found = []
    for arrays in inputs:
        for detail, array in zip(network.get_input_details(), arrays, strict=True):
            network.set_tensor(detail["index"], array)
        network.invoke()
        found += [network.get_tensor(d["index"]) for d in network.get_output_details()]
    return found


def _difference(ours: Sequence[Array], theirs: Sequence[Array]) -> str:
    pairs = [(a.astype(float), b.astype(float)) for a, b in zip(ours, theirs, strict=True)]
    equal = np.mean([(a == b).mean() for a, b in pairs])
    largest = max(np.abs(a - b).max() for a, b in pairs)
    scale = max(np.abs(b).max() for _, b in pairs)
    same = np.mean([(a.argmax(-1) == b.argmax(-1)).mean() for a, b in pairs])
    return f"{equal:.4f} equal, at most {largest:.3g} of {scale:.3g}, {same:.4f} with one maximum"


if __name__ == "__main__":
    main()
