"""The kernels that are run as PTX: those of the tests of the emulation, by family."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from relay_int8.numerics.multipliers import fixed_constants
from schedules.reference.kernels import reference
from schedules.spec import Conv2d
from schedules.template import Arrays
from tests.cuda import (
    test_conv2d_dp4a,
    test_conv2d_mma,
    test_dense_mma,
    test_fixed_point,
    test_float16,
    test_layout_flexible,
    test_other_contractions,
    test_products,
    test_recurrence,
    test_rows,
    test_sample2d,
    test_suppression,
    test_symbolic_batch,
)
from tests.cuda.run_template import Built, Case
from tests.schedules import numpy_kernels, product_cases, recurrence_cases, suppression_cases
from tests.schedules.any_layout_runs import random_tensors


@dataclass(frozen=True, kw_only=True)
class Family:
    """Kernels, their arguments, and what they must return; ``quick`` are run by plain pytest."""

    cases: Mapping[str, Case]
    arrays: Callable[[str], Arrays]
    expected: Callable[[Any, Arrays], np.ndarray]
    architectures: tuple[str, ...] = ("sm_61", "sm_80")
    quick: tuple[str, ...]

    def check(self, built: Built, name: str) -> None:
        """Compare with ``==``; products of floats, whose order of sums is free, within 1e-5."""
        spec, arrays = self.cases[name].spec, self.arrays(name)
        found, expected = built.run(name, arrays), self.expected(spec, arrays)
        if self.is_exact(name):
            np.testing.assert_array_equal(found, expected)
        else:
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=5e-5)

    def is_exact(self, name: str) -> bool:
        """Return whether every bit is known, as of all but products of floats."""
        spec = self.cases[name].spec
        is_product = spec.kind in ("conv2d", "dense", "product")
        return not (is_product and spec.dtype(spec.tensors[0]) == "float32")


def _contractions(cases: Mapping[str, Case], quick: tuple[str, ...], **fields: Any) -> Family:
    """Return convolutions and matrix products, on random arrays, against plain NumPy."""

    def arrays(name: str) -> Arrays:
        return numpy_kernels.random_arrays(cases[name].spec, np.random.default_rng(1))

    return Family(
        cases=cases, arrays=arrays, expected=numpy_kernels.reference, quick=quick, **fields
    )


def _others(
    cases: Mapping[str, Case], arrays: Callable[[str], Arrays], *quick: str, **fields: Any
) -> Family:
    """Return kernels whose reference is that of the project."""

    def expected(spec: Any, arrays: Arrays) -> np.ndarray:
        return reference(spec, arrays, arrays)

    return Family(cases=cases, arrays=arrays, expected=expected, quick=quick, **fields)


def _halves() -> Family:
    family = _contractions(test_float16.CASES, ("conv_ragged", "dense_odd"))

    def expected(spec: Any, arrays: Arrays) -> np.ndarray:
        return numpy_kernels.reference(spec, test_float16.rounded(arrays))

    return Family(cases=family.cases, arrays=family.arrays, expected=expected, quick=family.quick)


def _flexible_arrays(name: str) -> Arrays:
    case, params = test_layout_flexible.ROWS[name]
    return {**random_tensors(case.spec), **params}


def _row_arrays(name: str) -> Arrays:
    spec = test_rows.CASES[name].spec
    return {"x": test_rows.values(spec), **test_rows.params_of(spec)}


def _sample_arrays(name: str) -> Arrays:
    spec = test_sample2d.CASES[name].spec
    return {**test_sample2d.tensors_of(spec), **test_sample2d.params_of(spec)}


def _product_arrays(name: str) -> Arrays:
    return product_cases.arrays_of(test_products.SPECS[name])


def _recurrent_arrays(name: str) -> Arrays:
    return recurrence_cases.arrays_of(test_recurrence.SPECS[name])


def _suppression_arrays(name: str) -> Arrays:
    return suppression_cases.arrays_of(test_suppression.SPECS[name])


def _fixed_point_arrays(name: str) -> Arrays:
    spec = test_fixed_point.CASES[name].spec
    if name in test_fixed_point.LINEAR:
        plain = dataclasses.replace(spec, requantize="float")
        arrays = numpy_kernels.random_arrays(plain, np.random.default_rng(1))
    else:
        arrays = random_tensors(spec) | test_fixed_point.ELEMENTWISE[name][1]
    tensors = {tensor: arrays[tensor] for tensor in spec.tensors}
    return tensors | fixed_constants(spec, arrays)


def _open_batch_arrays(name: str) -> Arrays:
    spec = test_symbolic_batch.CASES[name].spec
    if spec.kind in ("conv2d", "dense"):
        return numpy_kernels.random_arrays(spec, np.random.default_rng(1), OPEN_BATCH)
    return {**random_tensors(spec, OPEN_BATCH), **test_layout_flexible.ROWS[name][1]}


OPEN_BATCH = 3
CONVOLUTIONS = {name: test_conv2d_dp4a.case_of(name) for name in test_conv2d_dp4a.CASES}
assert all(isinstance(case.spec, Conv2d) for case in CONVOLUTIONS.values())
FAMILIES = {
    "conv2d_dp4a": _contractions(
        CONVOLUTIONS,
        ("residual_s8_leaky", "several_fetches", "runs_border", "groups", "depthwise"),
    ),
    "conv2d_mma": _contractions(
        {name: test_conv2d_mma.case_of(name) for name in test_conv2d_mma.CASES},
        ("residual_s8_leaky", "several_fetches", "groups"),
        architectures=("sm_75", "sm_80"),
    ),
    "dense_mma": _contractions(
        {name: test_dense_mma.case_of(name) for name in test_dense_mma.CASES},
        ("rows", "ragged"),
        architectures=("sm_75", "sm_80"),
    ),
    "contractions": _contractions(
        test_other_contractions.CASES, ("rows", "groups_across_blocks", "float_ragged")
    ),
    "float16": _halves(),
    "layout_flexible": _others(
        {name: case for name, (case, _) in test_layout_flexible.ROWS.items()},
        _flexible_arrays,
        "add", "mul_channel", "quantize", "max_pool", "concat", "pack", "table",
    ),
    "rows": _others(test_rows.CASES, _row_arrays, "layer_49", "softmax_49"),
    "products": _others(
        {name: Case(spec=spec) for name, spec in test_products.SPECS.items()},
        _product_arrays,
        "product_ragged", "attention_masked",
    ),
    "recurrence": _others(
        {name: test_recurrence.CASES[name] for name in test_recurrence.SPECS},
        _recurrent_arrays,
        "lstm_ragged", "gru_state",
    ),
    "fixed_point": _others(
        test_fixed_point.CASES,
        _fixed_point_arrays,
        "dp4a",
        "mma",
        "average",
        architectures=("sm_80",),
    ),
    "open_batch": _others(
        test_symbolic_batch.CASES, _open_batch_arrays, "residual_u8", "max_pool"
    ),
    "sample2d": _others(test_sample2d.CASES, _sample_arrays, "plain_words"),
    "suppression": _others(test_suppression.CASES, _suppression_arrays, "limits", "labels"),
}  # fmt: skip
