"""Time the default schedule of each convolution of a network on one core, as a share of peak.

    TVM_NUM_THREADS=1 taskset -c 1 scripts/bench_kernels --network resnet50

Only multiplications inside the image count. Peak is measured by a loop of the same instruction
without loads, compiled by the same TVM. The last lines are the mean over the compute-bound
convolutions (50 million in-bounds multiplications or more, the stem left out), weighted by
multiplications times how often the network has the layer, and their minimum.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from typing import Any

import numpy as np
import tvm
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.dot import F32, PLAIN, Dot
from schedules.cpu.f32 import CONV2D_F32
from schedules.cpu.plain import CONV2D_PLAIN
from schedules.layout import NCHW16C
from schedules.peak import peak
from schedules.spec import Conv2d, DType
from schedules.targets import native_target
from schedules.template import Layouts, ScheduleTemplate
from schedules.x86.avx2 import CONV2D_AVX2
from schedules.x86.dots import AVX2, VNNI
from schedules.x86.vnni import CONV2D_VNNI

TEMPLATES: dict[str, tuple[ScheduleTemplate, Dot]] = {
    "vnni": (CONV2D_VNNI, VNNI),
    "avx2": (CONV2D_AVX2, AVX2),
    "plain": (CONV2D_PLAIN, PLAIN),
    "f32": (CONV2D_F32, F32),
}
COMPUTE_BOUND = 50_000_000  # in-bounds multiplications
WINDOW_S = 0.01

Layer = tuple[int, int, int, tuple[int, int], int, int, tuple[int, int], int]
"""In channels, size, out channels, kernel, stride, dilation, padding, how often."""


def square(kernel: int, *rows: tuple[int, ...]) -> list[Layer]:
    """Return layers of one square kernel, padded to keep the size.

    A row: in channels, size, out channels, stride, dilation, how often.
    """
    return [
        (ic, size, oc, (kernel, kernel), stride, dil, (dil * (kernel // 2),) * 2, count)
        for ic, size, oc, stride, dil, count in rows
    ]


def inception() -> list[Layer]:
    """Return Inception V3's convolutions, but for the stem."""
    points = {
        35: [(192, 64, 2), (192, 48, 1), (192, 32, 1), (256, 64, 3), (256, 48, 1), (288, 64, 4)],
        17: [(768, 192, 8), (768, 128, 2), (768, 160, 4), (768, 192, 4)],
        8: [(1280, 320, 1), (1280, 384, 1), (1280, 448, 1), (1280, 192, 1)],
    }
    points[35].append((288, 48, 1))
    points[8] += [(2048, 320, 1), (2048, 384, 1), (2048, 448, 1), (2048, 192, 1)]
    layers: list[Layer] = [
        (32, 149, 32, (3, 3), 1, 1, (0, 0), 1),
        (32, 147, 64, (3, 3), 1, 1, (1, 1), 1),
        (64, 73, 80, (1, 1), 1, 1, (0, 0), 1),
        (80, 73, 192, (3, 3), 1, 1, (0, 0), 1),
        (48, 35, 64, (5, 5), 1, 1, (2, 2), 3),
        (64, 35, 96, (3, 3), 1, 1, (1, 1), 4),
        (96, 35, 96, (3, 3), 1, 1, (1, 1), 3),
        (288, 35, 384, (3, 3), 2, 1, (0, 0), 1),
        (96, 35, 96, (3, 3), 2, 1, (0, 0), 1),
        (192, 17, 320, (3, 3), 2, 1, (0, 0), 1),
        (192, 17, 192, (3, 3), 2, 1, (0, 0), 1),
        (448, 8, 384, (3, 3), 1, 1, (1, 1), 2),
        (384, 8, 384, (1, 3), 1, 1, (0, 1), 4),
        (384, 8, 384, (3, 1), 1, 1, (1, 0), 4),
    ]
    for size, rows in points.items():
        layers += [(ic, size, oc, (1, 1), 1, 1, (0, 0), count) for ic, oc, count in rows]
    for ic, oc, count in (
        (128, 128, 2),
        (128, 192, 1),
        (160, 160, 4),
        (160, 192, 2),
        (192, 192, 4),
    ):
        layers.append((ic, 17, oc, (1, 7), 1, 1, (0, 3), count))
        layers.append((ic, 17, oc, (7, 1), 1, 1, (3, 0), count))
    return layers


