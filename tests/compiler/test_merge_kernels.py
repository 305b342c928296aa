"""Kernels that differ in numbers of channels are compiled once, and give the same integers."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import tvm
import tvm_ffi
from tvm import IRModule, ir, relax, tirx
from tvm.target import Target

from relay_int8.compiler import kernel_code, kernel_library
from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.kernel_library import sharing_kernels
from relay_int8.compiler.lower_kernels import plain_loops
from relay_int8.compiler.merge_kernels import merged_kernels
from relay_int8.compiler.passes.lower.place_concats import at_any_offset
from relay_int8.graph.attributes import SPEC, TEMPLATE
from schedules.layout import NCHW16C
from schedules.selection import select
from schedules.space import Kernel
from schedules.spec import Conv2d, Spec, to_json
from schedules.targets import TARGETS
from schedules.template import Layouts
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.run_built import run_built
from tests.small_networks import NetworkWriter

TARGET = Target(TARGETS["x86"])
AVX2 = Target(TARGETS["x86-avx2"])
SPEC_32 = Conv2d(
    batch=1,
    in_channels=32,
    out_channels=32,
    height=6,
    width=6,
    kernel=(1, 1),
    x="uint8",
    y="uint8",
)
SPEC_64 = replace(SPEC_32, out_channels=64)
DEPTHWISE = replace(SPEC_32, groups=32, kernel=(3, 3))


def widening() -> IRModule:
    """Layers of 1x1 and depthwise layers, of which most differ in channels alone."""
    net = NetworkWriter((1, 32, 6, 6))
    x = net.relu("first", net.conv("first/conv", net.x, 32, 3, padding=1))
    for i, wide in enumerate((32, 48, 80)):
        x = net.relu(f"wide{i}", net.conv(f"wide{i}/conv", x, 16 * (i + 2), 1))
        x = net.relu(f"out{i}", net.conv(f"out{i}/conv", x, wide, 1))
        x = net.relu(f"deep{i}", net.conv(f"deep{i}/conv", x, wide, 3, padding=1, groups=wide))
    return net.module(net.emit("mean", relax.op.nn.adaptive_avg_pool2d(x, 1)))


def scheduled(
    *specs: Spec,
    change: Callable[[tirx.PrimFunc], tirx.PrimFunc] = lambda func: func,
    target: Target = TARGET,
) -> dict[ir.GlobalVar, tirx.PrimFunc]:
    """Return kernels as plain loops, with their default schedules."""
    functions = {}
    for number, spec in enumerate(specs):
        template = select(spec, target)
        layouts = template.layouts(
            spec, Layouts(inputs=(NCHW16C,) * len(spec.tensors), output=NCHW16C)
        )
        kernel = Kernel(template=template, spec=spec, layouts=layouts, target=target)
        made = change(kernel.function(kernel.default()))
        attributes = {TEMPLATE: template.name, SPEC: to_json(spec), "global_symbol": f"k{number}"}
        functions[f"k{number}"] = made.with_attr(attributes)
    loops = plain_loops(IRModule(functions), target)
    return dict(sorted(loops.functions_items(), key=lambda item: str(item[0].name_hint)))


@pytest.mark.parametrize("target", [TARGET, AVX2], ids=["vnni", "avx2"])
def test_a_network_gives_the_oracles_integers_by_fewer_kernels(target):
    network = QuantizedNetwork.make(widening())
    built = compile_module(network.mod, target)
    functions = [call.function for call in built.calls if call.template]
    assert len({*functions}) < len(functions) - 2
    assert_found_equals_oracle(network, run_built(built, network.inputs))


def test_networks_after_it_run_the_kernels_that_others_were_merged_into(monkeypatch):
    compiled = []
    inner = kernel_library._compiled

    def _noted(kernels, *arguments):
        compiled.append({gvar.name_hint for gvar in kernels})
        return inner(kernels, *arguments)

    monkeypatch.setattr(kernel_library, "_compiled", _noted)
    network = QuantizedNetwork.make(widening())
    with sharing_kernels():
        first, second = (
            compile_module(network.mod, TARGET, transient=transient) for transient in (False, True)
        )
    assert any("conv2d" in name for name in compiled[0])
    assert not any("conv2d" in name for name in compiled[1])
    layers = [
        {call.function for call in built.calls if isinstance(call.spec, Conv2d)}
        for built in (first, second)
    ]
    assert layers[0] == layers[1]
    (x,) = network.inputs.values()
    results = [virtual_machine(built)["main"](tvm.runtime.tensor(x)) for built in (first, second)]
    assert results[0].numpy().tobytes() == results[1].numpy().tobytes()


def test_bytes_of_a_library_do_not_depend_on_cores(tmp_path, monkeypatch):
    network, found = QuantizedNetwork.make(widening()), []
    monkeypatch.setenv("RELAY_INT8_CACHE", "off")
    for cores in (1, 3):
        for module in (kernel_code, kernel_library):
            monkeypatch.setattr(module, "usable_cores", lambda cores=cores: cores)
        compile_module(network.mod, TARGET).export(tmp_path / "library.so")
        found.append((tmp_path / "library.so").read_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("spec", "changes"),
    [
        (SPEC_32, {"in_channels": 64}),
        (SPEC_64, {"out_channels": 128}),
        (SPEC_64, {"in_channels": 48, "out_channels": 128}),
        (DEPTHWISE, {"in_channels": 64, "out_channels": 64, "groups": 64}),
    ],
    ids=["inputs", "outputs", "both", "depthwise"],
)
def test_channels_are_read_from_tensors(spec, changes):
    kernels = scheduled(spec, replace(spec, **changes))
    compiled, sources = merged_kernels(kernels)
    ((gvar, kept),) = compiled.items()
    assert [*sources] == [*kernels] and {*sources.values()} == {gvar}
    assert str(gvar.name_hint) == kept.attrs["global_symbol"] not in ("k0", "k1")
    sizes = {str(size.name) for param in kept.params for size in param.ty.shape if _is_open(size)}
    assert sizes and all(name.rpartition("_")[0] in ("x", "w", "y") for name in sizes)


def test_copies_have_as_many_channels_as_x():
    kernels = scheduled(SPEC_64, replace(SPEC_64, in_channels=64), target=AVX2)
    (kept,) = merged_kernels(kernels)[0].values()
    copies: list[tirx.AllocBuffer] = []
    tvm_ffi.structural_walk(kept.body, (tirx.AllocBuffer, copies.append))
    assert any(_is_open(size) for copy in copies for size in copy.buffer.ty.shape)


def _is_open(size: object) -> bool:
    return not isinstance(size, tirx.IntImm)


@pytest.mark.parametrize(
    "other",
    [
        replace(SPEC_32, height=12),
        replace(SPEC_32, width=7),
        replace(SPEC_32, leaky=True),
        replace(SPEC_32, y="int8"),
        replace(SPEC_32, in_channels=16),  # no loop over blocks of channels is left
        replace(SPEC_32, batch=tirx.Var("n", "int64"), in_channels=64),
    ],
    ids=["rows", "columns", "epilogue", "type", "one block", "open batch"],
)
def test_others_stay_as_they_are(other):
    kernels = scheduled(SPEC_32, other)
    compiled, sources = merged_kernels(kernels)
    assert not sources
    assert all(compiled[gvar].same_as(kernels[gvar]) for gvar in kernels)


def test_what_is_written_at_an_offset_is_merged_with_its_like_alone():
    wide = replace(SPEC_32, in_channels=64)
    at_offset = {"change": lambda func: at_any_offset(func, [len(func.params) - 1])}
    both, one = scheduled(SPEC_32, wide, **at_offset), scheduled(SPEC_32)
    assert len(merged_kernels(both)[1]) == 2
    mixed = dict(zip([*both, *one], [*both.values(), *one.values()], strict=True))
    assert [*merged_kernels(mixed)[1]] == [*both]


def test_of_three_those_that_agree_are_merged():
    specs = (SPEC_32, replace(SPEC_32, in_channels=64), replace(SPEC_32, width=8))
    _, sources = merged_kernels(scheduled(*specs))
    assert sorted(str(gvar.name_hint) for gvar in sources) == ["k0", "k1"]


def test_equal_kernels_have_equal_names_and_others_other_ones():
    """Networks of one context look kernels up by name, in the libraries of all before them."""
    wide, wider = replace(SPEC_64, in_channels=64), replace(SPEC_64, out_channels=128)
    names = [
        str(next(iter(merged_kernels(scheduled(SPEC_64, other))[1].values())).name_hint)
        for other in (wide, wide, wider)
    ]
    assert names[0] == names[1] != names[2]
