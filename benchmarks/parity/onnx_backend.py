"""ONNX's own backend tests of single operators, through our import and float compile.

Every node test of the installed onnx package runs twice: as it is, and with all of its operands but
the first as initializers. A run may pass, be refused by a FrontendError or UnsupportedOpError, give
wrong results, or crash: raise anything else, or end its process. Other floats are read as float32,
and compared so. Exit code 1 if anything is wrong or crashes.

    scripts/onnx_backend                        all of them, some minutes
    scripts/onnx_backend 'test_conv*' resize    names that match a pattern or hold a word
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from importlib import import_module
from pathlib import Path
from queue import Empty, Queue
from typing import Any

import numpy as np
import onnx

from benchmarks.script_parser import script_parser
from relay_int8 import ImportOptions, float_network, load_model
from relay_int8.errors import FrontendError, UnsupportedOpError

Array = np.ndarray[Any, Any]

NODE_TESTS = "onnx.backend.test.case.node"
OUTCOMES = ("pass", "refused", "wrong", "crash")
VARIANTS = ("file", "constants")
"""As the test has it, and with all operands but the first as initializers."""

WIDENED = ("bfloat16", "float16", "float64")
"""Types that the importer reads as float32."""

ATOL = 1e-5  # of float32 sums; ONNX's own 1e-7 is that of one operator in one order
BFLOAT16_RTOL = 2**-6  # two steps of its last place, as ONNX's own runner has it
FIRST_IR_OF_CONSTANTS = 4  # until then an initializer was the default of an input
LIMIT_S = 60  # a run that takes longer is ended, and counts as a crash


@dataclass(frozen=True)
class Outcome:
    """What a run of one test came to; ``reason`` is empty where it passed."""

    name: str
    variant: str
    outcome: str
    reason: str = ""


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, run, print; return the exit code."""
    parser = script_parser("scripts/onnx_backend", __doc__)
    parser.add_argument("patterns", nargs="*", help="patterns or words of names; all if left out")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    parser.add_argument("--only", nargs="+", choices=OUTCOMES, help="print these outcomes alone")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        return _work()
    names = [case.name for case in node_cases() if _is_chosen(case.name, options.patterns)]
    if not names:
        parser.error(f"no test of onnx {onnx.__version__} matches {' '.join(options.patterns)}")
    counts: dict[str, Counter[str]] = {variant: Counter() for variant in VARIANTS}
    for found in run_in_processes(names, options.jobs):
        counts[found.variant][found.outcome] += 1
        if found.outcome in (options.only or OUTCOMES):
            print(f"{found.outcome:8}{found.variant:10}{found.name}  {found.reason}", flush=True)
    print(f"\nonnx {onnx.__version__}, {len(names)} tests")
    for variant, counted in counts.items():
        print(f"{variant:10}" + ", ".join(f"{counted[key]} {key}" for key in OUTCOMES))
    return int(any(counted["wrong"] + counted["crash"] for counted in counts.values()))


def _is_chosen(name: str, patterns: Sequence[str]) -> bool:
    return not patterns or any(fnmatch(name, text) or text in name for text in patterns)


