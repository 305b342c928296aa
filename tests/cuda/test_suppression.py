"""Non-maximum suppression on the emulated GPU: equal to the reference."""

import numpy as np
import pytest

from schedules.layout import ROW
from schedules.reference.kernels import reference
from schedules.template import Layouts
from tests.cuda.run_template import Built, Case, build
from tests.schedules.suppression_cases import CASES as SPECS
from tests.schedules.suppression_cases import arrays_of

CASES = {
    name: Case(spec=spec, wanted=Layouts(inputs=(ROW,) * len(spec.tensors), output=ROW))
    for name, spec in SPECS.items()
}


@pytest.fixture(scope="module")
def built() -> Built:
    return build(CASES)


@pytest.mark.parametrize("name", CASES)
def test_equals_reference(built, name):
    arrays = arrays_of(SPECS[name])
    expected = reference(SPECS[name], arrays, arrays)
    np.testing.assert_array_equal(built.run(name, arrays), expected)


def test_threads_in_another_order(built):
    built.emulator.begin_backwards()
    for name in ("limits", "labels", "more_than_threads"):
        arrays = arrays_of(SPECS[name])
        expected = reference(SPECS[name], arrays, arrays)
        np.testing.assert_array_equal(built.run(name, arrays), expected)
