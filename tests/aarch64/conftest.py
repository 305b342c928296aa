"""The emulator, made once for all tests of aarch64."""

import os

import pytest

from tests.aarch64.emulator import RUNTIME, Emulator, missing


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    """Skip where there is none; in CI one that was there once must still be there."""
    reason = missing()
    if reason and os.environ.get("CI") == "true" and RUNTIME.exists():
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    return Emulator.make(tmp_path_factory.mktemp("aarch64"))