def node_cases(modules: Iterable[str] = ()) -> list[Any]:
    """Return ONNX's tests of single operators: of these modules of them, or all."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        package = import_module(NODE_TESTS)
        for name in modules:
            import_module(f"{NODE_TESTS}.{name}")
        found: list[Any] = package._NodeTestCases if modules else package.collect_testcases()
    return found


def run_in_processes(names: Sequence[str], jobs: int) -> Iterator[Outcome]:
    """Yield the outcomes of all tests, which run in ``jobs`` processes, as they come."""
    shares = [names[start::jobs] for start in range(min(jobs, len(names)))]
    found: Queue[Outcome] = Queue()
    with ThreadPoolExecutor(len(shares)) as pool:
        running = [pool.submit(_run_share, share, found) for share in shares]
        for _ in range(len(names) * len(VARIANTS)):
            while True:
                try:
                    yield found.get(timeout=1)
                    break
                except Empty:
                    for share in running:
                        if share.done():
                            share.result()  # what stopped it, if anything did


def _run_share(names: Sequence[str], found: Queue[Outcome]) -> None:
    """Run tests one after the other, in a new process after each that ended its own."""
    left = [(name, variant) for name in names for variant in VARIANTS]
    while left:
        with tempfile.TemporaryFile("w+") as errors:
            command = [sys.executable, "-m", "benchmarks.parity.onnx_backend", "--worker"]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
            ) as process:
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(json.dumps(left))
                process.stdin.close()
                for line in process.stdout:
                    found.put(Outcome(**json.loads(line)))
                    left.pop(0)
            if left:
                errors.seek(0)
                found.put(Outcome(*left.pop(0), "crash", _ended(process.returncode, errors.read())))


def _ended(code: int, said: str) -> str:
    """Return how a process ended that had not run all of its tests."""
    if code < 0:
        return f"the process died: {signal.Signals(-code).name}"
    return f"the process ended with {code}: {(said.strip().splitlines() or ['no message'])[-1]}"


def _work() -> int:
    """Run the tests that standard input names, and print an outcome a line."""
    results = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what compilers print is no result
    cases = {case.name: case for case in node_cases()}
    for name, variant in json.load(sys.stdin):
        signal.alarm(LIMIT_S)
        print(json.dumps(asdict(run_case(cases[name], variant))), file=results, flush=True)
    return 0


def run_case(case: Any, variant: str) -> Outcome:
    """Run one test in this process."""
    try:
        outcome, reason = _compare(case, variant)
    except (FrontendError, UnsupportedOpError) as err:
        outcome, reason = "refused", str(err)
    except Exception as err:  # whatever it is: that is what this counts
        outcome, reason = "crash", f"{type(err).__name__}: {err}"
    return Outcome(case.name, variant, outcome, " ".join(reason.split()))


def _compare(case: Any, variant: str) -> tuple[str, str]:
    model = case.model
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for inputs, expected in case.data_sets:
            names = [value.name for value in case.model.graph.input]
            arrays = dict(zip(names, inputs, strict=True))
            if variant == "constants":
                model = with_constants(case.model, arrays)
            path = Path(folder) / "model.onnx"
            onnx.save(model, path)
            tensors = [i.name for i in model.graph.input if i.type.HasField("tensor_type")]
            fed = {name: _fed(arrays[name]) for name in tensors}  # lists are refused at import
            empty = {name: x.shape for name, x in fed.items() if 0 in x.shape}
            network = float_network(load_model(path, ImportOptions(inputs=empty)))
            found = network(fed)
            for name, wanted in zip(
                (value.name for value in model.graph.output), expected, strict=True
            ):
                y = _rows(found[name], found.get(f"{name}.rows"), _array(wanted).shape)
                if reason := difference(y, _array(wanted), case.rtol):
                    return "wrong", f"{name}: {reason}"
    return "pass", ""


def _rows(y: Array, number: Array | None, wanted: tuple[int, ...]) -> Array:
    """Return the rows of a result that are there, along the axis that has room for more."""
    longer = [axis for axis, (n, m) in enumerate(zip(y.shape, wanted, strict=False)) if n != m]
    if number is None or len(longer) != 1:
        return y
    return np.take(y, np.arange(number[0]), longer[0])


def with_constants(model: onnx.ModelProto, arrays: dict[str, Any]) -> onnx.ModelProto:
    """Return a model in which all inputs but the first are initializers; lists stay inputs."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    changed.ir_version = max(model.ir_version, FIRST_IR_OF_CONSTANTS)
    del changed.graph.input[:], changed.graph.initializer[:]
    for index, value in enumerate(model.graph.input):
        array = arrays[value.name]
        if index == 0 or not isinstance(array, np.ndarray | np.generic | onnx.TensorProto):
            changed.graph.input.append(value)
            continue
        tensor = array
        if not isinstance(array, onnx.TensorProto):
            tensor = onnx.numpy_helper.from_array(np.asarray(array))
        named = changed.graph.initializer.add()
        named.CopyFrom(tensor)
        named.name = value.name
    return changed


def _fed(array: Any) -> Array:
    """Return an operand as the imported network takes it."""
    given = _array(array)
    return given.astype(np.float32) if str(given.dtype) in WIDENED else given


def _array(tensor: Any) -> Array:
    is_proto = isinstance(tensor, onnx.TensorProto)
    return np.asarray(onnx.numpy_helper.to_array(tensor) if is_proto else tensor)


def difference(found: Array, wanted: Array, rtol: float) -> str:
    """Return in what a result is not what is wanted, "" if it is."""
    given = wanted
    if found.shape != wanted.shape:
        return f"{list(found.shape)} found, {list(wanted.shape)} wanted"
    if str(wanted.dtype) in WIDENED and found.dtype == np.float32:
        with np.errstate(over="ignore"):
            wanted = wanted.astype(np.float32)
    if found.dtype != wanted.dtype:
        return f"{found.dtype} found, {wanted.dtype} wanted"
    if wanted.dtype.kind in "iubU":
        apart = found != wanted
    else:
        if str(given.dtype) == "bfloat16":
            rtol = max(rtol, BFLOAT16_RTOL)
        apart = ~np.isclose(
            found.astype(np.float64), wanted.astype(np.float64), rtol, ATOL, equal_nan=True
        )
    if not apart.any():
        return ""
    first = tuple(int(i) for i in np.argwhere(apart)[0])
    count = f"{int(apart.sum())} of {apart.size}"
    return f"{count} differ, at {first} {found[first]} for {wanted[first]}"


if __name__ == "__main__":
    sys.exit(main())
