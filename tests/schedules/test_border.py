"""Which taps lie inside an image: classes of positions, against counting."""

import pytest
from tvm import tirx
from tvm.sym import Analyzer

from schedules.bodies.border import BorderedAxis

AXES = {
    "same": BorderedAxis(size=7, out=7, kernel=3, stride=1, dilation=1, before=1),
    "valid": BorderedAxis(size=9, out=7, kernel=3, stride=1, dilation=1, before=0),
    "strided": BorderedAxis(size=8, out=4, kernel=3, stride=2, dilation=1, before=0),
    "dilated": BorderedAxis(size=9, out=9, kernel=3, stride=1, dilation=4, before=4),
    "one_pixel": BorderedAxis(size=1, out=1, kernel=3, stride=1, dilation=1, before=1),
    "larger_than_the_image": BorderedAxis(size=3, out=5, kernel=5, stride=1, dilation=1, before=3),
    "padding_alone": BorderedAxis(size=2, out=6, kernel=1, stride=1, dilation=1, before=2),
}


@pytest.mark.fast
@pytest.mark.parametrize("name", AXES)
def test_positions_of_a_class_keep_the_same_taps(name):
    axis, simplify = AXES[name], Analyzer().simplify
    for position in range(axis.out):
        index = int(simplify(axis.class_of(tirx.const(position, "int64"))))
        assert axis.taps(position) == axis.taps(axis.classes[index])


@pytest.mark.fast
def test_neighbours_that_keep_the_same_taps_are_of_one_class():
    assert AXES["same"].classes == (0, 1, 6)
    assert AXES["dilated"].classes == (0, 4, 5)


@pytest.mark.fast
@pytest.mark.parametrize("name", AXES)
def test_conditions_hold_inside_only(name):
    axis, simplify = AXES[name], Analyzer().simplify
    for position in range(axis.out):
        for tap in range(axis.kernel):
            conditions = axis.inside(*(tirx.const(i, "int64") for i in (position, tap)))
            held = all(bool(simplify(condition)) for condition in conditions)
            assert held == (tap in axis.taps(position))


@pytest.mark.fast
def test_crosses():
    assert AXES["same"].crosses == (True, True)
    assert AXES["valid"].crosses == (False, False)
    assert AXES["strided"].crosses == (False, True)
