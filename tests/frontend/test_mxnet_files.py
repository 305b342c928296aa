"""MXNet files: formats of parameters, dialects of symbols, what is wrong with a file."""

import json
import struct

import numpy as np
import pytest

from relay_int8 import load_model
from relay_int8.errors import ConfigError, FrontendError, UnsupportedOpError
from relay_int8.frontend.mxnet import import_mxnet
from relay_int8.frontend.mxnet.attributes import Attributes
from relay_int8.frontend.mxnet.params import read_params
from relay_int8.frontend.mxnet.symbol import read_symbol
from relay_int8.graph.dataflow import calls, dtype, operator, results, shape
from relay_int8.notices import Notice
from tests.mxnet_models import MxnetModel, params_bytes

pytestmark = pytest.mark.fast
RNG = np.random.default_rng(0)
ARRAYS = {
    "arg:w": RNG.normal(size=(4, 3, 1, 1)).astype("float32"),
    "aux:m": RNG.normal(size=5),
    "arg:h": RNG.normal(size=(2, 3)).astype("float16"),
    "plain": RNG.integers(-9, 9, (2, 2)).astype("int64"),
    "ü": RNG.integers(0, 9, 3).astype("uint8"),
}


def written(tmp_path, data: bytes):
    path = tmp_path / "net-0000.params"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("version", [None, 1, 2, 3])
def test_every_format_of_parameters(tmp_path, version):
    found = read_params(written(tmp_path, params_bytes(ARRAYS, version)))
    assert list(found) == ["w", "m", "h", "plain", "ü"]
    for array, expected in zip(found.values(), ARRAYS.values(), strict=True):
        assert array.dtype == expected.dtype
        np.testing.assert_array_equal(array, expected)


def test_scalar_and_nothing(tmp_path):
    """In V3 rank 0 is a scalar and -1 is no array; before, rank 0 is none."""
    scalar = read_params(written(tmp_path, params_bytes({"s": np.float32(2.5).reshape(())}, 3)))
    assert scalar["s"].shape == ()
    assert scalar["s"] == 2.5
    nothing = params_bytes({"a": ARRAYS["arg:w"]}, 3)[:32] + struct.pack("<iQQ", -1, 1, 1) + b"a"
    assert read_params(written(tmp_path, nothing)) == {}
    before = params_bytes({"a": ARRAYS["arg:w"]}, 2)[:32] + struct.pack("<iQQ", 0, 1, 1) + b"a"
    assert read_params(written(tmp_path, before)) == {}


@pytest.mark.parametrize(("storage", "kind"), [(1, "row-sparse"), (2, "compressed sparse rows")])
def test_sparse_is_refused(tmp_path, storage, kind):
    data = bytearray(params_bytes(ARRAYS, 2))
    data[28:32] = struct.pack("<i", storage)
    with pytest.raises(FrontendError, match=f"array 0 is {kind}; only dense"):
        read_params(written(tmp_path, bytes(data)))


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (
            0,
            struct.pack("<Q", 0x113),
            "expected MXNet parameters, found a file that starts with 13",
        ),
        (16, struct.pack("<Q", 2**63), "9223372036854775808 arrays cannot be in"),
        (24, struct.pack("<I", 2**31), "has rank 2147483648"),
        (32, struct.pack("<i", 33), "array 0 has rank 33"),
        (36, struct.pack("<q", 2**62), "array 0, .* needs .* bytes, .* are left"),
        (36, struct.pack("<q", -4), r"array 0 has shape \[-4, 3, 1, 1\]"),
        (76, struct.pack("<i", 12), "array 0 has elements of type 12"),
    ],
)
def test_wrong_numbers_are_named(tmp_path, place, value, message):
    data = bytearray(params_bytes(ARRAYS, 2))
    data[place : place + len(value)] = value
    with pytest.raises(FrontendError, match=message):
        read_params(written(tmp_path, bytes(data)))


