"""Errors of exhausted memory: what may hold it, and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from relay_int8.errors import ArtifactError
from relay_int8.machine.gpu import GpuNeeds

_OUT_OF_MEMORY = "out of memory"  # as CUDA's runtime words it, in TVM's RuntimeError
_NO_MEMORY = "bad_alloc"  # as C++ words it there
NO_MEMORY = "there is no memory left for its tensors; end other programs, or take a smaller batch"


@contextmanager
def exhaustion_explained(path: Path, needs: GpuNeeds | None, number: int) -> Iterator[None]:
    """Turn "out of memory" of CUDA, or of TVM on a CPU, into an error that says what to do.

    Raises
    ------
    ArtifactError
        If GPU ``number``, or the computer, has no memory left for what runs in this context.
    """
    try:
        yield
    except RuntimeError as error:
        explained = exhaustion(error, path, needs, number)
        if explained is None:
            raise
        raise explained from error


def exhaustion(
    error: RuntimeError, path: Path, needs: GpuNeeds | None, number: int
) -> ArtifactError | None:
    """Return an error that says what to do where TVM or CUDA have no memory left, else None."""
    if needs is None:
        is_memory = _NO_MEMORY in str(error)
        return ArtifactError(f"{path}: {NO_MEMORY}") if is_memory else None
    if _OUT_OF_MEMORY not in str(error):
        return None
    return ArtifactError(
        f"{path}: GPU {number} has no memory left; it needs {needs.memory_bytes / 2**20:.1f} "
        "MiB besides CUDA's own; end other programs that use the GPU (nvidia-smi lists them), "
        "or build it with a smaller batch"
    )