NETWORKS: dict[str, list[Layer]] = {
    "resnet50": [
        *square(1, (64, 56, 64, 1, 1, 1), (64, 56, 256, 1, 1, 4), (256, 56, 64, 1, 1, 2)),
        *square(1, (256, 56, 128, 1, 1, 1), (128, 28, 512, 1, 1, 4), (256, 56, 512, 2, 1, 1)),
        *square(1, (512, 28, 128, 1, 1, 3), (512, 28, 256, 1, 1, 1), (256, 14, 1024, 1, 1, 6)),
        *square(1, (512, 28, 1024, 2, 1, 1), (1024, 14, 256, 1, 1, 5), (1024, 14, 512, 1, 1, 1)),
        *square(1, (512, 7, 2048, 1, 1, 3), (1024, 14, 2048, 2, 1, 1), (2048, 7, 512, 1, 1, 2)),
        *square(3, (64, 56, 64, 1, 1, 3), (128, 56, 128, 2, 1, 1), (128, 28, 128, 1, 1, 3)),
        *square(3, (256, 28, 256, 2, 1, 1), (256, 14, 256, 1, 1, 5), (512, 14, 512, 2, 1, 1)),
        *square(3, (512, 7, 512, 1, 1, 2)),
    ],
    "vgg19": [
        *square(3, (64, 224, 64, 1, 1, 1), (64, 112, 128, 1, 1, 1), (128, 112, 128, 1, 1, 1)),
        *square(3, (128, 56, 256, 1, 1, 1), (256, 56, 256, 1, 1, 3), (256, 28, 512, 1, 1, 1)),
        *square(3, (512, 28, 512, 1, 1, 3), (512, 14, 512, 1, 1, 4)),
    ],
    "inception_v3": inception(),
    "drn_c_26": [
        *square(3, (16, 224, 16, 1, 1, 2), (16, 224, 32, 2, 1, 1), (32, 112, 32, 1, 1, 1)),
        *square(3, (32, 112, 64, 2, 1, 1), (64, 56, 64, 1, 1, 3), (64, 56, 128, 2, 1, 1)),
        *square(3, (128, 28, 128, 1, 1, 3), (128, 28, 256, 1, 1, 1), (256, 28, 256, 1, 2, 3)),
        *square(3, (256, 28, 512, 1, 2, 1), (512, 28, 512, 1, 4, 3), (512, 28, 512, 1, 2, 2)),
        *square(3, (512, 28, 512, 1, 1, 2)),
    ],
}


def spec_of(layer: Layer, x: DType) -> Conv2d:
    """Return the convolution of one layer, unsigned in and out (or float)."""
    ic, size, oc, kernel, stride, dilation, (ph, pw), _ = layer
    return Conv2d(
        batch=1,
        in_channels=ic,
        height=size,
        width=size,
        out_channels=oc,
        kernel=kernel,
        strides=(stride, stride),
        padding=(ph, pw, ph, pw),
        dilation=(dilation, dilation),
        x=x,
        y=x,
    )


def median_s(run: tvm.runtime.Module, args: list[Any], repeats: int) -> tuple[float, float]:
    """Return median and interquartile range of the seconds a call takes.

    Seconds of this process, which has one thread: other processes that take the core away do not
    count.
    """
    once = run.mod.time_evaluator("main", tvm.cpu(), number=1, repeat=1)
    calls = max(1, round(WINDOW_S / once(*args).mean))
    window = run.mod.time_evaluator("main", tvm.cpu(), number=calls, repeat=1)
    times = []
    for _ in range(repeats):
        started = time.process_time()
        window(*args)  # calls once more, to warm up
        times.append((time.process_time() - started) / (calls + 1))
    return float(np.median(times)), float(np.subtract(*np.percentile(times, [75, 25])))


