"""Accuracy against labels and against a reference, on numbers worked by hand."""

import json
from dataclasses import asdict
from types import SimpleNamespace

import numpy as np
import pytest

from relay_int8.compiler.kernel_calls import KernelCall, timed_calls, times_by_tensor
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.errors import ConfigError, RecordError
from relay_int8.numerics.snr import least_snr_db, snr_db
from relay_int8.report.accuracy import Evaluation, evaluate, require_labels
from relay_int8.runtime.profiling import random_inputs

pytestmark = pytest.mark.fast


@pytest.mark.parametrize(
    ("reference", "other", "ratio"),
    [
        ([3.0, 4.0], [3.0, 4.0], float("inf")),
        ([0.0, 0.0], [0.0, 0.0], float("inf")),
        ([0.0, 0.0], [0.0, 1.0], None),
        ([10.0, 0.0], [10.0, 1.0], 20.0),
        ([1.0, 0.0], [0.0, 1.0], 10 * np.log10(0.5)),
        ([1e30, 0.0], [0.0, 0.0], 0.0),  # squares leave float32
    ],
)
def test_snr(reference, other, ratio):
    assert snr_db(np.array(reference, "float32"), np.array(other, "float32")) == ratio


def test_the_least_exact_output_of_all_runs_counts():
    exact, rough, dead = np.array([10.0, 0.0]), np.array([0.0, 2.0]), np.zeros(2)
    runs = [
        ({"a": exact, "b": exact}, {"a": exact, "b": exact + 1}),
        ({"a": exact, "b": rough}, {"a": exact, "b": rough}),
    ]
    assert least_snr_db(runs) == pytest.approx(10 * np.log10(104 / 2))
    assert least_snr_db([({"a": exact}, {"a": exact})]) == float("inf")
    assert least_snr_db([({"a": exact, "b": dead}, {"a": exact, "b": exact})]) == -float("inf")


def network(batch, run, outputs=("y",)):
    """Return what ``evaluate`` needs of a loaded artifact."""
    infos = tuple(TensorInfo(name=name, shape=(batch, 2), dtype="float32") for name in outputs)
    manifest = SimpleNamespace(inputs=infos, outputs=infos, model_digest="ab" * 32)
    return SimpleNamespace(manifest=manifest, run=run)


IMAGES = [{"x": np.array([row], "float32")} for row in ([1, 0], [0, 1], [3, 2])]


@pytest.mark.parametrize("batch", [-1, 1, 2, 3, 8])
def test_batches_do_not_matter(batch):
    sizes = []

    def run(inputs):
        sizes.append(len(inputs["x"]))
        return {"y": inputs["x"][:, ::-1]}

    def reference(inputs):
        return {"y": inputs["x"]}

    found = evaluate(network(batch, run), IMAGES, labels=np.array([1, 0, 0]), reference=reference)
    assert set(sizes) == {max(batch, 1)}
    assert found == Evaluation(
        samples=3,
        top1=2 / 3,
        reference_top1=1 / 3,
        agreement=0.0,
        snr_db=10 * np.log10(15 / 6),
        digest="ab" * 32,
    )


def test_scores_with_trailing_axes_are_flattened():
    def run(inputs):
        return {"y": inputs["x"].reshape(-1, 2, 1, 1)}

    assert evaluate(network(1, run), IMAGES, labels=np.array([0, 1, 0])).top1 == 1.0


def test_times_go_to_the_tensors_of_the_calls():
    names = [("a", "conv"), ("r", "reshape"), ("b", "conv"), ("y", "soft")]
    calls = [
        KernelCall(name="i", tensor="x", role="quantize", function="quantize"),
        *(KernelCall(name=name, tensor=name, function=function) for name, function in names),
    ]
    kernels = [("quantize", 1.0), ("conv", 2.0), ("conv", 3.0), ("soft", 4.0)]
    timed = timed_calls(calls, kernels)
    assert [(call.name, us) for call, us in timed] == [
        ("i", 1.0),
        ("a", 2.0),
        ("b", 3.0),
        ("y", 4.0),
    ]
    assert times_by_tensor(timed) == {"a": 2.0, "b": 3.0, "y": 4.0}
    assert times_by_tensor(timed, "quantize") == {"x": 1.0}


def test_random_inputs_fit_and_stay_the_same():
    infos = [
        TensorInfo(name="f", shape=(-1, 3), dtype="float32"),
        TensorInfo(name="q", shape=(2, 500), dtype="int8"),
        TensorInfo(name="b", shape=(4,), dtype="bool"),
    ]
    first, second = random_inputs(infos), random_inputs(infos)
    for info in infos:
        assert first[info.name].dtype == info.dtype
        np.testing.assert_array_equal(first[info.name], second[info.name])
    assert first["f"].shape == (1, 3)
    assert (first["q"].min(), first["q"].max()) == (-128, 127)


@pytest.mark.parametrize(
    "values", [{"top1": 1.5}, {"top1": "1"}, {"agreement": -0.1}, {"samples": 0}, {"digest": 3}]
)
def test_an_evaluation_that_no_images_give_is_none(values):
    fields = asdict(Evaluation(samples=10, top1=0.5)) | values
    with pytest.raises(RecordError, match="not an evaluation of relay-int8"):
        Evaluation.from_json(json.dumps(fields))


def test_what_is_no_network_and_no_image():
    with pytest.raises(ConfigError, match=r"x\.ri8: a path found, .* relay_int8\.load\('x\.ri8'\)"):
        evaluate("x.ri8", IMAGES)
    arrays = [image["x"] for image in IMAGES]
    with pytest.raises(ConfigError, match=r"ndarray found, dictionaries .*relay_int8\.open_data\("):
        evaluate(network(1, lambda batch: batch), arrays)


@pytest.mark.parametrize("labels", [[0.5, 1.0, 0.0], np.eye(3), list("abc")])
def test_labels_are_one_integer_an_image(labels):
    with pytest.raises(
        ConfigError, match=r"of shape .* and type .*; give one integer for each image"
    ):
        require_labels(np.asarray(labels), 3, 10)


def test_a_layer_in_parts_takes_the_time_of_all():
    calls = [
        KernelCall(name="y/a", tensor="y", role="part", function="conv"),
        KernelCall(name="y:row", tensor="y", role="repack", function="move"),
        KernelCall(name="y", tensor="y", function="concat"),
    ]
    assert times_by_tensor(zip(calls, (1.0, 2.0, 4.0), strict=True)) == {"y": 5.0}