def test_lists_that_do_not_end_where_they_should(tmp_path):
    data = params_bytes(ARRAYS)
    with pytest.raises(FrontendError, match="1 bytes follow the list"):
        read_params(written(tmp_path, data + b"\0"))
    for size in range(0, len(data), 5):
        with pytest.raises(FrontendError):
            read_params(written(tmp_path, data[:size]))


def test_names(tmp_path):
    w = ARRAYS["arg:w"]
    with pytest.raises(FrontendError, match="two arrays are called 'w'"):
        read_params(written(tmp_path, params_bytes({"arg:w": w, "aux:w": w})))
    unnamed = params_bytes({"w": w})[: -(8 + 8 + 1)] + struct.pack("<Q", 0)
    with pytest.raises(FrontendError, match="1 arrays but 0 names"):
        read_params(written(tmp_path, unnamed))


def dense(spelling="attrs", version=10900, **attrs):
    net = MxnetModel(spelling, version)
    x = net.variable("data", **attrs)
    return net, net.dense(x, "fc", (2, 3))


@pytest.mark.parametrize(
    ("spelling", "version"), [("param", 900), ("attr", 1000), ("attrs", 10200)]
)
def test_every_spelling_of_attributes(tmp_path, spelling, version):
    net, y = dense(spelling, version)
    mod = net.imported(tmp_path, y, data=(4, 3))
    assert [str(param.name) for param in mod["main"].params] == ["data"]
    assert [var.name for var, _ in calls(mod["main"])] == ["fc/weight", "fc/matmul", "fc"]
    assert shape(results(mod["main"])[0]) == (4, 2)


def test_entries_of_two_numbers(tmp_path):
    """Before 0.9 an input was node and output; the version of a variable came later."""
    net, y = dense("param", 800)
    path = net.save(tmp_path, y)
    graph = json.loads(path.read_text())
    for node in graph["nodes"]:
        node["inputs"] = [entry[:2] for entry in node["inputs"]]
        node["backward_source_id"] = -1
    graph["heads"] = [list(y)]
    path.write_text(json.dumps(graph))
    assert shape(results(import_mxnet(path, inputs={"data": (4, 3)})["main"])[0]) == (4, 2)


def test_operator_parameters_beside_user_attributes(tmp_path):
    """Files of 0.9 keep what the user attached under attr, the operator's own under param."""
    net, y = dense("param", 900)
    net.nodes[-1]["attr"] = {"ctx_group": "dev1", "lr_mult": "0.1"}
    assert shape(results(net.imported(tmp_path, y, data=(4, 3))["main"])[0]) == (4, 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("(3, 3)", (3, 3)), ("[3,3]", (3, 3)), ("(3L, 3L)", (3, 3)), ("3", (3,)), ("(3,)", (3,)),
     ("()", ()), ("None", ()), ("(None, -1)", (None, -1))],
)  # fmt: skip
def test_tuples(text, expected):
    assert Attributes({"kernel": text}).integers("kernel") == expected


@pytest.mark.parametrize("text", ["(3, x)", "(3.5,)", "(99999999999,)", "3,,3", "٣" * 12])
def test_what_is_no_tuple(text):
    with pytest.raises(ValueError, match=r"its kernel has .* where an integer is expected"):
        Attributes({"kernel": text}).integers("kernel")


@pytest.mark.parametrize(
    ("text", "expected"), [("True", True), ("1", True), ("False", False), ("0", False)]
)
def test_flags(text, expected):
    assert Attributes({"no_bias": text}).flag("no_bias", not expected) is expected


