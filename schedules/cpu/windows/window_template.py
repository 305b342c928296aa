"""Templates of the window kernels: design, packing, refusals, the loops of their tiles."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from tvm import tirx
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.bodies.arguments import fold_zero_point
from schedules.cpu.lanes import Lanes
from schedules.cpu.tiles.conv_arguments import LANES, blocked, pack_with
from schedules.cpu.windows.task_order import rows_first
from schedules.cpu.windows.window_kernel import WindowKernel, window_prim_func
from schedules.cpu.windows.window_tiles import apply, default_tiles, is_parallel, sample_tiles
from schedules.spec import Conv2d
from schedules.template import Arrays, Layouts, ScheduleTemplate


def window_template(
    operator: str,
    lanes: Lanes,
    refuses: Callable[[Lanes, Conv2d, Target], str | None],
    kernel_of: Callable[[Lanes, str, Conv2d], WindowKernel],
    pack_weights: Callable[[Lanes, Conv2d, np.ndarray], np.ndarray],
) -> ScheduleTemplate:
    """Return the template "<operator>_<flavour>".

    Parameters
    ----------
    refuses
        Why ``lanes`` cannot compute a spec on a target, or None.
    kernel_of
        The window kernel of a spec, of the template's name.
    pack_weights
        w (oc, ic/groups, kh, kw), of the type the lanes want, as the vectors of the window kernel.
    """
    name = f"{operator}_{lanes.dot.name}"

    def _kernel(spec: Conv2d, layouts: Layouts) -> tirx.PrimFunc:
        return window_prim_func(spec, kernel_of(lanes, name, spec))

    def _pack(spec: Conv2d, params: Arrays) -> Arrays:
        weights = pack_weights(lanes, spec, params["w"].astype(lanes.weights))
        held = weights.reshape(*weights.shape[:2], LANES, -1)[:, :, lanes.order]
        return pack_with(held.reshape(weights.shape), fold_zero_point(spec, params))

    def _default(sch: Schedule, spec: Conv2d, target: Target) -> None:
        window_kernel = kernel_of(lanes, name, spec)
        cores = int(target.attrs.get("num-cores", 1))
        tiles = default_tiles(spec, window_kernel, cores)
        apply(sch, tiles, parallel=is_parallel(spec, window_kernel))

    def _space(sch: Schedule, spec: Conv2d, target: Target) -> None:
        window_kernel = kernel_of(lanes, name, spec)
        apply(
            sch, sample_tiles(sch, spec, window_kernel), parallel=is_parallel(spec, window_kernel)
        )

    return ScheduleTemplate(
        name=name,
        kind="conv2d",
        refuses=partial(refuses, lanes),
        layouts=blocked,
        kernel=_kernel,
        default=_default,
        space=_space,
        pack=_pack,
        finish=lambda func: lanes.finish(rows_first(func)),
    )
