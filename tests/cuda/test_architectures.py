"""native, all and lists become the architectures that a library holds code of."""

import pytest

from schedules.cuda.toolchain.architectures import choose_architectures
from schedules.cuda.toolchain.nvrtc import KernelUsage, Nvrtc, kernel_usage
from schedules.template import ScheduleError
from tests.nvidia import needs_compiler

pytestmark = [
    pytest.mark.fast,
    needs_compiler,
]


@pytest.mark.parametrize(
    ("text", "present", "expected"),
    [
        ("sm_90,sm_61", (), ("sm_61", "sm_90")),
        (" sm_80 , sm_80", (), ("sm_80",)),
        ("native", ("sm_90",), ("sm_90",)),
        ("native", ("sm_90", "sm_75", "sm_90"), ("sm_75", "sm_90")),
        ("native", ("sm_88",), ("sm_87",)),  # code of its generation
        ("native", ("sm_103",), ("sm_90",)),  # PTX
        ("all", (), ("sm_61", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90")),
    ],
)
def test_choice(monkeypatch, text, present, expected):
    known = tuple(name for name in Nvrtc().architectures if int(name[3:]) <= 90)
    monkeypatch.setattr(Nvrtc, "architectures", property(lambda _: known))
    assert choose_architectures(text, present) == expected


def test_all_has_the_newest_where_the_compiler_knows_them(monkeypatch):
    known = (*Nvrtc().architectures, "sm_100", "sm_101", "sm_120")
    monkeypatch.setattr(Nvrtc, "architectures", property(lambda _: known))
    assert choose_architectures("all")[-3:] == ("sm_90", "sm_100", "sm_120")
    assert choose_architectures("sm_120") == ("sm_120",)


@pytest.mark.parametrize(
    ("text", "present", "message"),
    [
        ("sm_37", (), "'sm_37' is not known; choose native, all, or some of sm_61, sm_70"),
        ("sm_80,", (), "'' is not known"),
        ("native", (), "no GPU here to build for; name architectures, or say all"),
        ("native", ("sm_60",), "sm_60, which has no dp4a; the oldest that has is sm_61"),
    ],
)
def test_what_makes_no_sense(text, present, message):
    with pytest.raises(ScheduleError, match=message):
        choose_architectures(text, present)


def test_the_assemblers_words_are_read():
    log = """\
ptxas info    : Compiling entry function 'plain' for 'sm_80'
ptxas info    : Function properties for plain
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 16 registers, 368 bytes cmem[0]
ptxas info    : Compiling entry function 'crowded' for 'sm_80'
ptxas info    : Function properties for crowded
    128 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 8192 bytes smem, 400 bytes cmem[0]
"""
    assert kernel_usage(log) == {
        "plain": KernelUsage(registers=16, spilled_bytes=0, stack_bytes=0, shared_bytes=0),
        "crowded": KernelUsage(registers=255, spilled_bytes=56, stack_bytes=128, shared_bytes=8192),
    }


def test_the_log_of_the_installed_compiler_is_understood():
    source = 'extern "C" __global__ void f(int* x) { __shared__ int s[64]; s[threadIdx.x] = *x; __syncthreads(); *x = s[63 - threadIdx.x]; }'
    usage = Nvrtc().compile(source, "sm_80").usage["f"]
    assert usage.shared_bytes == 256 and usage.registers > 0
    assert (usage.spilled_bytes, usage.stack_bytes) == (0, 0)


def test_spills_are_seen():
    """A hundred live sums in sixteen registers cannot stay there."""
    sums = "; ".join(f"int s{i} = x[{i} * n]" for i in range(100))
    uses = "; ".join(f"x[s{i} & 7] += s{99 - i}" for i in range(100))
    source = f'extern "C" __global__ void __launch_bounds__(1024, 2) f(int* x, int n) {{ {sums}; {uses}; }}'
    assert Nvrtc().compile(source, "sm_80").usage["f"].spilled_bytes > 0
