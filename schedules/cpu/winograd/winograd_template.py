"""Templates of Winograd convolutions: where they pay, how a schedule deals out their tiles."""

from __future__ import annotations

from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.bodies.epilogue import type_refusal
from schedules.bodies.toom_cook import TAPS
from schedules.compact import is_compact
from schedules.cpu.dot import Dot
from schedules.cpu.tiles.conv_arguments import blocked
from schedules.cpu.winograd.winograd import kernel, pack
from schedules.cpu.winograd.winograd_rule import (
    Strips,
    Tiling,
    default_strips,
    gains,
    is_exact,
    sizes,
)
from schedules.cpu.written_out import note, sampled, written
from schedules.spec import Conv2d
from schedules.template import Layouts, ScheduleTemplate


def winograd_template(dot: Dot, direct: Dot, tallest: int) -> ScheduleTemplate:
    """Return the template "winograd_<flavour>"; ``dot`` multiplies pairs of int16.

    It computes what the convolution of ``direct`` does, where that takes more time; ``tallest`` is
    as :func:`default_strips` has it. Its loops are written out for strips of a size: a schedule
    only notes which, and ``finish`` writes them.
    """
    name = f"winograd_{dot.name}"

    def _refuses(spec: Conv2d, target: Target) -> str | None:
        if is_compact(target):
            return "weights take 8 times their memory; the target says that they must not"
        return dot.refuses("int16", target) or refusal(spec, direct, tallest)

    def _kernel(spec: Conv2d, _layouts: Layouts) -> tirx.PrimFunc:
        return kernel(dot, name, spec, default_strips(Tiling.of(spec), 1, tallest))

    def _default(sch: Schedule, spec: Conv2d, target: Target) -> None:
        cores = int(target.attrs.get("num-cores", 1))
        strips = default_strips(Tiling.of(spec), cores, tallest)
        note(sch, [strips.size, strips.rows])

    def _space(sch: Schedule, spec: Conv2d, _target: Target) -> None:
        tried = sizes(Tiling.of(spec))
        options = tried, range(1, 1 + min(tallest, tried[0]))
        note(sch, [sampled(sch, some) for some in options])

    def _written(spec: Conv2d, choices: list[int]) -> tirx.PrimFunc:
        return kernel(dot, name, spec, Strips(*choices))

    return ScheduleTemplate(
        name=name,
        kind="conv2d",
        refuses=_refuses,
        layouts=blocked,
        kernel=_kernel,
        default=_default,
        space=_space,
        pack=pack,
        finish=lambda func: written(func, _written),
    )


def refusal(spec: Conv2d, direct: Dot, tallest: int) -> str | None:
    """Say why this is no better way to compute ``spec`` than ``direct``, or None."""
    if spec.x not in direct.x_types:
        return f"x is {spec.x}, not {' or '.join(direct.x_types)}"
    if (spec.kernel, spec.strides, spec.groups) != ((TAPS, TAPS), (1, 1), 1):
        return (
            f"kernel {spec.kernel}, strides {spec.strides} and groups {spec.groups}; want 3 x 3 "
            "pixels, each window, in one group"
        )
    if not is_exact(spec):
        return f"sums of {spec.in_channels} channels may leave 30 bits"
    if not gains(spec, direct.width, tallest):
        return "products are estimated to take less time directly"
    return type_refusal(spec)
