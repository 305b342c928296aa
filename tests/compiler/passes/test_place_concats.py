"""PlaceConcats: kernels write into the concatenation that their results are joined in."""

from collections.abc import Callable

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import IRModule, relax

from relay_int8.compiler.passes.lower.place_concats import PlaceConcats, at_any_offset
from relay_int8.compiler.pipeline import lower, virtual_machine_passes
from relay_int8.graph import dataflow
from relay_int8.graph.dataflow import FunctionWriter
from relay_int8.graph.spec_calls import kernel_call
from relay_int8.tuning.problem import problem
from schedules.spec import Concat, Conv2d, Rescale
from schedules.targets import native_target
from tests.tuning.test_problem import SPECS, kernel

pytestmark = pytest.mark.fast


class Calls:
    """Writes kernel calls of floats one after the other."""

    def __init__(self, *dims: int) -> None:
        self.writer = FunctionWriter()
        self.x = relax.Var("x", relax.TensorType(dims, "float32"))

    def bound(self, name: str, x: relax.Var, high: float = 1) -> relax.Var:
        spec = Rescale(dims=dataflow.shape(x), x="float32", y="float32")
        return self.writer.emit(
            name, kernel_call(spec, [x], {"clamp": np.array([-1, high], "float32")})
        )

    def joined(self, name: str, *parts: relax.Var, axis: int = 1) -> relax.Var:
        spec = Concat(shapes=tuple(map(dataflow.shape, parts)), axis=axis, x="float32")
        return self.writer.emit(name, kernel_call(spec, list(parts), {}))

    def module(self, *outputs: relax.Var) -> IRModule:
        return self.writer.finish([self.x], outputs)


def placed(mod: IRModule) -> tuple[IRModule, IRModule]:
    """Return a lowered module ahead of the pass, and behind it."""
    target = native_target()
    with target:
        before = lower(target)(mod)
        for step in virtual_machine_passes():
            if step.info.name == "PlaceConcats":
                return before, PlaceConcats()(before)
            before = step(before)
    raise AssertionError("the pass is not in the pipeline")


def run(mod: IRModule, x: np.ndarray) -> list[np.ndarray]:
    """Compile what :func:`placed` returned and run it."""
    passes = virtual_machine_passes()
    names = [step.info.name for step in passes]
    rest = tvm.transform.Sequential(passes[names.index("PlaceConcats") + 1 :])
    with native_target():
        executable = tvm.compile(rest(mod), target=native_target(), relax_pipeline=None)
    results = relax.VirtualMachine(executable, tvm.cpu())["main"](tvm.runtime.tensor(x))
    single = isinstance(results, tvm.runtime.Tensor)
    return [result.numpy() for result in ([results] if single else results)]


def concats(mod: IRModule) -> int:
    """Return how many concats are called."""
    values = [item.value for block in mod["main"].body.blocks for item in block.bindings]
    calls = [value for value in values if isinstance(value, relax.Call)]
    kernels = [str(call.op.name_hint) for call in calls if isinstance(call.op, tvm.ir.GlobalVar)]
    return sum(name.startswith("concat_cpu") for name in kernels)


def offsets(mod: IRModule) -> list[int]:
    """Return where the tensors that lie in a concat begin, in bytes."""
    values = [item.value for block in mod["main"].body.blocks for item in block.bindings]
    return [
        int(value.args[1].value)
        for value in values
        if dataflow.operator(value) == "memory.alloc_tensor"
    ]


def assert_same(mod: IRModule, left: int, seed: int = 0) -> IRModule:
    """Compare results with and without the pass; ``left`` concats are still called."""
    before, after = placed(mod)
    unchanged = tvm_ffi.structural_hash(before)
    dims = dataflow.shape(mod["main"].params[0])
    x = np.random.default_rng(seed).normal(size=dims).astype("float32")
    for a, b in zip(run(before, x), run(after, x), strict=True):
        assert (a == b).all()
    assert concats(after) == left
    assert tvm_ffi.structural_hash(before) == unchanged
    return after


def test_inputs_are_written_into_the_concat():
    net = Calls(1, 5, 3, 7)
    a, b = net.bound("a", net.x), net.bound("b", net.x, 0.5)
    c = net.joined("c", a, b, net.bound("b2", b, 0.25))
    after = assert_same(net.module(net.bound("d", c), net.bound("e", b, 0.1)), left=0)
    part = 5 * 3 * 7 * 4  # bytes: no multiple of a vector
    assert offsets(after) == [0, part, 2 * part, 0]
    names = [str(name.name_hint) for name in after.get_global_vars()]
    assert not any(name.startswith("concat") for name in names)


def test_a_dense_block_is_one_memory():
    net = Calls(1, 16, 4, 4)
    parts = [net.bound("a", net.x)]
    outputs = []
    for layer in range(3):
        parts.append(net.bound(f"b{layer}", parts[-1], 0.5 / (layer + 1)))
        outputs.append(net.bound(f"read{layer}", net.joined(f"c{layer}", *parts), 0.3))
    after = assert_same(net.module(*outputs), left=0)
    storages = [
        item.value
        for item in after["main"].body.blocks[0].bindings
        if dataflow.operator(item.value) == "memory.alloc_storage"
    ]
    assert len(storages) == 1
    part = 16 * 4 * 4 * 4
    assert offsets(after) == [0, part, 0, 2 * part, 0, 3 * part, 0]


