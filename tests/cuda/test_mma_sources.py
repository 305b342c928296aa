"""How the chunks of a fetch fall to threads and copies, and where ldmatrix finds them."""

from itertools import product
from types import SimpleNamespace

import pytest
from tvm.sym import Analyzer

from schedules.cuda.mma.sources import HALVES, Chunks
from schedules.cuda.mma.thread import Thread, stored_half
from schedules.cuda.mma.tiles import CHUNK

pytestmark = pytest.mark.fast
BANKS = 128  # bytes that shared memory reads at once, each from a bank of its own


def number(expression) -> int:
    return int(Analyzer().simplify(expression))


@pytest.mark.parametrize(
    ("threads", "pixels", "slabs"), list(product((32, 128), (16, 64, 256), (1, 8)))
)
def test_thread_and_copy_add_up_to_the_chunk(threads, pixels, slabs):
    count = slabs * pixels * HALVES
    for thread in sorted({0, 1, 31, threads - 1}):
        chunks = Chunks(thread=SimpleNamespace(number=thread, threads=threads), count=count)
        for copy in range(chunks.copies):
            chunk = copy * threads + thread
            for unit, extent in ((1, HALVES), (HALVES, pixels), (HALVES * pixels, slabs)):
                part = number(chunks.of_thread(unit, extent))
                assert part + chunks.of_copy(copy, unit, extent) == chunk // unit % extent


def test_only_where_a_fetch_has_fewer_chunks_than_threads_is_there_a_condition():
    few = Chunks(thread=SimpleNamespace(number=40, threads=64), count=32)
    many = Chunks(thread=SimpleNamespace(number=40, threads=64), count=128)
    assert few.left == [False] and many.left == []


def test_rows_of_a_matrix_are_in_different_banks_and_where_copies_put_them():
    addresses = [number(Thread.matrix_row.fget(SimpleNamespace(lane=lane))) for lane in range(32)]
    for matrix in range(4):
        rows = addresses[8 * matrix : 8 * matrix + 8]
        assert sorted(address % BANKS for address in rows) == list(range(0, BANKS, CHUNK))
    for lane, address in enumerate(addresses):
        pixel, half = lane % 16, lane // 16
        assert address // CHUNK // HALVES == pixel
        assert number(stored_half(address // CHUNK % HALVES, pixel)) == half
