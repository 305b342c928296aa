"""Methods beside the tools that have them, where these are installed: optional.

ONNX Runtime is a development tool. The others are looked for in this environment and in those of
build/: scripts/mxnet_parity makes one with MXNet, scripts/calibration_parity one with the rest.
"""

import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from relay_int8.calibration import METHODS, Histogram, Range, calibrate
from relay_int8.calibration.methods import kl_mxnet
from tests.calibration.array_runner import ArrayRunner
from tests.calibration.test_published_searches import SAMPLES, histogram, magnitudes

F = np.float32
BUILD = Path(__file__).parents[2] / "build"
every_sample = pytest.mark.parametrize("name", SAMPLES)


@cache
def python_with(package):
    """Return the first interpreter that has ``package``, or None."""
    probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({package!r}) is None)"
    for python in (sys.executable, *sorted(map(str, BUILD.glob("*/bin/python")))):
        if subprocess.run([python, "-c", probe], check=False).returncode == 0:
            return python
    return None


def answer(package, script, folder, **arrays):
    """Run ``script``, which reads ``given`` and fills ``found``, where ``package`` is installed."""
    python = python_with(package)
    if python is None:
        pytest.skip(f"{package} is in no environment; scripts/calibration_parity makes one")
    np.savez(folder / "given.npz", **arrays)
    frame = (
        f"import numpy as np\ngiven = np.load({str(folder / 'given.npz')!r})\nfound = {{}}\n"
        f"{script}\nnp.savez({str(folder / 'found.npz')!r}, **found)\n"
    )
    done = subprocess.run(
        [python, "-c", frame], check=False, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    with np.load(folder / "found.npz") as found:
        return dict(found)


MXNET = """
import mxnet as mx
for name in [name[5:] for name in given.files if name.startswith("bins ")]:
    bins = mx.nd.array(given["bins " + name], dtype="float32")
    edges = mx.nd.array(given["edges " + name], dtype="float32")
    levels = int(name.split()[-1])
    threshold, least = mx.nd.contrib.calibrate_entropy(
        hist=bins, hist_edges=edges, num_quantized_bins=levels
    )
    found[name] = np.r_[threshold.asnumpy(), least.asnumpy()]
"""


def test_mxnet(tmp_path):
    bins, cases, arrays = 801, {}, {}
    for name in SAMPLES:
        for levels in (255, 511):
            values = magnitudes(name)
            if levels == 255:
                values = values * np.random.default_rng(2).choice([-1, 1], values.size)
            limit = np.abs(values).max()
            key = f"{name} {levels}"
            counts, edges = np.histogram(values, bins=bins, range=(-limit, limit))
            arrays[f"bins {key}"], arrays[f"edges {key}"] = counts, edges
            cases[key] = (counts, edges, levels)
    found = answer("mxnet", MXNET, tmp_path, **arrays)
    for key, (counts, edges, levels) in cases.items():
        threshold, least = found[key]
        divergences = kl_mxnet.divergences(counts, levels)
        np.testing.assert_allclose(divergences.min(), least, rtol=2e-4, atol=1e-6)
        # It computes in float32: of two candidates that are equal but for that, either may win.
        upper = edges[bins // 2 + levels // 2 + 1 :]
        chosen = int(np.abs(upper - threshold).argmin())
        np.testing.assert_allclose(upper[chosen], threshold, rtol=1e-6)
        assert divergences[chosen] <= divergences.min() + 1e-7, key


def reader(images):
    """Give images to ONNX Runtime, one at a time."""
    calibrate = pytest.importorskip("onnxruntime.quantization.calibrate")

    class Reader(calibrate.CalibrationDataReader):
        def __init__(self):
            self.images = iter(images)

        def get_next(self):
            return next(self.images, None)

    return Reader()


@pytest.mark.parametrize("method", ["max", "moving-average"])
def test_onnxruntime_ranges(method, tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization.calibrate")
    from onnx import TensorProto, helper, save

    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 50]) for name in "xy"]
    nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Neg", ["h"], ["y"])]
    graph = helper.make_graph(nodes, "g", infos[:1], infos[1:])
    opset = [helper.make_opsetid("", 17)]
    path = tmp_path / "net.onnx"
    save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)
    rng = np.random.default_rng(0)
    images = [{"x": rng.standard_t(3, size=(1, 50)).astype(F)} for _ in range(30)]
    average = method == "moving-average"
    tool = quantization.MinMaxCalibrater(
        path, ["Relu", "Neg"], str(tmp_path / "augmented.onnx"), moving_average=average
    )
    tool.augment_graph()
    tool.create_inference_session()
    for image in images:
        tool.collect_data(reader([image]))  # the images of one call are one step of the average
    wanted = tool.compute_data().data

    def network(image):
        h = np.maximum(image["x"], 0)
        return {"x": image["x"], "h": h, "y": -h}

    tensors = dict.fromkeys("xhy", "asymmetric")
    entries = calibrate(ArrayRunner(network, []), tensors, images, method=method).entries
    for name, item in entries.items():
        ends = np.ravel(wanted[name].range_value)
        # It averages in float64 and keeps no more than it likes; ours is float32 after each image.
        np.testing.assert_allclose([item.low, item.high], ends, rtol=1e-5 if average else 0)


