"""PyTorch files: what is wrong with one, layouts of weights, changes in place."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from relay_int8 import ImportOptions, load_model
from relay_int8.errors import ConfigError, FrontendError, UnsupportedOpError
from relay_int8.file_names import is_model
from relay_int8.frontend.torch import import_torch
from relay_int8.frontend.torch.converters import CONVERTERS
from relay_int8.frontend.torch.file import read_archive
from relay_int8.frontend.torch.program import _node
from relay_int8.frontend.torch.refused import DECOMPOSABLE
from relay_int8.graph.dataflow import calls, results, shape
from relay_int8.notices import Notice
from tests.frontend.torch_programs import program

pytestmark = pytest.mark.fast
MODEL = "models/model.json"
WEIGHTS = "data/weights/model_weights_config.json"


@pytest.fixture
def file(tmp_path) -> Path:
    path, _, _ = program(tmp_path, "mixed_u8")
    return path


def entries(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as found:
        return {name.partition("/")[2]: found.read(name) for name in found.namelist()}


def write(path: Path, found: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in found.items():
            archive.writestr(f"net/{name}", data)
    return path


def changed(path: Path, entry: str, change) -> Path:
    """Write the archive with another text in an entry."""
    found = entries(path)
    text: Any = json.loads(found[entry])
    change(text)
    return write(path, {**found, entry: json.dumps(text).encode()})


def node(text: Any, target: str) -> Any:
    nodes = text["graph_module"]["graph"]["nodes"]
    return next(n for n in nodes if n["target"].startswith(f"torch.ops.{target}"))


def test_the_ending_tells_the_format(file):
    assert is_model(file)
    mod = load_model(file, ImportOptions(batch=2)).module
    assert shape(mod["main"].params[0]) == (2, 3, 16, 16)
    with pytest.raises(ConfigError, match=r"leave ImportOptions\(params=...\) out"):
        load_model(file, ImportOptions(params=file))
    with pytest.raises(
        ConfigError,
        match=r"inputs=\{'y': \(1, 3, 16, 16\)\}\): the model has no such input; it has x",
    ):
        load_model(file, ImportOptions(inputs={"y": (1, 3, 16, 16)}))


def test_files_that_are_none(tmp_path, file):
    with pytest.raises(FrontendError, match="no such file"):
        import_torch(tmp_path / "missing.pt2")
    (tmp_path / "text.pt2").write_text("{}")
    with pytest.raises(FrontendError, match=r"no whole program of torch.export .*not a zip file"):
        import_torch(tmp_path / "text.pt2")
    with pytest.raises(FrontendError, match="found a TorchScript model"):
        import_torch(write(file, {"constants.pkl": b"", "data.pkl": b""}))
    with pytest.raises(FrontendError, match=r"before 2\.8"):
        import_torch(write(file, {"serialized_exported_program.json": b"{}"}))
    with pytest.raises(FrontendError, match="0 programs in the archive"):
        import_torch(write(file, {"data/aotinductor/model.so": b""}))


def test_pickles_are_not_read(file):
    whole = entries(file)
    with pytest.raises(FrontendError, match="its weights are a Python pickle"):
        import_torch(write(file, {**whole, "data/weights/model.pt": b""}))
    write(file, whole)

    def pickled(text):
        text["config"]["fc.bias"]["use_pickle"] = True

    with pytest.raises(FrontendError, match=r"tensor fc.bias is a Python pickle"):
        import_torch(changed(file, WEIGHTS, pickled))


def test_compressed_entries_are_refused(file):
    with pytest.raises(FrontendError, match="is compressed"):
        import_torch(write(file, entries(file), zipfile.ZIP_DEFLATED))


def test_layouts_and_types_of_weights(file):
    """Strides and offsets into a storage; bfloat16 is the upper half of float32."""
    reals = np.arange(10, dtype="float32")
    upper = (reals.view("<u4") >> 16).astype("<u2")

    def metadata(kind: int, sizes: list[int], strides: list[int]) -> dict[str, Any]:
        lists = {"sizes": sizes, "strides": strides}
        return {
            "dtype": kind,
            "layout": 7,
            "storage_offset": {"as_int": 2},
            **{key: [{"as_int": value} for value in values] for key, values in lists.items()},
        }

    config = {
        "a": (7, [2, 3], [1, 2], reals.tobytes()),
        "b": (13, [4], [2], upper.tobytes()),
        "c": (12, [2], [1], bytes([0, 0, 1, 0])),
        "d": (7, [3, 0], [1, 1], b""),
    }
    found = entries(file)
    found[WEIGHTS] = json.dumps(
        {
            "config": {
                name: {"path_name": name, "tensor_meta": metadata(kind, sizes, strides)}
                for name, (kind, sizes, strides, _) in config.items()
            }
        }
    ).encode()
    found |= {f"data/weights/{name}": data for name, (*_, data) in config.items()}
    tensors = read_archive(write(file, found)).tensors
    np.testing.assert_array_equal(tensors["a"], [[2, 4, 6], [3, 5, 7]])
    np.testing.assert_array_equal(tensors["b"], [2, 4, 6, 8])
    np.testing.assert_array_equal(tensors["c"], [True, False])
    assert [tensors[name].dtype.name for name in "abc"] == ["float32", "float32", "bool"]
    assert tensors["d"].shape == (3, 0)
    found["data/weights/a"] = found["data/weights/a"][:-12]
    with pytest.raises(FrontendError, match=r"tensor a .* does not fit the 28 bytes"):
        read_archive(write(file, found))


@pytest.mark.parametrize("kind", [None, {}, 7.0, 99], ids=str)
def test_types_of_weights_that_are_none(file, kind):
    def other(text):
        text["config"]["fc.bias"]["tensor_meta"]["dtype"] = kind

    with pytest.raises(FrontendError, match=r"tensor fc.bias has element type .* tensors of uint8"):
        import_torch(changed(file, WEIGHTS, other), batch=2)


def test_weights_must_be_finite(file):
    found = entries(file)
    meta = json.loads(found[WEIGHTS])["config"]["fc.bias"]
    found[f"data/weights/{meta['path_name']}"] = np.full(5, np.nan, "float32").tobytes()
    with pytest.raises(FrontendError, match="has NaN or infinite values"):
        import_torch(write(file, found), batch=2)


def test_operators_that_are_not_known_are_listed(file):
    whole = entries(file)

    def renamed(softmax: str, concat: str) -> Path:
        def rename(text):
            node(text, "aten.softmax")["target"] = f"torch.ops.{softmax}.default"
            node(text, "aten.cat")["target"] = f"torch.ops.{concat}.default"

        return changed(write(file, whole), MODEL, rename)

    with pytest.raises(
        UnsupportedOpError,
        match=r"2 kinds .*mine.other.*aten.bernoulli.*\(\) is not known to help: export .* without",
    ):
        import_torch(renamed("aten.bernoulli", "mine.other"), batch=2)
    with pytest.raises(
        UnsupportedOpError,
        match=r"2 kinds .*run_decompositions\(\) before .* writes aten.trapezoid in .* of the others, ",
    ):
        import_torch(renamed("aten.trapezoid", "mine.other"), batch=2)
    with pytest.raises(UnsupportedOpError, match=r"2 kinds .* writes them in operators that"):
        import_torch(renamed("aten.trapezoid", "aten.vander"), batch=2)


def test_arguments_and_results_that_are_no_tensors_are_left_out(file):
    """Numbers and None stand in the signature; nodes have the numbers themselves."""

    def signed(text):
        signature = text["graph_module"]["signature"]
        flag = {"constant_input": {"name": "flag", "value": {"as_bool": True}}}
        signature["input_specs"].append(flag)
        signature["output_specs"].append({"user_output": {"arg": {"as_none": True}}})

    expected = [shape(var) for var in results(import_torch(file, batch=2)["main"])]
    mod = import_torch(changed(file, MODEL, signed), batch=2)
    assert [shape(var) for var in results(mod["main"])] == expected
    assert len(mod["main"].params) == 1

    def written(text):
        signature = text["graph_module"]["signature"]
        arg = signature["output_specs"][0]["user_output"]["arg"]["as_tensor"]
        spec = {"user_input_mutation": {"arg": arg, "user_input_name": "x"}}
        signature["output_specs"].append(spec)

    with pytest.warns(Notice, match="writes over its input x, and a network leaves its inputs"):
        mod = import_torch(changed(file, MODEL, written), batch=2)
    assert [shape(var) for var in results(mod["main"])] == expected


def test_operators_that_decompose_are_not_read_themselves():
    assert DECOMPOSABLE.isdisjoint(CONVERTERS)


def test_shapes_are_compared_with_the_file(file):
    def pool(text):
        arguments = node(text, "aten.max_pool2d")["inputs"]
        next(a for a in arguments if a["name"] == "kernel_size")["arg"] = {"as_ints": [3, 3]}

    with pytest.raises(FrontendError, match=r"max_pool2d.*its result would be .* in torch"):
        import_torch(changed(file, MODEL, pool), batch=2)


def test_a_view_of_what_changes_in_place_is_read_anew(file):
    """The concatenation is overwritten by relu_, and read through what was made of it before."""
    expected = [str(var.name) for var, _ in calls(import_torch(file, batch=2)["main"])]
    whole = entries(file)

    def read_through(operator: str) -> Path:
        def view(text):
            change = node(text, "aten.relu_")
            nodes = text["graph_module"]["graph"]["nodes"]
            source = change["inputs"][0]["arg"]["as_tensor"]["name"]
            part = {
                "target": f"torch.ops.aten.{operator}.default",
                "name": "part",
                "inputs": [{"name": "self", "arg": {"as_tensor": {"name": source}}, "kind": 1}],
                "outputs": [{"as_tensor": {"name": "part"}}],
                "metadata": {},
            }
            nodes.insert(nodes.index(change), part)
            reader = nodes[nodes.index(change) + 1]
            reader["inputs"][0]["arg"] = {"as_tensor": {"name": "part"}}

        return changed(write(file, whole), MODEL, view)

    mod = import_torch(read_through("alias"), batch=2)
    assert [str(var.name) for var, _ in calls(mod["main"])] == expected
    with pytest.raises(UnsupportedOpError, match=r"reads part, changed in place .* or a copy"):
        import_torch(read_through("contiguous"), batch=2)


def test_a_state_that_the_network_leaves_is_not_kept(tmp_path):
    """Programs write over a buffer, or give it back changed once they are decomposed."""
    file, _, _ = program(tmp_path, "residual")
    names = [shape(var) for var in results(import_torch(file, batch=1)["main"])]
    whole = entries(file)

    def given_back(text):
        signature = text["graph_module"]["signature"]
        arg = signature["output_specs"][0]["user_output"]["arg"]["as_tensor"]
        spec = {"buffer_mutation": {"arg": arg, "buffer_name": "seen"}}
        signature["output_specs"].insert(0, spec)

    def overwritten(text):
        specs = text["graph_module"]["signature"]["input_specs"]
        buffer = next(spec["buffer"] for spec in specs if "buffer" in spec)
        arg = {"as_tensor": buffer["arg"]}
        change = {
            "target": "torch.ops.aten.add_.Tensor",
            "name": "changed",
            "inputs": [
                {"name": "self", "arg": arg, "kind": 1},
                {"name": "other", "arg": {"as_float": 1.0}, "kind": 1},
            ],
            "outputs": [{"as_tensor": {"name": "changed"}}],
            "metadata": {},
        }
        text["graph_module"]["graph"]["nodes"].append(change)

    for change, name in ((given_back, "seen"), (overwritten, r"\S+")):
        with pytest.warns(Notice, match=f"changes {name} as it runs, which is not kept"):
            mod = import_torch(changed(write(file, whole), MODEL, change), batch=1)
        assert [shape(var) for var in results(mod["main"])] == names


def test_complex_numbers_among_arguments():
    entry = {
        "target": "torch.ops.aten.mul.Tensor",
        "name": "turned",
        "inputs": [
            {"name": "self", "arg": {"as_tensor": {"name": "x"}}, "kind": 1},
            {"name": "other", "arg": {"as_complex": {"real": 0.0, "imag": 1.0}}, "kind": 1},
        ],
        "outputs": [{"as_tensor": {"name": "turned"}}],
    }
    assert _node(entry).arguments["other"] == 1j


def test_a_tensor_that_is_returned_again_has_a_name_of_its_own(tmp_path):
    file, _, _ = program(tmp_path, "residual")
    (only,) = (str(var.name) for var in results(import_torch(file, batch=1)["main"]))

    def three_times(text):
        specs = text["graph_module"]["signature"]["output_specs"]
        specs.extend([specs[0], specs[0]])

    outputs = results(import_torch(changed(file, MODEL, three_times), batch=1)["main"])
    assert [str(var.name) for var in outputs] == [only, f"{only}_output1", f"{only}_output2"]
    assert len({shape(var) for var in outputs}) == 1


def test_training_mode_is_refused(tmp_path):
    file, _, _ = program(tmp_path, "residual")

    def training(text):
        arguments = node(text, "aten.batch_norm")["inputs"]
        next(a for a in arguments if a["name"] == "training")["arg"] = {"as_bool": True}

    with pytest.raises(FrontendError, match=r"call model.eval\(\) before the export"):
        import_torch(changed(file, MODEL, training), batch=1)


def test_a_narrow_range_is_a_clip(file):
    def narrow(text):
        arguments = node(text, "quantized_decomposed.quantize_per_tensor")["inputs"]
        next(a for a in arguments if a["name"] == "quant_max")["arg"] = {"as_int": 127}

    def clips() -> int:
        names = [str(var.name) for var, _ in calls(import_torch(file, batch=2)["main"])]
        return sum(n.startswith("quantize") and n.endswith("/clipped") for n in names)

    assert clips() == 0
    changed(file, MODEL, narrow)
    assert clips() == 1
