"""One kernel makes images of all sizes row major: the bits of the kernels that know theirs."""

import numpy as np
import pytest
import tvm

from schedules.any_size import of_any_size
from schedules.cpu.open_size.unpack_open import UNPACK_OPEN
from schedules.layout import NCHW16C, ROW
from schedules.reference.kernels import reference
from schedules.selection import select
from schedules.space import Kernel
from schedules.spec import Dequantize, Move, Spec, from_json, to_json
from schedules.targets import native_target
from schedules.template import Layouts

pytestmark = pytest.mark.fast
TARGET = native_target()
UNPACKED = Layouts(inputs=(NCHW16C,), output=ROW)
SIZES = [(1, 32, 3, 5), (1, 20, 4, 4), (1, 3, 1, 1)]


def _copy(dims, dtype) -> Move:
    return Move(move="copy", x_shape=dims, y_shape=dims, x=dtype)


def _dequantize(dims, dtype) -> Dequantize:
    return Dequantize(dims=dims, x=dtype)


@pytest.mark.parametrize(
    ("make", "dtype"), [(_copy, "float32"), (_copy, "uint8"), (_dequantize, "uint8")]
)
def test_one_kernel_serves_every_size(make, dtype):
    specs: list[Spec] = [make(dims, dtype) for dims in SIZES]
    found = [of_any_size(select(spec, TARGET), spec, UNPACKED, TARGET) for spec in specs]
    assert {template for template, _, _ in found} == {UNPACK_OPEN}
    assert len({to_json(spec) for _, spec, _ in found}) == 1
    general, layouts = from_json(to_json(found[0][1])), found[0][2]
    kernel = Kernel(template=UNPACK_OPEN, spec=general, layouts=layouts, target=TARGET)
    built = tvm.compile(kernel.default().mod, target=TARGET)
    for spec, dims in zip(specs, SIZES, strict=True):
        x = np.random.default_rng(0).integers(0, 256, dims).astype(dtype)
        constants = {"s": np.float32([0.37]), "z": np.int32([5])}
        params = {name: constants[name] for name in spec.params}
        y = tvm.runtime.tensor(np.full(dims, 77).astype(spec.dtype("y")))
        arguments = [NCHW16C.pack(x), *params.values()]
        built["main"](*map(tvm.runtime.tensor, arguments), y)
        np.testing.assert_array_equal(y.numpy(), reference(spec, {"x": x}, params))


def test_dequantized_in_blocks():
    layouts = Layouts(inputs=(NCHW16C,), output=NCHW16C)
    for dims, last in (((1, 32, 3, 5), 16), ((1, 20, 4, 4), 4)):
        spec = Dequantize(dims=dims, x="int8")
        template, general, own = of_any_size(select(spec, TARGET), spec, layouts, TARGET)
        assert template is UNPACK_OPEN
        assert general.last_channels == last
        kernel = Kernel(template=template, spec=general, layouts=own, target=TARGET)
        built = tvm.compile(kernel.default().mod, target=TARGET)
        x = np.random.default_rng(0).integers(-128, 128, dims).astype("int8")
        params = {"s": np.float32([0.37]), "z": np.int32([5])}
        y = tvm.runtime.tensor(np.full(NCHW16C.physical_shape(dims), 77, np.float32))
        arguments = [NCHW16C.pack(x), *params.values()]
        built["main"](*map(tvm.runtime.tensor, arguments), y)
        expected = NCHW16C.pack(reference(spec, {"x": x}, params))
        np.testing.assert_array_equal(y.numpy(), expected)


def test_what_is_moved_otherwise_keeps_its_own():
    spec = _copy((1, 16, 2, 2), "uint8")
    packed = Layouts(inputs=(ROW,), output=NCHW16C)
    template = select(spec, TARGET)
    assert of_any_size(template, spec, packed, TARGET) == (template, spec, packed)
