"""Networks of one file share their kernels."""

from tests.shared_kernels import shared_kernels

__all__ = ["shared_kernels"]