def test_a_concat_within_a_concat():
    net = Calls(1, 16, 4, 4)
    a, b = net.bound("a", net.x), net.bound("b", net.x, 0.5)
    inner = net.joined("inner", a, b)
    outer = net.joined("outer", net.bound("c", inner, 0.2), inner)
    part = 16 * 4 * 4 * 4
    after = assert_same(net.module(net.bound("d", outer), net.bound("e", a)), left=0)
    assert offsets(after) == [2 * part, 3 * part, 2 * part, 0, 0]


def test_packed_layouts_from_convolutions():
    """Blocks of 16 channels; an offset into them reaches kernels that convolutions have."""
    net = Calls(1, 16, 7, 7)
    rng = np.random.default_rng(3)

    def conv(name: str, x: relax.Var, channels: int) -> relax.Var:
        spec = Conv2d(
            batch=1,
            in_channels=dataflow.shape(x)[1],
            height=7,
            width=7,
            out_channels=channels,
            kernel=(3, 3),
            strides=(1, 1),
            dilation=(1, 1),
            padding=(1, 1, 1, 1),
            x="float32",
            y="float32",
        )
        w = rng.normal(size=(channels, spec.in_channels, 3, 3)).astype("float32")
        bias = rng.normal(size=channels).astype("float32")
        params = {"w": w, "bias": bias, "clamp": np.array([-9, 9], "float32")}
        return net.writer.emit(name, kernel_call(spec, [x], params))

    a = conv("a", net.x, 16)
    b = conv("b", a, 32)
    c = conv("c", net.joined("ab", a, b), 16)
    d = conv("d", net.joined("abc", a, b, c), 8)
    assert_same(net.module(d, conv("e", b, 4)), left=0)


def twice(net: Calls) -> IRModule:
    a = net.bound("a", net.x)
    return net.module(net.bound("c", net.joined("b", a, a)))


def an_input(net: Calls) -> IRModule:
    return net.module(net.bound("c", net.joined("b", net.x, net.bound("a", net.x))))


def a_result(net: Calls) -> IRModule:
    a = net.bound("a", net.x)
    return net.module(net.bound("c", net.joined("b", a, net.bound("a2", a))), a)


def is_a_result(net: Calls) -> IRModule:
    a = net.bound("a", net.x)
    return net.module(net.joined("b", a, net.bound("a2", a)), net.bound("a3", a))


def in_two(net: Calls) -> IRModule:
    """``b`` can begin one of the two alone."""
    a, b, c = (
        net.bound(name, net.x, high) for name, high in zip("abc", (1, 0.5, 0.2), strict=True)
    )
    first = net.bound("d", net.joined("ab", a, b))
    return net.module(first, net.bound("e", net.joined("bc", b, c)))


def across_rows(net: Calls) -> IRModule:
    a = net.bound("a", net.x)
    return net.module(net.bound("c", net.joined("b", a, net.bound("a2", a), axis=2)))


@pytest.mark.parametrize("network", [twice, an_input, a_result, is_a_result, in_two, across_rows])
def test_what_cannot_lie_in_it_is_copied(network: Callable[[Calls], IRModule]):
    assert_same(network(Calls(1, 16, 4, 4)), left=1)


def test_several_images_are_copied():
    net = Calls(2, 16, 4, 4)
    a = net.bound("a", net.x)
    assert_same(net.module(net.bound("c", net.joined("b", a, net.bound("a2", a)))), left=1)


@pytest.mark.parametrize("name", SPECS)
def test_kernels_of_every_kind_run_at_any_offset(name: str):
    """Every argument begins behind an odd number of elements of its memory."""
    found = kernel(name)
    posed = problem(found)
    func = found.function(found.default())
    func = at_any_offset(func, range(len(func.params)))
    library = tvm.compile(IRModule({"main": func}), target=found.target)
    arguments = [behind(array, 1 + 2 * place) for place, array in enumerate(posed.arguments)]
    y = behind(posed.canary, 3)
    library["main"](*arguments, y)
    assert posed.fault(y.numpy()) is None


def behind(array: np.ndarray, count: int) -> tvm.runtime.Tensor:
    """Return a tensor that begins behind ``count`` elements of its memory."""
    memory = np.concatenate([np.zeros(count, array.dtype), array.ravel()])
    view = tvm.get_global_func("runtime.TVMTensorCreateView")
    begin = count * array.dtype.itemsize
    dtype = tvm.DataType(str(array.dtype))
    return view(tvm.runtime.tensor(memory), array.shape, dtype, begin)


def test_modules_without_concats_are_the_same():
    net = Calls(1, 16, 4, 4)
    before, after = placed(net.module(net.bound("a", net.x)))
    assert after.same_as(before)
