"""Machine code that hands a network's parallel loops to threads which stay together for a run.

TVM's runtime puts each parallel loop into a queue of each thread, and a thread that waits gives its
core to the operating system: a microsecond or three, where a kernel takes ten. Here a run takes
TVM's threads once, and each loop is announced to them in memory that they watch:

- ``run_in_team`` calls a function, ``main`` of the virtual machine, in one task of TVM's pool; the
  other tasks follow it until it is done;
- ``launch`` stands in for TVMBackendParallelLaunch, which a library calls through the variable
  ``__TVMBackendParallelLaunch``: where the calling thread leads a team it announces the loop, does
  its own share and waits for the others. Elsewhere it is TVM's;
- ``make_calls`` calls the kernels of a list, in place of ``main``
  (``relay_int8/runtime/noted_calls.py``).

Who waits looks ``PATIENCE`` times, which takes about as long as to offer the core once, and then
offers it at each look, as TVM does from the first: on a busy computer little is lost. Threads find
their team by a key of pthreads, since code that is not linked yet has no thread-local variables.
"""

from __future__ import annotations

import tempfile
from functools import lru_cache
from pathlib import Path

import tvm
import tvm_ffi
from tvm import IRModule, ir, relax, tirx
from tvm.target import Target

from relay_int8.graph import dataflow
from relay_int8.runtime.instrument import BUILTIN
from schedules.targets import machine

PATIENCE = 1 << 5  # looks of 15 to 80 nanoseconds each
PAUSES = {"aarch64": "yield", "x86_64": "pause"}  # instruction that slows a loop which waits

