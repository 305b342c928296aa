"""relay-int8 inspect and bench on an artifact."""

import json
import zipfile

import pytest

from relay_int8.artifact import Manifest

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
    assert json.loads(out)["format_version"] == 1


def test_inspect_refuses_what_is_altered(invoke, artifact, tmp_path):
    content = bytearray(artifact.read_bytes())
    content[content.index(b'"scores"') + 1] ^= 1
    (tmp_path / "bad.ri8").write_bytes(content)
    code, out, err = invoke("inspect", tmp_path / "bad.ri8")
    assert (code, out) == (1, "")
    assert err.startswith("error: ")


def test_bench_prints_a_row_for_each_thread_count(invoke, artifact):
    code, out, _ = invoke("bench", artifact, "--threads", 1, "--threads", 2, "--repeats", 3)
    assert code == 0
    rows = [line.split() for line in out.splitlines()[2:]]
    assert [row[:2] for row in rows] == [["1", "2"], ["2", "2"]]
    for row in rows:
        median, low, high = map(float, row[2:5])
        assert 0 <= low <= median <= high
