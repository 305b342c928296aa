"""Kernels are judged each by itself: integers by bits, floats that are not promised by rounding."""

import numpy as np
import pytest

from relay_int8.errors import DeployError
from relay_int8.remote.address import Address
from relay_int8.remote.comparison import check_outputs, compare
from relay_int8.remote.kernel_check import check_kernels, expected_results, of_sign
from relay_int8.runtime.kernel_entry import KernelEntry
from relay_int8.runtime.manifest import Manifest
from schedules.layout import NCHW4C, NCHW16C

pytestmark = pytest.mark.fast
ADDRESS = Address("board", 9090)


def kernel(name, **fields):
    return KernelEntry(name=name, tensor=name, **fields)


CONV = kernel("conv", function="conv2d_1", layout="NCHW4c", shape=(1, 6, 2, 3))
SOFTMAX = kernel("islands", function="softmax", is_exact=False)
LOGITS = kernel("logits", function="dense_9", shape=(1, 5))
KERNELS = (CONV, SOFTMAX, LOGITS)


def manifest(*kernels):
    return Manifest(
        inputs=(),
        outputs=(),
        machine="x86_64",
        cpu_flags=(),
        target={},
        model_digest="",
        coverage={"float_layers": 1},
        kernels=kernels,
    )


def integers(seed=0):
    return np.random.default_rng(seed).integers(-100, 100, (1, 6, 2, 3)).astype("int8")


def floats():
    return np.random.default_rng(1).random((1, 5), "float32") + np.float32(0.5)


EXPECTED = {0: NCHW4C.pack(integers()), 1: floats(), 2: floats()}


def ulps_off(array, ulps):
    changed = array.copy()
    changed.view("int32").flat[2] += ulps
    return changed


def wrong_integer():
    changed = EXPECTED[0].copy()
    changed[0, 1, 1, 2, 1] += 1  # channel 5
    return changed


def test_nothing_differs():
    check = check_kernels(KERNELS, EXPECTED, {})
    assert check.compared == 3 and not check.differences and check.fault is None


def test_one_wrong_integer_is_the_first_kernels_fault():
    check = check_kernels(KERNELS, EXPECTED, {0: wrong_integer(), 1: ulps_off(floats(), 1)})
    assert check.fault == check.differences[0]
    assert check.fault.result == CONV
    assert (check.fault.different, check.fault.elements, check.fault.largest) == (1, 36, 1.0)


def test_lanes_past_the_last_channel_are_no_integers():
    changed = EXPECTED[0].copy()
    changed[..., 1, :, :, 2:] = 99
    assert not check_kernels(KERNELS, EXPECTED, {0: changed}).differences


@pytest.mark.parametrize(
    ("index", "ulps", "fault"),
    [
        (1, 1, None),
        (1, 20, None),
        (1, 2000, SOFTMAX),  # farther than rounding
        (2, 1, LOGITS),  # made of integers, so promised to the bit
    ],
)
def test_floats(index, ulps, fault):
    check = check_kernels(KERNELS, EXPECTED, {index: ulps_off(EXPECTED[index], ulps)})
    assert [each.different for each in check.differences] == [1]
    assert (check.fault.result if check.fault else None) == fault


def test_what_is_no_number_is_wrong():
    changed = floats()
    changed[0, 0] = np.nan
    assert check_kernels(KERNELS, EXPECTED, {1: changed}).fault.largest == np.inf


def test_tensors_of_other_layouts_and_signs_are_the_same_tensors():
    """A CPU with VNNI, as the reference of a GPU: 16 channels in a block, int8 as uint8."""
    packed = kernel("conv/packed", function="pack", layout="NCHW16c", shape=CONV.shape)
    cpu = kernel("conv", function="c", layout="NCHW16c", shape=CONV.shape)
    shifted = of_sign(integers(), np.dtype("uint8"))
    results = {0: NCHW16C.pack(shifted), 1: NCHW16C.pack(shifted), 2: floats()}
    expected = expected_results(manifest(cpu, packed, LOGITS), results, manifest(*KERNELS))
    assert sorted(expected) == [0, 2]  # the reference has no softmax
    np.testing.assert_array_equal(of_sign(expected[0], np.dtype("int8"))[:, :1], EXPECTED[0][:, :1])
    assert not check_kernels(KERNELS, expected, {0: EXPECTED[0]}).differences
    assert check_kernels(KERNELS, expected, {0: wrong_integer()}).fault.different == 1


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_signs_come_back(dtype):
    array = np.arange(256).astype("uint8").view(dtype)
    other = "int8" if dtype == "uint8" else "uint8"
    back = of_sign(of_sign(array, np.dtype(other)), np.dtype(dtype))
    np.testing.assert_array_equal(back, array)
    assert of_sign(array, np.dtype("float32")) is array


def verdict(actual_kernels, listed=True):
    """Judge outputs that differ, as deploy does."""
    outputs, expected = {"y": ulps_off(floats(), 3)}, {"y": floats()}
    comparisons = (compare("y", outputs["y"], expected["y"]),)
    check = check_kernels(KERNELS, EXPECTED, actual_kernels) if listed else None
    check_outputs(comparisons, check, outputs, expected, manifest(*KERNELS), ADDRESS)


def test_rounding_is_let_through():
    verdict({1: ulps_off(floats(), 1)})
    verdict({}, listed=False)  # outputs alone are near enough, and a layer stayed in float


def test_a_wrong_kernel_is_named():
    with pytest.raises(
        DeployError, match=r"conv2d_1 \(call 1 of 3, tensor conv\): .* 1 of 36 valu"
    ):
        verdict({0: wrong_integer()})


def test_equal_kernels_and_other_outputs_are_a_device_that_is_not_steady():
    with pytest.raises(
        DeployError, match=r"3 of its 3 kernels.* does not compute the same each ti"
    ):
        verdict({})
