"""The accuracy table: cells that are kept, and how they are shown."""

import pytest

from benchmarks.accuracy.scores_file import ScoresFile
from benchmarks.accuracy.table import FP32, main, measure, table
from benchmarks.accuracy.trained_network import Score, TimedRun

HALF = Score(metric=0.5, snr_db=20.25, seconds=3.4)


@pytest.mark.fast
def test_cells_outlive_the_process(tmp_path):
    cells, beside = (ScoresFile(tmp_path / "cells.json") for _ in range(2))
    cells.keep("net", "eval", FP32, Score(metric=0.75, snr_db=float("inf")))
    beside.keep("net", "eval", "auto", HALF)
    read = ScoresFile(tmp_path / "cells.json")
    assert read.find("net", "eval", FP32) == Score(metric=0.75, snr_db=float("inf"))
    assert read.find("net", "eval", "auto") == HALF
    assert read.find("net", "calib", "auto") is None


@pytest.mark.fast
def test_a_table_shows_both_directions_and_what_is_missing():
    known = {
        ("a", "eval", FP32): Score(metric=0.75, snr_db=float("inf")),
        ("a", "calib", FP32): Score(metric=0.8, snr_db=float("inf")),
        ("a", "eval", "auto"): HALF,
    }
    found = list(table(lambda *key: known.get(key), ["a", "b"], [FP32, "auto"], ["eval", "calib"]))
    assert found == [
        "| scored on eval, calib | a | b |",
        "|---|---:|---:|",
        "| FP32 | 0.750, 0.800 | -, - |",
        "| auto | 0.500, -; 20.2, - dB; 3, - s | -, - |",
    ]


class FakeSubject:
    """Its outputs are the names of what was asked for."""

    fp32 = "float"

    def quantized(self, config, *, by_metric=False):
        return TimedRun(run=config.preset + " by metric" * by_metric, seconds=2.0)

    def of_peer(self, name):
        return TimedRun(run=name, seconds=1.0)

    def outputs(self, run):
        return run

    def score(self, outputs, seconds=0.0):
        return Score(metric=len(outputs) / 100, snr_db=0.0, seconds=seconds)


@pytest.mark.fast
def test_what_is_known_is_not_measured_again():
    cells = ScoresFile(None)
    cells.keep("net", "eval", "auto", HALF)
    rows = [FP32, "auto", "accurate", "auto by metric", "NNCF"]
    measure(cells, "net", FakeSubject(), "eval", rows)
    assert cells.find("net", "eval", "auto") == HALF
    assert cells.find("net", "eval", FP32).metric == len("float") / 100
    assert cells.find("net", "eval", "accurate").metric == len("int8-accurate") / 100
    assert cells.find("net", "eval", "accurate").seconds == 2.0
    assert cells.find("net", "eval", "auto by metric").metric == len("auto by metric") / 100
    assert cells.find("net", "eval", "NNCF") == Score(metric=0.04, snr_db=0.0, seconds=1.0)


@pytest.mark.fast
def test_known_cells_alone(tmp_path, capsys):
    (tmp_path / "evaluate.py").write_text("NETWORKS = {'net': None}")
    ScoresFile(tmp_path / "cells.json").keep("net", "eval", "auto", HALF)
    arguments = [str(tmp_path), "--cells", str(tmp_path / "cells.json"), "--known"]
    assert main([*arguments, "--rows", "auto", "NNCF"]) == 0
    assert "| auto | 0.500; 20.2 dB; 3 s |\n| NNCF | - |" in capsys.readouterr().out
    assert main([*arguments, "--networks", "other"]) == 2
