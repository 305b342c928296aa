"""The calibration benchmark: its inputs, its own system on a small network, its table."""

import json

import numpy as np
import onnx
import pytest

from benchmarks.calibration import SYSTEMS, Cost, images, main, measure, parts, table, write_inputs
from benchmarks.subject import subject

SMALL = subject("resnet18", 32, 3)


def test_inputs_differ_and_have_the_networks_shape(tmp_path):
    model, data = write_inputs(SMALL, tmp_path)
    found = list(images(data))
    assert [image.shape for image in found] == [(1, 3, 32, 32)] * 3
    assert not np.array_equal(found[0], found[1])
    dims = onnx.load(model).graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == [1, 3, 32, 32]


def test_onnx_runtime_is_measured_in_this_process(tmp_path):
    cost = measure("ONNX Runtime Entropy", *write_inputs(SMALL, tmp_path))
    assert cost.seconds > 0 and cost.search_seconds is None
    assert cost.peak_mib >= cost.idle_mib > 10


def test_parts_are_all_items_in_order():
    items = [np.array(place) for place in range(7)]
    assert [list(map(int, part)) for part in parts(iter(items), 3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(parts(iter(()), 3)) == []


def test_table():
    costs = {"mine": Cost(seconds=12.34, peak_mib=900.4, idle_mib=100, search_seconds=0.5),
             "theirs": Cost(seconds=99, peak_mib=9000, idle_mib=99)}  # fmt: skip
    lines = table(SMALL, costs).splitlines()
    assert lines[0].startswith("resnet18, 3 images of 32 pixels")
    assert lines[-2:] == ["| mine | 12.3 | 0.50 | 900 | 100 |", "| theirs | 99.0 | - | 9000 | 99 |"]


@pytest.mark.slow
def test_main_measures_each_system_apart(full, capsys, tmp_path):
    if not full:
        pytest.skip("compiles a network for each system: --full")
    names = [name for name in SYSTEMS if name != "NNCF"]
    options = [word for name in names for word in ("--system", name)]
    path = tmp_path / "numbers.json"
    size = ["--network", "resnet18", "--images", "3", "--image-size", "32"]
    assert main([*size, "--json", str(path), *options]) == 0
    printed = capsys.readouterr().out
    assert all(f"| {name} |" in printed for name in names)
    assert set(json.loads(path.read_text())["systems"]) == set(names)
