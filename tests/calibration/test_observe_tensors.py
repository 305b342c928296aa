"""ObserveTensors: the network of statistics, as NumPy computes them."""

import numpy as np
import pytest
import tvm
from tvm import relax

from relay_int8.calibration.methods import find_method
from relay_int8.calibration.observe_tensors import ObserveTensors
from relay_int8.compiler.passes.lower.lower_float import LowerFloat
from relay_int8.graph import dataflow
from relay_int8.graph.layers import LAST_AXIS
from relay_int8.graph.spec_calls import operands, spec_of
from schedules.reference.kernels import reference
from schedules.spec import MAGNITUDE, SIGNED
from tests.calibration.array_runner import channel_means
from tests.small_networks import NetworkWriter, nn

pytestmark = pytest.mark.fast
RNG = np.random.default_rng(0)
KL = find_method("kl-tensorrt")


def pooled_network(batch: int = 1):
    net = NetworkWriter((batch, 3, 5, 4))
    p = net.emit("p", nn.max_pool2d(net.x, (2, 2)))
    return net.module(net.emit("y", nn.avg_pool2d(p, (4, 3))))


def run(mod: tvm.IRModule, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return every tensor of a network of kernel calls and moves."""
    arrays = dict(inputs)
    for var, value in dataflow.calls(mod["main"]):
        spec = spec_of(value)
        if spec is None:
            x = arrays[value.args[0].name]
            if dataflow.operator(value) == "permute_dims":
                axes = value.attrs.axes
                x = x.transpose(None if axes is None else [int(axis) for axis in axes])
            else:
                assert dataflow.operator(value) == "reshape"
            arrays[var.name] = x.reshape(dataflow.shape(var))
            continue
        tensors, params = operands(value, spec)
        read = {name: arrays[x.name] for name, x in zip(spec.tensors, tensors, strict=True)}
        params = {n: arrays[p.name] if isinstance(p, relax.Var) else p for n, p in params.items()}
        arrays[var.name] = reference(spec, read, params)
    return arrays


def test_the_statistics_replace_the_result():
    mod = pooled_network()
    original = mod.clone()
    after = ObserveTensors({"x": "input", "p": "asymmetric"}, ["p"], KL)(mod)
    tvm.ir.assert_structural_equal(mod, original)
    relax.analysis.well_formed(after)
    main = after["main"]
    assert [param.name for param in main.params] == [
        *("x", "x:low", "x:inverse", "p:low", "p:inverse"),
    ]
    assert [var.name for var in dataflow.results(main)] == [
        *("x:range", "p:range", "x:histogram", "p:histogram", "p:means"),
    ]
    specs = {var.name: spec_of(value) for var, value in dataflow.calls(main)}
    assert {specs[f"{name}:histogram"].bins for name in "xp"} == {KL.bins}
    # An input is not yet known to be signed: it is counted as a signed tensor is.
    masks = {
        name: int(operands(value, specs[name])[1]["mask"][0])
        for name, value in ((str(var.name), value) for var, value in dataflow.calls(main))
        if name.endswith(":histogram")
    }
    wanted = {"x": KL.absolute("s8"), "p": KL.absolute("asymmetric")}
    assert masks == {
        f"{name}:histogram": MAGNITUDE if absolute else SIGNED for name, absolute in wanted.items()
    }


def test_without_a_method_histograms_have_the_bins_of_max():
    after = ObserveTensors({"x": "u8"})(pooled_network())
    spec = next(spec for _, v in dataflow.calls(after["main"]) if (spec := spec_of(v)))
    assert spec.statistic == "range"
    assert [var.name for var in dataflow.results(after["main"])] == ["x:range", "x:histogram"]
    assert dataflow.shape(dataflow.results(after["main"])[1]) == (find_method("max").bins,)


def test_numbers_are_those_of_numpy():
    observed = ObserveTensors({"x": "s8", "p": "s8"}, method=KL)(pooled_network())
    x = RNG.normal(size=(1, 3, 5, 4)).astype("float32")
    x[0, 1, 2, 3] = np.inf
    grid = {"x:low": 0.0, "x:inverse": 8.0, "p:low": 0.0, "p:inverse": 0.0}
    inputs = {name: np.array([value], "float32") for name, value in grid.items()} | {"x": x}
    found = run(LowerFloat()(observed), inputs)
    p = np.maximum.reduce([x[:, :, i : i + 4, j : j + 3] for i in (0, 1) for j in (0, 1)])
    for name, values in (("x", x), ("p", p)):
        finite = values[np.isfinite(values)]
        wanted = [finite.min(), finite.max(), values.size - finite.size]
        assert found[f"{name}:range"].tolist() == wanted
    bins = np.minimum((np.abs(x[np.isfinite(x)]) * 8).astype(int), KL.bins - 1)
    np.testing.assert_array_equal(found["x:histogram"], np.bincount(bins, minlength=KL.bins))


def mean_network(dims, name: str):
    """Return the network of one statistic: the means ``name``."""
    net = NetworkWriter(dims)
    flat = relax.op.reshape(net.x, (int(np.prod(dims)),))
    return ObserveTensors({}, [name])(net.module(net.emit("y", flat)))


@pytest.mark.parametrize(
    ("dims", "last"),
    [
        ((1, 3, 5, 4), False),
        ((4, 3, 5, 2), False),  # an image that was cut into four
        ((1, 3, 5, 4), True),
        ((2, 7), False),
        ((1, 6, 5), False),
        ((1, 2, 3, 2, 5), False),
    ],
)
def test_means_are_those_of_the_channels(dims, last):
    name = f"x{LAST_AXIS}" if last else "x"
    after = mean_network(dims, name)
    (result,) = dataflow.results(after["main"])
    x = RNG.integers(-99, 100, dims).astype("float32")  # whole numbers: any order gives their sum
    found = run(after, {"x": x})[result.name]
    wanted = channel_means(x, last=last)
    assert dataflow.shape(result) == wanted.shape
    np.testing.assert_array_equal(found, wanted)


def test_a_network_without_integers_observes_nothing():
    net = NetworkWriter()
    before = net.module(net.conv("a", net.x, 4, 1))
    after = ObserveTensors({}, [], find_method("max"))(before)
    assert len(after["main"].ret_ty.fields) == 0
