"""The same network for another batch: every image comes out as it does alone, or it is refused."""

import numpy as np
import pytest
import tvm
from tvm import relax
from tvm.target import Target

from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import UnsupportedOpError
from relay_int8.graph import dataflow
from relay_int8.graph.batch import with_batch, with_open_batch
from schedules.targets import TARGETS
from tests.attention_networks import NETWORKS, behind_tokens, packed_norms
from tests.onnx_models import run_relax
from tests.quantized_networks import QuantizedNetwork
from tests.small_networks import NetworkWriter
from tests.x86_targets import FASTEST

R = relax.op
TARGET = Target(TARGETS[FASTEST])
IMAGES = 3


def of(*steps, dims=(1, 4, 6)) -> tvm.IRModule:
    net = NetworkWriter(dims)
    y = net.x
    for place, step in enumerate(steps):
        y = net.emit(f"step{place}", step(y))
    return net.module(y)


def shapes(mod: tvm.IRModule) -> list[tuple[int, ...]]:
    return [dataflow.shape(var) for var, _ in dataflow.calls(mod["main"])]


@pytest.mark.fast
def test_heads_and_windows_hold_the_batch():
    mod = of(
        lambda x: R.reshape(x, (1, 4, 2, 3)),
        lambda x: R.permute_dims(x, (0, 2, 1, 3)),
        lambda x: R.reshape(x, (2, 4, 3)),
        lambda x: R.nn.softmax(x, axis=-1),
        lambda x: R.reshape(x, (1, 2, 4, 3)),
        lambda x: R.reshape(x, (8, 3)),
    )
    expected = [(5, 4, 2, 3), (5, 2, 4, 3), (10, 4, 3), (10, 4, 3), (5, 2, 4, 3), (40, 3)]
    assert shapes(with_batch(mod, 5)) == expected
    assert shapes(with_batch(with_batch(mod, 5), 1)) == shapes(mod)


@pytest.mark.fast
def test_the_batch_may_be_another_axis():
    """As torch's MultiheadAttention without batch_first has it: tokens, images, channels."""
    mod = of(
        lambda x: R.permute_dims(x, (1, 0, 2)),
        lambda x: R.reshape(x, (4, 2, 3)),
        lambda x: R.permute_dims(x, (1, 0, 2)),
    )
    assert shapes(with_batch(mod, 5)) == [(4, 5, 6), (4, 10, 3), (10, 4, 3)]


@pytest.mark.fast
def test_a_token_joins_every_image():
    token = relax.const(np.ones((1, 1, 6), "float32"))
    mod = of(lambda x: R.concat([token, x], axis=1))
    assert shapes(with_batch(mod, 5))[-1] == (5, 5, 6)


