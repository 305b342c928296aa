"""Shared memory above 48 KiB: defaults that ask for it, and a launch that TVM's runtime makes."""

import os
import subprocess
import sys

import numpy as np
import pytest
import tvm
from tvm.target import Target

from relay_int8.compiler.gpu_code import launch_of
from schedules.cuda.device.gpus import KIB, gpu_of
from schedules.cuda.device.limits import STATIC_BYTES, most_shared_bytes
from schedules.cuda.mma.conv2d_mma import CONV2D_MMA, gemm
from schedules.cuda.mma.estimate import default_tiles, estimated_us
from schedules.cuda.mma.gemm import gemm_kernel
from schedules.cuda.toolchain.compiler import fat_binaries
from schedules.layout import NCHW32C
from schedules.spec import Conv2d
from schedules.template import Layouts
from tests.cuda.emulator import Emulator
from tests.cuda.fake_gpu import FakeGpu, noted_sources
from tests.cuda.run_template import SM_80, memory_of
from tests.cuda.test_conv2d_mma import ASKED, tiled
from tests.nvidia import needs_compiler
from tests.schedules.numpy_kernels import random_arrays, reference

RUN = """
import sys
import numpy as np
import tvm
from schedules.cuda.device.runtime import load_cuda_runtime

load_cuda_runtime()
library, arguments, result = sys.argv[1:]
kernel = tvm.runtime.load_module(library)["main"]
arrays = [tvm.runtime.tensor(array, tvm.cuda(0)) for array in np.load(arguments).values()]
kernel(*arrays)
np.save(result, arrays[-1].numpy())
"""


def on(arch: str) -> Target:
    return Target({"kind": "cuda", "arch": arch}, host="llvm")


def conv(channels: int, size: int, batch: int) -> Conv2d:
    """Return a 3x3 convolution that keeps channels and size."""
    return Conv2d(
        batch=batch,
        in_channels=channels,
        out_channels=channels,
        height=size,
        width=size,
        kernel=(3, 3),
        padding=(1, 1, 1, 1),
        x="uint8",
        y="uint8",
    )


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arch", "kib"), [("sm_61", 48), ("sm_75", 64), ("sm_80", 99), ("sm_87", 99), ("sm_90", 99)]
)
def test_what_every_gpu_grants_that_runs_the_code(arch, kib):
    assert most_shared_bytes(on(arch)) == kib * KIB


@pytest.mark.fast
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90"])
@pytest.mark.parametrize(("channels", "size", "batch"), [(256, 14, 16), (512, 7, 16), (64, 56, 1)])
def test_defaults_ask_for_it_where_it_pays_and_two_blocks_fit(arch, channels, size, batch):
    product = gemm(conv(channels, size, batch))
    tiles = default_tiles(product, on(arch))
    if arch == "sm_75" or batch == 1:
        assert tiles.shared_bytes <= STATIC_BYTES
    else:
        assert STATIC_BYTES < tiles.shared_bytes <= gpu_of(arch).shared_kib * KIB // 2 - KIB
        assert estimated_us(product, tiles, on(arch)) < 0.9 * LEAST_US[arch, channels]


LEAST_US = {
    ("sm_80", 256): 10.41, ("sm_80", 512): 14.76, ("sm_90", 256): 8.82, ("sm_90", 512): 12.23,
}  # fmt: skip
"""Of the tiles of 48 KiB."""


@pytest.mark.fast
def test_a_launch_says_what_it_asks_for():
    spec = conv(256, 14, 16)
    tiles = default_tiles(gemm(spec), SM_80)
    launch = launch_of(gemm_kernel(spec, gemm(spec), tiles))
    assert launch.shared_bytes == tiles.shared_bytes
    assert launch_of(gemm_kernel(spec, gemm(spec))).shared_bytes == 0


@needs_compiler
@pytest.mark.slow
def test_the_runtime_asks_for_it(full, tmp_path):
    """A driver refuses a launch with more than 48 KiB that it was not told of before."""
    if not full:
        pytest.skip("needs --full")
    built = tiled([ASKED], SM_80, lambda source: Emulator(source))
    spec = built.cases[ASKED].spec
    arrays = random_arrays(spec, np.random.default_rng(1))
    layouts = Layouts(inputs=(NCHW32C,), output=NCHW32C)
    func = built.mod[ASKED].with_attr("global_symbol", "main")
    with fat_binaries(("sm_80",)), noted_sources() as compiled:
        library = tvm.compile(tvm.IRModule({"main": func}), target=SM_80)
    library.export_library(str(tmp_path / "kernel.so"))
    memory = memory_of(CONV2D_MMA, spec, layouts, arrays)
    np.savez(tmp_path / "arguments.npz", *memory)
    gpu = FakeGpu.make(tmp_path / "fake", compiled[0])
    files = [str(tmp_path / name) for name in ("kernel.so", "arguments.npz", "y.npy")]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *files],
        env=os.environ | gpu.environment(),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    y = layouts.output.unpack(np.load(tmp_path / "y.npy"), spec.shape("y"))
    np.testing.assert_array_equal(y, reference(spec, arrays))
