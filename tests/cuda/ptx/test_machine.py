"""Lanes part and meet, warps work together, and what no kernel may do is an error that says where."""

import numpy as np
import pytest

from tests.cuda.ptx.emulator import Launch, PtxModule
from tests.cuda.ptx.errors import PtxError, UnknownPtxError

pytestmark = pytest.mark.fast

HEADER = """
.visible .entry kernel(.param .u64 p0, .param .u64 p1)
{
  .reg .pred %p<9>; .reg .b16 %rs<9>; .reg .b32 %r<99>; .reg .f32 %f<9>; .reg .b64 %rd<19>;
  .shared .align 16 .b8 box[2048];
  ld.param.u64 %rd1, [p0]; ld.param.u64 %rd2, [p1];
  cvta.to.global.u64 %rd3, %rd1; cvta.to.global.u64 %rd4, %rd2;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd5, %r1, 4; add.s64 %rd6, %rd3, %rd5; add.s64 %rd7, %rd4, %rd5;
  shl.b32 %r2, %r1, 2; mov.u32 %r3, box; add.s32 %r4, %r3, %r2;
  ld.global.nc.u32 %r5, [%rd6];
"""
"""%r1 is the thread, %r5 its word of x, %rd7 where its word of y is, %r4 where that of a shared array."""


def run(body: str, x=None, *, threads: int = 64, grid=(1, 1, 1)) -> list[int]:
    """Return y, which begins as nines, after a kernel of one word for each thread."""
    x = np.arange(threads, dtype=np.uint32) if x is None else np.array(x, np.uint32)
    y = np.full(len(x), 9, np.uint32)
    module = PtxModule(HEADER + body + "\nret;\n}\n")
    return module.launch("kernel", Launch(grid, (threads, 1, 1)), [x, y])[1].tolist()


STORE = "st.global.u32 [%rd7], %r6;"


def test_lanes_part_and_meet():
    """Each counts to its own number; all are together again behind the loop."""
    body = f"""
      mov.u32 %r6, 0;
      LOOP:
      setp.ge.u32 %p1, %r6, %r5;
      @%p1 bra DONE;
      add.u32 %r6, %r6, 1;
      bra.uni LOOP;
      DONE:
      activemask.b32 %r7;
      setp.ne.s32 %p2, %r7, -1;
      @%p2 mov.u32 %r6, 1000;
      {STORE}"""
    x = np.random.default_rng(1).permutation(64)
    assert run(body, x) == x.tolist()


def test_predicates_hold_back_single_instructions():
    body = f"mov.u32 %r6, 5; setp.lt.u32 %p1, %r1, 3; @!%p1 ld.global.u32 %r6, [%rd6]; {STORE}"
    assert run(body) == [5, 5, 5, *range(3, 64)]


def test_what_nothing_has_written_is_garbage():
    assert run(f"setp.lt.u32 %p1, %r1, 3; @%p1 mov.u32 %r6, 0; {STORE}")[2:4] == [0, 0xA5A5A5A5]


def test_threads_that_are_no_whole_warp():
    assert run(f"add.u32 %r6, %r5, 1; {STORE}", threads=40) == list(range(1, 41))


def test_blocks_of_a_grid():
    body = f"mov.u32 %r7, %ctaid.y; setp.eq.u32 %p1, %r7, 2; @!%p1 ret; mov.u32 %r6, %nctaid.y; {STORE}"
    assert run(body, grid=(1, 3, 1)) == [3] * 64


def test_words_pass_through_shared_memory():
    body = f"""
      st.shared.u32 [%r4], %r5;
      bar.sync 0;
      xor.b32 %r7, %r4, 4;
      ld.shared.u32 %r6, [%r7];
      {STORE}"""
    assert run(body) == [i ^ 1 for i in range(64)]


