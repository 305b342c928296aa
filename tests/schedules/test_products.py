"""Products of two activations and attention: equal to NumPy on every flavour of a CPU."""

import numpy as np
import pytest
from tvm.target import Target

from schedules.cpu.f32 import PRODUCT_F32
from schedules.cpu.plain import ATTENTION_PLAIN, PRODUCT_PLAIN
from schedules.reference.kernels import reference
from schedules.x86.products import (
    ATTENTION_AVX2,
    ATTENTION_AVXVNNI,
    ATTENTION_VNNI,
    PRODUCT_AVX2,
    PRODUCT_AVXVNNI,
    PRODUCT_VNNI,
)
from tests.schedules.product_cases import arrays_of, attention_of, product_of
from tests.schedules.run_template import run_template

TARGETS = {
    "vnni": ("cascadelake", "avx512_vnni", PRODUCT_VNNI, ATTENTION_VNNI),
    "avxvnni": ("alderlake", "avx_vnni", PRODUCT_AVXVNNI, ATTENTION_AVXVNNI),
    "avx2": ("haswell", "avx2", PRODUCT_AVX2, ATTENTION_AVX2),
    "plain": ("x86-64", None, PRODUCT_PLAIN, ATTENTION_PLAIN),
}
FLAVOURS = [
    pytest.param(name, id=name, marks=[pytest.mark.isa(isa)] if isa else [])
    for name, (_, isa, _, _) in TARGETS.items()
]
PRODUCTS = {
    "one": product_of(1, 1, 1, heads=1),
    "ragged": product_of(5, 19, 6, y="int8"),
    "scores": product_of(17, 33, 64, heads=3, y="float32"),
    "values": product_of(9, 40, 13, turned=True, a="uint8", b="int8"),
    "signed": product_of(8, 16, 24, turned=True, a="int8", b="int8", y="float32"),
}
ATTENTIONS = {
    "one": attention_of(1, 1, 1, 1, heads=1),
    "ragged": attention_of(5, 19, 6, 7, y="float32"),
    "window": attention_of(49, 49, 32, 32, mask="heads"),
    "sequence": attention_of(17, 33, 64, 40, mask="keys", q="int8", k="int8", v="int8", y="int8"),
    "masked": attention_of(9, 16, 8, 16, mask="all"),
}


def target_of(cpu: str) -> Target:
    return Target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("case", PRODUCTS)
def test_product(flavour, case):
    cpu, _, template, _ = TARGETS[flavour]
    for seed in (1, 2):
        arrays = arrays_of(PRODUCTS[case], seed)
        y = run_template(template, PRODUCTS[case], target_of(cpu), arrays)
        np.testing.assert_array_equal(y, reference(PRODUCTS[case], arrays, arrays))


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("case", ATTENTIONS)
def test_attention(flavour, case):
    cpu, _, _, template = TARGETS[flavour]
    for seed in (1, 2):
        arrays = arrays_of(ATTENTIONS[case], seed)
        y = run_template(template, ATTENTIONS[case], target_of(cpu), arrays)
        np.testing.assert_array_equal(y, reference(ATTENTIONS[case], arrays, arrays))


@pytest.mark.parametrize("case", ["ragged", "values"])
def test_product_of_floats(case):
    given = PRODUCTS[case]
    spec = product_of(
        given.rows, given.columns, given.depth, turned=case == "values", a="float32", b="float32",
        y="float32",
    )  # fmt: skip
    arrays = arrays_of(spec)
    y = run_template(PRODUCT_F32, spec, target_of("x86-64"), arrays)
    np.testing.assert_allclose(y, reference(spec, arrays, arrays), rtol=1e-5, atol=1e-5)


@pytest.mark.fast
@pytest.mark.parametrize(
    ("template", "spec", "reason"),
    [
        (PRODUCT_PLAIN, product_of(1, 1, 16513), "16513 products may leave int32"),
        (ATTENTION_PLAIN, attention_of(1, 16513, 4, 4), "16513 products may leave int32"),
        (PRODUCT_PLAIN, product_of(1, 1, 4, a="float32"), "x is float32, not uint8 or int8"),
        (PRODUCT_F32, product_of(1, 1, 4), "x is uint8, not float32"),
        (PRODUCT_VNNI, product_of(1, 1, 4), "lacks avx512vnni"),
    ],
)
def test_refuses(template, spec, reason):
    assert reason in template.refuses(spec, target_of("x86-64"))
