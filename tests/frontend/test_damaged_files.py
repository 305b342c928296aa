"""Damaged files end in our error or in an import: no crash, no hang, no gigabyte."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("form", "kind"),
    [
        ("mxnet", "params"),
        ("mxnet", "symbol"),
        ("onnx", "float"),
        ("onnx", "int8"),
        ("onnx", "boxes"),
        ("tflite", "float"),
        ("tflite", "int8"),
        ("torch", "archive"),
        ("torch", "program"),
    ],
)
def test_damaged_files(tmp_path, form, kind, full):
    """A thousand of each kind with --full, a tenth of them without."""
    if form == "tflite":
        pytest.importorskip("ai_edge_litert")
    count = 1000 if full else 100
    done = subprocess.run(
        [sys.executable, "-m", f"tests.frontend.mutate_{form}", tmp_path, kind, str(count)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ends = json.loads(done.stdout)
    assert sum(ends.values()) == count
    assert min(ends.values()) > count / 50, ends  # some of both, or the mutations prove little
