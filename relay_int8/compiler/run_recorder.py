"""Machine code that notes when the calls of a run and the tasks of its threads begin and end.

A callback of Python takes microseconds and the interpreter's lock, so that threads would wait for
each other to note a time. Here the clock is read by machine code:

- ``stamp`` stands before and after each call in the list of a run's calls; where each run may make
  others, it is the instrument of TVM's virtual machine, which takes microseconds to call it;
- ``launch`` stands in for TVMBackendParallelLaunch, which an exported library calls through the
  variable ``__TVMBackendParallelLaunch``, and ``work`` for the task that each thread is given.

A stamp costs some 100 ns. Buffers that are full take no more, and nothing is lost but times.
"""

from __future__ import annotations

import ctypes
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import tirx

from relay_int8.runtime.instrument import instrumented
from relay_int8.runtime.noted_calls import NotedCalls
from schedules.targets import native_target

Times = np.ndarray[Any, np.dtype[np.int64]]

LAUNCHER = "__TVMBackendParallelLaunch"  # TVM's name of the variable in exported libraries
MOST_REGIONS = 65536  # of one run: far more than any network has

# An argument of tvm_ffi has 16 bytes: its type, then its value at the eighth. 1: CLOCK_MONOTONIC,
# which perf_counter_ns reads too. A row of regions: launched, done, and both ends of each task.
CODE = """
@event = internal global i64 0
@events_end = internal global i64 0
@region = internal global i64 0
@regions_end = internal global i64 0
@row_bytes = internal global i64 0
@launcher = internal global i64 0

declare i32 @clock_gettime(i32, ptr)

define internal i64 @now() {
  %clock = alloca [2 x i64], align 8
  %status = call i32 @clock_gettime(i32 1, ptr %clock)
  %seconds = load i64, ptr %clock, align 8
  %rest_at = getelementptr i64, ptr %clock, i64 1
  %rest = load i64, ptr %rest_at, align 8
  %whole = mul i64 %seconds, 1000000000
  %time = add i64 %whole, %rest
  ret i64 %time
}

define internal i64 @argument(ptr %arguments, i64 %index) {
  %offset = mul i64 %index, 16
  %value = add i64 %offset, 8
  %at = getelementptr i8, ptr %arguments, i64 %value
  %number = load i64, ptr %at, align 8
  ret i64 %number
}

define i32 @__tvm_ffi_start(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  %event = call i64 @argument(ptr %arguments, i64 0)
  store i64 %event, ptr @event
  %events_end = call i64 @argument(ptr %arguments, i64 1)
  store i64 %events_end, ptr @events_end
  %region = call i64 @argument(ptr %arguments, i64 2)
  store i64 %region, ptr @region
  %regions_end = call i64 @argument(ptr %arguments, i64 3)
  store i64 %regions_end, ptr @regions_end
  %row_bytes = call i64 @argument(ptr %arguments, i64 4)
  store i64 %row_bytes, ptr @row_bytes
  %launcher = call i64 @argument(ptr %arguments, i64 5)
  store i64 %launcher, ptr @launcher
  ret i32 0
}

define i32 @__tvm_ffi_launch_address(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  store i32 1, ptr %result, align 8
  %value = getelementptr i8, ptr %result, i64 8
  %address = ptrtoint ptr @launch to i64
  store i64 %address, ptr %value, align 8
  ret i32 0
}

define i32 @__tvm_ffi_stamp(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  %event = load i64, ptr @event
  %end = load i64, ptr @events_end
  %room = icmp ult i64 %event, %end
  br i1 %room, label %note, label %done
note:
  %next = add i64 %event, 8
  store i64 %next, ptr @event
  %at = inttoptr i64 %event to ptr
  %time = call i64 @now()
  store i64 %time, ptr %at, align 8
  br label %done
done:
  ret i32 0
}

define i32 @launch(ptr %task, ptr %data, i32 %tasks) {
  %closure = alloca [3 x i64], align 8
  %region = load i64, ptr @region
  %end = load i64, ptr @regions_end
  %launcher_address = load i64, ptr @launcher
  %launcher = inttoptr i64 %launcher_address to ptr
  %room = icmp ult i64 %region, %end
  br i1 %room, label %note, label %plain
plain:
  %unnoted = call i32 %launcher(ptr %task, ptr %data, i32 %tasks)
  ret i32 %unnoted
note:
  %row_bytes = load i64, ptr @row_bytes
  %next = add i64 %region, %row_bytes
  store i64 %next, ptr @region
  store ptr %task, ptr %closure, align 8
  %data_at = getelementptr i64, ptr %closure, i64 1
  store ptr %data, ptr %data_at, align 8
  %region_at = getelementptr i64, ptr %closure, i64 2
  store i64 %region, ptr %region_at, align 8
  %row = inttoptr i64 %region to ptr
  %launched = call i64 @now()
  store i64 %launched, ptr %row, align 8
  %status = call i32 %launcher(ptr @work, ptr %closure, i32 %tasks)
  %finished = call i64 @now()
  %finished_at = getelementptr i64, ptr %row, i64 1
  store i64 %finished, ptr %finished_at, align 8
  ret i32 %status
}

define internal i32 @work(i32 %number, ptr %group, ptr %closure) {
  %begin = call i64 @now()
  %task = load ptr, ptr %closure, align 8
  %data_at = getelementptr i64, ptr %closure, i64 1
  %data = load ptr, ptr %data_at, align 8
  %region_at = getelementptr i64, ptr %closure, i64 2
  %row = load ptr, ptr %region_at, align 8
  %status = call i32 %task(i32 %number, ptr %group, ptr %data)
  %index = sext i32 %number to i64
  %pair = mul i64 %index, 16
  %offset = add i64 %pair, 16
  %row_bytes = load i64, ptr @row_bytes
  %room = icmp ult i64 %offset, %row_bytes
  br i1 %room, label %note, label %done
note:
  %at = getelementptr i8, ptr %row, i64 %offset
  store i64 %begin, ptr %at, align 8
  %end_at = getelementptr i8, ptr %at, i64 8
  %end = call i64 @now()
  store i64 %end, ptr %end_at, align 8
  br label %done
done:
  ret i32 %status
}
"""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """Times of several runs, in nanoseconds of one clock.

    Parameters
    ----------
    names
        The calls of one run, in order; those of the virtual machine's own start with "vm.builtin.".
    runs
        (runs, 2): when each run began and ended.
    calls
        (runs, calls, 2): when each call began and ended.
    regions
        (regions, 2 + 2 * threads): parallel regions in order: when it was launched and done, then
        when each task began and ended; 0 for threads that had none.
    """

    names: tuple[str, ...]
    runs: Times
    calls: Times
    regions: Times


