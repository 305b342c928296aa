"""Tables looked up a vector at a time: every byte, every size, every instruction set."""

import pytest
from tvm import tirx
from tvm.target import Target

from schedules.layout import NCHW16C, ROW
from schedules.selection import select
from schedules.spec import Table
from schedules.targets import named_target, native_target
from tests.schedules.any_layout_runs import check, random_values

NEEDS = {"native": (), "x86-vnni": ("avx512_vnni", "avx512bw"), "x86-avx2": ("avx2",)}
CPUS = [
    pytest.param(named_target(name), id=name, marks=[pytest.mark.isa(flag) for flag in flags])
    for name, flags in NEEDS.items()
]
SIZES = [(1, 64), (1, 65), (1, 3, 5, 9), (2, 20, 31, 33), (1, 64, 48, 64)]


def table(dtype: str):
    return {"table": random_values((256,), dtype, 5)}


@pytest.mark.parametrize("target", CPUS)
@pytest.mark.parametrize("dims", SIZES, ids=str)
@pytest.mark.parametrize("x, y", [("uint8", "uint8"), ("int8", "uint8"), ("uint8", "int8")])
def test_integers(dims, x, y, target):
    layout = NCHW16C if len(dims) == 4 else ROW
    check(Table(dims=dims, x=x, y=y), table(y), layout, target=target)


@pytest.mark.parametrize("target", CPUS)
@pytest.mark.parametrize("x", ["uint8", "int8"])
def test_symbolic_batch(x, target):
    dims = (tirx.Var("n", "int64"), 16, 5, 3)
    check(Table(dims=dims, x=x, y="int8"), table("int8"), NCHW16C, target=target)


@pytest.mark.parametrize(
    "cpu, dims, name",
    [
        ("icelake-server", (1, 64), "table_vbmi"),
        ("cascadelake", (1, 64), "table_avx512"),
        ("haswell", (1, 32), "table_avx2"),
        ("haswell", (1, 31), "table_cpu"),
        ("x86-64", (1, 64), "table_cpu"),
    ],
)
def test_which(cpu, dims, name):
    target = Target({"kind": "llvm", "mcpu": cpu, "mtriple": "x86_64-linux-gnu"})
    assert select(Table(dims=dims, x="uint8", y="int8"), target).name == name


def test_channels_with_tables_of_their_own():
    spec = Table(dims=(1, 64, 8, 8), x="uint8", y="int8", by_channel=True)
    assert select(spec, native_target()).name == "table_cpu"


def test_which_on_arm():
    target = named_target("aarch64")
    assert select(Table(dims=(1, 16), x="int8", y="int8"), target).name == "table_tbl"
