"""Modules for GPUs are made, exported and loaded on a computer that has none."""

import pytest
import tvm
import tvm_ffi

from schedules.cuda.toolchain.compiler import CALLBACK, device_code, fat_binaries
from schedules.cuda.toolchain.fat_binary import MAGIC, bundle, compile_parts
from schedules.template import ScheduleError
from tests.cuda.run_template import SM_80, Case, schedule
from tests.cuda.test_conv2d_dp4a import case_of
from tests.nvidia import needs_compiler

pytestmark = needs_compiler
ELF = b"\x7fELF"


def kernel(case: Case) -> tvm.IRModule:
    return tvm.IRModule({"main": schedule(case, SM_80).with_attr("global_symbol", "main")})


def test_one_library_for_several_architectures(tmp_path):
    mod = kernel(case_of("same"))
    with SM_80, fat_binaries(("sm_61", "sm_90")):
        built = tvm.compile(mod, target=SM_80)
    path = tmp_path / "kernel.so"
    built.export_library(str(path))
    binary = path.read_bytes()
    assert MAGIC in binary
    assert b"__global__" not in binary, "the source travels along"
    loaded = tvm.runtime.load_module(str(path))
    assert [module.kind for module in loaded.imports] == ["cuda"]


def test_the_members_are_the_architectures():
    source = 'extern "C" __global__ void f(int* x) { x[threadIdx.x] = __dp4a(1u, 2, 3); }'
    one, two = (bundle(compile_parts(source, names)) for names in (("sm_80",), ("sm_61", "sm_80")))
    assert one.startswith(MAGIC) and two.startswith(MAGIC)
    assert len(two) > len(one)


def test_tvms_own_compilation_comes_back():
    before = tvm_ffi.get_global_func(CALLBACK)
    with pytest.raises(KeyError), fat_binaries(("sm_80",)):
        raise KeyError
    assert tvm_ffi.get_global_func(CALLBACK).same_as(before)


def test_unknown_architectures_are_refused():
    with pytest.raises(ScheduleError, match="'sm_800' is unknown to NVRTC"):
        compile_parts("", ("sm_80", "sm_800"))
    with pytest.raises(ScheduleError, match="no architecture"):
        compile_parts("", ())


def test_other_targets_need_nothing():
    with device_code(tvm.target.Target({"kind": "llvm"})):
        pass
