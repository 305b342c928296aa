"""scripts/gpu_check: what it writes where there is no GPU, when time is up, and what it packs."""

import json
import os
import sys

import pytest

from benchmarks.gpu import check, pack

pytestmark = pytest.mark.fast
TESTS = """
import pytest

@pytest.mark.gpu
def test_gpu():
    assert False, "there is a GPU"

@pytest.mark.gpu
def test_that_is_skipped():
    pytest.skip("no GPU")

@pytest.mark.gpu
def test_that_passes():
    pass
"""


def test_results_are_one_folder(tmp_path, monkeypatch):
    file, out = tmp_path / "test_some.py", tmp_path / "out"
    file.write_text(TESTS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    assert check.main(["--out", str(out), "--no-bench", "--tests", str(file)]) == 1
    found = json.loads((out / "summary.json").read_text())
    assert found["machine"]["computer"] and found["machine"]["gpus"]
    (step,) = found["steps"]
    assert (step["name"], step["verdict"]) == ("tests", "failed with exit code 1")
    assert found["tests"]["passed"] == 1
    assert list(found["tests"]["skipped"].values()) == ["no GPU"]
    assert "there is a GPU" in next(iter(found["tests"]["failed"].values()))
    text = (out / "summary.md").read_text()
    assert "1 tests passed, 1 failed, 1 skipped." in text and "test_that_is_skipped" in text
    assert "there is a GPU" in (out / "log.txt").read_text()


def test_a_step_has_an_end(tmp_path, monkeypatch):
    monkeypatch.setattr(check, "LAST_WORDS_S", 5)
    program = "import time; print('begun', flush=True); time.sleep(60)"
    step = check.run_step("slow", [sys.executable, "-c", program], 1.0, tmp_path / "log")
    assert step.exit_code is None and step.verdict == "stopped: its time was up"
    assert step.seconds < 30
    check.write_summary(tmp_path, {"gpus": ["none"]}, [step])
    assert "0 tests passed" in (tmp_path / "summary.md").read_text()


def test_packages_are_those_of_the_project(tmp_path):
    command = pack.pip_command(tmp_path, "3.12")
    assert "--only-binary=:all:" in command and "3.12" in command
    named = [word.split("=")[0].split(">")[0] for word in command]
    assert {"apache-tvm", "nvidia-cuda-runtime", "tornado", "pytest"} <= set(named)


def test_a_folder_that_holds_something_is_left_alone(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert check.main(["--pack", str(tmp_path)]) == 1
    assert "is not empty; name a new folder" in capsys.readouterr().err
