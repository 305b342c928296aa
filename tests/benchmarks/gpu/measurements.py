"""Cells with made-up times."""

from benchmarks.gpu.bundle import Kernel
from benchmarks.gpu.measurement import GpuMeasurement
from benchmarks.gpu.peaks import Peaks
from benchmarks.gpu.roofline import layer
from benchmarks.gpu.turns import GpuTurn

PEAKS = Peaks(dp4a_macs_s=60e12, mma_macs_s=600e12, copy_bytes_s=4e12, launch_s=2e-6, sm_mhz=1980.0)
KERNELS = (
    Kernel(tensor="q", function="quantize_cuda_0", title="quantize", moved_bytes=4_000_000),
    Kernel(tensor="a", function="conv2d_dp4a_1", title="conv", unit="dp4a", macs=600_000_000),
    Kernel(tensor="b", function="conv2d_mma_2", title="conv", unit="mma", macs=600_000_000),
)
SECONDS = (4e-6, 20e-6, 5e-6)


def cell(times_ms, **changes):
    turns = {
        key: tuple(GpuTurn(device_s=ms / 1e3, alone_s=2 * ms / 1e3, sm_mhz=1900.0) for ms in values)
        for key, values in times_ms.items()
    }
    layers = (layer(k, seconds, PEAKS) for k, seconds in zip(KERNELS, SECONDS, strict=True))
    values = {
        "network": "net",
        "image_size": 8,
        "batch": 4,
        "macs": 300_000_000,
        "digest": "d",
        "target": {"kind": "cuda"},
        "peaks": PEAKS,
        "turns": turns,
        "cosines": dict.fromkeys(turns, 0.5),
        "layers": tuple(layers),
    }
    return GpuMeasurement(**values | changes)
