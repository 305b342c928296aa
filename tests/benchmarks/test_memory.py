import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import memory, peers
from benchmarks.memory import Footprint, MemoryCell
from benchmarks.systems import SYSTEMS

pytestmark = pytest.mark.fast

MIB = 2**20


def cell(**changes):
    footprint = Footprint(
        file_bytes=1_500_000,
        load_cpu_s=0.25,
        imported_bytes=20 * MIB,
        loaded_bytes=30 * MIB,
        run_bytes=40 * MIB,
        private_bytes=10 * MIB,
        activation_bytes=3 * MIB,
        together_bytes=50 * MIB,
    )
    return MemoryCell(
        **{"network": "lenet", "batch": 1, "threads": 2}
        | {"footprints": {"relay-int8-latency": footprint}}
        | changes
    )


def test_rows_have_megabytes_and_a_plan_only_where_there_is_one():
    (row,) = memory.memory_rows([cell()])
    name = SYSTEMS["relay-int8-latency"].name
    assert row == ("lenet", "1", "2", name, "1.5", "0.25", "20", "30", "40", "10", "3.0", "50")
    assert len(row) == len(memory.COLUMNS)


def test_markdown_says_who_took_no_part():
    text = memory.memory_markdown(
        [cell(failures={"onnxruntime-latency": "OSError: gone"})], {"machine": "this"}
    )
    assert "| lenet | 1 | 2 |" in text and "- machine: this" in text
    assert "ONNX Runtime latency took no part: OSError: gone" in text


def test_the_kernel_says_what_is_resident(tmp_path):
    (tmp_path / "status").write_text("VmHWM:\t    2048 kB\nRssAnon:\t 8 kB\n")
    assert memory.resident_bytes("VmHWM", tmp_path / "status") == 2 * MIB
    assert memory.resident_bytes("RssAnon", tmp_path / "status") == 8192
    with pytest.raises(KeyError, match="has no VmSwap"):
        memory.resident_bytes("VmSwap", tmp_path / "status")
    assert memory.resident_bytes("VmHWM") >= memory.resident_bytes("RssAnon") > MIB


def test_a_system_is_measured_in_a_process_of_its_own(tmp_path):
    code = """
import dataclasses, json, sys, threading
from pathlib import Path
from benchmarks import memory
from tests.benchmarks.fake_systems import system
memory.SYSTEMS = {"fake": system("Spinner")}
found = memory.measure("fake", Path(sys.argv[1]), {"x": 0}, 1)
memory._meet_at(threading.Barrier(1))  # of a single process, which shares its pages with none
share = memory._share_bytes("fake", Path(sys.argv[1]), {"x": 0}, 1)
found = dataclasses.replace(found, together_bytes=share)
print(json.dumps(dataclasses.asdict(found)), flush=True)
import os; os._exit(0)
"""
    (tmp_path / "net").write_bytes(bytes(99))
    command = [sys.executable, "-c", code, str(tmp_path / "net")]
    root = Path(memory.__file__).parents[1]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=root)
    found = json.loads(done.stdout)
    assert found["file_bytes"] == 99 and found["activation_bytes"] is None
    assert 0 < found["imported_bytes"] <= found["loaded_bytes"] <= found["run_bytes"]
    assert found["private_bytes"] / 2 < found["together_bytes"] < 2 * found["run_bytes"]


def test_memory_is_an_option_of_the_comparison(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(peers, "missing_packages", lambda systems: [])
    monkeypatch.setattr(peers, "compare_memory", lambda *_: iter([cell()]))
    monkeypatch.setattr(peers, "_facts", lambda systems: {"machine": "this"})
    arguments = ["--memory", "--networks", "resnet18", "--threads", "1"]
    assert peers.main([*arguments, "--json", str(tmp_path / "found.json")]) == 0
    (found,) = json.loads((tmp_path / "found.json").read_text())["cells"]
    assert found["footprints"]["relay-int8-latency"]["file_bytes"] == 1_500_000
    assert "private MiB" in capsys.readouterr().out
