"""What happens to a file on its way, and a fence around who reads it then."""

from __future__ import annotations

import json
import random
import resource
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from relay_int8.errors import Int8Error

MEMORY_BYTES = 1 << 30
SECONDS = 10
ABSURD = (0, 1, 0x7F, 0xFF, 2**16, 2**31 - 1, 2**32 - 1, 2**40, 2**62, 2**63, 2**64 - 1)

Mutation = Callable[[random.Random, bytes], bytes]


def truncated(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def flipped(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def repeated(rng: random.Random, data: bytes) -> bytes:
    begin = rng.randrange(len(data))
    return data[:begin] + data[begin : begin + rng.randrange(1, 64)] * 2 + data[begin + 1 :]


def absurd_at(rng: random.Random, data: bytes, place: int, size: int) -> bytes:
    """Put an extreme number over ``size`` bytes."""
    place = min(max(0, place), len(data) - size)
    value = rng.choice(ABSURD) & (2 ** (8 * size) - 1)
    return data[:place] + value.to_bytes(size, "little") + data[place + size :]


def absurd_number(rng: random.Random, data: bytes) -> bytes:
    """Put an extreme number over four or eight bytes, where such numbers stand."""
    return absurd_at(rng, data, 4 * rng.randrange(len(data) // 4), rng.choice((4, 8)))


BYTES: tuple[Mutation, ...] = (
    truncated,
    flipped,
    flipped,
    absurd_number,
    absurd_number,
    repeated,
)
"""Of files of any format with numbers in four and eight bytes; what is more likely, twice."""


def edited(
    edit: Callable[[random.Random, Any], None],
    read: Callable[[bytes], Any],
    write: Callable[[Any], bytes],
) -> Mutation:
    """Return a mutation of a file by ``edit`` of what it says."""

    def mutation(rng: random.Random, data: bytes) -> bytes:
        found = read(data)
        edit(rng, found)
        return write(found)

    mutation.__name__ = edit.__name__
    return mutation


def survive(
    path: Path, read: Callable[[], object], mutations: Sequence[Mutation], count: int
) -> None:
    """Read damaged forms of a file, one after the other, within bounds of memory and time.

    Prints as JSON how many were imported and how many refused; any other end is a failure.
    """
    read()  # what the limits are measured from
    whole = path.read_bytes()
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    ends = {"imported": 0, "refused": 0}
    for seed in range(count):
        rng = random.Random(seed)
        mutation = mutations[seed % len(mutations)]
        path.write_bytes(mutation(rng, whole))
        signal.setitimer(signal.ITIMER_REAL, SECONDS)
        try:
            read()
            ends["imported"] += 1
        except Int8Error as error:
            ends["refused"] += 1
            assert str(error).strip(), f"seed {seed} ({mutation.__name__}): no message"
        except BaseException:
            print(f"seed {seed} ({mutation.__name__})", file=sys.stderr)
            raise
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    print(json.dumps(ends))
