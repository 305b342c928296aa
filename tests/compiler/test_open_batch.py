"""One artifact for a range of batches: equal to the oracle at its ends and in between."""

import numpy as np
import onnx
import pytest
import tvm
from tvm import relax
from tvm.target import Target

import relay_int8
from benchmarks import zoo
from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.open_batch import opened
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import ArtifactError, ConfigError, UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.batch import with_batch
from schedules.targets import TARGETS
from tests import reference
from tests.onnx_models import model
from tests.quantized_networks import QuantizedNetwork
from tests.sequence_networks import NETWORKS as SEQUENCES
from tests.small_networks import NETWORKS, NetworkWriter, any_params
from tests.x86_targets import FASTEST, case

MOST = 5


def run(machine: relax.VirtualMachine, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    results = machine["main"](*map(tvm.runtime.tensor, inputs.values()))
    tensors = [results] if isinstance(results, tvm.runtime.Tensor) else list(results)
    return [tensor.numpy() for tensor in tensors]


@pytest.mark.parametrize(
    ("target", "name"), [*((FASTEST, name) for name in NETWORKS), case("x86-avx2", "residual")]
)
def test_equals_oracle(target: str, name: str):
    network = QuantizedNetwork.make(NETWORKS[name](), any_params)
    machine = virtual_machine(compile_module(opened(network.mod, MOST), Target(TARGETS[target])))
    ((x, array),) = network.inputs.items()
    for batch in (1, 3, MOST):
        images = np.random.default_rng(batch).normal(size=(batch, *array.shape[1:]))
        inputs = {x: images.astype("float32")}
        found = run(machine, inputs)
        fixed = with_batch(network.mod, batch)
        expected = reference.run(fixed, inputs)
        for y, output in zip(reference.output_names(fixed, inputs), found, strict=True):
            np.testing.assert_array_equal(output, expected[y])


def test_dense_layers_on_tokens():
    """Rows of a dense layer are those of all sentences."""
    rng = np.random.default_rng(0)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "w"], ["a"]),
        onnx.helper.make_node("Relu", ["a"], ["r"]),
        onnx.helper.make_node("MatMul", ["r", "w"], ["y"]),
    ]
    weights = {"w": rng.normal(size=(8, 8)).astype("float32")}
    proto = model(nodes, {"x": (1, 5, 8)}, {"y": None}, weights)
    network = QuantizedNetwork.make(normalize()(import_onnx(proto)))
    machine = virtual_machine(compile_module(opened(network.mod, MOST), Target(TARGETS[FASTEST])))
    inputs = {"x": rng.normal(size=(3, 5, 8)).astype("float32")}
    fixed = with_batch(network.mod, 3)
    (y,) = reference.output_names(fixed, inputs)
    np.testing.assert_array_equal(run(machine, inputs)[0], reference.run(fixed, inputs)[y])


def test_artifact(tmp_path):
    onnx.save(zoo.build("resnet18", image_size=32, depth="cut", batch="N"), tmp_path / "m.onnx")
    images = np.random.default_rng(0).normal(size=(MOST, 3, 32, 32)).astype("float32")
    file = tmp_path / "m.ri8"
    report = relay_int8.compile_model(
        tmp_path / "m.onnx",
        [images[:1], images[1:2]],
        file,
        samples=0,
        options=relay_int8.BuildOptions(target="x86", max_batch=MOST),
    )
    module = relay_int8.load(file)
    assert module.manifest.max_batch == MOST and module.manifest.inputs[0].shape[0] == -1
    (whole,) = module.run(images).values()
    one_by_one = [next(iter(module.run(image[None]).values())) for image in images]
    np.testing.assert_array_equal(whole, np.concatenate(one_by_one))
    assert report.machine["batch"] == 1
    with pytest.raises(ArtifactError, match="batch 6 given, 1 to 5 expected"):
        module.run(np.zeros((6, 3, 32, 32), "float32"))
    with pytest.raises(ArtifactError, match="batch 0 given"):
        module.run(np.zeros((0, 3, 32, 32), "float32"))


def test_sequences_and_a_float_end():
    """What follows the last kernel, a softmax, has the batch of the network too."""
    mod = normalize()(import_onnx(SEQUENCES["tc_resnet"]()))
    network = QuantizedNetwork.make(mod)
    machine = virtual_machine(compile_module(opened(network.mod, MOST), Target(TARGETS[FASTEST])))
    x = np.random.default_rng(0).normal(size=(3, 40, 49)).astype("float32")
    fixed = with_batch(network.mod, 3)
    (y,) = reference.output_names(fixed, {"x": x})
    (found,) = run(machine, {"x": x})
    wanted = reference.run(fixed, {"x": x})[y]
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.fast
def test_two_batches_contradict(tmp_path):
    onnx.save(zoo.build("resnet18", image_size=32, depth="cut", batch="N"), tmp_path / "m.onnx")
    with pytest.raises(ConfigError, match="both asked for"):
        relay_int8.compile_model(
            tmp_path / "m.onnx",
            None,
            tmp_path / "m.ri8",
            imports=relay_int8.ImportOptions(batch=2),
            options=relay_int8.BuildOptions(max_batch=MOST),
        )


@pytest.mark.fast
def test_other_integers_are_refused():
    """Attention in windows of which each has heads is no kernel where the batch is open."""
    rng = np.random.default_rng(0)
    node = onnx.helper.make_node
    nodes = [
        node("MatMul", ["x", "w"], ["qkv"]),
        node("Reshape", ["qkv", "cut"], ["parts"]),
        node("Transpose", ["parts"], ["turned"], perm=[3, 0, 1, 4, 2, 5]),
        *[node("Gather", ["turned", f"{i}"], [name], axis=0) for i, name in enumerate("qkv")],
        node("Transpose", ["k"], ["k_turned"], perm=[0, 1, 2, 4, 3]),
        node("MatMul", ["q", "k_turned"], ["scores"]),
        node("Softmax", ["scores"], ["shares"], axis=-1),
        node("MatMul", ["shares", "v"], ["rows"]),
        node("Transpose", ["rows"], ["back"], perm=[0, 1, 3, 2, 4]),
        node("Reshape", ["back", "tokens"], ["y"]),
        node("MatMul", ["y", "u"], ["z"]),
    ]
    constants = {str(i): np.array(i) for i in range(3)} | {
        "w": rng.normal(size=(8, 24)).astype("float32"),
        "u": rng.normal(size=(8, 8)).astype("float32"),
        "cut": np.array([1, 4, 6, 3, 2, 4]),
        "tokens": np.array([1, 4, 6, 8]),
    }
    proto = model(nodes, {"x": (1, 4, 6, 8)}, {"z": None}, constants)
    network = QuantizedNetwork.make(normalize()(import_onnx(proto)))
    with pytest.raises(UnsupportedOpError, match=r"\(1 of attention\).*for a fixed batch"):
        opened(network.mod, MOST)


def test_a_shape_that_fixes_the_batch_is_named():
    net = NetworkWriter((1, 4, 2, 3))
    rows = net.emit("rows", relax.op.reshape(net.conv("a", net.x, 4, 1), (2, 2, 6)))
    turned = net.emit("turned", relax.op.permute_dims(rows, (1, 0, 2)))
    mod = net.module(net.conv("y", net.emit("back", relax.op.reshape(turned, (1, 4, 2, 3))), 4, 1))
    with pytest.raises(UnsupportedOpError, match=r"back \(reshape\).*does not follow the batch"):
        with_batch(mod, 3)
