"""relay-int8 export-rest: the part of a model behind a cut, as a file."""

import numpy as np
import onnx

from relay_int8.demo import MODEL, load_images
from tests.onnx_models import run_onnx


def test_the_last_layer_by_itself(invoke, tmp_path):
    rest = tmp_path / "rest.onnx"
    code, out, err = invoke("export-rest", MODEL, "--cut", "flatten", "-o", rest)
    assert code == 0, err
    assert "1 nodes; reads flatten; gives logits" in out
    images = load_images().test[:3]
    whole = onnx.load(MODEL)
    front = onnx.ModelProto.FromString(whole.SerializeToString())
    front.graph.output[0].name = "flatten"
    features = run_onnx(front, images)[0]
    np.testing.assert_allclose(
        run_onnx(onnx.load(rest), features)[0], run_onnx(whole, images)[0], rtol=1e-5, atol=1e-5
    )


def test_what_is_read_is_not_written_over(invoke, tmp_path):
    copy = tmp_path / "model.onnx"
    copy.write_bytes(MODEL.read_bytes())
    code, _, err = invoke("export-rest", copy, "--cut", "flatten", "-o", copy)
    assert code == 1
    assert "it would be read and written over" in err
    code, _, err = invoke("export-rest", copy, "--cut", "flaten", "-o", tmp_path / "rest.onnx")
    assert code == 1
    assert "--cut flaten" in err


def test_its_help_names_the_argument_as_others_do(invoke):
    _, out, _ = invoke("export-rest", "--help")
    assert "{{" not in out
    assert "{model}" in out
