"""Real networks leave as QDQ ONNX: as accurate in ONNX Runtime as here, and the same numbers nearly."""

import onnxruntime
import pytest

from benchmarks.accuracy import Subject, open_networks
from relay_int8 import ImportOptions, compile_model, load
from relay_int8.numerics.snr import snr_db
from tests.api.test_accuracy import LEAST

AGREE_DB = 35.0
"""Between ONNX Runtime and here, of the logits: a step here and there, against int8's own error."""


@pytest.mark.slow
@pytest.mark.parametrize("name", LEAST)
def test_onnx_runtime_is_as_accurate(shared_data, tmp_path, name, full):
    if not full:
        pytest.skip("calibrates and compiles real networks: --full")
    subject = Subject(open_networks(shared_data)[name])
    compile_model(
        subject.model,
        subject.calibration,
        tmp_path / "model.ri8",
        qdq=tmp_path / "model.onnx",
        samples=0,
        imports=ImportOptions(batch=1),
    )
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", options)
    names = [value.name for value in session.get_outputs()]
    found = subject.outputs(lambda image: dict(zip(names, session.run(None, image), strict=True)))
    ours = subject.outputs(load(tmp_path / "model.ri8").run)
    assert abs(subject.score(found).metric - subject.score(ours).metric) <= 0.01
    for mine, theirs in zip(ours, found, strict=True):
        ratio = snr_db(mine, theirs)
        assert ratio is not None and ratio >= AGREE_DB