@every_sample
def test_onnxruntime_percentile(name):
    calibrate = pytest.importorskip("onnxruntime.quantization.calibrate")
    values = np.r_[0, magnitudes(name)].astype(F)  # its bins begin at the least |x|
    collector = calibrate.HistogramCollector("percentile", True, 2048, 128, 99.9, "same")
    collector.collect({"x": values})
    edge = float(collector.compute_collection_result()["x"][1])
    method = type(METHODS["percentile"])(99.9)
    seen = Range(values.min(), values.max(), 1)
    grid = method.grid("s8", seen)
    found = method.thresholds(Histogram.of(values, grid), "s8")[1]
    # It takes the lower edge of the bin that reaches the percentile, so that less is kept.
    width = float(grid.width)
    assert abs(found - width - edge) <= 1e-3 * width


MODELOPT = """
import torch
from modelopt.torch.quantization.calib.histogram import _compute_amax_entropy
for name in given.files:
    levels = int(name.split()[-1])
    counts = given[name]
    edges = np.arange(len(counts) + 1, dtype=np.float32)
    amax = _compute_amax_entropy(
        counts, edges, num_bits=8, unsigned=levels == 256, stride=1, start_bin=128
    )
    found[name] = np.float64(amax)
"""


def test_modelopt(tmp_path):
    arrays = {
        f"{name} {levels}": np.histogram(magnitudes(name), bins=320)[0]
        for name in SAMPLES
        for levels in (128, 256)
    }
    found = answer("modelopt", MODELOPT, tmp_path, **arrays)
    for key, counts in arrays.items():
        scheme = "u8" if key.endswith("256") else "s8"
        kept = METHODS["kl-pytorch-quantization"].thresholds(histogram(counts), scheme)[1]
        assert found[key] == kept, key


PPQ = """
import os
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"  # its .proto are of 2022
import torch
from ppq.core import (
    QuantizationPolicy, QuantizationProperty, RoundingPolicy, TensorQuantizationConfig,
)
from ppq.quantization.observer.range import TorchHistObserver
policy = QuantizationPolicy(
    QuantizationProperty.SYMMETRICAL + QuantizationProperty.LINEAR + QuantizationProperty.PER_TENSOR
)
config = TensorQuantizationConfig(
    policy, rounding=RoundingPolicy.ROUND_HALF_EVEN, num_of_bits=8, quant_min=-128, quant_max=127
)
for name in given.files:
    scale, _ = TorchHistObserver(None, config).hist_to_scale_offset(
        histogram=torch.from_numpy(given[name]), hist_bins=4096, hist_scale=1.0, config=config
    )
    found[name] = np.float64(scale * 128)
"""


def test_ppq(tmp_path):
    arrays = {name: np.histogram(magnitudes(name), bins=4096)[0] for name in SAMPLES}
    found = answer("ppq", PPQ, tmp_path, **arrays)
    for name, counts in arrays.items():
        assert METHODS["kl-ppq"].thresholds(histogram(counts), "s8")[1] == found[name], name
