import json

import pytest

from benchmarks import peers


@pytest.mark.fast
def test_missing_package(monkeypatch, capsys):
    monkeypatch.setattr(peers, "missing_packages", lambda systems: ["nncf", "openvino"])
    assert peers.main([]) == 1
    assert "not installed: nncf, openvino" in capsys.readouterr().err


@pytest.mark.fast
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threads", "9999"], "--threads 9999, but this process may use"),
        (["--threads", "1", "2", "--clock", "cpu"], "use it with --threads 1"),
        (["--networks", "lenet"], "invalid choice: 'lenet'"),
        (["--batch", "0"], "0 is less than 1"),
    ],
)
def test_wrong_usage(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(peers.os, "sched_getaffinity", lambda pid: {0, 1})
    monkeypatch.setattr(peers, "missing_packages", lambda systems: [])
    with pytest.raises(SystemExit, match="2"):
        peers.main(arguments)
    assert message in capsys.readouterr().err


SYSTEMS = [
    f"{name}-{goal}" for name in ("relay-int8", "onnxruntime") for goal in ("latency", "throughput")
]


@pytest.mark.slow
def test_whole_comparison(tmp_path, capfd, full):
    """All that comes with the extra "dev": no OpenVINO."""
    if not full:
        pytest.skip("loads four systems twice; --full runs it")
    arguments = "--networks resnet18 --image-size 32 --batch 1 2 --threads 1 --rounds 2 --turn 0.01"
    systems = ["--systems", *SYSTEMS]
    files = [f"--{kind}={tmp_path / kind}" for kind in ("cache", "json", "markdown")]
    assert peers.main([*arguments.split(), *systems, *files]) == 0
    cells = json.loads((tmp_path / "json").read_text())["cells"]
    assert [cell["batch"] for cell in cells] == [1, 2]
    for cell in cells:
        assert list(cell["turns"]) == SYSTEMS
        assert [len(turns) for turns in cell["turns"].values()] == [2] * 4
        assert min(cell["cosines"].values()) > 0.999
        assert cell["failures"] == {}
    assert "batch 2, 1 thread, throughput" in capfd.readouterr().out
    assert (tmp_path / "markdown").read_text().count("| resnet18 |") == 4
    quantized = sorted(path.suffix for path in (tmp_path / "cache").iterdir())
    assert quantized == [".onnx"] * 2 + [".ri8"] * 4  # of each batch: for all cores, for one
