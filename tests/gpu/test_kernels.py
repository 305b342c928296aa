"""Every family of kernels on a GPU: NumPy's integers, as on the emulation and as PTX."""

import pytest

from tests.cuda.ptx.families import FAMILIES
from tests.gpu.processes import gpus, last_line, python

pytestmark = pytest.mark.gpu
LAUNCH = "import runpy; runpy.run_module('tests.gpu.launches', run_name='__main__')"


def number(architecture: str) -> int:
    return int(architecture.removeprefix("sm_"))


@pytest.mark.parametrize(
    ("family", "architecture"),
    [(name, each) for name, family in FAMILIES.items() for each in family.architectures],
)
def test_equals_numpy(family, architecture):
    _, present = gpus()
    if number(present[0]) < number(architecture):
        pytest.skip(f"the GPU here is {present[0]}; the kernels are for {architecture}")
    assert last_line(python(LAUNCH, family, architecture)) == {}
