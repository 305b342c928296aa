"""Tensor-core matrix product on the emulated GPU: equal to NumPy, by default and sampled."""

from typing import Any

import pytest
from tvm import tirx
from tvm.target import Target

from schedules.cuda.mma.dense_mma import DENSE_MMA
from schedules.layout import ROW
from schedules.spec import Dense
from schedules.template import Layouts
from tests.cuda.run_template import SM_80, Built, Case, assert_equal, build

BASE: dict[str, Any] = {"rows": 1, "n": 64, "k": 64, "x": "uint8", "y": "uint8"}
CASES: dict[str, dict[str, Any]] = {
    "one_row": {},
    "rows": {"rows": 37, "n": 96, "x": "int8", "y": "int8", "leaky": True},
    "ragged": {"rows": 3, "n": 13, "k": 48, "y": "float32"},
    "ragged_bytes": {"rows": 2, "n": 42, "k": 16, "x": "int8", "y": "int8"},
    "eights": {"rows": 5, "n": 40, "k": 80, "y": "float32"},
    "long": {"n": 1000, "k": 1024, "y": "float32"},
}


def case_of(name: str, **fields: Any) -> Case:
    spec = Dense(**(BASE | CASES[name] | fields))
    return Case(spec=spec, template=DENSE_MMA, wanted=Layouts(inputs=(ROW,), output=ROW))


@pytest.fixture(scope="module")
def by_default() -> Built:
    return build({case: case_of(case) for case in CASES})


@pytest.mark.parametrize("name", CASES)
def test_default(by_default, name):
    assert_equal(by_default, name)


SAMPLED = ("one_row", "rows", "ragged", "eights")


@pytest.mark.parametrize("seed", [1, 2])
def test_sampled(seed):
    built = build({case: case_of(case) for case in SAMPLED}, seed=seed)
    for name in SAMPLED:
        assert_equal(built, name)


def test_symbolic_rows():
    rows = tirx.Var("rows", "int64")
    built = build({"ragged": case_of("ragged", rows=rows)})
    for batch in (1, 5):
        assert_equal(built, "ragged", batch)


@pytest.mark.fast
def test_rows_that_cannot_be_copied_are_refused():
    reason = DENSE_MMA.refuses(Dense(**(BASE | {"k": 40})), SM_80)
    assert reason == "rows of 40 bytes; want multiples of 16, which are copied at once"


@pytest.mark.fast
def test_old_gpus_are_refused():
    reason = DENSE_MMA.refuses(Dense(**BASE), Target({"kind": "cuda", "arch": "sm_61"}))
    assert reason is not None and "sm_61 has no tensor cores for bytes" in reason
