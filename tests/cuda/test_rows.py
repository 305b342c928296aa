"""Norms and softmax on the emulated GPU: equal to the reference, bit for bit."""

import numpy as np
import pytest

from schedules.layout import ROW
from schedules.reference.kernels import reference
from schedules.spec import Normalize, Softmax
from schedules.template import Layouts
from tests.cuda.emulator import launch_size
from tests.cuda.run_template import Built, Case, build
from tests.schedules.test_rows import SPECS, params_of, values

CASES = {
    name.replace("-", "_").replace(" ", "_"): Case(
        spec=spec, wanted=Layouts(inputs=(ROW,), output=ROW)
    )
    for name, spec in SPECS.items()
} | {
    f"many_{spec.kind}": Case(spec=spec, wanted=Layouts(inputs=(ROW,), output=ROW))
    for spec in (
        Normalize(dims=(3, 683, 5), axes=1, y="int8"),
        Softmax(dims=(3, 683, 3), y="float32"),
    )
}


@pytest.fixture(scope="module")
def built() -> Built:
    return build(CASES)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(built, name, backwards):
    if backwards:
        built.emulator.begin_backwards()
    spec = CASES[name].spec
    tensors, params = {"x": values(spec)}, params_of(spec)
    expected = reference(spec, tensors, params)
    np.testing.assert_array_equal(built.run(name, {**tensors, **params}), expected)


def test_many_rows_have_larger_blocks(built):
    threads = {name: launch_size(built.mod[name])[3] for name in CASES}
    assert threads["layer_197"] == 32 and threads["many_normalize"] == 128
