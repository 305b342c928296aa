"""Networks share their kernels: most of them are quantized several times, the demo's in many files.

A folder whose tests are about what is computed, not about compiling it, imports the fixture.
"""

from collections.abc import Iterator

import pytest

from relay_int8.compiler import kernel_library

LIBRARY = kernel_library.KernelLibrary()


@pytest.fixture(autouse=True, scope="module")
def shared_kernels() -> Iterator[None]:
    """Compile each kernel of a template once a process, for all files of these folders."""
    token = kernel_library._shared.set(LIBRARY)
    yield
    kernel_library._shared.reset(token)
