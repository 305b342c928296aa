"""Transformers of the zoo: published sizes, valid models, sane scale, imported and quantized."""

from collections import Counter

import numpy as np
import onnx
import pytest

import relay_int8
from benchmarks import zoo
from benchmarks.subject import Subject
from benchmarks.zoo.attention import attend
from benchmarks.zoo.swin import _rolled
from benchmarks.zoo.tokens import TokenNetwork, Tokens
from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import ConfigError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.numerics.snr import snr_db
from relay_int8.quantization.annotate import annotate
from relay_int8.quantization.config import QuantConfig
from tests.onnx_models import assert_close, run_onnx, run_relax
from tests.zoo_transformers import DISTINCT, small_size

# Millions of parameters and of multiplications for one image, as published (torchvision's and
# DeiT's) or as Hugging Face's models have them without the pooler and the head of their tasks.
# Batch norms are folded in SegFormer and MobileViT, so that a bias is left of each.
PUBLISHED = {
    "vit_b_32": (88.224, 4409),
    "vit_s_16": (22.051, 4600),
    "swin_t": (28.288, 4491),
    "convnext_t": (28.589, 4456),
    "segformer_b0": (3.7190, None),
    "mobilevit_s": (5.5786, 2001),
    "bert_base": (108.892, None),
    "distilbert": (66.363, None),
    "distilbert_3": (45.099, None),
}
RUN_BY_DEFAULT = ("vit_b_32", "bert_base")
"""Those that are compiled without --full: an image through a packed attention, words and a mask."""


