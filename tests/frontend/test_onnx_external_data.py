"""Weights in files beside an ONNX model: links, places in the file, damaged files."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from relay_int8.errors import FrontendError
from relay_int8.frontend.onnx.file import read_model
from tests.onnx_models import model

RNG = np.random.default_rng(0)
WEIGHTS = {
    "first": RNG.normal(size=(3, 3)).astype("float32"),
    "second": RNG.normal(size=(3, 3)).astype("float32"),
}


def external_model(folder: Path, *, lengths: bool = True) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["h"]),
        helper.make_node("MatMul", ["h", "second"], ["y"]),
    ]
    proto = model(nodes, {"x": (1, 3)}, {"y": (1, 3)}, WEIGHTS)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "net.onnx"
    onnx.save(proto, path, save_as_external_data=True, location="net.data", size_threshold=0)
    if not lengths:
        proto = onnx.load(path, load_external_data=False)
        for tensor in proto.graph.initializer:
            kept = [entry for entry in tensor.external_data if entry.key != "length"]
            del tensor.external_data[:]
            tensor.external_data.extend(kept)
        path.write_bytes(proto.SerializeToString())
    return path


def assert_weights(proto: onnx.ModelProto) -> None:
    for tensor in proto.graph.initializer:
        assert np.array_equal(numpy_helper.to_array(tensor), WEIGHTS[tensor.name])


@pytest.mark.fast
def test_a_model_and_its_weights_may_be_links_into_one_folder(tmp_path):
    external_model(tmp_path / "blobs")
    snapshot = tmp_path / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    for name in ("net.onnx", "net.data"):
        (snapshot / name).symlink_to(Path("../../blobs") / name)
    assert_weights(read_model(snapshot / "net.onnx"))


def test_weights_may_have_several_hard_links(tmp_path):
    path = external_model(tmp_path)
    (tmp_path / "copy.data").hardlink_to(tmp_path / "net.data")
    assert_weights(read_model(path))


def test_weights_without_a_length_take_what_their_shape_needs(tmp_path):
    assert_weights(read_model(external_model(tmp_path, lengths=False)))


@pytest.mark.parametrize(("kind", "size"), [(TensorProto.INT4, 5), (TensorProto.UINT2, 3)])
def test_packed_elements_without_a_length(tmp_path, kind, size):
    tensor = TensorProto(name="w", data_type=kind, dims=[3, 3], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    proto = model([helper.make_node("Identity", ["w"], ["y"])], {}, {"y": (3, 3)})
    proto.graph.initializer.append(tensor)
    (tmp_path / "w.bin").write_bytes(bytes(range(10)))
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    assert read_model(tmp_path / "net.onnx").graph.initializer[0].raw_data == bytes(range(size))


def test_a_link_that_leads_out_of_the_folder_is_refused(tmp_path):
    path = external_model(tmp_path / "model")
    (tmp_path / "model" / "net.data").rename(tmp_path / "secret")
    (tmp_path / "model" / "net.data").symlink_to(tmp_path / "secret")
    with pytest.raises(FrontendError, match=r"first is in net\.data, .*outside of the model's"):
        read_model(path)


def test_weights_of_branches_and_functions_are_read(tmp_path):
    tensor = numpy_helper.from_array(WEIGHTS["first"], "w")
    branch = helper.make_graph(
        [helper.make_node("Identity", ["w"], ["z"])],
        "branch",
        [],
        [helper.make_tensor_value_info("z", TensorProto.FLOAT, [3, 3])],
        [tensor],
    )
    choose = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    proto = model([choose], {"c": ()}, {"y": (3, 3)})
    constant = helper.make_node("Constant", [], ["v"], value=tensor)
    opset = helper.make_opsetid("", 17)
    proto.functions.append(helper.make_function("f", "F", [], ["v"], [constant], [opset]))
    (tmp_path / "w.bin").write_bytes(tensor.raw_data)
    (called,) = proto.functions
    then, other = (attribute.g for attribute in proto.graph.node[0].attribute)
    tensors = [then.initializer[0], other.initializer[0], called.node[0].attribute[0].t]
    for stored in tensors:
        stored.ClearField("raw_data")
        stored.data_location = TensorProto.EXTERNAL
        stored.external_data.add(key="location", value="w.bin")
    (tmp_path / "net.onnx").write_bytes(proto.SerializeToString())
    proto = read_model(tmp_path / "net.onnx")
    then, other = (attribute.g for attribute in proto.graph.node[0].attribute)
    for read in (
        then.initializer[0],
        other.initializer[0],
        proto.functions[0].node[0].attribute[0].t,
    ):
        assert read.raw_data == tensor.raw_data


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("length", "1000", r"from byte 0 to 1000, but the file has \d+ bytes"),
        ("offset", "9999", r"from byte 9999 to 10035, but the file has \d+ bytes"),
        ("offset", "-4", "must be non-negative"),
        ("offset", "none", "tensor first: invalid literal"),
        ("location", "none.data", "first is in none.data: there is no such file"),
        ("location", ".", r"there is no such file"),
        ("location", "", "first names no file"),
    ],
)
def test_damaged_entries_are_named(tmp_path, key, value, found):
    path = external_model(tmp_path)
    proto = onnx.load(path, load_external_data=False)
    (entry,) = (e for e in proto.graph.initializer[0].external_data if e.key == key)
    entry.value = value
    path.write_bytes(proto.SerializeToString())
    with pytest.raises(FrontendError, match=found):
        read_model(path)
