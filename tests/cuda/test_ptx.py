"""Kernels as NVIDIA's compiler makes them, run by an interpreter of PTX: equal to NumPy.

The emulation of the other tests replaces inline assembly, and compiles the rest by a compiler for CPUs;
this one reads what NVRTC returns. Of an instruction it knows what the PTX ISA says and nothing else:
asynchronous copies arrive as late as their waits allow, no thread touches what another touches between
two barriers, and nothing reaches outside of an argument.
"""

import functools
import re

import pytest
from tvm.target import Target

from tests.cuda import test_conv2d_dp4a, test_conv2d_mma, test_dense_mma
from tests.cuda.ptx.emulator import PtxEmulator
from tests.cuda.ptx.errors import PtxError
from tests.cuda.ptx.families import FAMILIES
from tests.cuda.run_template import Built, build_ptx
from tests.nvidia import needs_compiler

pytestmark = needs_compiler


@functools.cache
def built(family: str, architecture: str, names: tuple[str, ...]) -> Built:
    cases = {name: FAMILIES[family].cases[name] for name in names}
    return build_ptx(cases, target_of(architecture))


def target_of(architecture: str) -> Target:
    return Target({"kind": "cuda", "arch": architecture}, host="llvm")


QUICK = [
    (family, architecture, name)
    for family, item in FAMILIES.items()
    for architecture in item.architectures
    for name in item.quick
]
REST = [
    (family, architecture, name)
    for family, item in FAMILIES.items()
    for architecture in item.architectures
    for name in item.cases
    if name not in item.quick
]


@pytest.mark.parametrize(("family", "architecture", "name"), QUICK)
def test_equals_numpy(family, architecture, name):
    item = FAMILIES[family]
    item.check(built(family, architecture, item.quick), name)


@pytest.mark.slow
@pytest.mark.parametrize(("family", "architecture", "name"), REST)
def test_all_others_equal_numpy(full, family, architecture, name):
    if not full:
        pytest.skip("needs --full")
    item = FAMILIES[family]
    rest = tuple(key for key in item.cases if key not in item.quick)
    item.check(built(family, architecture, rest), name)


SAMPLED = {
    ("conv2d_dp4a", "sm_61"): ("same", "several_fetches", "groups", "runs_strided"),
    ("conv2d_mma", "sm_80"): test_conv2d_mma.SAMPLED,
    ("dense_mma", "sm_80"): test_dense_mma.SAMPLED,
    ("contractions", "sm_61"): ("depthwise", "groups_across_blocks", "rows", "float"),
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("family", "architecture"), SAMPLED)
def test_sampled(full, family, architecture, seed):
    """Points of the search space; those whose block is larger than any GPU allows are left out."""
    if not full:
        pytest.skip("needs --full")
    item = FAMILIES[family]
    cases = {name: item.cases[name] for name in SAMPLED[family, architecture]}
    found = build_ptx(cases, target_of(architecture), seed=seed)
    fitting = [name for name in cases if test_conv2d_dp4a.fits(found.mod[name])]
    assert len(fitting) > 1
    for name in fitting:
        item.check(found, name)


INSTRUCTIONS = {
    ("conv2d_dp4a", "sm_61"): ("dp4a.u32.s32", "dp4a.s32.s32"),
    ("conv2d_mma", "sm_75"): ("mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32",),
    ("conv2d_mma", "sm_80"): (
        "mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32",
        "ldmatrix.sync.aligned.m8n8.x4",
        "cp.async.cg",
    ),
}


@pytest.mark.parametrize(("family", "architecture"), INSTRUCTIONS)
def test_what_is_run_has_the_instructions_in_question(family, architecture):
    emulator = built(family, architecture, FAMILIES[family].quick).emulator
    assert isinstance(emulator, PtxEmulator)
    for instruction in INSTRUCTIONS[family, architecture]:
        assert instruction in emulator.text


def one_more(wait: re.Match[str]) -> str:
    return f"cp.async.wait_group {int(wait[1]) + 1}"


def edited(family: str, architecture: str, pattern: str, by) -> Built:
    """Return a convolution of several fetches whose PTX was changed."""
    before = built(family, architecture, FAMILIES[family].quick)
    assert isinstance(before.emulator, PtxEmulator)
    start = before.emulator.text.index(".entry several_fetches_kernel(")
    head, text = before.emulator.text[:start], before.emulator.text[start:]
    changed, found = re.subn(pattern, by, text)
    assert found
    emulator = before.emulator.with_text(head + changed)
    return Built(
        cases=before.cases, target=before.target, mod=before.mod, source=before.source,
        emulator=emulator,
    )  # fmt: skip


READ = r"(ldmatrix\.sync[^{]*)\{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\}"
COLUMN = r"(mma\.sync\.aligned\.m16n8k32[^;{]*\{[^}]*\},\s*\{[^}]*\},\s*\{)(%r\d+)"
MATRIX = r"(mma\.sync\.aligned\.m16n8k32[^{]*\{[^}]*\}, )\{(%r\d+), (%r\d+), (%r\d+), (%r\d+)\}"


@pytest.mark.parametrize(
    ("family", "architecture", "pattern", "by"),
    [
        ("conv2d_dp4a", "sm_61", r"dp4a\.u32\.s32", "dp4a.s32.s32"),
        ("conv2d_dp4a", "sm_80", r"dp4a\.u32\.s32", "dp4a.u32.u32"),
        ("conv2d_mma", "sm_80", r"\.s32\.u8\.s8\.s32", ".s32.s8.s8.s32"),
        ("conv2d_mma", "sm_75", r"\.s32\.u8\.s8\.s32", ".s32.s8.s8.s32"),
        ("conv2d_mma", "sm_80", MATRIX, r"\1{\2, \4, \3, \5}"),
        ("conv2d_mma", "sm_80", MATRIX, r"\1{\3, \2, \5, \4}"),
        ("conv2d_mma", "sm_75", READ, r"\1{\2, \4, \3, \5}"),
        ("conv2d_mma", "sm_80", COLUMN, r"shfl.sync.bfly.b32 \2, \2, 4, 31, -1; \1\2"),
    ],
    ids=["sign_of_x", "sign_of_w", "mma_sign", "mma_sign_75", "half_of_k", "row", "read", "lane"],
)
def test_wrong_instructions_give_other_integers(family, architecture, pattern, by):
    with pytest.raises(AssertionError, match="Arrays are not equal"):
        FAMILIES[family].check(edited(family, architecture, pattern, by), "several_fetches")


@pytest.mark.parametrize(
    ("family", "architecture", "pattern", "by", "message"),
    [
        (
            "conv2d_mma", "sm_80", r"cp\.async\.wait_group (\d)", one_more,
            "before it was waited for",
        ),
        ("conv2d_mma", "sm_80", r"bar\.sync\s+0;", "", "with no barrier between|waited for"),
        ("conv2d_dp4a", "sm_61", r"bar\.sync\s+0;", "", "with no barrier between"),
        (
            "conv2d_dp4a", "sm_61", r"ld\.global\.nc\.u32 (\s*%r\d+), \[(%rd\d+)\]",
            r"ld.global.nc.u32 \1, [\2+4194304]", "reaches outside of an argument",
        ),
    ],
    ids=["wait", "barrier_mma", "barrier_dp4a", "outside"],
)  # fmt: skip
def test_what_no_kernel_may_do_is_an_error(family, architecture, pattern, by, message):
    broken = edited(family, architecture, pattern, by)
    with pytest.raises(PtxError, match=rf"several_fetches_kernel, line \d+.*({message})"):
        FAMILIES[family].check(broken, "several_fetches")
