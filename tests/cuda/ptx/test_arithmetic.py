"""Instructions compute what the PTX ISA says: tables of worked numbers."""

from fractions import Fraction

import numpy as np
import pytest

from tests.cuda.ptx.arithmetic import operation
from tests.cuda.ptx.errors import UnknownPtxError
from tests.cuda.ptx.sums import fused_multiply_add
from tests.cuda.ptx.types import DTYPES, immediate, read_as, widened

pytestmark = pytest.mark.fast


def compute(text: str, *operands) -> list:
    """Return what an instruction gives for one lane or several; operands are numbers or lists."""
    name, *modifiers = text.split(".")
    found = operation(name, tuple(modifiers))
    arrays = [
        np.atleast_1d(np.array(value)).astype(DTYPES[dtype])
        for value, dtype in zip(operands, found.sources, strict=True)
    ]
    with np.errstate(all="ignore"):
        result = np.asarray(found.compute(*arrays))
    return result.astype(DTYPES[found.result]).tolist()


@pytest.mark.parametrize(
    ("text", "operands", "expected"),
    [
        ("add.s32", (2**31 - 1, 1), -(2**31)),
        ("sub.u32", (0, 1), 2**32 - 1),
        ("mul.lo.s32", (65536, 65537), 65536),
        ("mul.hi.u32", (2**31, 6), 3),
        ("mul.hi.s32", (-(2**31), 6), -3),
        ("mul.hi.u64", (2**64 - 1, 2**64 - 3), 2**64 - 4),
        ("mul.hi.s64", (-(2**63), 3), -2),
        ("mul.hi.s64", (-5, -(2**62)), 1),
        ("mul.wide.s32", (-(2**31), 2**31 - 1), -(2**31) * (2**31 - 1)),
        ("mul.wide.u16", (65535, 65535), 65535**2),
        ("mad.lo.s32", (3, -4, 5), -7),
        ("mad.wide.u32", (2**31, 4, 1), 2**33 + 1),
        ("div.s32", (-7, 2), -3),
        ("rem.s32", (-7, 2), -1),
        ("shl.b32", (1, 32), 0),
        ("shl.b32", (1, 31), 2**31),
        ("shr.s32", (-8, 40), -1),
        ("shr.u32", (2**31, 31), 1),
        ("shf.l.wrap.b32", (2**31, 1, 1), 3),
        ("shf.r.wrap.b32", (2, 1, 33), 2**31 + 1),
        ("shf.r.clamp.b32", (2, 7, 40), 7),
        ("prmt.b32", (0x33221100, 0x77665544, 0x7531), 0x77553311),
        ("prmt.b32", (0x80, 0x7F, 0x0C8C), 0x8000FF00),
        ("bfe.u32", (0xABCD, 4, 8), 0xBC),
        ("bfe.s32", (0xF0, 4, 4), -1),
        ("bfe.s32", (0xF0, 4, 0), 0),
        ("bfe.s32", (-(2**31), 31, 8), -1),
        ("bfe.u32", (2**31, 31, 8), 1),
        ("bfe.u32", (2**31, 40, 8), 0),
        ("bfe.u64", (0x0000_001C_0000_0000, 34, 2), 3),
        ("bfi.b32", (0xF, 0, 4, 2), 0x30),
        ("lop3.b32", (0xF0, 0xCC, 0xAA, 0x96), 0xF0 ^ 0xCC ^ 0xAA),
        ("dp4a.u32.s32", (0xFF00_00FF, 0x0200_00FF, 10), 10 - 255 + 2 * 255),
        ("dp4a.s32.s32", (0xFF00_00FF - 2**32, 0x0200_00FF, 10), 10 + 1 - 2),
        ("dp4a.u32.u32", (0xFF00_00FF, 0x0200_00FF, 10), 10 + 255 * 255 + 2 * 255),
        ("dp2a.lo.s32.s32", (0x0002_FFFF, 0x0403_02FF, 0), 1 + 4),
        ("dp2a.hi.s32.s32", (0x0002_FFFF, 0x0403_02FF, 0), -3 + 8),
        ("cvt.u16.u32", (0x12345,), 0x2345),
        ("cvt.s32.s8", (-3,), -3),
        ("cvt.sat.u8.s32", (-3,), 0),
        ("cvt.rni.s32.f32", (2.5,), 2),
        ("cvt.rni.s32.f32", (3e9,), 2**31 - 1),
        ("cvt.rni.s32.f32", (-3e9,), -(2**31)),
        ("cvt.rni.s32.f32", (float("nan"),), 0),
        ("cvt.rzi.u32.f32", (-0.9,), 0),
        ("cvt.rn.f32.s32", (2**24 + 1,), 2.0**24),
        ("cvt.rn.f16.f32", (65520.0,), float("inf")),
        ("setp.lt.u32", (1, 2**32 - 1), True),
        ("setp.ne.f32", (float("nan"), 1), False),
        ("setp.neu.f32", (float("nan"), 1), True),
        ("setp.ge.and.s32", (3, 3, False), False),
        ("selp.b32", (3, 4, False), 4),
        ("min.f32", (float("nan"), 1), 1.0),
        ("popc.b32", (0xF0F0,), 8),
        ("copysign.f32", (-0.0, 3), -3.0),
    ],
)
def test_worked_numbers(text, operands, expected):
    assert compute(text, *operands) == [expected]


def test_zeros_have_an_order():
    zeros = compute("min.f32", (0.0, -0.0), (-0.0, 0.0)) + compute("max.f32", (0.0,), (-0.0,))
    assert np.signbit(zeros).tolist() == [True, True, False]


def test_fma_rounds_once():
    """The nearest float32 of the exact sum, which fractions compute."""
    rng = np.random.default_rng(1)
    a, b, c = (
        (rng.standard_normal(4000) * 2.0 ** rng.integers(-12, 12, 4000)).astype(np.float32)
        for _ in range(3)
    )
    c[::2] = (-np.float64(a) * b * (1 + rng.standard_normal(4000) * 2.0**-24)).astype(np.float32)[
        ::2
    ]
    for found, *factors in zip(fused_multiply_add(a, b, c), a, b, c, strict=True):
        x, y, z = map(Fraction, map(float, factors))
        exact, near = x * y + z, Fraction(float(found))
        below, above = np.nextafter(found, np.float32([-np.inf, np.inf]))
        assert abs(exact - near) <= min(abs(exact - Fraction(float(n))) for n in (below, above))


@pytest.mark.parametrize(
    "text", ["add.ftz.f32", "div.full.f32", "rcp.approx.f32", "ex2.approx.f32", "sin.f32", "add"]
)
def test_what_no_two_gpus_compute_alike_is_unknown(text):
    with pytest.raises(UnknownPtxError, match=rf"no meaning of {text} is known"):
        compute(text, 1, 1)


def test_registers_are_read_narrow_and_written_wide():
    words = np.array([0x8081, 0x17F], np.uint16)
    assert read_as(words, "s8").tolist() == [-127, 127]
    assert read_as(np.float32([1]), "b32").tolist() == [0x3F800000]
    assert widened(np.int8([-2]), DTYPES["b16"]).tolist() == [0xFFFE]
    assert widened(np.uint8([254]), DTYPES["b32"]).tolist() == [254]
    with pytest.raises(UnknownPtxError, match="a register of uint16 is read as u32"):
        read_as(words, "u32")


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("-1", "u32", 2**32 - 1),
        ("0x80", "s8", -128),
        ("0f3F800000", "f32", 1.0),
        ("%r1", "u32", None),
    ],
)
def test_constants(text, name, value):
    assert immediate(text, name) == value
