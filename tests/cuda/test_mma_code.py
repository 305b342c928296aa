"""What CUDA's compiler makes of the tensor-core kernels: the instructions, and nothing spilled."""

import functools
from collections.abc import Callable

import pytest
import tvm

from schedules.cuda.mma.conv2d_mma import CONV2D_MMA
from schedules.cuda.mma.dense_mma import DENSE_MMA
from schedules.cuda.toolchain.fat_binary import bundle
from schedules.cuda.toolchain.main_loop import MainLoop, main_loop
from schedules.cuda.toolchain.nvrtc import Compiled
from schedules.cuda.toolchain.prediction import needed_share
from schedules.cuda.toolchain.sass import disassemble
from schedules.layout import NCHW32C, ROW
from schedules.spec import Conv2d, Dense
from schedules.template import Layouts
from tests.cuda.emulator import cuda_source
from tests.cuda.run_template import SM_80, Case, schedule

IMAGES = Layouts(inputs=(NCHW32C, NCHW32C), output=NCHW32C)
ROWS = Layouts(inputs=(ROW,), output=ROW)


def conv(channels: tuple[int, int], size: int, kernel: int, **fields) -> Case:
    border = kernel // 2
    spec = Conv2d(
        in_channels=channels[0],
        out_channels=channels[1],
        height=size,
        width=size,
        kernel=(kernel, kernel),
        padding=(border,) * 4,
        **({"batch": 1, "x": "uint8", "y": "uint8"} | fields),
    )
    return Case(spec=spec, template=CONV2D_MMA, wanted=IMAGES)


CASES = {
    "first": conv((64, 64), 56, 3),
    "wide": conv((64, 256), 56, 1, batch=16, residual="uint8"),
    "strided": conv((256, 256), 28, 3, strides=(2, 2), x="int8", y="int8"),
    "last": conv((512, 512), 7, 3, leaky=True),
    "large_batch": conv((512, 512), 7, 3, batch=64),
    "head": Case(
        spec=Dense(rows=1, n=1000, k=2048, x="uint8", y="float32"),
        template=DENSE_MMA,
        wanted=ROWS,
    ),
}
OPCODES = {
    "sm_75": ("mma.sync.aligned.m8n8k16.row.col.s32.u8.s8.s32",),
    "sm_80": ("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", "cp.async.cg.shared.global"),
    "sm_90": ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", "cp.async.wait_group"),
}


@pytest.fixture(scope="module")
def source() -> str:
    kernels = {
        name: schedule(case, SM_80).with_attr("global_symbol", name) for name, case in CASES.items()
    }
    return cuda_source(tvm.IRModule(kernels), SM_80)


@pytest.fixture(scope="module")
def compiled(nvrtc, source) -> Callable[[str], Compiled]:
    """Return machine code of an architecture, compiled once."""
    return functools.cache(lambda architecture: nvrtc.compile(source, architecture))


@pytest.mark.parametrize("architecture", OPCODES)
def test_tensor_cores_are_in_the_ptx(nvrtc, source, architecture):
    ptx = nvrtc.compile(source, architecture, "ptx").binary.decode()
    for opcode in OPCODES[architecture]:
        assert opcode in ptx
    assert ("cp.async" in ptx) == (architecture != "sm_75")
    assert ".local" not in ptx, "registers that are indexed lie in memory"


@pytest.mark.parametrize("architecture", OPCODES)
def test_nothing_is_spilled(compiled, architecture):
    usage = compiled(architecture).usage
    assert len(usage) == len(CASES)
    assert {name: use for name, use in usage.items() if use.spilled_bytes} == {}


# Of the instructions in the main loop, what must be mma for the matrix units to have no pause: they
# are an eighth on sm_80. Where a loop is as short as that of "wide" (two slabs), what scales the sums
# outweighs it, and no tiles change that.
COMPUTE_BOUND = {"first": 0.15, "strided": 0.14, "last": 0.14, "large_batch": 0.25}


@pytest.fixture(scope="module")
def loops(compiled) -> dict[str, MainLoop]:
    pytest.importorskip("nvidia.cu13", reason="needs NVIDIA's disassembler, of the extra sass")
    found = disassemble(bundle([compiled("sm_80")]))
    return {kernel.name: main_loop(kernel.text) for kernel in found.kernels}


@pytest.mark.parametrize("name", COMPUTE_BOUND)
def test_matrix_units_have_no_pause(loops, name):
    loop = loops[f"{name}_kernel"]
    assert loop.share >= COMPUTE_BOUND[name] >= needed_share("sm_80", loop)


def test_a_border_is_another_address(loops):
    """A store in the place of a copy, and what keeps it in order, took as much as all copies."""
    loop = loops["last_kernel"]
    assert "STS" not in loop.opcodes
    assert loop.opcodes["LDSM"] * 4 == loop.products  # one read of x for 16 pixels and 32 channels