def small(name: str, batch: int = 1) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A network of two narrow blocks, and what it is run on."""
    size = small_size(name)
    proto = zoo.build(name, image_size=size, depth="cut", batch=batch, classes=10)
    return proto, Subject(network=name, image_size=size, depth="cut").inputs(batch)


@pytest.mark.fast
@pytest.mark.parametrize("name", zoo.TRANSFORMERS)
def test_published_cost(name):
    cost = zoo.cost(name)
    parameters, macs = PUBLISHED[name]
    assert cost.parameters / 1e6 == pytest.approx(parameters, rel=2e-3)
    assert macs is None or cost.macs / 1e6 == pytest.approx(macs, rel=1e-3)


@pytest.mark.fast
@pytest.mark.parametrize("name", zoo.TRANSFORMERS)
def test_cut_network_runs_at_sane_scale(name):
    proto, inputs = small(name, batch=2)
    onnx.checker.check_model(proto, full_check=True)
    (output,) = run_onnx(proto, *inputs.values())
    assert len(output) == 2
    assert np.isfinite(output).all()
    assert 0.2 < output.std() < 5
    assert np.abs(output[0] - output[1]).max() > 1e-3


@pytest.mark.parametrize("name", ["vit_s_16", "distilbert_3"])
def test_deep_network_neither_vanishes_nor_explodes(name):
    size = small_size(name)
    proto = zoo.build(name, image_size=size, seed=1)
    kinds = ("MatMul", "LayerNormalization", "Gemm")
    names = [node.output[0] for node in proto.graph.node if node.op_type in kinds]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    outputs = run_onnx(proto, *Subject(network=name, image_size=size).inputs(1).values())
    for layer, y in zip(names, outputs, strict=True):
        assert 0.1 < y.std() < 8, layer


@pytest.mark.fast
@pytest.mark.parametrize("name", zoo.TRANSFORMERS)
def test_every_layer_with_weights_is_planned_in_integers(name):
    proto, _ = small(name)
    constants = {tensor.name for tensor in proto.graph.initializer}
    kinds = ("Conv", "Gemm", "MatMul")
    learned = [n for n in proto.graph.node if n.op_type in kinds and n.input[1] in constants]
    plan = annotate(normalize()(import_onnx(proto)), QuantConfig())
    assert sum(layer.integer for layer in plan.layers if layer.macs) >= len(learned)


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo.TRANSFORMERS)
def test_import_gives_the_outputs_of_onnxruntime(name, full):
    if name not in RUN_BY_DEFAULT and not full:
        pytest.skip("needs --full: others have its operators")
    proto, inputs = small(name, batch=2)
    arrays = inputs.values()
    assert_close(run_relax(import_onnx(proto), *arrays), run_onnx(proto, *arrays))


@pytest.mark.slow
@pytest.mark.parametrize("name", DISTINCT)
def test_quantizes_by_default(name, full, tmp_path):
    if name != "bert_base" and not full:
        pytest.skip("needs --full: every layer of the others is planned in integers")
    proto, inputs = small(name)
    onnx.save(proto, tmp_path / "model.onnx")
    subject = Subject(network=name, image_size=small_size(name), depth="cut")
    network = relay_int8.load_model(tmp_path / "model.onnx")
    artifact = tmp_path / "model.ri8"
    relay_int8.build(relay_int8.quantize(network, subject.calibration())).save(artifact)
    (found,) = relay_int8.load(artifact).run(inputs).values()
    (expected,) = run_onnx(proto, *inputs.values())
    assert snr_db(expected, found) > 15


@pytest.mark.fast
def test_operators_are_those_of_the_exporter():
    """ViT-B/32 of torchvision 0.28, exported by torch 2.13 with opset 18, has exactly these."""
    proto = zoo.build("vit_b_32", image_size=96, depth="cut")
    kinds = Counter(node.op_type for node in proto.graph.node)
    block = {
        **{"Add": 6, "Div": 1, "Erf": 1, "Gather": 3, "Gemm": 1, "LayerNormalization": 2},
        **{"MatMul": 5, "Mul": 4, "Reshape": 9, "Softmax": 1, "Squeeze": 1, "Transpose": 8},
        "Unsqueeze": 1,
    }
    around = Counter(Conv=1, Reshape=1, Transpose=1, Concat=1, Add=1, Gather=1, Gemm=1)
    around["LayerNormalization"] = 1
    assert kinds == Counter({kind: 2 * count for kind, count in block.items()}) + around


@pytest.mark.fast
def test_attention_of_worked_numbers():
    """One head, one channel: scores 0 and 2 ln 3 give probabilities 0.1 and 0.9."""
    net = TokenNetwork(batch=1, seed=0, opset=20)
    log3 = float(np.log(3))
    q, k, v = (
        net.constant(name, np.array(value, "float32").reshape(shape))
        for name, value, shape in (
            ("q", [log3], (1, 1, 1, 1)),
            ("k", [0, 2], (1, 1, 1, 2)),
            ("v", [10, 20], (1, 1, 2, 1)),
        )
    )
    model = net.finish("attention", attend(net, q, k, v, "attention"))
    assert run_onnx(model)[0].item() == pytest.approx(19, rel=1e-6)


@pytest.mark.fast
def test_roll_of_worked_numbers():
    net = TokenNetwork(batch=1, seed=0, opset=18)
    x = net.constant("x", np.arange(12, dtype="float32").reshape(1, 3, 4, 1))
    model = net.finish("roll", _rolled(net, x, "roll", 1, 2))
    expected = np.roll(np.arange(12).reshape(1, 3, 4, 1), (-1, -2), (1, 2))
    np.testing.assert_array_equal(run_onnx(model)[0], expected)


@pytest.mark.fast
def test_seed_decides_the_weights():
    def built(seed: int) -> bytes:
        return zoo.build("swin_t", image_size=56, depth="cut", seed=seed).SerializeToString()

    assert built(3) == built(3)
    assert built(3) != built(4)


@pytest.mark.fast
def test_open_batch_is_refused():
    with pytest.raises(ConfigError, match="found the name 'N'; give a number"):
        zoo.build("vit_b_32", batch="N")


@pytest.mark.fast
def test_image_that_no_window_fits():
    with pytest.raises(ConfigError, match="choose another image_size"):
        zoo.cost("swin_t", image_size=64)


@pytest.mark.fast
def test_unfit_shapes_are_named():
    net = TokenNetwork(batch=1, seed=None, opset=18)
    with pytest.raises(ConfigError, match=r"view: \(1, 6\) does not fit \(1, 5\)"):
        net.reshape(Tokens("x", (1, 6), 1.0), "view", (1, 5))
