"""Spaces: every point can be named and reached, nothing else can."""

import dataclasses
import math

import pytest
from tvm.target import Target
from tvm_ffi import structural_equal

from schedules import space
from schedules.layout import NCHW16C
from schedules.selection import select
from schedules.spec import Conv2d, Rescale
from schedules.targets import TARGETS
from schedules.template import Layouts, ScheduleError

VNNI = Target(TARGETS["x86-vnni"])
CONV = Conv2d(
    batch=1,
    in_channels=32,
    out_channels=64,
    height=6,
    width=10,
    kernel=(3, 3),
    padding=(1, 1, 1, 1),
    x="uint8",
    y="uint8",
)
pytestmark = pytest.mark.fast


def kernel(spec, target=VNNI):
    template = select(spec, target)
    wanted = Layouts(inputs=(NCHW16C,) * len(spec.tensors), output=NCHW16C)
    layouts = template.layouts(spec, wanted)
    return space.Kernel(template=template, spec=spec, layouts=layouts, target=target)


def test_every_point_is_listed_once_and_reached():
    found = list(space.points(kernel(CONV)))
    assert len(set(found)) == len(found) == space.size(kernel(CONV))
    for choices in found[::17]:
        assert space.point(kernel(CONV), choices).choices == choices


def test_options_depend_on_earlier_choices():
    """Four blocks leave fewer registers for columns than one."""
    widths = {}
    for blocks, _, columns in space.points(kernel(CONV)):
        widths[blocks[-1]] = max(columns, widths.get(blocks[-1], 0))
    assert widths[4] < widths[1] == CONV.width


def test_a_large_space_is_not_counted():
    assert space.size(kernel(CONV), limit=20) is None


def test_the_same_choices_make_the_same_schedule():
    choices = list(space.points(kernel(CONV)))[5]
    one, two = (space.point(kernel(CONV), choices).schedule.mod for _ in range(2))
    other = space.point(kernel(CONV), list(space.points(kernel(CONV)))[6]).schedule.mod
    assert structural_equal(one, two)
    assert not structural_equal(one, other)


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        (((4, 1), (6, 1), 99), "choice 2 is 99, not one of"),
        (((4, 1), (5, 1), 2), r"choice 1 is \(5, 1\), not one of"),
        (((4, 1), (6, 1)), "choice 2 is -1"),
        (((4, 1), (6, 1), 2, 1), "conv2d_vnni makes 3 choices, 4 are given"),
    ],
)
def test_what_is_no_point_is_refused(choices, reason):
    with pytest.raises(ScheduleError, match=reason):
        space.point(kernel(CONV), choices)


def test_the_version_changes_with_the_kernel_and_with_its_loops():
    version = space.version(kernel(CONV))
    assert space.version(kernel(CONV)) == version
    assert space.version(kernel(dataclasses.replace(CONV, width=11))) != version
    base = kernel(CONV)

    def other_space(sch, spec, target):
        base.template.space(sch, spec, target)
        sch.annotate(sch.get_sblock("store"), "note", 1)

    template = dataclasses.replace(base.template, space=other_space)
    changed = space.version(dataclasses.replace(base, template=template))
    assert changed != version
    assert changed[:16] == version[:16]


def test_a_space_of_one_point():
    spec = dataclasses.replace(CONV, in_channels=24, groups=12, out_channels=36)
    assert list(space.points(kernel(spec))) == [()]


def test_other_sampling_is_refused():
    base = kernel(Rescale(dims=(1, 32, 4, 4), x="uint8", y="uint8"))

    def sampled(sch, spec, target):
        sch.sample_compute_location(sch.get_sblock("rescale"))

    template = dataclasses.replace(base.template, space=sampled)
    with pytest.raises(ScheduleError, match="sample_compute_location cannot be chosen"):
        space.first(dataclasses.replace(base, template=template))


@pytest.mark.parametrize(("extent", "n"), [(12, 2), (12, 3), (7, 2), (1, 3)])
def test_tilings_are_all_and_distinct(extent, n):
    found = list(space.tilings(extent, n))
    assert len(set(found)) == len(found)
    assert all(math.prod(tiling) == extent for tiling in found)
    counted = sum(extent % d == 0 for d in range(1, extent + 1))
    assert n > 2 or len(found) == counted
