"""Grouped convolution as one of fewer groups, whose weights are zero across the groups in them.

    groups of 24 -> 24     2 merged: 48 -> 48, half of the weights zero
    4 groups of 34 -> 34   all merged: 136 -> 136, three quarters zero
    17 groups of 24 -> 24  too many: the compiler makes two convolutions, of 16 groups and of one

As many groups are merged as fill blocks of 16 channels. Loops, layouts and buffers are those of
another template for the merged groups: an instruction multiplies up to 16 times as many zeros as
weights in less time than ``conv2d_any_group`` takes to gather the inputs of each lane.

Exact:  integers always. Floats are not merged, as zero times NaN is NaN.
"""

from __future__ import annotations

import dataclasses
from math import gcd, lcm

import numpy as np
from tvm.s_tir import Schedule
from tvm.target import Target

from schedules.cpu.tiles.conv_arguments import LANES
from schedules.spec import Conv2d
from schedules.template import Arrays, ScheduleTemplate

MOST = 16  # merged groups
FEWEST = 3  # inputs of a group; fewer are gathered as fast
MERGED = "conv2d_merged"


def of_merged_groups(template: ScheduleTemplate) -> ScheduleTemplate:
    """Return the template of convolutions that ``template`` computes once groups are merged."""

    def _refuses(spec: Conv2d, target: Target) -> str | None:
        whole = merged(spec)
        if whole is None:
            return f"{spec.groups} groups are too many, or too small, to be merged"
        return template.refuses(whole, target)

    def _default(sch: Schedule, spec: Conv2d, target: Target) -> None:
        template.default(sch, _whole(spec), target)

    def _space(sch: Schedule, spec: Conv2d, target: Target) -> None:
        template.space(sch, _whole(spec), target)

    def _pack(spec: Conv2d, params: Arrays) -> Arrays:
        whole = _whole(spec)
        return template.pack(whole, {**params, "w": block_diagonal(spec, whole, params["w"])})

    return dataclasses.replace(
        template,
        refuses=_refuses,
        kernel=lambda spec, layouts: template.kernel(_whole(spec), layouts),
        default=_default,
        space=_space,
        pack=_pack,
    )


def merged(spec: Conv2d) -> Conv2d | None:
    """Return the convolution of merged groups, or None where that would not pay."""
    count = _filling(spec)
    if spec.groups % count:
        count = spec.groups  # one group may have any number of channels
    if not 1 < count <= MOST or spec.in_channels // spec.groups < FEWEST:
        return None
    return dataclasses.replace(spec, groups=spec.groups // count)


def even_groups(spec: Conv2d) -> int:
    """Return how many of the first groups fill blocks if merged, where some are left; else 0.

    Two convolutions, of these groups and of those that are left, multiply fewer zeros than one.
    """
    count = _filling(spec)
    left = spec.groups % count
    if not left or count > MOST or spec.in_channels // spec.groups < FEWEST:
        return 0
    return spec.groups - left


def _filling(spec: Conv2d) -> int:
    """Return the fewest groups whose inputs fill blocks of channels, and whose outputs do."""
    parts = (spec.in_channels // spec.groups, spec.out_channels // spec.groups)
    return lcm(*(LANES // gcd(LANES, channels) for channels in parts))


def block_diagonal(spec: Conv2d, whole: Conv2d, w: np.ndarray) -> np.ndarray:
    """Return w (oc, ic/groups, kh, kw) as (oc, ic/merged groups, kh, kw)."""
    count, inputs = spec.groups // whole.groups, spec.in_channels // spec.groups
    parts = w.reshape(whole.groups, count, -1, *w.shape[1:])
    wide = np.zeros((*parts.shape[:3], count * inputs, *spec.kernel), w.dtype)
    for j in range(count):
        wide[:, j, :, j * inputs : (j + 1) * inputs] = parts[:, j]
    return wide.reshape(spec.out_channels, count * inputs, *spec.kernel)


def _whole(spec: Conv2d) -> Conv2d:
    whole = merged(spec)
    assert whole is not None
    return whole
