"""Recurrent layers: the oracle's bits on every flavour of a CPU, PyTorch's formulas in float."""

import dataclasses

import numpy as np
import pytest
from tvm import tirx
from tvm.target import Target

from schedules.cpu.f32 import RECURRENCE_F32
from schedules.cpu.plain import RECURRENCE_PLAIN
from schedules.reference.kernels import reference
from schedules.selection import select
from schedules.spec import Quantize, Recurrence, from_json, to_json
from schedules.targets import named_target
from schedules.x86.products import RECURRENCE_AVX2, RECURRENCE_AVXVNNI, RECURRENCE_VNNI
from tests.oracle import recurrence as oracle
from tests.schedules.recurrence_cases import CASES, arrays_of
from tests.schedules.run_template import run_template

TARGETS = {
    "vnni": ("cascadelake", "avx512_vnni", RECURRENCE_VNNI),
    "avxvnni": ("alderlake", "avx_vnni", RECURRENCE_AVXVNNI),
    "avx2": ("haswell", "avx2", RECURRENCE_AVX2),
    "plain": ("x86-64", None, RECURRENCE_PLAIN),
}
FLAVOURS = [
    pytest.param(name, id=name, marks=[pytest.mark.isa(isa)] if isa else [])
    for name, (_, isa, _) in TARGETS.items()
]


def target_of(cpu: str) -> Target:
    return Target({"kind": "llvm", "mcpu": cpu, "num-cores": 2})


def in_float(spec: Recurrence) -> Recurrence:
    return dataclasses.replace(spec, quantized=False, y="float32")


def by_definition(spec: Recurrence, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return what float64 makes of the formulas, in the words of PyTorch's documentation."""
    x = arrays["x"].astype(np.float64)
    x = x if spec.time else x.swapaxes(0, 1)
    w = arrays["w"].astype(np.float64).reshape(spec.gates, spec.hidden, spec.hidden)
    outputs, memories = [], []
    for n, sequence in enumerate(x):
        zeros = np.zeros(spec.hidden)
        h, c = (arrays[name][n] if name in spec.states else zeros for name in ("h", "c"))
        found = {}
        for t in range(spec.steps)[:: -1 if spec.backward else 1]:
            parts, of_state = sequence[t].reshape(spec.gates, -1), w @ h
            if spec.cell == "lstm":
                i, f, g, o = parts + of_state
                c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
                h = np.tanh(c) / (1 + np.exp(-o))
            elif spec.cell == "rnn":
                h = np.tanh(parts[0] + of_state[0])
            else:
                r, z = 1 / (1 + np.exp(-(parts + of_state)[:2]))
                inside = r * (of_state[2] + arrays["bias"])
                if spec.cell == "gru_state":
                    inside = w[2] @ (r * h)
                n = np.tanh(parts[2] + inside)
                h = (1 - z) * n + z * h
            found[t] = h
        outputs.append(np.stack([found[t] for t in range(spec.steps)]))
        memories.append(c)
    return np.stack(memories if spec.gives == "memory" else outputs, 0 if spec.time else 1)


@pytest.mark.fast
@pytest.mark.parametrize("case", CASES)
def test_reference_is_near_the_definition(case):
    spec = in_float(CASES[case])
    arrays = arrays_of(spec)
    expected = by_definition(spec, arrays)
    np.testing.assert_allclose(reference(spec, arrays, arrays), expected, rtol=1e-4, atol=2e-5)
    assert reference(spec, arrays, arrays).shape == spec.shape("y")


@pytest.mark.fast
@pytest.mark.parametrize("case", CASES)
def test_reference_is_the_oracle(case):
    spec = dataclasses.replace(CASES[case], y="float32")
    arrays = arrays_of(spec)
    at = {"cell": spec.cell, "time": spec.time, "backward": spec.backward, "gives": spec.gives}
    w, bias = arrays["w"].astype(np.int64), arrays["bias"]
    states = [arrays[name] for name in spec.states]
    at["given"] = spec.given
    expected = oracle.recurrence(arrays["x"], *states, w, bias, scale=arrays["scale"], **at)
    np.testing.assert_array_equal(reference(spec, arrays, arrays), expected)


@pytest.mark.fast
def test_integers_are_those_of_a_quantize_behind():
    spec = CASES["lstm"]
    arrays = arrays_of(spec)
    t = reference(dataclasses.replace(spec, y="float32"), arrays, arrays)
    expected = reference(Quantize(dims=t.shape, y=spec.y), {"x": t}, arrays)
    np.testing.assert_array_equal(reference(spec, arrays, arrays), expected)


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("case", CASES)
def test_equals_reference(flavour, case):
    cpu, _, template = TARGETS[flavour]
    arrays = arrays_of(CASES[case])
    y = run_template(template, CASES[case], target_of(cpu), arrays)
    np.testing.assert_array_equal(y, reference(CASES[case], arrays, arrays))


@pytest.mark.parametrize("case", ["lstm", "lstm_given", "lstm_memory", "gru", "gru_state", "rnn"])
def test_floats(case):
    spec = in_float(CASES[case])
    arrays = arrays_of(spec)
    y = run_template(RECURRENCE_F32, spec, target_of("haswell"), arrays)
    np.testing.assert_allclose(y, reference(spec, arrays, arrays), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("time", [0, 1])
def test_any_batch(time):
    n = tirx.Var("n", "int64")
    spec = dataclasses.replace(CASES["gru"], batch=n, time=time)
    arrays = arrays_of(spec)
    y = run_template(RECURRENCE_PLAIN, spec, target_of("x86-64"), arrays)
    np.testing.assert_array_equal(y, reference(spec, arrays, arrays))
    assert from_json(to_json(spec)).batch.name == "n"


@pytest.mark.fast
def test_counts_products_of_the_state():
    assert CASES["lstm"].multiplications == 9 * 4 * 48 * 48
    assert from_json(to_json(CASES["lstm"])) == CASES["lstm"]


@pytest.mark.fast
def test_refuses():
    long = dataclasses.replace(CASES["rnn"], hidden=16513)
    for name in ("x86", "aarch64", "sm_80"):
        target = named_target(name)
        assert select(CASES["lstm"], target).kind == "recurrence"
        assert select(in_float(CASES["lstm"]), target).kind == "recurrence"
        with pytest.raises(ValueError, match="16513 products may leave int32"):
            select(long, target)
    assert "not to be of floats" in str(RECURRENCE_F32.refuses(CASES["lstm"], target_of("x86-64")))
    target = target_of("x86-64")
    assert "to be of floats" in str(RECURRENCE_PLAIN.refuses(in_float(CASES["lstm"]), target))
    wide = in_float(dataclasses.replace(CASES["rnn"], hidden=13000))
    with pytest.raises(ValueError, match="54048 bytes of shared memory; the most are 49152"):
        select(wide, named_target("sm_80"))
