"""What each template of a convolution has to hold: NumPy's results, and others' epilogues."""

import dataclasses

import numpy as np

from relay_int8.numerics.multipliers import fixed_constants
from tests.schedules.numpy_kernels import random_arrays, reference
from tests.schedules.run_template import run_template


def assert_equal(template, spec, target, seed=None, batch=1) -> None:
    """Compare a kernel with NumPy, bit for bit."""
    arrays = random_arrays(spec, np.random.default_rng(1), batch)
    y = run_template(template, spec, target, arrays, seed)
    np.testing.assert_array_equal(y, reference(spec, arrays))


def assert_same_epilogue(template, direct, spec, target, epilogue) -> None:
    """Compare a kernel with that of another template; ``epilogue`` are fields of the spec."""
    arrays = random_arrays(spec, np.random.default_rng(1), 1)
    with_epilogue = dataclasses.replace(spec, **epilogue)
    arrays = {**arrays, "m_y": np.linspace(2, 4, len(arrays["m"]), dtype=np.float32)}
    if with_epilogue.rounding:
        arrays = {**arrays, **fixed_constants(with_epilogue, arrays)}
    y, expected = (run_template(each, with_epilogue, target, arrays) for each in (template, direct))
    np.testing.assert_array_equal(y, expected)
