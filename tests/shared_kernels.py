"""Networks of one file share their kernels: most of them are quantized several times.

A folder whose tests are about what is computed, not about compiling it, imports the fixture.
"""

from collections.abc import Iterator

import pytest

from relay_int8.compiler.kernel_library import sharing_kernels


@pytest.fixture(autouse=True, scope="module")
def shared_kernels() -> Iterator[None]:
    """Compile each kernel of a template once for all tests of a file."""
    with sharing_kernels():
        yield
