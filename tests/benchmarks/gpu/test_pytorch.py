"""PyTorch computes the zoo's graph; skipped where PyTorch is not installed."""

import numpy as np
import onnxruntime
import pytest

from benchmarks import zoo
from benchmarks.gpu.__main__ import NETWORKS
from benchmarks.gpu.pictures import pictures

pytest.importorskip("torch")


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_the_graph_is_the_same(name, tmp_path):
    from benchmarks.gpu.pytorch import load_fp32

    size = 75 if name == "inception_v3" else 33
    file = tmp_path / "network.onnx"
    file.write_bytes(zoo.build(name, image_size=size, batch=2, depth="cut").SerializeToString())
    images = pictures(2, size)
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {"input": images})
    found = load_fp32(file, images, "cpu").outputs()
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()
