"""What variables of a realized module stand for is said of them; no name is taken apart."""

from types import SimpleNamespace

import pytest
from tvm import relax
from tvm.target import Target

from relay_int8.compiler.build import compile_module, kernel_calls
from relay_int8.compiler.kernel_calls import KernelCall
from relay_int8.graph import dataflow
from relay_int8.graph.compared import returning
from relay_int8.graph.origins import Origin
from relay_int8.quantization.mixed_precision import costs
from schedules.targets import TARGETS
from tests.quantized_networks import QuantizedNetwork, assert_found_equals_oracle
from tests.run_built import run_built
from tests.small_networks import NetworkWriter, any_params
from tests.x86_targets import FASTEST

pytestmark = pytest.mark.fast

X86, VNNI = (Target(TARGETS[name]) for name in ("x86", "x86-vnni"))


def misnamed():
    """Return a network whose own tensors have the names that passes give to others."""
    net = NetworkWriter((1, 4, 9, 9))
    a = net.relu("a", net.conv("x:int", net.x, 8, 3))
    b = net.relu("a:dq", net.conv("a:q", a, 8, 3))
    c = net.relu("a:NCHW16c", net.conv("x:q", b, 8, 3))
    for i in range(2):
        c = net.relu(f"c{i}", net.conv(f"c{i}:q", c, 8, 1))
    s = net.emit("a:float", relax.op.sin(net.conv("y:row", c, 8, 1)))
    return net.module(net.emit("outputs", relax.op.nn.softmax(s, axis=1)))


def described(calls: tuple[KernelCall, ...]) -> list[tuple[str, str]]:
    return [(call.tensor, call.role) for call in calls]


@pytest.mark.parametrize("name", ["x86", FASTEST])
def test_each_call_says_what_it_computes(name: str):
    target = Target(TARGETS[name])
    network = QuantizedNetwork.make(misnamed(), any_params)
    calls = kernel_calls(network.mod, target)
    assert len({call.name for call in calls}) == len(calls)
    work = [(tensor, role) for tensor, role in described(calls) if role != "repack"]
    layers = [(layer.name, "result") for layer in network.plan.layers]
    assert work == [("x", "quantize"), *layers]
    assert {call.tensor for call in calls if call.role == "repack"} <= {"x", "y:row", *layers}
    built = compile_module(network.mod, target)
    assert_found_equals_oracle(network, run_built(built, network.inputs))


def test_fused_operators_keep_the_name_of_what_they_give():
    net = NetworkWriter((1, 4, 6, 6))
    inner = net.emit("inner", relax.op.exp(net.emit("sine", relax.op.sin(net.x))))
    c = net.conv("c", inner, 4, 1)
    twice = [net.emit(f"times{k}", relax.op.multiply(c, relax.const(float(k)))) for k in (2, 3)]
    ends = [net.emit(f"end{k}", relax.op.cos(t)) for k, t in zip((2, 3), twice, strict=True)]
    calls = kernel_calls(net.module(*ends), VNNI)
    tensors = [tensor for tensor, role in described(calls) if role == "result"]
    assert tensors == ["inner", "c", "end2", "end3"]


def test_a_single_result_keeps_its_name_behind_what_nothing_reads():
    writer = dataflow.FunctionWriter()
    x = relax.Var("x", relax.TensorType((4,), "float32"))
    y = writer.emit("y", relax.op.sin(x))
    writer.emit("unread", relax.op.cos(y))
    mod = writer.finish([x], [y])
    assert [str(var.name) for var, _ in dataflow.calls(mod["main"])] == ["y"]
    assert described(kernel_calls(mod, X86)) == [("y", "result")]


def test_costs_of_a_plan_count_its_conversions():
    network = QuantizedNetwork.make(misnamed(), any_params)
    params = any_params(network.plan)
    quantized = SimpleNamespace(reference=misnamed(), plan=network.plan, params=params)
    assert costs._conversions(quantized, network.plan) == [Origin("x", "quantize")]
    both = {(call.tensor, call.role) for call in kernel_calls(costs._converting(quantized), X86)}
    assert both == {(name, role) for name in params for role in ("quantize", "dequantize")}


def test_fidelity_looks_behind_the_pair_of_a_tensor():
    network, names = QuantizedNetwork.make(misnamed(), any_params), ["a", "a:dq", "outputs"]
    main = returning(network.mod, names)["main"]
    values = dict(dataflow.calls(main))
    *paired, last = dataflow.results(main)
    assert [dataflow.operator(values[var]) for var in paired] == ["dequantize"] * 2
    sources = [values[values[var].args[0]].args[0] for var in paired]
    assert [str(var.name) for var in (*sources, last)] == names
