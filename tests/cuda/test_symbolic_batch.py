"""One kernel for every batch: equal to the reference for several."""

import dataclasses

import numpy as np
import pytest
from tvm import tirx

from schedules.reference.kernels import reference
from schedules.spec import Concat, Conv2d, Dense, Move, Spec
from tests.cuda.run_template import Built, Case, build
from tests.cuda.test_conv2d_dp4a import CASES as CONVS
from tests.cuda.test_conv2d_dp4a import case_of
from tests.cuda.test_layout_flexible import ROWS
from tests.cuda.test_other_contractions import CASES as OTHERS
from tests.schedules.any_layout_runs import random_tensors
from tests.schedules.numpy_kernels import random_arrays

N = tirx.Var("n", "int64")
CONTRACTIONS = ("residual_u8", "pointwise_strided", "prime_asymmetric")
FLEXIBLE = (
    "max_pool",
    "max",
    "average_global",
    "quantize",
    "dequantize",
    "table",
    "concat",
    "pack",
    "add",
)
assert set(CONTRACTIONS) <= set(CONVS)


def with_symbolic_batch(spec: Spec) -> Spec:
    """Return ``spec`` with its outermost extent open."""
    if isinstance(spec, Dense):
        return dataclasses.replace(spec, rows=N)
    if hasattr(spec, "batch"):
        return dataclasses.replace(spec, batch=N)
    if isinstance(spec, Concat):
        return dataclasses.replace(spec, shapes=tuple((N, *dims[1:]) for dims in spec.shapes))
    fields = ("x_shape", "y_shape") if isinstance(spec, Move) else ("a_shape", "b_shape", "dims")
    changed = {name: (N, *getattr(spec, name)[1:]) for name in fields if hasattr(spec, name)}
    return dataclasses.replace(spec, **changed)


KNOWN = {
    **{name: case_of(name) for name in CONTRACTIONS},
    **{name: OTHERS[name] for name in ("rows", "ragged", "depthwise")},
    **{name: ROWS[name][0] for name in FLEXIBLE},
}
CASES = {
    name: dataclasses.replace(case, spec=with_symbolic_batch(case.spec))
    for name, case in KNOWN.items()
}


@pytest.fixture(scope="module")
def built() -> Built:
    return build(CASES)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("name", CASES)
def test_equals_reference(built, name, batch):
    spec = CASES[name].spec
    if isinstance(spec, Conv2d | Dense):
        arrays = random_arrays(spec, np.random.default_rng(batch), batch)
    else:
        arrays = {**random_tensors(spec, batch), **ROWS[name][1]}
    params = {key: arrays[key] for key in spec.params}
    tensors = {key: arrays[key] for key in spec.tensors}
    np.testing.assert_array_equal(built.run(name, arrays), reference(spec, tensors, params))


def test_the_batch_is_an_argument(built):
    case: Case = CASES["residual_u8"]
    assert not isinstance(case.spec.batch, int)
    assert "int64_t n)" in built.source