def test_numbers():
    attributes = Attributes({"a": "1e-05", "b": "nan", "c": "None", "d": "7L", "e": "maybe"})
    assert attributes.real("a") == 1e-5
    assert attributes.real("c", 2.0) == 2.0
    assert attributes.integer("d") == 7
    with pytest.raises(ValueError, match="its b is 'nan', not a number"):
        attributes.real("b")
    with pytest.raises(ValueError, match="it has no c"):
        attributes.integer("c")
    with pytest.raises(ValueError, match="its e is 'maybe', neither True nor False"):
        attributes.flag("e", True)
    with pytest.raises(ValueError, match="an integer of 8 or more"):
        attributes.integer("d", least=8)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected the JSON of an MXNet symbol"),
        ("[" * 100_000, "expected the JSON of an MXNet symbol"),
        ('{"nodes": 3}', "it has no list of nodes"),
        ('{"nodes": []}', "it has no heads"),
        ('{"nodes": [{"op": "null"}], "heads": [[0, 0]]}', "node 0 has no op or no name"),
        ('{"nodes": [], "heads": [[0, 0]]}', "a head reads node 0, of which there are 0"),
        ('{"nodes": [{"op": "a", "name": "b", "inputs": [[0, 0]]}], "heads": [[0, 0]]}',
         "node b reads node 0, of which there are 0 before it"),
        ('{"nodes": [{"op": "a", "name": "b", "inputs": [[true, 0]]}], "heads": [[0, 0]]}',
         "not .node, output."),
    ],
)  # fmt: skip
def test_wrong_symbols(tmp_path, text, message):
    path = tmp_path / "net-symbol.json"
    path.write_text(text)
    with pytest.raises(FrontendError, match=message):
        read_symbol(path)


def test_parameters_beside_the_symbol(tmp_path):
    net, y = dense()
    path = net.save(tmp_path, y)
    (tmp_path / "other-0000.params").write_bytes(params_bytes({}))
    import_mxnet(path, inputs={"data": (1, 3)})
    (tmp_path / "net-0007.params").write_bytes(params_bytes(net.params))
    with pytest.raises(
        FrontendError, match=r"found net-0000.params, net-0007.params: pass ImportOptions\(params="
    ):
        import_mxnet(path, inputs={"data": (1, 3)})
    import_mxnet(path, tmp_path / "net-0007.params", inputs={"data": (1, 3)})
    with pytest.raises(FrontendError, match=r"none.params: no such file"):
        import_mxnet(path, tmp_path / "none.params", inputs={"data": (1, 3)})


def test_files_that_are_mistaken_for_the_model(tmp_path):
    net, y = dense()
    path = net.save(tmp_path, y)
    with pytest.raises(FrontendError, match=r"give its graph, .*net-symbol.json"):
        load_model(tmp_path / "net-0000.params")
    weights = (tmp_path / "net-0000.params").rename(tmp_path / "weights")
    with pytest.raises(FrontendError, match=r"found MXNet parameters: give the -symbol.json"):
        load_model(weights)
    text = path.rename(tmp_path / "net.txt")
    with pytest.raises(FrontendError, match=r"the name of an MXNet symbol ends in .json"):
        load_model(text)


def test_shapes_of_inputs(tmp_path):
    net, y = dense(__shape__="(0, 3)")
    path = net.save(tmp_path, y)
    mod = import_mxnet(path, batch=2)
    assert shape(mod["main"].params[0]) == (2, 3)
    mod = import_mxnet(path, inputs={"data": (5, 3)})
    assert shape(mod["main"].params[0]) == (5, 3)
    with pytest.warns(Notice, match="input data leaves its batch open; batch 1 is taken"):
        mod = import_mxnet(path)
    assert shape(mod["main"].params[0]) == (1, 3)
    with pytest.raises(FrontendError, match="the model has no input image; it has data"):
        import_mxnet(path, inputs={"image": (5, 3)})
    with pytest.raises(FrontendError, match=r"node fc .*its weight is \[2, 3\], not \[2, 4\]"):
        import_mxnet(path, inputs={"data": (5, 4)})


def test_symbol_without_shapes(tmp_path):
    net, y = dense()
    with pytest.raises(
        FrontendError, match=r"its shape is open \(nothing\); give ImportOptions\(inputs=\{'data'"
    ):
        import_mxnet(net.save(tmp_path, y))


def test_missing_weights_are_named(tmp_path):
    net, y = dense(__shape__="(1, 3)")
    net.nodes[1]["attrs"] = {"__shape__": "(2, 3)"}
    del net.params["arg:fc_weight"]
    with pytest.raises(FrontendError, match=r"1 weights .* not in the parameters: fc_weight; do"):
        import_mxnet(net.save(tmp_path, y))


