"""NVIDIA's compiler, which tests of generated CUDA C are skipped without."""

import importlib.util

import pytest

from schedules.cuda.toolchain.nvrtc import Nvrtc


@pytest.fixture(scope="session")
def nvrtc() -> Nvrtc:
    if importlib.util.find_spec("nvidia") is None:
        pytest.skip("needs nvidia-cuda-nvrtc-cu12, of the extra cuda")
    return Nvrtc()
