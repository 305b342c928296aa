"""NVIDIA's compilers, of the extra cuda: tests of code for GPUs are skipped without them."""

import importlib.util

import pytest

_REASON = "needs NVIDIA's compilers, of the extra cuda"
_IS_MISSING = importlib.util.find_spec("nvidia") is None

needs_compiler = pytest.mark.skipif(_IS_MISSING, reason=_REASON)


def require_compiler() -> None:
    """Skip the test that calls it, unless they are installed."""
    if _IS_MISSING:
        pytest.skip(_REASON)
