"""Which networks run in a team of threads: those whose parallel loops are their own kernels'."""

import pytest
import tvm
from tvm import relax, tirx
from tvm.target import Target

from relay_int8.compiler import thread_team
from relay_int8.compiler.thread_team import PAUSES, runs_in_team, team_module
from relay_int8.runtime.thread_team import INSTALL, RUN
from schedules.targets import TARGETS

pytestmark = pytest.mark.fast

X86 = Target({"kind": "llvm", "mcpu": "haswell"})


def network(function: str) -> tvm.IRModule:
    """Return a network that calls one of the runtime's functions."""
    builder = relax.BlockBuilder()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    with builder.function("main", [x]):
        call = relax.Call(relax.ExternFunc(function), [x], ty_args=[x.ty])
        builder.emit_func_output(builder.emit(call))
    return builder.finalize()


def test_functions_of_the_virtual_machine_have_no_loops():
    assert runs_in_team(network("vm.builtin.reshape"), X86)
    assert not runs_in_team(network("tvm.contrib.sort.argsort"), X86)


def test_kernels_that_call_the_runtime_may_have_loops():
    mod = network("vm.builtin.reshape")
    sorting = tirx.PrimFunc([], tirx.Evaluate(tirx.call_packed("tvm.contrib.sort.argsort", 1)))
    mod["sorting"] = sorting.with_attr("global_symbol", "sorting")
    assert not runs_in_team(mod, X86)
    mod["sorting"] = tirx.PrimFunc([], tirx.Evaluate(0)).with_attr("global_symbol", "sorting")
    assert runs_in_team(mod, X86)


@pytest.mark.parametrize(("target", "pause"), [(X86, "pause"), (TARGETS["aarch64"], "yield")])
def test_the_code_is_that_of_the_target(target, pause):
    text = str(team_module(Target(target)).inspect_source("ll"))
    assert f'asm sideeffect "{pause}"' in text
    assert all(f"@__tvm_ffi_{name}(" in text for name in (INSTALL, RUN))


def test_a_computer_without_a_known_pause_has_no_team(monkeypatch):
    monkeypatch.setattr(thread_team, "PAUSES", {"aarch64": PAUSES["aarch64"]})
    assert not runs_in_team(network("vm.builtin.reshape"), X86)