def test_two_inputs_of_one_name(tmp_path):
    net = MxnetModel()
    a, b = (net.variable("data", __shape__="(1, 3)") for _ in range(2))
    with pytest.raises(FrontendError, match="two inputs of the model are called data"):
        import_mxnet(net.save(tmp_path, net.op("elemwise_add", "sum", a, b)))


def test_labels_are_no_inputs(tmp_path):
    net, y = dense(__shape__="(1, 3)")
    y = net.op("SoftmaxOutput", "softmax", y, net.variable("softmax_label"))
    mod = import_mxnet(net.save(tmp_path, y))
    assert [str(param.name) for param in mod["main"].params] == ["data"]


def test_halves_become_floats(tmp_path):
    net, y = dense(__shape__="(1, 3)")
    net.params = {name: value.astype("float16") for name, value in net.params.items()}
    y = net.op("Cast", "out", y, dtype="float16")
    func = import_mxnet(net.save(tmp_path, y))["main"]
    assert {dtype(var) for var, _ in calls(func)} == {"float32"}


def test_operators_that_cannot_be_imported_are_listed_at_once(tmp_path):
    net, y = dense(__shape__="(1, 3)")
    y = net.op("_contrib_Proposal", "rois", y)
    y = net.op("Frobnicate", "a", net.op("Frobnicate", "b", y))
    with pytest.raises(
        UnsupportedOpError,
        match=r"2 kinds .*_contrib_Proposal \(rois: region prop.*; Frobnicate \(b, a\)",
    ):
        import_mxnet(net.save(tmp_path, y))


def test_outputs_of_training_are_refused(tmp_path):
    net = MxnetModel()
    x = net.variable("data", __shape__="(1, 3, 4, 4)")
    y = net.batch_norm(x, "bn", 3)
    with pytest.raises(
        FrontendError, match=r"reads output 1 of node bn .*not computed in inference"
    ):
        import_mxnet(net.save(tmp_path, (y[0], 1)))


def test_names_of_several_outputs(tmp_path):
    net = MxnetModel()
    x = net.variable("data", __shape__="(1, 4)")
    y = net.op("SliceChannel", "halves", x, num_outputs=2)
    func = import_mxnet(net.save(tmp_path, (y[0], 1), y))["main"]
    assert [var.name for var in results(func)] == ["halves_output1", "halves"]
    assert [operator(value) for _, value in calls(func)] == ["strided_slice", "strided_slice"]


def test_broken_weights_are_named(tmp_path):
    net, y = dense(__shape__="(1, 3)")
    net.params["arg:fc_bias"][0] = np.nan
    with pytest.raises(FrontendError, match="parameter fc_bias has NaN or infinite values"):
        import_mxnet(net.save(tmp_path, y))


def test_symbol_of_absurd_size(tmp_path):
    path = tmp_path / "net-symbol.json"
    path.write_text(json.dumps({"nodes": []}) + " " * (17 << 20))
    with pytest.raises(FrontendError, match="an MXNet symbol has at most"):
        read_symbol(path)


def test_nodes_that_a_user_names_are_the_outputs(tmp_path):
    net = MxnetModel()
    x = net.op("Activation", "relu", net.variable("data"), act_type="relu")
    path = net.save(tmp_path, net.op("Custom", "boxes", x, op_type="boxes"))
    with pytest.raises(UnsupportedOpError, match="make outputs of what they read"):
        import_mxnet(path, inputs={"data": (1, 4)})
    mod = import_mxnet(path, inputs={"data": (1, 4)}, outputs=["relu"])
    assert [str(var.name) for var in results(mod["main"])] == ["relu"]
    with pytest.raises(
        ConfigError, match=r"outputs=\['data'\]\): the file computes no such tensor"
    ):
        import_mxnet(path, inputs={"data": (1, 4)}, outputs=["data"])
