"""NVIDIA's compiler, which tests of generated CUDA C are skipped without."""

import pytest

from schedules.cuda.toolchain.nvrtc import Nvrtc
from tests.nvidia import require_compiler


@pytest.fixture(scope="session")
def nvrtc() -> Nvrtc:
    require_compiler()
    return Nvrtc()
