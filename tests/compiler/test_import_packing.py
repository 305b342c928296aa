"""Libraries whose imports the assembler has packed hold what TVM would have written."""

import ctypes

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.script import ir as I
from tvm.script import relax as R

from relay_int8.compiler.build import export_library
from relay_int8.compiler.import_packing import ALIGNMENT
from schedules.targets import native_target

pytestmark = pytest.mark.fast

CONSTANT = np.arange(5000, dtype="float32")


@I.ir_module
class Net:
    @R.function
    def main(x: R.Tensor((5000,), "float32")):
        with R.dataflow():
            y = R.add(x, R.const(CONSTANT))
            R.output(y)
        return y


@pytest.fixture(scope="module")
def executable():
    return tvm.compile(relax.get_pipeline("zero")(Net), native_target())


def packed(library):
    """Return the imports of a library, and how they are aligned: their size, then their bytes."""
    symbol = ctypes.c_uint64.in_dll(ctypes.CDLL(str(library)), "__tvm_ffi__library_bin")
    address = ctypes.addressof(symbol)
    return ctypes.string_at(address, 8 + symbol.value), address % ALIGNMENT


def test_bytes_are_those_of_tvm(executable, tmp_path):
    target = native_target()
    executable.export_library(str(tmp_path / "tvm.so"))
    export_library(executable, target, tmp_path / "ours.so")
    expected, _ = packed(tmp_path / "tvm.so")
    found, offset = packed(tmp_path / "ours.so")
    assert found == expected and CONSTANT.tobytes() in found
    assert offset == 0


def test_equal_networks_are_equal_files(executable, tmp_path):
    for name in ("first.so", "second.so"):
        export_library(executable, native_target(), tmp_path / name)
    assert (tmp_path / "first.so").read_bytes() == (tmp_path / "second.so").read_bytes()


def test_such_a_library_runs(executable, tmp_path):
    export_library(executable, native_target(), tmp_path / "net.so")
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(tmp_path / "net.so")), tvm.cpu())
    x = np.ones(5000, "float32")
    np.testing.assert_array_equal(machine["main"](tvm.runtime.tensor(x)).numpy(), CONSTANT + 1)
