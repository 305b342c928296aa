"""PyTorch programs that write at the places where a mask is true."""

import numpy as np
import pytest

from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.torch.graph import TorchImporter
from relay_int8.frontend.torch.program import Program, ProgramNode, Ref
from tests.onnx_models import run_relax

pytestmark = pytest.mark.fast
X = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
ROW = np.arange(4, dtype="float32")


def node(operator: str, outputs: tuple[str, ...], changes: bool = False, **given) -> ProgramNode:
    return ProgramNode(
        name=f"node_{outputs[0]}",
        operator=f"aten.{operator}",
        arguments=given,
        outputs=outputs,
        changes=changes,
        path="",
        leaf=False,
    )


def columns(axis: int) -> list[ProgramNode]:
    """As a decomposed program has the indices along one axis."""
    cut = node("slice", (f"s{axis}",), self=Ref("p"), dim=1, start=axis, end=axis + 1)
    return [cut, node("squeeze", (f"i{axis}",), self=Ref(f"s{axis}"), dim=[1])]


PLACES = {
    "where": [node("where", ("i0", "i1"), condition=Ref("mask"))],
    "nonzero_numpy": [node("nonzero_numpy", ("i0", "i1"), self=Ref("mask"))],
    "nonzero": [node("nonzero", ("p",), self=Ref("mask")), *columns(0), *columns(1)],
}


def imported(places: list[ProgramNode], order=("i0", "i1"), between=()):
    nodes = [
        node("sum", ("total",), self=Ref("x"), dim=[-1]),
        node("gt", ("mask",), self=Ref("total"), other=0),
        *places,
        *between,
        node("mul", ("y",), self=Ref("x"), other=2.0),
        node("index_put", ("z",), True, self=Ref("y"), indices=[*map(Ref, order)],
             values=Ref("row")),
    ]  # fmt: skip
    program = Program(
        inputs={"x": ("float32", X.shape)},
        tensors={"row": ROW},
        weights=frozenset(),
        buffers={},
        changed=(),
        nodes=tuple(nodes),
        outputs=("z",),
        sizes={"mask": (2, 3), "z": X.shape},
    )
    return TorchImporter(program, None, {}).run()


@pytest.mark.parametrize("places", PLACES)
def test_places_of_a_mask_are_the_mask(places):
    wanted = X * 2
    wanted[np.where(X.sum(-1) > 0)] = ROW
    np.testing.assert_array_equal(run_relax(imported(PLACES[places]), X)[0], wanted)


@pytest.mark.parametrize("order", [("i1", "i0"), ("i0",)])
def test_other_places_are_refused(order):
    with pytest.raises(UnsupportedOpError, match="whose number is not known"):
        imported(PLACES["where"], order)


def test_a_mask_that_may_have_changed_is_refused():
    change = node("logical_not", ("other",), True, self=Ref("mask"))
    with pytest.raises(UnsupportedOpError, match="whose number is not known"):
        imported(PLACES["where"], between=[change])