def record_runs(
    machine: tvm_ffi.Module,
    library: ctypes.CDLL,
    arguments: Sequence[Any],
    *,
    threads: int,
    runs: int,
    main: Callable[..., Any] | None = None,
    listed: Callable[[list[Any], Any], NotedCalls | None] | None = None,
) -> Recording:
    """Return the times of ``runs`` runs of a network.

    Parameters
    ----------
    machine
        A virtual machine of TVM's with its network.
    library
        The library that it was loaded from, opened a second time.
    arguments
        Of ``main``.
    threads
        How many the runtime's pool has.
    main
        What is run instead of the machine's ``main``, which it calls.
    listed
        Arguments and what stands around each call -> the calls of a run, as a module makes them
        again; None if only the machine can.
    """
    code = _code()
    calls = listed(list(arguments), code["stamp"]) if listed else None
    run, names = _runner(machine, arguments, main, calls)
    watched = nullcontext() if calls else instrumented(machine, code["stamp"])
    row = 2 + 2 * threads
    regions: Times = np.zeros((MOST_REGIONS, row), np.int64)
    events: Times = np.zeros(1, np.int64)
    with _launching_through(library, code, events, regions):
        run()
    of_one = int(np.count_nonzero(regions[:, 0]))

    regions = np.zeros((runs * of_one + 1, row), np.int64)  # one more, so that it is never empty
    events = np.zeros((runs, len(names), 2), np.int64)
    ends: Times = np.zeros((runs, 2), np.int64)
    with _launching_through(library, code, events, regions), watched:
        for number in range(runs):
            ends[number, 0] = time.perf_counter_ns()
            run()
            ends[number, 1] = time.perf_counter_ns()
    noted = regions[: int(np.count_nonzero(regions[:, 0]))]
    return Recording(names=names, runs=ends, calls=events, regions=noted)


def _runner(
    machine: tvm_ffi.Module,
    arguments: Sequence[Any],
    main: Callable[..., Any] | None,
    calls: NotedCalls | None,
) -> tuple[Callable[[], Any], tuple[str, ...]]:
    """Return what runs the network once, and the names of what it calls."""
    if calls is not None:
        return partial(calls.run, arguments), calls.names
    return partial(main or machine["main"], *arguments), _call_names(machine, arguments)


def _call_names(machine: tvm_ffi.Module, arguments: Sequence[Any]) -> tuple[str, ...]:
    names: list[str] = []

    def _note(_func: Any, name: str, before: bool, *_values: Any) -> None:
        if before:
            names.append(name)

    with instrumented(machine, _note):
        machine["main"](*arguments)
    return tuple(names)


def _code() -> tvm.runtime.Module:
    """Return the machine code, which TVM reads from a file, for this computer."""
    nothing = tirx.PrimFunc([], tirx.Evaluate(0)).with_attr("global_symbol", "nothing")
    built = tvm.tirx.build(tvm.IRModule({"nothing": nothing}), target=native_target())
    text = str(built.inspect_source("ll"))
    computer = [line for line in text.splitlines() if line.startswith("target ")]
    with tempfile.TemporaryDirectory(prefix="relay-int8-") as folder:
        file = Path(folder) / "recorder.ll"
        file.write_text("\n".join([*computer, CODE]))
        return tvm.runtime.load_module(str(file))


@contextmanager
def _launching_through(
    library: ctypes.CDLL, code: tvm.runtime.Module, events: Times, regions: Times
) -> Iterator[None]:
    """Let the library launch its parallel regions through the code, which fills the buffers."""
    try:
        variable = ctypes.c_void_p.in_dll(library, LAUNCHER)
    except ValueError:  # no kernel of it is parallel
        variable = ctypes.c_void_p()
    launcher = variable.value
    spans = [(array.ctypes.data, array.ctypes.data + array.nbytes) for array in (events, regions)]
    flat = [address for span in spans for address in span]
    code["start"](*flat, regions.strides[0], launcher or 0)
    if launcher:
        variable.value = code["launch_address"]()
    try:
        yield
    finally:
        variable.value = launcher
