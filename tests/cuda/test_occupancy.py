"""Blocks on a multiprocessor, main loops and the shares that they allow, against figures by hand."""

from collections import Counter

import pytest

from schedules.cuda.device.occupancy import occupancy
from schedules.cuda.toolchain.main_loop import MainLoop, main_loop
from schedules.cuda.toolchain.prediction import share_of_peak

# threads, registers, shared bytes -> blocks and what limits them, from the vendor's tables
CASES = {
    "registers of whole warps": ("sm_80", 256, 72, 0, 3, "registers"),  # 8 * 2304 = 18432
    "unit of 256": ("sm_80", 256, 73, 0, 3, "registers"),  # 73 * 32 = 2336, rounded up to 2560
    "threads of Turing": ("sm_75", 256, 32, 0, 4, "threads"),
    "threads of Ada": ("sm_89", 512, 32, 0, 3, "threads"),
    "blocks": ("sm_80", 32, 16, 0, 32, "blocks"),
    "system's KiB": ("sm_80", 128, 32, 31 * 1024, 5, "shared memory"),  # 164 / 32
    "no system's KiB": ("sm_70", 128, 32, 32 * 1024, 3, "shared memory"),
    "none fits": ("sm_61", 128, 32, 100 * 1024, 0, "shared memory"),
}


@pytest.mark.parametrize("case", CASES)
def test_blocks_on_a_multiprocessor(case):
    architecture, threads, registers, shared, resident, limit = CASES[case]
    found = occupancy(
        architecture, threads=threads, registers=registers, shared_bytes=shared, blocks=None
    )
    assert (found.resident, found.limit) == (resident, limit)
    assert found.waves is None and found.busy is None


def test_waves_and_idle_multiprocessors():
    found = occupancy("sm_70", threads=384, registers=32, shared_bytes=28288, blocks=392)
    assert found.resident == 3
    assert found.waves == pytest.approx(392 / 240)
    assert found.busy == pytest.approx(392 / (80 * 5))  # the busiest of 80 has five


SASS = """
        /*0000*/                   MOV R1, c[0x0][0x28] ;                 /* 0x00 */
                                                                          /* 0x00 */
        /*0010*/                   IDP.4A.S8.S8 R0, R1, R2, R0 ;          /* 0x00 */
        /*0020*/              @!P0 IDP.4A.S8.S8 R3, R1, R2, R3 ;          /* 0x00 */
        /*0030*/                   IDP.4A.U8.S8 R3, R1, R2, R3 ;          /* 0x00 */
        /*0040*/                   LDS.128 R4, [R5] ;                     /* 0x00 */
        /*0050*/               @P0 BRA 0x10 ;                             /* 0x00 */
        /*0060*/                   IADD3 R6, R6, 0x1, RZ ;                /* 0x00 */
        /*0070*/                   NOP ;                                  /* 0x00 */
        /*0080*/               @P1 BRA 0x0 ;                              /* 0x00 */
        /*0090*/                   EXIT ;                                 /* 0x00 */
        /*00a0*/                   BRA 0xa0;                              /* 0x00 */
"""


def test_the_main_loop_is_the_outermost_with_the_products():
    """Turns that are not seen, as those of a loop without a counter, are taken for one."""
    loop = main_loop(SASS)
    assert loop.opcodes == Counter(
        {"IDP.4A": 3, "LDS": 1, "BRA": 2, "MOV": 1, "IADD3": 1, "NOP": 1}
    )
    assert loop.share == pytest.approx(3 / 8)


NESTED = """
        /*0000*/                   LDG.E R4, [R2.64] ;                    /* 0x00 */
        /*0010*/                   LDS R5, [R6] ;                         /* 0x00 */
        /*0020*/                   IADD3 R8, R8, 0x4, RZ ;                /* 0x00 */
        /*0030*/                   ISETP.NE.AND P1, PT, R8, 0x20, PT ;    /* 0x00 */
        /*0040*/                   IDP.4A.S8.S8 R0, R1, R2, R0 ;          /* 0x00 */
        /*0050*/               @P1 BRA 0x10 ;                             /* 0x00 */
        /*0060*/                   IDP.2A.LO.U16.U8 R3, R1, R2, R3 ;      /* 0x00 */
        /*0070*/                   ISETP.GE.U32.AND P0, PT, R9, 0x7, PT ; /* 0x00 */
        /*0080*/              @!P0 BRA 0x0 ;                              /* 0x00 */
        /*0090*/                   IDP.4A.S8.S8 R0, R1, R2, R0 ;          /* 0x00 */
        /*00a0*/                   ISETP.NE.AND P0, PT, R9, 0x8, PT ;     /* 0x00 */
        /*00b0*/               @P0 BRA 0x90 ;                             /* 0x00 */
"""


def test_inner_loops_count_as_often_as_they_turn():
    """The second loop is shorter, but runs 8 of the 64 products; IDP.2A is none of them."""
    loop = main_loop(NESTED)
    assert loop.products == 8
    assert loop.instructions == 1 + 8 * 5 + 3


def test_code_without_loops_is_one_pass():
    unrolled = "\n".join(line for line in SASS.splitlines() if "P0 BRA" not in line)
    loop = main_loop(unrolled.replace("@P1 BRA 0x0", "@P1 BRA 0x90"))
    assert (loop.products, loop.instructions) == (3, 9)  # without the NOP


def test_shares_of_the_peak():
    filled = occupancy("sm_80", threads=256, registers=64, shared_bytes=0, blocks=108 * 4)
    half = MainLoop(Counter({"IDP.4A": 50, "LDS": 50}))
    assert share_of_peak("sm_80", half, filled) == 1.0  # dp4a starts every other clock there
    assert share_of_peak("sm_80", MainLoop(Counter({"IDP.4A": 25, "LDS": 75})), filled) == 0.5
    pascal = occupancy("sm_61", threads=256, registers=64, shared_bytes=0, blocks=10)
    assert share_of_peak("sm_61", half, pascal) == 0.25  # every clock, and half the cores idle
    # 16x8x32 products, 2048 a clock: an instruction every other clock, of four that start in one
    assert share_of_peak("sm_80", MainLoop(Counter(IMMA=10, LDS=150)), filled) == 0.5
    assert share_of_peak("sm_80", MainLoop(Counter(LDS=9)), filled) is None