# %team: round, the loop of the round (its code, data, TVM's group); how often others were done,
# and how many failed; what is run. Each in cache lines of its own: the first is written by the
# leader and read by all, the second the other way round. A round without code is the last.
#
# An argument of tvm_ffi has 16 bytes: its type, then its value at the eighth. The code of a
# function object is at byte 24. A group has its size at byte 8.
#
# %call: a function object, its arguments and their number. Kernels return nothing, so that all of
# a list may have one place for a result.
CODE = """
%team = type { i64, ptr, ptr, ptr, [4 x i64], i64, i64, [6 x i64], ptr, ptr, ptr, i32, i32 }
%call = type { ptr, ptr, i64 }

@__TVMBackendParallelLaunch = weak global ptr null
@launcher = internal global ptr null
@key = internal global i32 0

declare i32 @sched_yield()
declare i32 @pthread_key_create(ptr, ptr)
declare ptr @pthread_getspecific(i32)
declare i32 @pthread_setspecific(i32, ptr)

define i32 @__tvm_ffi_install_team(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  store i32 2, ptr %result, align 8
  %value = getelementptr i8, ptr %result, i64 8
  store i64 1, ptr %value, align 8
  %present = load ptr, ptr @__TVMBackendParallelLaunch, align 8
  %installed = icmp eq ptr %present, @launch
  br i1 %installed, label %done, label %prepare
prepare:
  %status = call i32 @pthread_key_create(ptr @key, ptr null)
  %prepared = icmp eq i32 %status, 0
  br i1 %prepared, label %install, label %fail
install:
  store ptr %present, ptr @launcher, align 8
  store ptr @launch, ptr @__TVMBackendParallelLaunch, align 8
  br label %done
fail:
  store i64 0, ptr %value, align 8
  br label %done
done:
  ret i32 0
}

define i32 @__tvm_ffi_run_in_team(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  %team = alloca %team, align 64
  %value = getelementptr i8, ptr %arguments, i64 8
  %function = load ptr, ptr %value, align 8
  %rest = getelementptr i8, ptr %arguments, i64 16
  %rest_count = sub i32 %count, 1
  %key = load i32, ptr @key, align 4
  %outer = call ptr @pthread_getspecific(i32 %key)
  %leads = icmp ne ptr %outer, null
  br i1 %leads, label %inside, label %gather
inside:
  %called = call i32 @call(ptr %function, ptr %rest, i32 %rest_count, ptr %result)
  ret i32 %called
gather:
  store %team zeroinitializer, ptr %team, align 64
  %function_at = getelementptr %team, ptr %team, i64 0, i32 8
  store ptr %function, ptr %function_at, align 8
  %rest_at = getelementptr %team, ptr %team, i64 0, i32 9
  store ptr %rest, ptr %rest_at, align 8
  %result_at = getelementptr %team, ptr %team, i64 0, i32 10
  store ptr %result, ptr %result_at, align 8
  %count_at = getelementptr %team, ptr %team, i64 0, i32 11
  store i32 %rest_count, ptr %count_at, align 4
  %launcher = load ptr, ptr @launcher, align 8
  %launched = call i32 %launcher(ptr @member, ptr %team, i32 0)
  %status_at = getelementptr %team, ptr %team, i64 0, i32 12
  %status = load i32, ptr %status_at, align 4
  ret i32 %status
}

define internal i32 @call(ptr %function, ptr %arguments, i32 %count, ptr %result) {
  %code_at = getelementptr i8, ptr %function, i64 24
  %code = load ptr, ptr %code_at, align 8
  %status = call i32 %code(ptr %function, ptr %arguments, i32 %count, ptr %result)
  ret i32 %status
}

define i32 @__tvm_ffi_make_calls(ptr %self, ptr %arguments, i32 %count, ptr %result) {
  %calls_at = getelementptr i8, ptr %arguments, i64 8
  %calls = load ptr, ptr %calls_at, align 8
  %number_at = getelementptr i8, ptr %arguments, i64 24
  %number = load i64, ptr %number_at, align 8
  br label %look
look:
  %place = phi i64 [ 0, %0 ], [ %next, %made ]
  %more = icmp slt i64 %place, %number
  br i1 %more, label %make, label %done
make:
  %function_at = getelementptr %call, ptr %calls, i64 %place, i32 0
  %function = load ptr, ptr %function_at, align 8
  %tensors_at = getelementptr %call, ptr %calls, i64 %place, i32 1
  %tensors = load ptr, ptr %tensors_at, align 8
  %size_at = getelementptr %call, ptr %calls, i64 %place, i32 2
  %size = load i64, ptr %size_at, align 8
  %size_narrow = trunc i64 %size to i32
  %status = call i32 @call(ptr %function, ptr %tensors, i32 %size_narrow, ptr %result)
  %succeeded = icmp eq i32 %status, 0
  br i1 %succeeded, label %made, label %done
made:
  %next = add i64 %place, 1
  br label %look
done:
  %last = phi i32 [ 0, %look ], [ %status, %make ]
  ret i32 %last
}

define internal i32 @member(i32 %number, ptr %group, ptr %team) {
  %is_leader = icmp eq i32 %number, 0
  br i1 %is_leader, label %lead, label %follow
lead:
  call void @lead(ptr %group, ptr %team)
  ret i32 0
follow:
  call void @follow(i32 %number, ptr %group, ptr %team)
  ret i32 0
}

define internal void @lead(ptr %group, ptr %team) {
  %group_at = getelementptr %team, ptr %team, i64 0, i32 3
  store ptr %group, ptr %group_at, align 8
  %function_at = getelementptr %team, ptr %team, i64 0, i32 8
  %function = load ptr, ptr %function_at, align 8
  %arguments_at = getelementptr %team, ptr %team, i64 0, i32 9
  %arguments = load ptr, ptr %arguments_at, align 8
  %result_at = getelementptr %team, ptr %team, i64 0, i32 10
  %result = load ptr, ptr %result_at, align 8
  %count_at = getelementptr %team, ptr %team, i64 0, i32 11
  %count = load i32, ptr %count_at, align 4
  %key = load i32, ptr @key, align 4
  %entered = call i32 @pthread_setspecific(i32 %key, ptr %team)
  %status = call i32 @call(ptr %function, ptr %arguments, i32 %count, ptr %result)
  %left = call i32 @pthread_setspecific(i32 %key, ptr null)
  %status_at = getelementptr %team, ptr %team, i64 0, i32 12
  store i32 %status, ptr %status_at, align 4
  %last = call i64 @announce(ptr %team, ptr null, ptr null)
  ret void
}

define internal void @follow(i32 %number, ptr %group, ptr %team) {
  %loop_at = getelementptr %team, ptr %team, i64 0, i32 1
  %data_at = getelementptr %team, ptr %team, i64 0, i32 2
  %done_at = getelementptr %team, ptr %team, i64 0, i32 5
  %failures_at = getelementptr %team, ptr %team, i64 0, i32 6
  br label %wait
wait:
  %round = phi i64 [ 1, %0 ], [ %next, %finish ]
  call void @await(ptr %team, i64 %round)
  %loop = load ptr, ptr %loop_at, align 8
  %is_last = icmp eq ptr %loop, null
  br i1 %is_last, label %leave, label %work
work:
  %data = load ptr, ptr %data_at, align 8
  %status = call i32 %loop(i32 %number, ptr %group, ptr %data)
  %succeeded = icmp eq i32 %status, 0
  br i1 %succeeded, label %finish, label %fail
fail:
  %failures = atomicrmw add ptr %failures_at, i64 1 monotonic
  br label %finish
finish:
  %done = atomicrmw add ptr %done_at, i64 1 release
  %next = add i64 %round, 1
  br label %wait
leave:
  ret void
}

define internal i64 @announce(ptr %team, ptr %loop, ptr %data) {
  %loop_at = getelementptr %team, ptr %team, i64 0, i32 1
  store ptr %loop, ptr %loop_at, align 8
  %data_at = getelementptr %team, ptr %team, i64 0, i32 2
  store ptr %data, ptr %data_at, align 8
  %before = load i64, ptr %team, align 8
  %round = add i64 %before, 1
  store atomic i64 %round, ptr %team release, align 8
  ret i64 %round
}

define i32 @launch(ptr %loop, ptr %data, i32 %tasks) {
  %key = load i32, ptr @key, align 4
  %team = call ptr @pthread_getspecific(i32 %key)
  %leads = icmp ne ptr %team, null
  br i1 %leads, label %together, label %alone
alone:
  %launcher = load ptr, ptr @launcher, align 8
  %launched = call i32 %launcher(ptr %loop, ptr %data, i32 %tasks)
  ret i32 %launched
together:
  %group_at = getelementptr %team, ptr %team, i64 0, i32 3
  %group = load ptr, ptr %group_at, align 8
  %size_at = getelementptr i8, ptr %group, i64 8
  %size = load i32, ptr %size_at, align 4
  %round = call i64 @announce(ptr %team, ptr %loop, ptr %data)
  %status = call i32 %loop(i32 0, ptr %group, ptr %data)
  %others = sub i32 %size, 1
  %others_wide = sext i32 %others to i64
  %target = mul i64 %round, %others_wide
  %done_at = getelementptr %team, ptr %team, i64 0, i32 5
  call void @await(ptr %done_at, i64 %target)
  %failures_at = getelementptr %team, ptr %team, i64 0, i32 6
  %failures = load i64, ptr %failures_at, align 8
  %succeeded = icmp eq i64 %failures, 0
  br i1 %succeeded, label %done, label %again
again:
  store i64 0, ptr %failures_at, align 8
  br label %repeat
repeat:
  %number = phi i32 [ 1, %again ], [ %next, %repeat ]
  %repeated = call i32 %loop(i32 %number, ptr %group, ptr %data)
  %next = add i32 %number, 1
  %more = icmp slt i32 %next, %size
  %fine = icmp eq i32 %repeated, 0
  %go_on = and i1 %more, %fine
  br i1 %go_on, label %repeat, label %repeats_done
repeats_done:
  %first_fine = icmp eq i32 %status, 0
  %either = select i1 %first_fine, i32 %repeated, i32 %status
  ret i32 %either
done:
  ret i32 %status
}

define internal void @await(ptr %counter, i64 %target) {
  br label %look
look:
  %looks = phi i64 [ 0, %0 ], [ %looked, %pause ], [ %looked, %yield ]
  %count = load atomic i64, ptr %counter acquire, align 8
  %reached = icmp uge i64 %count, %target
  br i1 %reached, label %done, label %wait
wait:
  %looked = add i64 %looks, 1
  %patient = icmp ult i64 %looks, PATIENCE
  br i1 %patient, label %pause, label %yield
pause:
  call void asm sideeffect "PAUSE", ""()
  br label %look
yield:
  %yielded = call i32 @sched_yield()
  br label %look
done:
  ret void
}
"""


