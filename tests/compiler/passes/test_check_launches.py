"""CheckLaunches: what no GPU launches is refused while it is built, not in the first run."""

import pytest
import tvm
from tvm.script import tirx as T

from relay_int8.compiler.passes.lower.check_launches import CheckLaunches
from relay_int8.compiler.pipeline import lower, normalize
from relay_int8.errors import UnsupportedOpError
from tests.cuda.run_template import SM_61
from tests.small_networks import NetworkWriter

pytestmark = pytest.mark.fast


def kernel(blocks: int, threads: int, axis: str = "blockIdx.y") -> tvm.IRModule:
    """Return a kernel with this many blocks along an axis, of this many threads."""

    @T.prim_func(s_tir=True)
    def fill(y: T.Buffer((blocks, threads), "int8")):
        for i in T.thread_binding(blocks, thread=axis):
            for j in T.thread_binding(threads, thread="threadIdx.x"):
                with T.sblock("fill"):
                    vi, vj = T.axis.remap("SS", [i, j])
                    y[vi, vj] = T.int8(1)

    return tvm.IRModule({"fill": fill})


@pytest.mark.parametrize(
    ("mod", "reason"),
    [
        (
            kernel(65536, 32),
            "kernel fill: its blockIdx.y goes to 65536, and GPUs launch 1 to 65535",
        ),
        (kernel(4, 1025), "its threadIdx.x goes to 1025, and GPUs launch 1 to 1024; build"),
    ],
    ids=["blocks", "threads"],
)
def test_what_cannot_be_launched_is_refused(mod, reason):
    with pytest.raises(UnsupportedOpError, match=reason):
        CheckLaunches()(mod)


def test_a_kernel_of_the_host_is_refused():
    @T.prim_func(s_tir=True)
    def fill(y: T.Buffer((4,), "int8")):
        for i in range(4):
            with T.sblock("fill"):
                vi = T.axis.remap("S", [i])
                y[vi] = T.int8(1)

    with pytest.raises(UnsupportedOpError, match=r"fill: no loop of it is given to threads of the"):
        CheckLaunches()(tvm.IRModule({"fill": fill}))


@pytest.mark.parametrize("mod", [kernel(65535, 1024), kernel(65536, 32, "blockIdx.x")])
def test_others_pass_unchanged(expect_rewrite, mod):
    expect_rewrite(CheckLaunches(), mod, mod)


def test_a_batch_of_which_each_image_is_a_block():
    """A convolution by dp4a has its images along the third axis of the grid."""
    net = NetworkWriter((65536, 4, 1, 1))
    mod = normalize()(net.module(net.conv("y", net.x, 4, 1)))
    with SM_61, pytest.raises(UnsupportedOpError, match=r"its blockIdx\.z goes to 65536"):
        lower(SM_61)(mod)