def test_vectors_bytes_and_packs():
    body = f"""
      and.b32 %r7, %r1, 60; shl.b32 %r7, %r7, 2; cvt.u64.u32 %rd8, %r7; add.s64 %rd9, %rd3, %rd8;
      ld.global.v4.u32 {{%r8, %r9, %r10, %r11}}, [%rd9];
      cvt.u16.u32 %rs1, %r9; cvt.u16.u32 %rs2, %r11;
      mov.b32 %r6, {{%rs1, %rs2}};
      {STORE}"""
    words = [i // 4 * 4 for i in range(64)]
    assert run(body) == [(first + 1) | (first + 3) << 16 for first in words]


@pytest.mark.parametrize(
    ("mode", "operand", "clamp", "source"),
    [
        ("down", 1, 31, lambda i: i + 1 if i % 32 < 31 else i),
        ("up", 2, 0, lambda i: i - 2 if i % 32 >= 2 else i),
        ("bfly", 16, 31, lambda i: i ^ 16),
        ("idx", 5, 31, lambda i: i // 32 * 32 + 5),
        ("idx", 1, 0x181F, lambda i: i // 8 * 8 + 1),
        ("down", 4, 0x181F, lambda i: i + 4 if i % 8 < 4 else i),
    ],
)
def test_shuffles(mode, operand, clamp, source):
    body = f"shfl.sync.{mode}.b32 %r6|%p1, %r5, {operand}, {clamp}, -1; {STORE}"
    assert run(body) == [source(i) for i in range(64)]


COPY = """
  shl.b32 %r20, %r1, 4; add.s32 %r21, %r3, %r20; and.b32 %r20, %r20, 255;
  cvt.u64.u32 %rd8, %r20; add.s64 %rd9, %rd3, %rd8;
"""
"""Sixteen bytes of x for each thread."""
BEGIN = "cp.async.cg.shared.global [%r21], [%rd9], 16; cp.async.commit_group;"
READ = f"bar.sync 0; ld.shared.u32 %r6, [%r21]; {STORE}"


def test_copies_arrive_when_they_are_waited_for():
    body = f"{COPY} {BEGIN} cp.async.wait_group 0; {READ}"
    assert run(body) == [4 * i % 64 for i in range(64)]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"{COPY} {BEGIN} {READ}", r"ld.shared.u32 %r6.*\(0, 0, 0\).*before it was waited for"),
        (f"{COPY} {BEGIN} cp.async.wait_group 1; {READ}", "before it was waited for"),
        (
            f"st.shared.u32 [%r4], %r5; xor.b32 %r7, %r4, 4; ld.shared.u32 %r6, [%r7]; {STORE}",
            "reads what another has written, with no barrier between",
        ),
        (
            "ld.shared.u32 %r6, [%r4]; xor.b32 %r7, %r4, 4; st.shared.u32 [%r7], %r5;",
            "writes what another has read",
        ),
        ("st.shared.u32 [box], %r5;", "writes what another writes"),
        (
            "ld.shared.u32 %r6, [%r4+2000];",
            r"thread \(12, 0, 0\).*reaches outside of shared memory",
        ),
        ("ld.shared.u32 %r6, [%r4+2];", "address that the 4 bytes of the access do not divide"),
        (
            "ld.global.u32 %r6, [%rd6+4];",
            r"thread \(63, 0, 0\) of block \(0, 0, 0\) reaches outside",
        ),
        ("ld.global.u32 %r6, [%rd6+-4];", r"thread \(0, 0, 0\) of block.*outside of an argument"),
        ("st.global.v2.u32 [%rd7], {%r1, %r1};", r"thread \(1, 0, 0\).*the 8 bytes"),
        ("st.global.u8 [%rd7+1048576], %r1;", "reaches outside of an argument"),
        (
            "setp.lt.u32 %p1, %r1, 3; @%p1 bra SKIP; bar.sync 0; SKIP: ret;",
            r"thread \(3, 0, 0\).* is at a barrier that other threads of its block do not reach",
        ),
        (
            "setp.lt.u32 %p1, %r1, 3; @%p1 bra SKIP; shfl.sync.up.b32 %r6, %r5, 1, 0, -1; SKIP: ret;",
            r"thread \(3, 0, 0\).*is at an instruction of its whole warp without all of it",
        ),
    ],
)
def test_what_no_kernel_may_do(body, message):
    with pytest.raises(PtxError, match=message):
        run(body)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ex2.approx.f32 %f1, %f1;", r"line \d+, 'ex2.approx.f32 %f1, %f1': no meaning of ex2"),
        ("red.global.add.u32 [%rd7], 1;", "no meaning of red.global.add.u32 is known"),
        ("ld.global.b32 %q1, [%rd6];", "%q1 is not declared"),
    ],
)
def test_what_is_not_known_is_said(body, message):
    with pytest.raises(UnknownPtxError, match=message):
        run(body)


