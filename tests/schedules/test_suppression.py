"""Non-maximum suppression: the definition's candidates, in its order, on a CPU."""

import dataclasses

import numpy as np
import pytest
import tvm
from tvm import tirx

from schedules.cpu.suppression import SUPPRESSION_CPU
from schedules.reference.kernels import reference
from schedules.selection import select
from schedules.spec import Suppression, from_json, to_json
from schedules.targets import named_target, native_target
from tests.compiled import compiled
from tests.schedules.suppression_cases import CASES, arrays_of


def by_definition(spec: Suppression, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return what suppression keeps, box by box in Python; overlaps of fractions are exact."""
    least, most = float(arrays["least"][0]), float(arrays.get("overlap", [2])[0])
    nowhere = np.zeros((len(arrays["scores"]), spec.boxes, 4))  # boxes without area
    results = []
    for image, boxes in enumerate(arrays.get("boxes", nowhere).astype(float)):
        scores = [float(score) for score in arrays["scores"][image].ravel()]
        left = sorted(
            (number for number, score in enumerate(scores) if score > least),
            key=lambda number: (-scores[number], number),
        )
        kept: list[int] = []
        listed: list[int] = []
        seen = [0] * spec.classes
        for number in left:
            row, box = divmod(number, spec.boxes)
            seen[row] += 1
            rivals = [other % spec.boxes for other in kept if other // spec.boxes == row]
            is_full = spec.max_per_class and len(rivals) >= spec.max_per_class
            is_late = spec.top_k and seen[row] > spec.top_k
            if spec.labelled:
                labels = arrays["labels"][image]
                rivals = [other for other in rivals if labels[other] == labels[box]]
            shares = [_overlap(boxes[box], boxes[other]) for other in rivals]
            is_suppressed = any(
                share > most or (spec.inclusive and share == most) for share in shares
            )
            if not (is_full or is_late or is_suppressed):
                kept.append(number)
                listed.append(number)
            elif spec.lists_all:
                listed.append(-2 - number)
        listed = [*listed, *[-1] * spec.max_output][: spec.max_output]
        results.append(listed)
    return np.array(results, np.int32)


def _overlap(a: np.ndarray, b: np.ndarray) -> float:
    height, width = (max(min(a[i + 2], b[i + 2]) - max(a[i], b[i]), 0) for i in (0, 1))
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    union = sum(areas) - height * width
    return height * width / union if union else 0.0


def run(spec: Suppression, arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return what the CPU's kernel gives."""
    target = native_target()
    func = SUPPRESSION_CPU.kernel(spec, None).with_attr("global_symbol", "main")
    y = np.full((len(arrays["scores"]), spec.max_output), 77, np.int32)
    inputs = [arrays[name] for name in (*spec.tensors, *spec.params)]
    tensors = [tvm.runtime.tensor(array) for array in (*inputs, y)]
    compiled(tvm.IRModule({"main": func}), target)["main"](*tensors)
    return tensors[-1].numpy()


@pytest.mark.fast
@pytest.mark.parametrize("case", CASES)
def test_reference_is_the_definition(case):
    arrays = arrays_of(CASES[case])
    expected = by_definition(CASES[case], arrays)
    assert case == "one" or (expected >= 0).sum() > 5
    np.testing.assert_array_equal(reference(CASES[case], arrays, arrays), expected)


@pytest.mark.parametrize("case", CASES)
def test_equals_reference(case):
    arrays = arrays_of(CASES[case])
    np.testing.assert_array_equal(run(CASES[case], arrays), reference(CASES[case], arrays, arrays))


def test_ends_of_what_can_be_kept():
    spec = CASES["classes"]
    arrays = arrays_of(spec)
    none = arrays | {"least": np.array([1], np.float32)}
    assert (run(spec, none) == -1).all()
    equal = np.tile(np.float32([0, 0, 1, 1]), (*arrays["boxes"].shape[:2], 1))
    found = run(spec, arrays | {"boxes": equal})
    assert ((found >= 0).sum(axis=1) == spec.classes).all()
    points = arrays | {"boxes": np.zeros_like(arrays["boxes"])}
    assert (run(spec, points) >= 0).all()  # boxes without area suppress nothing


def test_any_batch():
    spec = dataclasses.replace(CASES["labels"], batch=tirx.Var("batch", "int64"))
    arrays = arrays_of(spec)
    np.testing.assert_array_equal(run(spec, arrays), reference(spec, arrays, arrays))
    assert from_json(to_json(CASES["limits"])) == CASES["limits"]


@pytest.mark.fast
def test_every_target_has_one():
    for name in ("x86-vnni", "x86", "aarch64", "sm_80"):
        kind = select(CASES["plain"], named_target(name)).name
        assert kind == ("suppression_cuda" if name == "sm_80" else "suppression_cpu")
