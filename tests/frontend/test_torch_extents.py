"""Arithmetic of shapes in PyTorch programs: as Python computes, and refused where it cannot be."""

import json
import zipfile

import pytest

from relay_int8.frontend.torch import import_torch
from relay_int8.frontend.torch.extents import EXTENTS
from relay_int8.frontend.torch.program import _node
from relay_int8.frontend.torch.step import TorchStep
from relay_int8.graph.dataflow import calls, constant, operator, results, shape
from tests.frontend.torch_programs import program

pytestmark = pytest.mark.fast


def computed(name: str, *operands: object) -> object:
    given = dict(zip("abc", operands, strict=False))
    step = TorchStep(arguments=given, emit=lambda _, value: value, operator=name)
    return EXTENTS[name](step)


@pytest.mark.parametrize(
    ("name", "operands", "wanted"),
    [
        ("_operator.add", (3, 4), 7),
        ("_operator.and_", (True, False), False),
        ("_operator.floordiv", (-7, 2), -4),
        ("_operator.ge", (4, 4), True),
        ("_operator.lshift", (3, 2), 12),
        ("_operator.mod", (-3, 8), 5),
        ("_operator.neg", (5,), -5),
        ("_operator.or_", (False, True), True),
        ("_operator.pow", (16.0, -0.5), 0.25),
        ("_operator.pow", (3, 2), 9),
        ("_operator.rshift", (9, 1), 4),
        ("_operator.truediv", (6, 4), 1.5),
        ("math.trunc", (-1.5,), -1),
        ("torch._sym_sqrt", (144,), 12.0),
        ("torch.sym_float", (3,), 3.0),
        ("torch.sym_int", (2.75,), 2),
        ("torch.sym_ite", (False, 1, 2), 2),
        ("torch.sym_max", (3, 5), 5),
        ("torch.sym_min", (3, 5), 3),
        ("torch.sym_not", (False,), True),
    ],
)
def test_numbers(name, operands, wanted):
    result = computed(name, *operands)
    assert result == wanted
    assert type(result) is type(wanted)


@pytest.mark.parametrize(
    ("name", "operands", "message"),
    [
        ("_operator.add", (3,), "not 2 numbers"),
        ("_operator.add", ("a", "b"), "not 2 numbers"),
        ("_operator.mod", (3, 0), "no result"),
        ("_operator.or_", (1.5, 2), "no result"),
        ("_operator.pow", (2, 10**9), "the exponent is too large"),
        ("_operator.pow", (-2.0, 0.5), "the base is negative"),
        ("_operator.lshift", (1, 10**9), "too many bits"),
        ("_operator.rshift", (1, -1), "no result"),
        ("_operator.truediv", (float("inf"), 2), "no extent"),
        ("torch._sym_sqrt", (-1,), "no result"),
        ("torch.sym_int", (float("nan"),), "no result"),
    ],
)
def test_numbers_that_are_none(name, operands, message):
    with pytest.raises(ValueError, match=message):
        computed(name, *operands)


def test_conditions_are_joined_and_not_overwritten():
    inputs = [{"name": name, "arg": {"as_sym_bool": {"as_name": name}}, "kind": 1} for name in "ab"]
    outputs = [{"as_sym_bool": {"as_name": "either"}}]
    node = _node({"target": "_operator.or_", "inputs": inputs, "outputs": outputs})
    assert node.operator in EXTENTS
    assert not node.changes


def test_a_factor_that_follows_from_an_extent(tmp_path):
    """Scales such as ``(h * w) ** -0.5``, of the larger side, from a program with open sizes."""
    file, _, _ = program(tmp_path, "residual")
    with zipfile.ZipFile(file) as found:
        entries = {name: found.read(name) for name in found.namelist()}
    key = next(name for name in entries if name.endswith("models/model.json"))
    text = json.loads(entries[key])
    graph = text["graph_module"]["graph"]
    image = text["graph_module"]["signature"]["input_specs"][-1]["user_input"]["arg"]["as_tensor"]
    output = text["graph_module"]["signature"]["output_specs"][0]["user_output"]["arg"]["as_tensor"]

    def node(target, name, kind, **arguments):
        inputs = [{"name": key, "arg": arg, "kind": 1} for key, arg in arguments.items()]
        outputs = [{kind: {"name" if kind == "as_tensor" else "as_name": name}}]
        graph["nodes"].append(
            {"target": target, "name": name, "inputs": inputs, "outputs": outputs, "metadata": {}}
        )

    sides = [{"as_sym_int": {"as_name": name}} for name in ("h", "w")]
    for axis, name in ((2, "h"), (3, "w")):
        size = {"self": {"as_tensor": image}, "dim": {"as_int": axis}}
        node("torch.ops.aten.sym_size.int", name, "as_sym_int", **size)
    node("torch.sym_max", "side", "as_sym_int", a=sides[0], b=sides[1])
    side = {"as_sym_int": {"as_name": "side"}}
    node("_operator.pow", "scale", "as_sym_float", a=side, b={"as_float": -0.5})
    scale = {"as_sym_float": {"as_name": "scale"}}
    scaled = {"self": {"as_tensor": dict(output)}, "other": scale}
    node("torch.ops.aten.mul.Tensor", "scaled", "as_tensor", **scaled)
    output["name"] = "scaled"
    entries[key] = json.dumps(text).encode()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    main = import_torch(file, batch=1)["main"]
    (height, width), (result,) = shape(main.params[0])[2:], results(main)
    multiply = next(call for var, call in calls(main) if var.same_as(result))
    assert operator(multiply) == "multiply"
    assert constant(multiply.args[1]) == pytest.approx(max(height, width) ** -0.5)
