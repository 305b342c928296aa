"""What a comparison runs: inputs of every kind, their ranges, and who takes part."""

from importlib.metadata import version

import numpy as np
import onnx
import pytest

from benchmarks import systems, zoo
from benchmarks.macs import has_attention
from benchmarks.subject import Subject, files, subject
from benchmarks.systems import SYSTEMS

pytestmark = pytest.mark.fast
WORDS = Subject(network="bert_base", image_size=16, depth="cut", calibration_images=5)


def test_words_exist_and_a_mask_is_ones_before_zeros():
    inputs = WORDS.inputs(50)
    assert list(inputs) == ["input_ids", "attention_mask"]
    ids, mask = inputs.values()
    assert ids.dtype == mask.dtype == np.int64
    assert ids.shape == mask.shape == (50, 16)
    assert ids.min() >= 0
    assert 90 < ids.max() < 100  # of 100 words, most are drawn
    assert set(np.unique(mask)) == {0, 1}
    assert (np.diff(mask, axis=1) <= 0).all()
    assert mask.sum(1).min() >= 12
    assert mask.sum(1).max() == 16


def test_images_are_of_the_published_size():
    (image,) = subject("mobilevit_s", None, 1).inputs(2).values()
    assert (image.dtype, image.shape) == (np.float32, (2, 3, 256, 256))


def test_calibration_has_the_batch_of_the_file():
    open_batch = Subject(network="resnet18", image_size=32, calibration_images=5)
    assert [len(x["input"]) for x in open_batch.calibration(4)] == [1] * 5
    assert [len(x["input_ids"]) for x in WORDS.calibration(4)] == [4] * 2
    assert [len(x["input_ids"]) for x in WORDS.calibration()] == [1] * 5


def test_calibration_and_inputs_differ():
    (words, *_), inputs = WORDS.calibration(), WORDS.inputs(1)
    assert not np.array_equal(words["input_ids"], inputs["input_ids"])


def test_files_with_their_inputs(tmp_path):
    onnx.save(WORDS.model(1), tmp_path / "words.onnx")
    drawn = WORDS.inputs(7)
    for kind, part in (("calib", slice(4)), ("test", slice(4, 7))):
        np.savez(tmp_path / f"words.{kind}.npz", **{k: x[part] for k, x in drawn.items()})
    (words,) = files(tmp_path)
    assert (words.network, words.open, words.required) == ("words", False, False)
    assert [x["input_ids"].tolist() for x in words.calibration()] == [
        [row] for row in drawn["input_ids"][:4].tolist()
    ]
    assert words.inputs(1)["attention_mask"].tolist() == drawn["attention_mask"][4:5].tolist()
    assert len(words.scored()) == 3
    assert [value.name for value in words.model().graph.input] == list(drawn)
    before = words.name
    onnx.save(WORDS.model(2), tmp_path / "words.onnx")
    assert words.name != before, "another network, another name for what is kept of it"


def test_a_file_for_each_batch_where_shapes_are_written(tmp_path, monkeypatch):
    monkeypatch.setattr(systems, "version", lambda name: version("numpy"))
    system = SYSTEMS["openvino-nncf-latency"]
    one, other = (system.file(WORDS, tmp_path, batch).name for batch in (1, 16))
    assert one.startswith("bert_base-16-c5-b1-")
    assert other.startswith("bert_base-16-c5-b16-")
    resnet = subject("resnet18", 32, 5)
    assert system.file(resnet, tmp_path, 1) == system.file(resnet, tmp_path, 16)


@pytest.mark.parametrize(
    ("name", "attention"),
    [
        ("vit_b_32", True),
        ("swin_t", True),
        ("bert_base", True),
        ("convnext_t", False),
        ("resnet18", False),
    ],
)
def test_attention_is_a_product_of_two_activations(name, attention):
    proto = zoo.build(name, image_size={"swin_t": 56}.get(name, 32), depth="cut")
    assert has_attention(proto) == attention


def test_dynamic_quantization_is_for_networks_with_matrix_products():
    dynamic = SYSTEMS["onnxruntime-dynamic-latency"]
    assert dynamic.takes({"Conv", "MatMul"})
    assert not dynamic.takes({"Conv", "Gemm"})
    assert SYSTEMS["onnxruntime-latency"].takes({"Conv", "Gemm"})
