"""Imported PyTorch programs beside PyTorch, which runs in an environment of its own.

Float results are compared with a bound on the largest difference as a share of the largest value;
those of PT2E-quantized networks are counted in steps of their last scale. PyTorch rounds float sums
and we exact ones, so that a tie may be one step apart, and what follows another one.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tvm
from tvm import IRModule, relax
from tvm.target import Target

from benchmarks.parity.mxnet_parity import TOLERANCE, Array, difference, read
from relay_int8 import float_network, import_torch, load_model
from relay_int8.compiler.build import compile_module
from relay_int8.compiler.pipeline import finalize, lower, normalize
from relay_int8.graph import dataflow
from relay_int8.quantization.adopt import adopt
from schedules.targets import TARGETS

EXPORTER = "benchmarks.parity.torch_exporter"
STEPS = 2
DECOMPOSED_ONLY = ("lstm_projected",)
"""Programs that are read as run_decompositions() writes them, and refused as they are."""
FLOAT = Target({"kind": "llvm", "opt-level": 0})


def export(torch: Path, folder: Path, *arguments: str) -> None:
    """Run the exporter under PyTorch's Python, which finds it in the folder that it starts in."""
    done = subprocess.run(
        [str(torch.absolute()), "-m", EXPORTER, str(folder.absolute()), *arguments],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{EXPORTER} failed under PyTorch:\n{done.stderr}")


def programs(folder: Path) -> Iterator[tuple[str, float]]:
    """Yield name and difference of every program of a folder."""
    for file in sorted(folder.glob("*.pt2")):
        if file.stem in DECOMPOSED_ONLY:
            continue
        inputs, expected = read(file.with_suffix(".npz"))
        extents = {array.shape[0] for array in inputs.values()}
        mod = import_torch(file, batch=extents.pop() if len(extents) == 1 else None)
        if dataflow.is_quantized(mod):
            yield file.stem, steps(mod, inputs, expected[0])
        else:
            yield file.stem, difference(_run(mod, inputs), expected)


def _run(mod: IRModule, inputs: dict[str, Array]) -> list[Array]:
    """Compute a float module with this project's kernels, without optimization."""
    arrays = [inputs[str(param.name)] for param in mod["main"].params]
    with FLOAT:
        built = tvm.compile(lower(FLOAT)(normalize()(mod)), FLOAT, relax_pipeline=finalize())
    main = relax.VirtualMachine(built, tvm.cpu())["main"]
    result = main(*(tvm.runtime.tensor(array) for array in arrays))
    single = isinstance(result, tvm.runtime.Tensor)
    return [tensor.numpy() for tensor in ([result] if single else result)]


def steps(mod: IRModule, inputs: dict[str, Array], expected: Array) -> float:
    """Return 0 where all layers are integers and PyTorch's results are ``STEPS`` near, else inf."""
    adopted = adopt(mod)
    floats = [layer.name for layer in adopted.plan.layers if layer.macs and not layer.integer]
    if floats:
        print(f"in float: {', '.join(floats)}", flush=True)
        return float("inf")
    built = compile_module(adopted.mod, Target(TARGETS["x86"]))
    main = relax.VirtualMachine(built.executable, tvm.cpu())["main"]
    found = main(*(tvm.runtime.tensor(array) for array in inputs.values())).numpy()
    apart = np.abs(found - expected)
    step = _last_scale(adopted.mod)
    equal = float((apart <= 1e-5 * np.abs(expected).max()).mean())
    print(f"{equal:.1%} equal, at most {apart.max() / step:.2f} steps apart", flush=True)
    return 0.0 if apart.max() <= (STEPS + 1e-3) * step else float("inf")


def _last_scale(mod: IRModule) -> float:
    scales = [
        float(array.reshape(()))
        for _, value in dataflow.calls(mod["main"])
        if dataflow.operator(value) == "quantize"
        and (array := dataflow.constant(value.args[1])) is not None
        and array.size == 1
    ]
    return scales[-1]


def main() -> None:
    """Compare what the command line names, and exit with 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("networks", nargs="*", help="of torchvision; all known ones by default")
    parser.add_argument("--torch", type=Path, required=True, help="Python that has PyTorch")
    parser.add_argument("--no-torchvision", action="store_true", help="leave torchvision out")
    args = parser.parse_args()
    worst: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        if not args.networks:
            export(args.torch, Path(folder), "--operators", "--transformers", "--networks")
            worst.update(_report(Path(folder)))
        if not args.no_torchvision:
            whole = Path(folder) / "torchvision"
            whole.mkdir()
            export(args.torch, whole, "--torchvision", *args.networks)
            worst.update(_report_networks(whole))
    bad = [name for name, share in worst.items() if not share <= TOLERANCE]
    if bad:
        sys.exit(f"{', '.join(bad)}: differ by more than {TOLERANCE:.0e}, or {STEPS} steps")


def _report(folder: Path) -> dict[str, float]:
    found = {}
    for name, share in programs(folder):
        found[name] = share
        print(f"{name:28s} {share:.1e} {_verdict(share)}", flush=True)
    return found


def _report_networks(folder: Path) -> dict[str, float]:
    found = {}
    for file in sorted(folder.glob("*.pt2")):
        start = time.perf_counter()
        inputs, expected = read(file.with_suffix(".npz"))
        share = difference(list(float_network(load_model(file))(inputs).values()), expected)
        found[file.stem] = share
        seconds = time.perf_counter() - start
        print(f"{file.stem:28s} {share:.1e} {_verdict(share)} ({seconds:.0f} s)", flush=True)
    return found


def _verdict(share: float) -> str:
    return "equal" if share <= TOLERANCE else "DIFFERS"


if __name__ == "__main__":
    main()