def team_module(target: Target) -> tvm.runtime.Module:
    """Return the machine code, for a library that is compiled for ``target``."""
    with tempfile.TemporaryDirectory(prefix="relay-int8-") as folder:
        file = Path(folder) / "thread_team.ll"
        file.write_text(_code(str(target)))
        return tvm.runtime.load_module(str(file))


@lru_cache(maxsize=16)
def _code(target: str) -> str:
    """Return the text, with the head and the notes of what TVM compiles for ``target``."""
    nothing = tirx.PrimFunc([], tirx.Evaluate(0)).with_attr("global_symbol", "thread_team")
    built = tvm.tirx.build(IRModule({"thread_team": nothing}), target=Target(target))
    lines = str(built.inspect_source("ll")).splitlines()
    head = [line for line in lines if line.startswith("target ")]
    notes = [line for line in lines if line.startswith("!")]
    pause = PAUSES[machine(Target(target))]
    code = CODE.replace("PATIENCE", str(PATIENCE)).replace("PAUSE", pause)
    return "\n".join([*head, code, *notes])


def runs_in_team(final: IRModule, target: Target) -> bool:
    """Say whether a network can run in a team: all of its parallel loops are its own kernels'.

    Functions of TVM's runtime, as its sorting, have loops of their own, which would wait for
    threads that wait for them.
    """
    if machine(target) not in PAUSES:
        return False
    return not any(_calls_others(func) for _, func in final.functions_items())


def _calls_others(func: ir.BaseFunc) -> bool:
    """Say whether a function calls one of the runtime's that is not the virtual machine's own."""
    if isinstance(func, relax.Function):
        values = [value for _, value in dataflow.calls(func) if isinstance(value, relax.Call)]
        called = [value.op for value in values if isinstance(value.op, relax.ExternFunc)]
        return not all(str(each.global_symbol).startswith(BUILTIN) for each in called)
    packed: list[ir.Call] = []
    tvm_ffi.structural_walk(
        func.body, (ir.Call, lambda call: packed.append(call) if _is_packed(call) else None)
    )
    return bool(packed)


def _is_packed(call: ir.Call) -> bool:
    name = str(getattr(call.op, "name", ""))
    return name.startswith("tirx.tvm_call_") and "packed" in name
