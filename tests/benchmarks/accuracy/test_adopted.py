"""The comparison of networks that ONNX Runtime has quantized, on the smallest of them."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from benchmarks.accuracy.trained_network import TrainedNetwork, open_networks
from benchmarks.rounds import Rules
from tests.onnx_models import exact_session


def run_exactly(file: Path) -> Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]:
    """Return what runs a file with ONNX Runtime, whose defaults saturate sums without VNNI."""
    session = exact_session(onnx.load(file))
    names = [value.name for value in session.get_outputs()]
    return lambda inputs: dict(zip(names, session.run(None, inputs), strict=True))


@pytest.mark.slow
def test_a_quantized_network_here_and_there(shared_data, tmp_path, monkeypatch, full):
    if not full:
        pytest.skip("quantizes and builds a network twice; --full runs it")
    pytest.importorskip("onnxruntime")
    adopted = pytest.importorskip("benchmarks.accuracy.adopted")
    monkeypatch.setattr(adopted, "run_file", run_exactly)
    subject = TrainedNetwork(open_networks(shared_data)["vww"])
    systems = (adopted.HERE, adopted.THERE)
    rules = Rules(systems=systems, rounds=1, turn_s=0.01, folder=tmp_path)
    (row,) = adopted.measured("vww", subject, [1], rules)
    assert abs(row.ours - row.theirs) <= 1 / 80
    assert row.snr_db > 30
    assert row.ratio == pytest.approx(row.their_ms / row.our_ms) and row.ratio > 0
