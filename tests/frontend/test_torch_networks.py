"""Imported PyTorch programs: equal to PyTorch's results in float, to the oracle's in integers."""

import numpy as np
import pytest
from tvm.target import Target

import relay_int8
from relay_int8.compiler.build import compile_module
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import ConfigError, FrontendError
from relay_int8.frontend.torch import import_torch
from relay_int8.frontend.torch.file import read_archive
from relay_int8.frontend.torch.program import read_program
from relay_int8.graph import dataflow
from relay_int8.notices import Notice
from relay_int8.quantization.adopt import adopt
from schedules.targets import TARGETS
from tests import reference
from tests.adopted_networks import with_oracle
from tests.frontend.torch_programs import program
from tests.mxnet_models import run_fast, run_lowered
from tests.onnx_models import assert_close
from tests.quantized_networks import (
    QuantizedNetwork,
    assert_equals_oracle,
    assert_found_equals_oracle,
)
from tests.run_built import run_built

FLOATS = ("residual", "mobile_v2_core", "mobile_v3", "deformed", "spoken")
QUANTIZED = ("mobile_v3_s8", "residual_tensor", "residual_u8")


@pytest.mark.parametrize("name", FLOATS)
def test_float(tmp_path, name):
    file, x, expected = program(tmp_path, name)
    run = run_lowered if name == "deformed" else run_fast
    assert_close(run(import_torch(file, batch=len(x)), x), [expected])


@pytest.mark.slow
@pytest.mark.parametrize("name", FLOATS)
def test_integers(tmp_path, name, full):
    if not full and name not in ("mobile_v3", "deformed", "spoken"):
        pytest.skip("needs --full")
    file, x, _ = program(tmp_path, name)
    network = QuantizedNetwork.make(normalize()(import_torch(file, batch=len(x))))
    layers = [layer for layer in network.plan.layers if layer.macs]
    assert [layer.name for layer in layers if not layer.integer] == []
    assert len(layers) >= (6 if name in ("deformed", "spoken") else 7)
    assert_equals_oracle(network, Target(TARGETS["x86"]))


@pytest.mark.slow
@pytest.mark.parametrize("name", QUANTIZED)
def test_quantized_by_pt2e(tmp_path, name, full):
    if not full and name == "mobile_v3_s8":
        pytest.skip("needs --full")
    file, x, expected = program(tmp_path, name)
    adopted = adopt(import_torch(file, batch=len(x)))
    products = [layer for layer in adopted.plan.layers if layer.macs]
    assert [layer.name for layer in products if not layer.integer] == []
    assert len(products) >= 7
    inputs = {str(adopted.mod["main"].params[0].name): x}
    network = with_oracle(adopted, inputs)
    found = run_built(compile_module(adopted.mod, Target(TARGETS["x86"])), inputs)
    assert_found_equals_oracle(network, found)
    apart = np.abs(found["outputs:0"] - expected).max()
    assert apart <= 1.001 * scales(adopted.mod)[-1]


def scales(mod) -> list[float]:
    """Return the scales of activations, in order."""
    found = [
        dataflow.constant(value.args[1])
        for _, value in dataflow.calls(mod["main"])
        if dataflow.operator(value) == "quantize"
    ]
    return [float(scale.reshape(())) for scale in found if scale is not None and scale.size == 1]


def test_scales_are_those_of_the_file(tmp_path):
    """The first and the last quantize of the program as the file has them."""
    file, _, _ = program(tmp_path, "residual_u8")
    given = [
        node.arguments["scale"]
        for node in read_program(read_archive(file)).nodes
        if node.operator == "quantized_decomposed.quantize_per_tensor"
    ]
    mod = import_torch(file, batch=2)
    assert scales(mod) == [float(np.float32(scale)) for scale in given]
    assert len(given) > 6


@pytest.mark.fast
def test_an_open_batch_is_one_with_a_notice(tmp_path):
    file, x, _ = program(tmp_path, "residual")
    with pytest.warns(Notice, match=r"leaves its batch open \(.*\); batch 1 is taken"):
        mod = import_torch(file)
    assert dataflow.shape(mod["main"].params[0]) == (1, *x.shape[1:])
    with pytest.raises(FrontendError, match="at least 1"):
        import_torch(file, batch=0)
    with pytest.raises(
        ConfigError, match=r"\{'y': \(1, 3\)\}\): the model has no such input; it has inp"
    ):
        import_torch(file, inputs={"y": (1, 3)})
    by_shape = import_torch(file, inputs={"input": (3, *x.shape[1:])})
    assert dataflow.shape(dataflow.results(by_shape["main"])[0]) == (3, 10)
    for batch in (1, 5):
        mod = relay_int8.load_model(file, relay_int8.ImportOptions(batch=batch)).module
        assert dataflow.shape(mod["main"].params[0]) == (batch, *x.shape[1:])
        assert dataflow.shape(dataflow.results(mod["main"])[0]) == (batch, 10)


@pytest.mark.fast
def test_shapes_written_for_a_batch_are_refused(tmp_path):
    file, _, _ = program(tmp_path, "mobile_v2_core")
    assert dataflow.shape(import_torch(file)["main"].params[0])[0] == 2
    with pytest.raises(FrontendError, match="with batch 3"):
        import_torch(file, batch=3)


@pytest.mark.fast
def test_variables_have_the_names_of_modules(tmp_path):
    file, _, _ = program(tmp_path, "residual")
    names = {str(var.name) for var, _ in dataflow.calls(import_torch(file, batch=1)["main"])}
    assert {"0", "1/batch_norm", "4.body.0", "5.shortcut.0", "8"} <= names


def test_compiles_without_data(tmp_path):
    file, x, _ = program(tmp_path, "residual_u8")
    report = relay_int8.compile_model(
        file,
        None,
        tmp_path / "net.ri8",
        imports=relay_int8.ImportOptions(batch=2),
        options=relay_int8.BuildOptions(target="x86"),
    )
    assert report.settings["scales"] == "of the model"
    adopted = adopt(import_torch(file, batch=2))
    name = str(adopted.mod["main"].params[0].name)
    expected = reference.run(adopted.mod, {name: x})
    (found,) = relay_int8.load(tmp_path / "net.ri8").run(x).values()
    last = str(dataflow.results(adopted.mod["main"])[0].name)
    np.testing.assert_array_equal(found, expected[last])
