"""Networks share their kernels: most of them are quantized several times, the demo's in many files.

Folders that test what is compiled have a fixture of this name that does nothing.
"""

from collections.abc import Iterator

import pytest

from relay_int8.compiler import kernel_library

LIBRARY = kernel_library.KernelLibrary()


@pytest.fixture(autouse=True, scope="module")
def shared_kernels() -> Iterator[None]:
    """Compile each kernel of a template once a process, but for artifacts, which hold their own."""
    token = kernel_library._shared.set(LIBRARY)
    yield
    kernel_library._shared.reset(token)