def time_layer(
    template: ScheduleTemplate, spec: Conv2d, target: Target, repeats: int
) -> tuple[float, float, float]:
    """Return median seconds, their spread, and the seconds that compiling took."""
    layouts = template.layouts(spec, Layouts(inputs=(NCHW16C,), output=NCHW16C))
    started = time.perf_counter()
    sch = Schedule(template.kernel(spec, layouts).with_attr("global_symbol", "main"))
    template.default(sch, spec, target)
    kernel = template.finish(sch.mod["main"])
    run = tvm.compile(tvm.IRModule({"main": kernel}), target=target)
    compiled = time.perf_counter() - started
    rng = np.random.default_rng(0)
    images = {
        name: rng.integers(0, 127, NCHW16C.physical_shape(spec.shape(name))).astype(
            spec.dtype(name)
        )
        for name in ("x", "y")
    }
    params = template.pack(spec, _params(spec, rng))
    arrays = [images["x"], *(params[name] for name in spec.params), images["y"]]
    median, spread = median_s(run, [tvm.runtime.tensor(a) for a in arrays], repeats)
    return median, spread, compiled


def _params(spec: Conv2d, rng: np.random.Generator) -> dict[str, np.ndarray]:
    shape = (spec.out_channels, spec.in_channels, *spec.kernel)
    integer = spec.x != "float32"
    return {
        "w": rng.integers(-127, 128, shape).astype("int8" if integer else "float32"),
        "bias": np.zeros(spec.out_channels, "int32" if integer else "float32"),
        "m": np.full(spec.out_channels, 1e-4, "float32"),
        "z": np.zeros(3, "int32"),
        "clamp": np.array([0, 255], "float32"),
    }


def main() -> None:
    """Parse, time, print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--network", choices=[*NETWORKS, "all"], default="all")
    parser.add_argument("--flavour", choices=list(TEMPLATES), default="vnni")
    parser.add_argument("--repeats", type=int, default=31)
    parser.add_argument("--batch", type=int, default=1)
    options = parser.parse_args()
    if os.environ.get("TVM_NUM_THREADS") != "1":
        parser.error("set TVM_NUM_THREADS=1: the peak is that of one core")
    template, dot = TEMPLATES[options.flavour]
    target = native_target()
    x: DType = "float32" if dot.float32 else "uint8"
    top = peak(dot, target)
    print(f"{template.name} on {target.attrs['mcpu']}: peak {top / 1e9:.1f} GMAC/s")
    header = ["ic", "h", "w", "oc", "kernel", "stride", "dil", "times", "ms", "+-", "GMAC/s"]
    widths = (5, 4, 4, 5, 6, 6, 4, 5, 8, 6, 7, 6)
    shown = " ".join(
        f"{title:>{width}}" for title, width in zip([*header, "peak"], widths, strict=True)
    )
    scores: list[tuple[float, float]] = []
    compile_s = 0.0
    for network in NETWORKS if options.network == "all" else [options.network]:
        print(f"\n{network}\n{shown}")
        for layer in NETWORKS[network]:
            spec = replace(spec_of(layer, x), batch=options.batch)
            median, spread, compiled = time_layer(template, spec, target, options.repeats)
            compile_s += compiled
            macs = spec.multiplications
            share = macs / median / top
            counts = macs >= COMPUTE_BOUND
            if counts:
                scores.append((share, macs * layer[-1]))
            columns = [
                *(spec.in_channels, spec.height, spec.width, spec.out_channels),
                *("x".join(map(str, spec.kernel)), spec.strides[0], spec.dilation[0], layer[-1]),
                *(f"{median * 1e3:.3f}", f"{spread * 1e3:.3f}"),
                *(f"{macs / median / 1e9:.1f}", f"{share:.3f}"),
            ]
            line = " ".join(f"{text:>{width}}" for text, width in zip(columns, widths, strict=True))
            print(line + ("" if counts else "  not counted"), flush=True)
    shares, weights = np.array(scores).T
    print(f"\nmean {np.average(shares, weights=weights):.3f}, minimum {shares.min():.3f}", end="")
    print(f" of peak over {len(shares)} convolutions; compiled in {compile_s:.1f} s")


if __name__ == "__main__":
    main()
