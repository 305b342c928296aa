"""Networks of random weights: where they come from, and how scores are shown."""

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from benchmarks.accuracy.random_accuracy import AUTO, HERE, TOOLS, ToolScore, main, measure, table
from benchmarks.accuracy.random_networks import RandomNetwork, open_folder, open_zoo
from relay_int8.errors import ConfigError

ORT, NNCF = TOOLS[1:]


def score(snr_db):
    return ToolScore(snr_db=snr_db, cpu_s=1.0, wall_s=0.5)


def row(here, ort, nncf):
    ratios = {HERE: here, ORT: ort, NNCF: nncf}
    return {tool: score(ratio) for tool, ratio in ratios.items()}


@pytest.mark.fast
def test_a_table_shows_who_is_behind_and_the_means_of_complete_rows():
    incomplete = {HERE: score(9)}
    rows = {"a": row(30.0, 29.0, 31.5), "b": row(20.0, 10.0, 20.5), "c": incomplete}
    lines = list(table(rows))
    assert lines[0].startswith("| network | here dB | here CPU s | ORT dB | ")
    assert lines[2:] == [
        "| a | 30.0 | 1.0 | 29.0 | 1.0 | 31.5 | 1.0 | **-1.5** |",
        "| b | 20.0 | 1.0 | 10.0 | 1.0 | 20.5 | 1.0 | -0.5 |",
        "| c | 9.0 | 1.0 | - | - | - | - | - |",
        "| mean | 25.0 | 1.0 | 19.5 | 1.0 | 26.0 | 1.0 | **-1.0** |",
    ]


@pytest.mark.fast
def test_a_table_of_chosen_tools_by_the_clock_on_the_wall():
    rows = {"a": row(30.0, 29.0, 31.5) | {AUTO: score(33.0)}}
    lines = list(table(rows, (HERE, AUTO), "wall"))
    assert lines[0] == "| network | here dB | here s | auto dB | auto s | ahead by |"
    assert lines[2:] == [
        "| a | 30.0 | 0.5 | 33.0 | 0.5 | **-1.5** |",
        "| mean | 30.0 | 0.5 | 33.0 | 0.5 | - |",
    ]


@pytest.mark.fast
def test_the_zoo_calibrates_with_other_inputs_than_it_scores(tmp_path):
    network = open_zoo("distilbert_3", tmp_path, 32)
    assert network.model.exists()
    assert (len(network.calibration), len(network.scored)) == (8, 4)
    drawn = [x["input_ids"].tobytes() for x in (*network.calibration, *network.scored)]
    assert len(set(drawn)) == 12


def convolution(folder):
    """Write a convolution with its inputs; return the file."""
    rng = np.random.default_rng(0)
    w = numpy_helper.from_array(rng.standard_normal((4, 3, 3, 3), "float32"), "w")
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, (1, 3, 8, 8))
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 4, 6, 6))
    node = helper.make_node("Conv", ["image", "w"], ["y"])
    graph = helper.make_graph([node], "net", [image], [result], [w])
    file = folder / "net.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)
    for kind, count in (("calib", 3), ("test", 2)):
        images = rng.standard_normal((count, 3, 8, 8), "float32")
        np.savez(folder / f"net.{kind}.npz", image=images)
    return file


@pytest.mark.fast
def test_files_of_a_folder_with_their_inputs(tmp_path):
    convolution(tmp_path)
    (network,) = open_folder(tmp_path)
    assert network.name == "net"
    assert [x["image"].shape for x in network.calibration] == [(1, 3, 8, 8)] * 3
    assert len(network.scored) == 2


@pytest.mark.fast
def test_a_folder_without_networks_or_inputs_is_refused(tmp_path, capsys):
    with pytest.raises(ConfigError, match=r"found no NAME\.onnx"):
        open_folder(tmp_path)
    convolution(tmp_path)
    np.savez(tmp_path / "net.test.npz", other=np.zeros(1, "float32"))
    with pytest.raises(ConfigError, match="holds other; the model reads image"):
        open_folder(tmp_path)
    (tmp_path / "net.test.npz").unlink()
    with pytest.raises(ConfigError, match=r"found no such file"):
        open_folder(tmp_path)
    assert main(["--folder", str(tmp_path)]) == 2
    assert main(["--networks", "nothing"]) == 2
    assert "no network nothing" in capsys.readouterr().err


@pytest.mark.fast
def test_a_convolution_is_measured_here(tmp_path):
    pytest.importorskip("onnxruntime")
    convolution(tmp_path)
    (network,) = open_folder(tmp_path)
    assert isinstance(network, RandomNetwork)
    measured = measure(HERE, network)
    assert 30 < measured.snr_db < 60
    assert measured.cpu_s > 0
    assert measured.wall_s > 0
