"""Einsums that are matrix products become them; all are equal to NumPy's."""

import numpy as np
import pytest
from onnx import helper

from relay_int8.compiler.pipeline import normalize
from relay_int8.errors import UnsupportedOpError
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph.dataflow import calls, constant, operator
from tests.onnx_models import assert_close, model, run_relax

RNG = np.random.default_rng(0)
EXTENTS = {"b": 2, "h": 3, "i": 4, "j": 5, "d": 6, "c": 7, "k": 2}
PRODUCTS = (
    "bhid,bhjd->bhij",
    "bhij,bhjd->bihd",
    "bic,bchd->bihd",
    "bhid, ijd -> bhij",
    "ij,jd",
    "di,id->i",
    "bihd,hdc->bic",
    "ijk,jkd->di",
    "...i,ij->...j",
    "...ij,...jd->...id",
    "b...i,...id->b...d",
    "i...,b...i->...b",
)
OF_SEVERAL = ("bihd,bhdj,bih->bihj", "bi,ij,jd,bk->dk", "...i,ij,jd->...d")
OTHERS = ("bhid,bhjd->bi", "ij,kd->ijkd", "bi,bi->bi", "...i,...i", "ii,ij->j", "bij->bji")


def einsum(equation: str, weights: int | None = None):
    """Return a model, its operands, and the result; the operand ``weights`` is a constant."""
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    dims = [[EXTENTS[label] for label in term.replace("...", "bh")] for term in terms]
    arrays = {f"x{i}": RNG.normal(size=size).astype("float32") for i, size in enumerate(dims)}
    constants = {} if weights is None else {f"x{weights}": arrays[f"x{weights}"]}
    inputs = {name: array.shape for name, array in arrays.items() if name not in constants}
    node = helper.make_node("Einsum", list(arrays), ["y"], equation=equation)
    expected = np.einsum(equation.replace(" ", ""), *arrays.values())
    proto = model([node], inputs, {"y": None}, constants)
    return proto, [arrays[name] for name in inputs], expected


@pytest.mark.parametrize("equation", [*PRODUCTS, *OF_SEVERAL, *OTHERS])
def test_equals_numpy(equation: str):
    proto, arrays, expected = einsum(equation)
    mod = import_onnx(proto)
    operators = [operator(value) for _, value in calls(mod["main"])]
    assert ("matmul" in operators) == (equation in PRODUCTS + OF_SEVERAL)
    assert_close(run_relax(mod, *arrays), [expected])


@pytest.mark.parametrize("weights", [0, 1])
def test_constants_are_the_right_operand(weights: int):
    proto, arrays, expected = einsum("bihd,hdc->bic" if weights else "hdc,bihd->bic", weights)
    mod = normalize()(import_onnx(proto))
    (product,) = [value for _, value in calls(mod["main"]) if operator(value) == "matmul"]
    assert constant(product.args[1]) is not None
    assert_close(run_relax(mod, *arrays), [expected])


def test_a_label_of_the_result_alone_is_refused():
    node = helper.make_node("Einsum", ["x", "z"], ["y"], equation="ij,jk->ikb")
    with pytest.raises(UnsupportedOpError, match=r"its result has b, and no operand has"):
        import_onnx(model([node], {"x": (2, 3), "z": (3, 4)}, {"y": None}))
