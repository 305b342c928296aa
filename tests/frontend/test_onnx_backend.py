"""A part of ONNX's own tests of operators; ``scripts/onnx_backend`` runs all of them."""

import sys

import numpy as np
import pytest

from benchmarks.parity.onnx_backend import (
    VARIANTS,
    difference,
    node_cases,
    run_case,
    run_in_processes,
    with_constants,
)

PASSING = {
    ("maxpool", "test_maxpool_with_argmax_2d_precomputed_pads", "file"),
    ("bitshift", "test_bitshift_left_int8_negative_shift", "file"),
    ("conv", "test_basic_conv_with_padding", "constants"),
    ("dynamicquantizelinear", "test_dynamicquantizelinear_min_adjusted_expanded", "file"),
    ("isinf", "test_isinf_negative", "file"),
    ("scan", "test_scan9_scalar", "constants"),
    ("nonmaxsuppression", "test_nonmaxsuppression_center_point_box_format", "constants"),
    ("nonmaxsuppression", "test_nonmaxsuppression_flipped_coordinates", "constants"),
    ("nonmaxsuppression", "test_nonmaxsuppression_two_batches", "constants"),
    ("nonzero", "test_nonzero_example", "file"),
    ("mod", "test_mod_float_edge_cases_fmod_0_float16", "file"),
    ("spacetodepth", "test_spacetodepth_crd_mode_example", "file"),
}
REFUSED = {
    ("batch_normalization", "test_batchnorm_example_training_mode", "constants"),
    ("cast", "test_cast_FLOAT_to_INT4", "file"),
    ("castlike", "test_castlike_FLOAT_to_FLOAT16", "file"),
    ("castlike", "test_castlike_FLOAT_to_INT4", "constants"),
    ("dropout", "test_training_dropout", "file"),
    ("dynamicquantizelinear", "test_dynamicquantizelinear", "file"),
    ("roialign", "test_roialign_mode_max", "file"),
    ("scan", "test_scan_sum", "file"),
    ("topk", "test_top_k_uint64", "constants"),
}
"""Module of ONNX's tests, name of one, variant."""


def outcomes(chosen: set[tuple[str, str, str]]) -> dict[str, str]:
    cases = {case.name: case for case in node_cases({module for module, _, _ in chosen})}
    runs = [run_case(cases[name], variant) for _, name, variant in sorted(chosen)]
    return {run.name: f"{run.outcome} {run.reason}" for run in runs}


def test_operators_pass():
    found = outcomes(PASSING)
    assert {name: said for name, said in found.items() if said != "pass "} == {}


@pytest.mark.fast
def test_operators_are_refused():
    found = outcomes(REFUSED)
    assert {name: said for name, said in found.items() if not said.startswith("refused ")} == {}


def test_differences_are_found():
    x = np.array([1.0, np.nan, np.inf], "float32")
    assert difference(x, x.copy(), 1e-3) == ""
    assert difference(x, x.astype("float64"), 1e-3) == ""
    assert difference(x[:1], x[0], 1e-3) == "[1] found, [] wanted"
    assert difference(x, np.ones(3, "int32"), 1e-3) == "float32 found, int32 wanted"
    assert difference(x, x * np.float32(2), 1e-3) == "1 of 3 differ, at (0,) 1.0 for 2.0"


def test_all_operands_but_the_first_become_constants():
    (case,) = [case for case in node_cases(["where"]) if case.name == "test_where_example"]
    names = [value.name for value in case.model.graph.input]
    changed = with_constants(case.model, dict(zip(names, case.data_sets[0][0], strict=True)))
    assert [value.name for value in changed.graph.input] == names[:1]
    assert [tensor.name for tensor in changed.graph.initializer] == names[1:]
    assert changed.graph.node[0] == case.model.graph.node[0]


def test_another_exception_is_a_crash():
    (case, *_) = [case for case in node_cases(["abs"]) if case.name == "test_abs"]
    broken = type(case)(**{**vars(case), "data_sets": [([], [])]})
    found = run_case(broken, "file")
    assert (found.outcome, found.reason[:10]) == ("crash", "ValueError")


def test_a_process_that_dies_is_a_crash(monkeypatch, tmp_path):
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ncat >/dev/null\nkill -SEGV $$\n")
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    found = list(run_in_processes(["test_abs"], jobs=2))
    assert [(run.name, run.variant, run.outcome) for run in found] == [
        ("test_abs", variant, "crash") for variant in VARIANTS
    ]
    assert {run.reason for run in found} == {"the process died: SIGSEGV"}
