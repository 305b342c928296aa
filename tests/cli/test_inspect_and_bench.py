"""relay-int8 inspect and bench on an artifact."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import relay_int8
from relay_int8.api import profile
from relay_int8.demo import MODEL, load_images
from relay_int8.runtime.manifest import FORMAT_VERSION, Manifest

pytestmark = pytest.mark.fast


def test_inspect_shows_the_manifest(invoke, artifact):
    code, out, _ = invoke("inspect", artifact)
    assert code == 0
    for part in (
        "x: float32 2 x 3",
        "twice: float32 2 x 3",
        "none in particular",
        "apache-tvm 0.27",
        "coverage int8_layers",
    ):
        assert part in out, part


def test_inspect_json_is_the_manifest(invoke, artifact):
    code, out, _ = invoke("inspect", artifact, "--json")
    assert code == 0
    with zipfile.ZipFile(artifact) as archive:
        assert out.encode() == archive.read("manifest.json")
    assert Manifest.from_json(out).inputs[0].shape == (2, 3)
    assert json.loads(out)["format_version"] == FORMAT_VERSION


def test_inspect_refuses_what_is_altered(invoke, artifact, tmp_path):
    content = bytearray(artifact.read_bytes())
    content[content.index(b'"scores"') + 1] ^= 1
    (tmp_path / "bad.ri8").write_bytes(content)
    code, out, err = invoke("inspect", tmp_path / "bad.ri8")
    assert (code, out) == (1, "")
    assert err.startswith("error: ")


def test_bench_prints_a_row_for_each_thread_count_and_one_for_streams(artifact):
    """In a process of its own: the runtime's pool never grows."""
    code = "from relay_int8.cli import app; app()"
    arguments = ["bench", str(artifact), "--threads", "1", "--threads", "2", "--streams", "2"]
    root = Path(relay_int8.__file__).parents[1]
    out = subprocess.run(
        [sys.executable, "-c", code, *arguments, "--repeats", "3"],
        check=True,
        capture_output=True,
        text=True,
        cwd=root,
    ).stdout
    rows = [line.split() for line in out.splitlines()[2:]]
    assert [row[:3] for row in rows] == [["2", "1", "2"], ["1", "1", "2"], ["1", "2", "2"]]
    for row in rows:
        median, low, high = map(float, row[3:6])
        assert 0 <= low <= median <= high


def test_bench_without_threads(invoke, artifact):
    code, out, _ = invoke("bench", artifact, "--repeats", 3)
    assert code == 0
    assert len(out.splitlines()) == 3


def test_bench_json_has_the_numbers_of_the_table(invoke, artifact):
    code, out, _ = invoke("bench", artifact, "--repeats", 3, "--json")
    assert code == 0
    (row,) = json.loads(out)
    assert (row["streams"], row["batch"]) == (1, 2)
    assert 0 <= row["low_ms"] <= row["median_ms"] <= row["high_ms"]
    assert row["images_s"] == 2e3 / row["median_ms"]


@pytest.fixture
def quick(monkeypatch):
    """Peaks and bandwidths are given: to measure them takes seconds."""
    monkeypatch.setattr(profile, "peak", lambda *_: 1e11)
    monkeypatch.setattr(profile, "read_bandwidth", lambda *_: 1e10)


def test_bench_profile_ends_with_a_sum(invoke, artifact, quick):
    code, out, _ = invoke("bench", artifact, "--profile", "--top", 1, "--repeats", 3)
    assert code == 0
    lines = out.splitlines()
    others, between, total = (line.split() for line in lines[3:6])
    assert others[:3] == ["1", "other", "kernels"] and between[:2] == ["between", "kernels"]
    parts = [float(number) for number in (*total[2:6], between[-1])]
    assert total[0] == "sum" and sum(parts) == pytest.approx(float(total[1]), abs=4e-3)
    assert lines[6].startswith("thread 0: busy ")


def test_bench_profile_json_has_every_kernel(invoke, artifact, quick):
    code, out, _ = invoke("bench", artifact, "--profile", "--repeats", 3, "--json")
    assert code == 0
    (found,) = json.loads(out)
    assert len(found["kernels"]) == 2
    assert sum(found["parts_ms"].values()) == pytest.approx(found["total_ms"])


def test_bench_profile_is_not_of_streams(invoke, artifact):
    code, _, err = invoke("bench", artifact, "--profile", "--streams", 2)
    assert code == 1 and "choose one" in err


def test_bench_of_a_batch(invoke, artifact, tmp_path):
    code, _, err = invoke("bench", artifact, "--batch", 4)
    assert code == 1 and "was built for one batch" in err
    path, model = tmp_path / "any.ri8", [load_images().calibration[:4]]
    relay_int8.compile_model(
        MODEL, model, path, samples=0, options=relay_int8.BuildOptions(max_batch=4)
    )
    code, out, _ = invoke("bench", path, "--batch", 3, "--repeats", 2)
    assert code == 0 and out.splitlines()[2].split()[2] == "3"
    code, _, err = invoke("bench", path, "--batch", 5)
    assert code == 1 and "takes batches 1 to 4, not 5" in err
