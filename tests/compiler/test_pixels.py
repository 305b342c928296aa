"""Raw pixels in: the same bits as pictures that were prepared outside."""

import numpy as np
import onnx
import pytest
from onnx import helper
from PIL import Image
from tvm.target import Target

import relay_int8
from relay_int8.compiler.build import compile_module
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.errors import ConfigError
from relay_int8.graph.pixels import Pixels, with_pixels
from schedules.targets import TARGETS
from tests.cuda.run_network import EmulatedNetwork
from tests.cuda.run_template import SM_61
from tests.onnx_models import model
from tests.quantized_networks import QuantizedNetwork
from tests.run_built import run_built
from tests.small_networks import NETWORKS, any_params
from tests.x86_targets import FASTEST

RECIPE = Preprocessing(
    scale=1 / 255, mean=(0.485, 0.456, 0.406), deviation=(0.229, 0.224, 0.225), channels="BGR"
)


def pictures(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(2).integers(0, 256, shape).astype("uint8")


def prepared(pixels: np.ndarray) -> np.ndarray:
    """Return NHWC pixels as the float network wants them."""
    x = RECIPE.normalized(pixels.astype("float32")).transpose(0, 3, 1, 2)
    return np.ascontiguousarray(x)


@pytest.fixture(scope="module", params=["residual", "depthwise", "moves"])
def network(request) -> QuantizedNetwork:
    return QuantizedNetwork.make(NETWORKS[request.param](), any_params)


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("target", [FASTEST, "x86"])
def test_equals_prepared_pictures(network: QuantizedNetwork, target: str, layout: str, full: bool):
    if not full and target != FASTEST:
        pytest.skip("needs --full: one target shows how pixels are prepared")
    where = Target(TARGETS[target])
    ((name, x),) = network.inputs.items()
    n, c, h, w = x.shape
    raw = pictures((n, h, w, c))
    fed = raw if layout == "NHWC" else np.ascontiguousarray(raw.transpose(0, 3, 1, 2))
    opened = with_pixels(network.mod, Pixels(preprocessing=RECIPE, layout=layout))
    found = run_built(compile_module(opened, where), {name: fed})
    expected = run_built(compile_module(network.mod, where), {name: prepared(raw)})
    assert set(found) == set(expected)
    for tensor, array in expected.items():
        np.testing.assert_array_equal(found[tensor], array, err_msg=tensor)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_equals_prepared_pictures_on_a_gpu(layout: str):
    network = QuantizedNetwork.make(NETWORKS["residual"](), any_params)
    ((name, x),) = network.inputs.items()
    n, c, h, w = x.shape
    raw = pictures((n, h, w, c))
    fed = raw if layout == "NHWC" else np.ascontiguousarray(raw.transpose(0, 3, 1, 2))
    opened = with_pixels(network.mod, Pixels(preprocessing=RECIPE, layout=layout))
    found = EmulatedNetwork(opened, SM_61).run({name: fed})
    where = Target(TARGETS["x86"])
    expected = run_built(compile_module(network.mod, where), {name: prepared(raw)})
    np.testing.assert_array_equal(found["outputs:0"], expected["outputs:0"])


def convolution() -> onnx.ModelProto:
    weights = {"w": np.random.default_rng(3).normal(size=(16, 3, 3, 3)).astype("float32")}
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2])
    return model([node], {"x": (1, 3, 32, 32)}, {"y": (1, 16, 16, 16)}, weights)


def test_artifact(tmp_path):
    onnx.save(convolution(), tmp_path / "m.onnx")
    folder = tmp_path / "pictures"
    folder.mkdir()
    for place, picture in enumerate(pictures((3, 32, 32, 3))):
        Image.fromarray(picture).save(folder / f"{place}.png")
    modules = {}
    for layout in (None, "NHWC"):
        file = tmp_path / f"{layout}.ri8"
        relay_int8.compile_model(
            tmp_path / "m.onnx",
            folder,
            file,
            preprocessing=RECIPE,
            samples=0,
            options=relay_int8.BuildOptions(target="x86", pixels=layout),
        )
        modules[layout] = relay_int8.load(file)
    (info,) = modules["NHWC"].manifest.inputs
    assert (info.shape, info.dtype) == ((1, 32, 32, 3), "uint8")
    with Image.open(folder / "1.png") as picture:
        left = Preprocessing.from_dict(modules["NHWC"].manifest.preprocessing)(picture)
        whole = RECIPE(picture)
    (found,), (expected,) = (
        modules["NHWC"].run(left).values(),
        modules[None].run(whole).values(),
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.fast
def test_what_cannot_be():
    mod = NETWORKS["residual"]()
    grey = Preprocessing(channels="L")
    with pytest.raises(ConfigError, match=r"an input of \(n, 1, height, width\)"):
        with_pixels(mod, Pixels(preprocessing=grey))
    opened = with_pixels(mod, Pixels(preprocessing=RECIPE))
    with pytest.raises(ConfigError, match="read in float too"):
        compile_module(opened, Target(TARGETS["x86"]))
