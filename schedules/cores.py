"""How many cores this process may use: of the computer, its affinity and its container."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

MEMBERSHIP = Path("/proc/self/cgroup")
MOUNT = Path("/sys/fs/cgroup")
_CPU_MOUNTS = ("cpu,cpuacct", "cpu")  # mounts of the CPU controller of cgroups version 1


def usable_cores(membership: Path = MEMBERSHIP, mount: Path = MOUNT) -> int:
    """Return the cores that this process may run on, at least 1.

    That is the least of its affinity (``taskset``, a container's cpuset) and of the CPU time that
    its control groups grant, of version 1 or 2, rounded down: a thread more than that is stopped
    for a part of each period, and all others wait for it.

    Parameters
    ----------
    membership, mount
        The kernel's list of the process's control groups, and where they are mounted.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quotas = [int(quota) for quota in _quotas(membership, mount)]
    return max(1, min([cores or 1, *quotas]))


def _quotas(membership: Path, mount: Path) -> Iterator[float]:
    """Yield the cores that each of the process's groups, and those above it, may use together."""
    for line in _text(membership).splitlines():
        _, controllers, path = line.split(":", 2)
        if not controllers:
            for group in _with_parents(mount, path):
                yield from _share(*_text(group / "cpu.max").split())
        elif "cpu" in controllers.split(","):
            for name in _CPU_MOUNTS:
                for group in _with_parents(mount / name, path):
                    files = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
                    yield from _share(
                        *(word for file in files for word in _text(group / file).split())
                    )


def _with_parents(root: Path, path: str) -> Iterator[Path]:
    """Yield the folder of a group and of those above it; a container sees only some of them."""
    inner = PurePosixPath(path.lstrip("/"))
    yield from (root / group for group in (inner, *inner.parents))


def _share(*words: str) -> Iterator[float]:
    """Yield quota / period, where there is a quota: "max" and -1 say that there is none."""
    if len(words) == 2 and words[0].isdecimal() and words[1].isdecimal() and int(words[1]):
        yield int(words[0]) / int(words[1])


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