def fragments(rng: np.random.Generator, rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a, b and c as matrices."""
    depth = 2 * rows if rows == 16 else 16
    a = rng.integers(0, 256, (rows, depth))
    return a, rng.integers(-128, 128, (depth, 8)), rng.integers(-(2**31), 2**31, (rows, 8))


def pack(values) -> int:
    return sum((int(value) & 255) << 8 * i for i, value in enumerate(values))


@pytest.mark.parametrize(("shape", "rows"), [("m8n8k16", 8), ("m16n8k32", 16)])
def test_matrix_products(shape, rows):
    """Element by element, lane by lane, as the tables of the ISA have them; sums wrap around."""
    a, b, c = fragments(np.random.default_rng(1), rows)
    halves = rows // 8
    words, sums = [], []
    for lane in range(32):
        g, t = divmod(lane, 4)
        for k in range(0, a.shape[1], 16):
            words += [pack(a[g + 8 * half, k + 4 * t : k + 4 * t + 4]) for half in range(halves)]
        words += [pack(b[k + 4 * t : k + 4 * t + 4, g]) for k in range(0, a.shape[1], 16)]
        sums += [c[g + 8 * half, 2 * t + i] for half in range(halves) for i in range(2)]
    count = len(words) // 32
    x = np.array(words + [int(value) % 2**32 for value in sums], np.uint32)
    names = [f"%r{30 + i}" for i in range(count)]
    of_a, of_b = (", ".join(part) for part in (names[: halves**2], names[halves**2 :]))
    d = [f"%r{60 + i}" for i in range(2 * halves)]
    loads = [f"ld.global.u32 {name}, [%rd10+{4 * i}];" for i, name in enumerate(names)]
    loads += [f"ld.global.u32 {name}, [%rd11+{128 * count + 4 * i}];" for i, name in enumerate(d)]
    stores = [f"st.global.u32 [%rd12+{4 * i}], {name};" for i, name in enumerate(d)]
    body = f"""
      mul.wide.u32 %rd8, %r1, {4 * count}; add.s64 %rd10, %rd3, %rd8;
      mul.wide.u32 %rd9, %r1, {8 * halves}; add.s64 %rd11, %rd3, %rd9; add.s64 %rd12, %rd4, %rd9;
      {" ".join(loads)}
      mma.sync.aligned.{shape}.row.col.s32.u8.s8.s32
        {{{", ".join(d)}}}, {{{of_a}}}, {{{of_b}}}, {{{", ".join(d)}}};
      {" ".join(stores)}"""
    found = np.array(run(body, x, threads=32)[: 64 * halves], np.uint32).astype(np.int32)
    expected = (a @ b + c + 2**31) % 2**32 - 2**31
    for lane in range(32):
        g, t = divmod(lane, 4)
        mine = found[lane * 2 * halves : (lane + 1) * 2 * halves]
        wanted = [expected[g + 8 * half, 2 * t + i] for half in range(halves) for i in range(2)]
        assert mine.tolist() == wanted
