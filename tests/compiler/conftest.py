"""What networks compile is tested here."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def shared_kernels() -> None:
    """Share no kernels with the networks of other files."""
