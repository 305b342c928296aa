"""MXNet's NumPy interface: its operators beside NumPy's own."""

import numpy as np
import pytest

from relay_int8.errors import UnsupportedOpError
from tests.mxnet_models import MxnetModel, run_fast

ROWS = (4, 12)
CUBE = (2, 3, 4)

CASES = [
    ("_npi_add", {}, [ROWS, (12,)], np.add),
    ("_npi_true_divide_scalar", {"scalar": "4.0", "is_int": "True"}, [ROWS], lambda x: x / 4),
    ("_npi_rsubtract_scalar", {"scalar": "1.0"}, [ROWS], lambda x: 1 - x),
    ("_npi_greater_scalar", {"scalar": "0.2"}, [ROWS], lambda x: x > 0.2),
    ("_npi_less", {}, [ROWS, ROWS], np.less),
    ("_npi_absolute", {}, [ROWS], np.abs),
    ("_npi_concatenate", {"num_args": "2"}, [ROWS, ROWS], lambda a, b: np.concatenate([a, b])),
    ("_npi_concatenate", {"axis": "-1"}, [ROWS, (4, 2)], lambda a, b: np.concatenate([a, b], 1)),
    ("_npi_matmul", {}, [(2, 3, 4), (2, 4, 5)], np.matmul),
    ("_np_dot", {}, [ROWS, (12, 3)], np.dot),
    ("_npi_einsum", {"subscripts": "abc,adc->abd"}, [CUBE, (2, 5, 4)],
     lambda a, b: np.einsum("abc,adc->abd", a, b)),
    ("_npi_mean", {"axis": "(0, 2)", "keepdims": "True"}, [CUBE],
     lambda x: x.mean((0, 2), keepdims=True)),
    ("_np_sum", {"axis": "1"}, [CUBE], lambda x: x.sum(1)),
    ("_npi_var", {"axis": "-1", "ddof": "0"}, [CUBE], lambda x: x.var(-1)),
    ("_npi_std", {"axis": "None"}, [ROWS], np.std),
    ("_npi_full_like", {"fill_value": "2"}, [ROWS], lambda x: np.full_like(x, 2)),
    ("_np_reshape", {"newshape": "(-1, 8)"}, [CUBE], lambda x: x.reshape(-1, 8)),
    ("_npx_reshape", {"newshape": "(-2, -6, 3, 1, -4)"}, [CUBE], lambda x: x.reshape(2, 3, 1, 4)),
    ("_npx_reshape", {"newshape": "(-5, -1)"}, [CUBE], lambda x: x.reshape(6, 4)),
    ("_np_transpose", {"axes": "(2, 0, 1)"}, [CUBE], lambda x: x.transpose(2, 0, 1)),
    ("_npi_flip", {"axis": "1"}, [CUBE], lambda x: x[:, ::-1]),
    ("_np_cumsum", {"axis": "1"}, [ROWS], lambda x: x.cumsum(1)),
    ("repeat", {"repeats": "2", "axis": "1"}, [ROWS], lambda x: x.repeat(2, 1)),
    ("repeat", {"repeats": "3"}, [ROWS], lambda x: x.repeat(3)),
    ("_npi_where", {}, [ROWS, ROWS, ROWS], lambda c, a, b: np.where(c, a, b)),
    ("_npx_relu", {}, [ROWS], lambda x: x.clip(0)),
    ("topk", {"k": "2", "ret_typ": "value"}, [ROWS], lambda x: -np.sort(-x, 1)[:, :2]),
    ("_npx_topk", {"k": "3", "is_ascend": "True"}, [ROWS], lambda x: x.argsort(1)[:, :3]),
]  # fmt: skip


def imported(tmp_path, op, attrs, inputs):
    net = MxnetModel()
    data = [net.variable(f"x{place}") for place in range(len(inputs))]
    shapes = {f"x{place}": x.shape for place, x in enumerate(inputs)}
    return net.imported(tmp_path, net.op(op, "y", *data, **attrs), **shapes)


@pytest.mark.parametrize(
    ("op", "attrs", "shapes", "reference"),
    CASES,
    ids=[f"{row[0]}-{place}" for place, row in enumerate(CASES)],
)
def test_operators(tmp_path, op, attrs, shapes, reference):
    rng = np.random.default_rng(len(shapes))
    inputs = [rng.normal(size=shape).astype("float32") for shape in shapes]
    (found,) = run_fast(imported(tmp_path, op, attrs, inputs), *inputs)
    wanted = np.asarray(reference(*inputs))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("op", "attrs", "reason"),
    [
        ("_npi_var", {"ddof": "1"}, "ddof 1; only 0"),
        ("_npx_reshape", {"newshape": "(-3, -4)"}, "leaves out an extent of 1"),
        ("_npx_reshape", {"newshape": "(-1,)", "reverse": "True"}, "from the right"),
        ("topk", {"ret_typ": "mask"}, "topk that returns mask"),
    ],
)
def test_what_is_refused(tmp_path, op, attrs, reason):
    with pytest.raises(UnsupportedOpError, match=reason):
        imported(tmp_path, op, attrs, [np.zeros((1, 4), "float32")])


def test_truth_values_are_numbers_to_arithmetic(tmp_path):
    net = MxnetModel()
    x = net.variable("x")
    high = net.op("_npi_greater_scalar", "high", x, scalar="0.0")
    low = net.op("_npi_less_scalar", "low", x, scalar="1.0")
    y = net.op("_npi_multiply", "y", high, low)
    values = np.array([[-1.0, 0.5, 2.0]], "float32")
    (found,) = run_fast(net.imported(tmp_path, y, x=values.shape), values)
    np.testing.assert_array_equal(found, [[0, 1, 0]])
