"""A GPU's memories while a kernel runs: arguments, shared memory, a thread's own.

Nothing may reach outside of an argument, or use an address that the size of the access does not
divide. In shared memory it is an error, too, if two threads touch a byte between two barriers and one
of them writes, and if anyone touches what an asynchronous copy brings before it was waited for.

An access is of rows: for each lane that takes part its address, and the words that it reads or
writes, as (lanes, words) of unsigned integers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tests.cuda.ptx.errors import refuse

SPACING = 32  # bits of an offset: no wrong index of one argument is in another
GARBAGE = 0xA5
THREADS = 2048  # more than a block has; stamps are barriers passed times this, and a thread
SEVERAL = THREADS - 1  # threads have read it


def _rows(memory: np.ndarray, size: int, count: int) -> np.ndarray:
    """Return memory as what is accessed at once: (places, words)."""
    width = size * count
    whole = memory[: len(memory) // width * width]
    return whole.view(f"u{size}").reshape(-1, count)


def _aligned(lanes: np.ndarray, addresses: np.ndarray, width: int) -> None:
    refuse(
        addresses & (width - 1) != 0,
        lanes,
        f"uses an address that the {width} bytes of the access do not divide",
    )


class GlobalMemory:
    """Copies of the arguments; each begins at an address of its own."""

    def __init__(self, arrays: Sequence[np.ndarray]) -> None:
        self.arguments: list[np.ndarray] = []
        self._memories: list[np.ndarray] = []
        for array in arrays:
            memory = np.full(-(-array.nbytes // 16) * 16, GARBAGE, np.uint8)
            self._memories.append(memory)
            self.arguments.append(memory[: array.nbytes].view(array.dtype).reshape(array.shape))
            self.arguments[-1][...] = array

    def address(self, number: int) -> int:
        """Return where an argument begins."""
        return (number + 1) << SPACING

    def load(self, lanes: np.ndarray, addresses: np.ndarray, size: int, count: int) -> np.ndarray:
        """Return what lies at the addresses."""
        result = np.empty((len(lanes), count), f"u{size}")
        for rows, memory, places in self._places(lanes, addresses, size, count):
            result[rows] = memory[places]
        return result

    def store(self, lanes: np.ndarray, addresses: np.ndarray, values: np.ndarray) -> None:
        """Write words."""
        size, count = values.dtype.itemsize, values.shape[1]
        for rows, memory, places in self._places(lanes, addresses, size, count):
            memory[places] = values[rows]

    def check(self, lanes: np.ndarray, addresses: np.ndarray, size: int, count: int) -> None:
        """Raise a fault if an access is not allowed."""
        for _ in self._places(lanes, addresses, size, count):
            pass

    def _places(self, lanes: np.ndarray, addresses: np.ndarray, size: int, count: int):
        """Yield for each argument that is touched: rows of the access, its memory, places in it."""
        width = size * count
        _aligned(lanes, addresses, width)
        numbers = addresses >> np.uint64(SPACING)
        first = numbers[0]
        of_one = bool((numbers == first).all())
        for number in [first] if of_one else np.unique(numbers):
            rows = slice(None) if of_one else np.flatnonzero(numbers == number)
            offsets = (addresses[rows] & np.uint64((1 << SPACING) - 1)).astype(np.int64)
            argument = int(number) - 1
            inside = 0 <= argument < len(self.arguments)
            size_bytes = self.arguments[argument].nbytes if inside else 0
            refuse(offsets + width > size_bytes, lanes[rows], "reaches outside of an argument")
            yield rows, _rows(self._memories[argument], size, count), offsets // width


class PrivateMemory:
    """What threads have for themselves alone, in rows of ``size_bytes``."""

    def __init__(self, threads: int, size_bytes: int) -> None:
        self._size_bytes = size_bytes
        self._stride = -(-size_bytes // 16) * 16
        self._memory = np.full(threads * self._stride, GARBAGE, np.uint8)

    def load(self, lanes: np.ndarray, addresses: np.ndarray, size: int, count: int) -> np.ndarray:
        """Return what lies at the addresses."""
        return _rows(self._memory, size, count)[self._places(lanes, addresses, size * count)]

    def store(self, lanes: np.ndarray, addresses: np.ndarray, values: np.ndarray) -> None:
        """Write words."""
        size, count = values.dtype.itemsize, values.shape[1]
        places = self._places(lanes, addresses, size * count)
        _rows(self._memory, size, count)[places] = values

    def _places(self, lanes: np.ndarray, addresses: np.ndarray, width: int) -> np.ndarray:
        _aligned(lanes, addresses, width)
        offsets = addresses.astype(np.int64)
        refuse(offsets + width > self._size_bytes, lanes, "reaches outside of its own memory")
        return (lanes * self._stride + offsets) // width


class SharedMemory:
    """The shared memory of several blocks, and who has touched what of it since a barrier.

    ``granule_bytes`` divide every access of the kernel.
    """

    def __init__(self, blocks: int, threads: int, size_bytes: int, granule_bytes: int) -> None:
        self._size_bytes, self._granule = size_bytes, granule_bytes
        self._stride = -(-size_bytes // 16) * 16
        self._memory = np.full(blocks * self._stride, GARBAGE, np.uint8)
        granules = len(self._memory) // granule_bytes
        self._writers = np.full(granules, -1, np.int64)
        self._readers = np.full(granules, -1, np.int64)
        self._is_pending = np.zeros(granules, bool)
        self._threads = threads
        self._stamps = np.tile(np.arange(threads), blocks)

    def pass_barrier(self, lanes: np.ndarray) -> None:
        """Note that the threads of these blocks have met."""
        self._stamps[lanes] += THREADS

    def load(self, lanes: np.ndarray, addresses: np.ndarray, size: int, count: int) -> np.ndarray:
        """Return what lies at the addresses."""
        at = self._at(lanes, addresses, size * count)
        self._note_read(lanes, self._granules(at, size * count))
        return _rows(self._memory, size, count)[at // (size * count)]

    def store(self, lanes: np.ndarray, addresses: np.ndarray, values: np.ndarray) -> None:
        """Write words."""
        size, count = values.dtype.itemsize, values.shape[1]
        at = self._at(lanes, addresses, size * count)
        self._note_write(lanes, self._granules(at, size * count))
        _rows(self._memory, size, count)[at // (size * count)] = values

    def begin_copy(self, lanes: np.ndarray, addresses: np.ndarray, width: int) -> None:
        """Let the bytes be under way: nobody may touch them."""
        at = self._at(lanes, addresses, width)
        granules = self._granules(at, width)
        self._note_write(lanes, granules)
        self._is_pending[granules] = True
        _rows(self._memory, 1, width)[at // width] = GARBAGE

    def end_copy(self, lanes: np.ndarray, addresses: np.ndarray, values: np.ndarray) -> None:
        """Let them arrive: they are written now, by the thread that has waited."""
        width = values.dtype.itemsize * values.shape[1]
        self._is_pending[self._granules(self._at(lanes, addresses, width), width)] = False
        self.store(lanes, addresses, values)

    def _at(self, lanes: np.ndarray, addresses: np.ndarray, width: int) -> np.ndarray:
        _aligned(lanes, addresses, width)
        offsets = addresses.astype(np.int64)
        refuse(offsets + width > self._size_bytes, lanes, "reaches outside of shared memory")
        return lanes // self._threads * self._stride + offsets

    def _granules(self, at: np.ndarray, width: int) -> np.ndarray:
        return (at // self._granule)[:, None] + np.arange(width // self._granule)

    def _note_read(self, lanes: np.ndarray, granules: np.ndarray) -> None:
        stamps = self._stamps[lanes][:, None]
        self._refuse_pending(lanes, granules)
        self._refuse_race(lanes, stamps, self._writers[granules], "reads what another has written")
        readers = self._readers[granules]
        shared = (readers // THREADS == stamps // THREADS) & (readers != stamps)
        kept = np.where(shared, stamps | SEVERAL, stamps)
        self._readers[granules] = kept
        overwritten = self._readers[granules] != kept
        if overwritten.any():  # by another lane of this instruction
            self._readers[granules[overwritten]] |= SEVERAL

    def _note_write(self, lanes: np.ndarray, granules: np.ndarray) -> None:
        stamps = self._stamps[lanes][:, None]
        self._refuse_pending(lanes, granules)
        self._refuse_race(lanes, stamps, self._writers[granules], "writes what another has written")
        self._refuse_race(lanes, stamps, self._readers[granules], "writes what another has read")
        self._writers[granules] = stamps
        self._refuse_race(lanes, stamps, self._writers[granules], "writes what another writes")

    def _refuse_pending(self, lanes: np.ndarray, granules: np.ndarray) -> None:
        refuse(
            self._is_pending[granules],
            lanes,
            "touches what an asynchronous copy brings, before it was waited for",
        )

    def _refuse_race(
        self, lanes: np.ndarray, stamps: np.ndarray, others: np.ndarray, what: str
    ) -> None:
        wrong = (others // THREADS == stamps // THREADS) & (others != stamps)
        refuse(wrong, lanes, f"{what}, with no barrier between")
