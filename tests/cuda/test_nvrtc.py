"""CUDA C compiles without toolkit, driver or GPU; dp4a is in the PTX, and nothing spills."""

import re

import pytest
import tvm
from tvm import relax

from relay_int8.graph.attributes import SPEC
from relay_int8.graph.dataflow import shape
from schedules.cuda.toolchain import nvrtc as module
from schedules.cuda.toolchain.nvrtc import Nvrtc
from schedules.spec import from_json
from schedules.template import ScheduleError
from tests.cuda.emulator import cuda_source
from tests.cuda.run_network import kernel_source, lowered
from tests.cuda.run_template import SM_61, Case, schedule
from tests.quantized_networks import QuantizedNetwork
from tests.schedules.test_rows import SPECS as ROWS
from tests.small_networks import NetworkWriter, any_params, nn, quotients

ARCHITECTURES = ("sm_61", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
DP4A = {"int8": "dp4a.s32.s32", "uint8": "dp4a.u32.s32"}


def with_float_island():
    """Convolutions of signed and unsigned bytes, a residual, a dense layer, and an island."""
    net = NetworkWriter()
    a = net.relu("a", net.conv("a/bias", net.x, 16, 3, padding=1))
    b = net.relu("b", net.emit("b/add", relax.op.add(net.conv("b/bias", a, 16, 1), a)))
    pool = net.emit("pool", nn.avg_pool2d(b, pool_size=shape(b)[2:]))
    flat = net.emit("flat", relax.op.reshape(pool, (1, 16)))
    logits = net.emit("logits", relax.op.matmul(flat, net.constant(16, 8)))
    return net.module(net.emit("probabilities", nn.log_softmax(logits)))


@pytest.fixture(scope="module")
def network():
    return lowered(QuantizedNetwork.make(with_float_island(), any_params).mod, SM_61)


@pytest.fixture(scope="module")
def source(network) -> str:
    return kernel_source(network, SM_61)


def entries(ptx: str) -> dict[str, str]:
    """Return the text of each kernel of a PTX module."""
    names = re.findall(r"\.entry (\w+)\(", ptx)
    return dict(zip(names, re.split(r"\.entry \w+\(", ptx)[1:], strict=True))


def test_dp4a_is_in_the_ptx_of_every_product_of_integers(nvrtc, network, source):
    kernels = entries(nvrtc.compile(source, "sm_61", "ptx").binary.decode())
    seen = set()
    for var, func in network.functions_items():
        if SPEC not in func.attrs:
            continue
        spec = from_json(str(func.attrs[SPEC]))
        if spec.kind in ("conv2d", "dense"):
            assert DP4A[spec.x] in kernels[f"{var.name_hint}_kernel"], var.name_hint
            seen.add(spec.x)
    assert seen == {"int8", "uint8"}


def test_quotients_are_rounded_as_ieee_does(nvrtc):
    network = lowered(QuantizedNetwork.make(quotients(), any_params).mod, SM_61)
    ptx = nvrtc.compile(kernel_source(network, SM_61), "sm_61", "ptx").binary.decode()
    divisions = set(re.findall(r"\b(?:div|rcp)\.[a-z.]*f32", ptx))
    assert divisions == {"div.rn.f32"}


def test_rows_are_rounded_as_they_are_written(nvrtc, monkeypatch):
    """Roots and quotients are IEEE's; no product joins a sum, with contraction allowed or not."""
    cases = {
        name.replace("-", "_").replace(" ", "_"): Case(spec=spec) for name, spec in ROWS.items()
    }
    mod = tvm.IRModule(
        {
            name: schedule(case, SM_61).with_attr("global_symbol", name)
            for name, case in cases.items()
        }
    )
    source = cuda_source(mod, SM_61)

    def compiled() -> str:
        ptx = nvrtc.compile(source, "sm_61", "ptx").binary.decode()
        return re.sub(r"\b(add|sub|mul)\.rn", r"\1", ptx)  # said only where none may join

    ptx = compiled()
    found = set(re.findall(r"\b(?:div|rcp|sqrt|rsqrt|ex2)\.[a-z.]*f32", ptx))
    assert found == {"div.rn.f32", "rcp.rn.f32", "sqrt.rn.f32"}
    assert ".ftz" not in ptx
    monkeypatch.setattr(module, "OPTIONS", (*module.OPTIONS, "--fmad=false"))
    assert compiled() == ptx


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_machine_code_of_every_architecture(nvrtc, source, architecture):
    compiled = nvrtc.compile(source, architecture)
    assert compiled.binary.startswith(b"\x7fELF")
    spilling = {name: use for name, use in compiled.usage.items() if use.spilled_bytes}
    assert len(compiled.usage) > 5 and not spilling
    assert all(0 < use.registers <= 255 for use in compiled.usage.values())


def test_float_islands_run_on_the_gpu(source):
    """A kernel without threads would run on the host, which cannot read the GPU's memory."""
    assert "__global__" in source and "log_softmax_kernel(" in source


def test_an_unknown_architecture_is_refused(nvrtc):
    with pytest.raises(ScheduleError, match=r"'sm_37' is unknown to NVRTC 12\.6; it knows sm_50"):
        nvrtc.compile("", "sm_37")


def test_wrong_code_says_where(nvrtc):
    with pytest.raises(ScheduleError, match=r"NVRTC for sm_80: kernels.cu\(\d+\): error"):
        nvrtc.compile('extern "C" __global__ void f() { g(); }', "sm_80")


def test_without_the_library_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(module, "PACKAGE", "no_such_package")
    with pytest.raises(ScheduleError, match=r"pip install 'relay-int8\[cuda\]'"):
        Nvrtc()