@pytest.mark.fast
@pytest.mark.parametrize("windows", [1, 2])
def test_a_constant_grid_samples_every_image(windows: int):
    """TVM infers the batch from the images alone, and reads beyond a grid that has fewer."""
    rng = np.random.default_rng(0)
    grid = relax.const(rng.uniform(-1, 1, (windows, 2, 3, 5)).astype("float32"))
    mod = of(
        lambda x: R.reshape(x, (windows, 2 // windows, 4, 6)),
        lambda x: R.image.grid_sample(x, grid, align_corners=True),
        dims=(1, 2, 4, 6),
    )
    images = rng.normal(size=(IMAGES, 2, 4, 6)).astype("float32")
    together = run_relax(with_batch(mod, IMAGES), images)[0]
    alone = [run_relax(mod, image[None])[0] for image in images]
    np.testing.assert_array_equal(together, np.concatenate(alone))


@pytest.mark.fast
def test_grids_that_differ_from_image_to_image_are_refused():
    grids = relax.const(np.arange(60, dtype="float32").reshape(2, 2, 3, 5) / 60)
    mod = of(lambda x: R.image.grid_sample(x, grids), dims=(2, 1, 4, 6))
    with pytest.raises(UnsupportedOpError, match="coordinates that differ from image to image"):
        with_batch(mod, 1)


@pytest.mark.fast
@pytest.mark.parametrize(
    "mixes",
    [
        lambda x: R.mean(x, axis=[0]),
        lambda x: R.nn.softmax(x, axis=0),
        lambda x: R.flip(x, axis=0),
        lambda x: R.cumsum(x, axis=0),
        lambda x: R.argmax(x, axis=0),
        lambda x: R.concat([x, x], axis=0),
        lambda x: R.strided_slice(x, [0], [0], [1]),
        lambda x: R.gather_nd(x, relax.const(np.array([[0, 1]]), "int64")),
        lambda x: R.sum(x),
    ],
)
@pytest.mark.parametrize("change", [with_batch, with_open_batch])
def test_what_mixes_images_is_refused(mixes, change):
    with pytest.raises(UnsupportedOpError, match=r"step0 .* does not follow the batch"):
        change(of(mixes), 5)


@pytest.mark.fast
def test_windows_over_another_axis_are_refused():
    """A pool over an axis that holds images would mix them: its extent still fits."""
    mod = of(
        lambda x: R.permute_dims(x, (1, 2, 0)),
        lambda x: R.reshape(x, (1, 4, 6, 1)),
        lambda x: R.nn.avg_pool2d(x, (1, 3), padding=(0, 1, 0, 1)),
    )
    with pytest.raises(UnsupportedOpError, match=r"does not follow the batch"):
        with_batch(mod, 5)


def run(mod: tvm.IRModule, images: np.ndarray) -> list[np.ndarray]:
    """Return the results with all that belongs to one image in a row."""
    results = virtual_machine(compile_module(mod, TARGET))["main"](tvm.runtime.tensor(images))
    results = [results] if isinstance(results, tvm.runtime.Tensor) else results
    return [result.numpy().reshape(len(images), -1) for result in results]


RNG = np.random.default_rng(5)
ROWS = relax.const(RNG.normal(size=(4, 1, 6)).astype("float32"))
CHANNELS = relax.const(RNG.normal(size=6).astype("float32"))
MATRIX = relax.const(RNG.normal(size=(6, 6)).astype("float32"))
ONES = relax.const(np.ones((3, 3), "float32"))
QDQ = [relax.const(np.float32(0.03)), relax.const(np.int8(3))]
BEHIND_TOKENS = {
    "constants": [lambda x: R.add(ROWS, x), lambda x: R.maximum(x, CHANNELS), R.exp],
    "softmax": [lambda x: R.nn.softmax(x, axis=0)],
    "norm": [lambda x: R.nn.layer_norm(x, CHANNELS, CHANNELS, [-1])],
    "rms_norm": [lambda x: R.nn.rms_norm(x, CHANNELS, [2])],
    "part": [lambda x: R.strided_slice(x, [0, 2], [1, 0], [4, 6], [2, 3])],
    "mean": [lambda x: R.mean(x, axis=[0], keepdims=True)],
    "token": [lambda x: R.concat([ROWS, x], axis=0)],
    "dense": [lambda x: R.matmul(x, MATRIX)],
    "pair": [lambda x: R.quantize(x, *QDQ), lambda x: R.dequantize(x, *QDQ)],
    "heads": [
        lambda x: R.reshape(x, (4, 2 * x.ty.shape[1], 3)),
        lambda x: R.nn.softmax(x, axis=0),
        lambda x: R.reshape(x, (2, 2, -1, 3)),
        lambda x: R.matmul(x, ONES),
        lambda x: R.multiply(x, x),
        lambda x: R.reshape(x, (4, x.ty.shape[2] // 2, -1)),
    ],
}


FOUR_ROWS = relax.const(RNG.normal(size=(4, 6)).astype("float32"))
WITHOUT_A_BATCH = {
    # As exporters write tokens behind images for a dense layer: of rows of both.
    "rows": [
        lambda x: R.permute_dims(x, (1, 0, 2)),
        lambda x: R.reshape(x, (4, 6)),
        lambda x: R.matmul(x, MATRIX),
        lambda x: R.reshape(x, (4, 1, 6)),
        lambda x: R.permute_dims(x, (1, 0, 2)),
    ],
    # Slots that begin alike for all images, as a tensor of all of them.
    "slots": [lambda x: R.reshape(x, (4, 6)), lambda x: R.add(x, FOUR_ROWS)],
    # Modes of a Fourier neural operator, the image being a row in between.
    "modes": [
        lambda x: R.reshape(x, (1, 24, 1, 1)),
        lambda x: R.reshape(x, (2, 2, 1, 6)),
        lambda x: R.permute_dims(x, (2, 3, 0, 1)),
        lambda x: R.nn.softmax(x, 2),
    ],
    # Predictions of two branches on top of each other, as CrossViT averages them.
    "stack": [
        lambda x: R.mean(x, [1]),
        lambda x: R.reshape(x, (1, 1, 6)),
        lambda x: R.concat([x, CHANNELS_OF_ONE], axis=0),
        lambda x: R.mean(x, [0]),
    ],
}
CHANNELS_OF_ONE = relax.const(RNG.normal(size=(1, 1, 6)).astype("float32"))


def opened_as_alone(mod: tvm.IRModule) -> None:
    """Assert that the batch is always the first axis, and what images of a batch become."""
    opened = with_open_batch(mod, IMAGES)
    assert not any(isinstance(shape[0], int) for shape in shapes(opened))
    images = np.random.default_rng(0).normal(size=(IMAGES, 4, 6)).astype("float32")
    alone = [run_relax(with_batch(mod, 1), image[None])[0] for image in images]
    expected = np.concatenate(alone).reshape(IMAGES, -1)
    np.testing.assert_allclose(run(opened, images)[0], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "batch"), [*((name, 1) for name in BEHIND_TOKENS), ("heads", 2), ("norm", 2)]
)
def test_the_batch_becomes_the_first_axis(name: str, batch: int):
    turn = [lambda x: R.permute_dims(x, (1, 0, 2))]
    opened_as_alone(of(*turn, *BEHIND_TOKENS[name], *turn, dims=(batch, 4, 6)))


@pytest.mark.parametrize("name", WITHOUT_A_BATCH)
def test_images_in_no_axis_of_their_own(name: str):
    mod = of(*WITHOUT_A_BATCH[name])
    with pytest.raises(UnsupportedOpError, match="does not follow the batch"):
        with_batch(mod, IMAGES)
    opened_as_alone(mod)


@pytest.mark.parametrize("make", [packed_norms, behind_tokens])
def test_integers_of_an_open_batch(make):
    """Packed queries and keys with a norm, as XCiT has them; images behind tokens, as in DETR."""
    network = QuantizedNetwork.make(normalize()(make()))
    ((_, image),) = network.inputs.items()
    images = RNG.normal(size=(IMAGES, *image.shape[1:])).astype("float32")
    together = run(with_open_batch(network.mod, IMAGES), images)
    for place, picture in enumerate(images):
        for found, wanted in zip(together, run(network.mod, picture[None]), strict=True):
            np.testing.assert_array_equal(found[place], wanted[0])


@pytest.mark.parametrize("name", [name for name in NETWORKS if name != "causal"])
def test_attention_of_several_images(name):
    network = QuantizedNetwork.make(normalize()(NETWORKS[name]()))
    ((_, image),) = network.inputs.items()
    rng = np.random.default_rng(0)
    images = rng.normal(size=(IMAGES, *image.shape[1:])).astype("float32")
    machine = virtual_machine(compile_module(network.mod, TARGET))["main"]
    alone = [[y.numpy().ravel() for y in machine(tvm.runtime.tensor(x[None]))] for x in images]
    expected = [np.stack(rows) for rows in zip(*alone, strict=True)]
    changes = [with_batch(network.mod, IMAGES), with_open_batch(network.mod, IMAGES + 1)]
    for changed in changes:
        for found, wanted in zip(run(changed, images), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@pytest.mark.fast
def test_heads_without_a_batch_are_refused():
    """Tokens that were taken out of their batch of one: nothing says where another would go."""
    mod = normalize()(NETWORKS["causal"]())
    with pytest.raises(UnsupportedOpError, match=r"s \(matmul\).*does not follow the batch"):
        with_batch(mod, IMAGES)
