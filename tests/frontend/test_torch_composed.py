"""PyTorch operators that are written as several others: equal to NumPy."""

import itertools
import math

import numpy as np
import pytest
from tvm import relax

from relay_int8.frontend.overwriting import overwritten
from relay_int8.frontend.torch.complex_numbers import convert
from relay_int8.frontend.torch.step import ComplexTensor, TorchStep
from tests.onnx_models import assert_close, run_relax

RNG = np.random.default_rng(0)
A, B, C = RNG.normal(size=(3, 3, 4)).astype("float32")
W, U = RNG.normal(size=(2, 20, 4)).astype("float32")
BIAS = RNG.normal(size=20).astype("float32")
IMAGE = RNG.normal(size=(2, 6, 4)).astype("float32")
CUBE = RNG.normal(size=(5, 4, 4)).astype("float32")
MEAN = np.array([0, 1, 2, 3], "float32")
EDGES = np.array([-1, 0, 0.5], "float32")
GAPS = np.where(A > 1, np.nan, A).astype("float32")
ZEROS = np.array([0.0, -0.0, 2.0, -np.inf], "float32")
SPREAD = np.array([0.1, 0.5, 1.3, 2.2, 7.5, 30.0, 900.0, -0.3, -4.6], "float32")
Z = (A + 1j * B).astype("complex64")


def computed(name: str, x: np.ndarray, /, **given: object) -> list[np.ndarray]:
    """Return the results of ``aten.<name>``, of which the array x is the input."""
    bb = relax.BlockBuilder()
    var = relax.Var("x", relax.TensorType(x.shape, "float32"))
    with bb.function("main", [var]):
        with bb.dataflow():
            arguments = {key: expression(value, x, var, bb) for key, value in given.items()}
            step = TorchStep(
                arguments=arguments,
                emit=lambda _, value: bb.emit(value),
                operator=f"aten.{name}",
            )
            result = convert(step)
            if isinstance(result, ComplexTensor):
                result = [result.real, result.imaginary]
            values = result if isinstance(result, list) else [result]
            outputs = [bb.emit_output(bb.emit(value)) for value in values]
        bb.emit_func_output(relax.Tuple(outputs) if len(outputs) > 1 else outputs[0])
    return run_relax(bb.get(), x)


def expression(value: object, x: np.ndarray, var: relax.Var, bb: relax.BlockBuilder) -> object:
    """Return an argument: the input for x, constants for other arrays, of functions a result."""
    if isinstance(value, list) and not isinstance(value[0], int):
        return [expression(entry, x, var, bb) for entry in value]
    if value is x:
        return var
    if callable(value):
        return bb.emit(value(var))
    if isinstance(value, np.ndarray) and value.dtype.kind == "c":
        parts = (np.ascontiguousarray(part) for part in (value.real, value.imag))
        return ComplexTensor(*map(relax.const, parts))
    return relax.const(value) if isinstance(value, np.ndarray) else value


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def slope(function, x: np.ndarray, by: float = 1e-5) -> np.ndarray:
    evaluated = np.vectorize(function)
    return (evaluated(x.astype(float) + by) - evaluated(x.astype(float) - by)) / (2 * by)


def last_of_largest(x: np.ndarray) -> np.ndarray:
    """Return for each element of each row the last index, up to its own, of the largest value."""
    ends = range(1, x.shape[1] + 1)
    return np.stack([end - 1 - np.argmax(x[:, :end][:, ::-1], 1) for end in ends], 1)


def scattered(x: np.ndarray, mask: np.ndarray, source: np.ndarray) -> np.ndarray:
    """Return x with elements of the source, in their order, where the mask is true."""
    result = x.copy()
    mask = np.broadcast_to(mask, x.shape)
    result[mask] = source.ravel()[: mask.sum()]
    return result


def test_a_cell_of_an_lstm():
    hidden = {"hx": [B[:, :4] * 0.5, C]}
    h, c = hidden["hx"]
    w, u = W[:16], U[:16]
    i, f, g, o = np.split(A @ w.T + h @ u.T + 2 * BIAS[:16], 4, 1)
    memory = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    wanted = [sigmoid(o) * np.tanh(memory), memory]
    given = {"w_ih": w, "w_hh": u, "b_ih": BIAS[:16], "b_hh": BIAS[:16]}
    assert_close(computed("lstm_cell", A, input=A, **hidden, **given), wanted)


def test_a_cell_of_a_gru_and_of_an_rnn():
    w, u = W[:12], U[:12]
    r_x, z_x, n_x = np.split(A @ w.T, 3, 1)
    r_h, z_h, n_h = np.split(B @ u.T, 3, 1)
    z = sigmoid(z_x + z_h)
    new = np.tanh(n_x + sigmoid(r_x + r_h) * n_h)
    wanted = (1 - z) * new + z * B
    assert_close(computed("gru_cell", A, input=A, hx=B, w_ih=w, w_hh=u), [wanted])
    plain = A @ W[:4].T + B @ U[:4].T
    given = {"input": A, "hx": B, "w_ih": W[:4], "w_hh": U[:4]}
    assert_close(computed("rnn_tanh_cell", A, **given), [np.tanh(plain)])
    assert_close(computed("rnn_relu_cell", A, **given), [np.maximum(plain, 0)])


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("addmm", {"self": A, "mat1": B, "mat2": U[:4], "beta": 0.5, "alpha": 2.0}, [A / 2 + 2 * (B @ U[:4])]),
        ("inner", {"self": A, "other": W}, [A @ W.T]),
        ("tensordot", {"self": A, "other": W[:3], "dims_self": [0], "dims_other": [0]}, [A.T @ W[:3]]),
        ("rad2deg", {"self": A}, [np.rad2deg(A)]),
        ("heaviside", {"self": np.round(A), "values": np.full((), 0.5, "float32")}, [np.heaviside(np.round(A), 0.5)]),
        ("logaddexp", {"self": A, "other": B * 99}, [np.logaddexp(A, B * 99)]),
        ("sinc", {"self": np.round(A)}, [np.sinc(np.round(A))]),
        ("xlogy", {"self": np.maximum(A, 0), "other": np.maximum(A, 0)}, [np.maximum(A, 0) * np.log(np.maximum(A, 1e-30))]),
        ("aminmax", {"self": A, "dim": 1}, [A.min(1), A.max(1)]),
        ("count_nonzero", {"self": np.maximum(A, 0), "dim": [1]}, [np.count_nonzero(A > 0, axis=1)]),
        ("mse_loss", {"self": A, "target": B}, [np.mean((A - B) ** 2)]),
        ("l1_loss", {"self": A, "target": B, "reduction": 2}, [np.abs(A - B).sum()]),
        ("pairwise_distance", {"x1": A, "x2": B}, [np.linalg.norm(A - B + 1e-6, axis=1)]),
        ("isclose", {"self": A, "other": A + 1e-5 * B, "atol": 0.0}, [np.isclose(A, A + 1e-5 * B, atol=0)]),
        ("fliplr", {"self": A}, [A[:, ::-1]]),
        ("flipud", {"self": A}, [A[::-1]]),
        ("addr", {"self": A, "vec1": B[:, 0], "vec2": C[0], "beta": 0.5}, [A / 2 + np.outer(B[:, 0], C[0])]),
        ("kron", {"self": A[:, :2], "other": B[0]}, [np.kron(A[:, :2], B[0])]),
        ("linalg_cross", {"self": A, "other": B, "dim": 0}, [np.cross(A, B, axis=0)]),
        ("trace", {"self": A}, [np.trace(A)]),
        ("take", {"self": A, "index": np.array([[0, 5], [11, 2]])}, [A.ravel()[[[0, 5], [11, 2]]]]),
        ("median", {"self": A, "dim": 1}, [np.sort(A, 1)[:, 1], np.argsort(A, 1)[:, 1]]),
        ("median", {"self": A}, [np.sort(A.ravel())[5]]),
        ("cummax", {"self": np.round(A), "dim": 1}, [np.maximum.accumulate(np.round(A), 1), last_of_largest(np.round(A))]),
        ("cummin", {"self": -np.round(A), "dim": 1}, [-np.maximum.accumulate(np.round(A), 1), last_of_largest(np.round(A))]),
        ("logcumsumexp", {"self": A * 50, "dim": 0}, [np.logaddexp.accumulate(A * 50, 0)]),
        ("isin", {"elements": np.round(A), "test_elements": EDGES}, [np.isin(np.round(A), EDGES)]),
        ("isin", {"elements": np.round(A), "test_element": 1, "invert": True}, [np.round(A) != 1]),
        ("special_logit", {"self": np.abs(A), "eps": 0.1}, [np.log(1 / (1 / np.clip(np.abs(A), 0.1, 0.9) - 1))]),
        ("special_log1p", {"self": np.abs(A)}, [np.log1p(np.abs(A))]),
        ("quantile", {"self": A, "q": 0.3, "dim": 1, "keepdim": True}, [np.quantile(A, 0.3, 1, keepdims=True)]),
        ("quantile", {"self": A, "q": np.array([0.1, 1], "float32"), "dim": 0}, [np.quantile(A, [0.1, 1], 0)]),
        ("quantile", {"self": A, "q": 0.5}, [np.quantile(A, 0.5)]),
        ("quantile", {"self": A, "q": 0.5, "keepdim": True}, [np.quantile(A, 0.5, keepdims=True)]),
        ("histc", {"self": np.round(A), "bins": 3, "min": 0, "max": 2}, [np.bincount(np.abs(np.round(A)[(np.round(A) >= 0) & (A < 2.5)]).astype(int), minlength=3)]),
        ("histc", {"self": A, "bins": 5, "min": -1.0, "max": 1.5}, [np.histogram(A, 5, (-1, 1.5))[0]]),
        ("_grouped_mm", {"self": A, "mat2": CUBE, "offs": np.array([0, 2, 2, 3, 3])}, [np.einsum("sk,skn->sn", A, CUBE[[1, 1, 3]])]),
        ("msort", {"self": A}, [np.sort(A, 0)]),
        ("fmax", {"self": GAPS, "other": B}, [np.fmax(GAPS, B)]),
        ("fmin", {"self": B, "other": GAPS}, [np.fmin(B, GAPS)]),
        ("isneginf", {"self": np.where(A > 0, -np.inf, A).astype("float32")}, [A > 0]),
        ("masked_scatter", {"self": A, "mask": B > 0, "source": C}, [scattered(A, B > 0, C)]),
        ("masked_scatter", {"self": A, "mask": B[:, :1] > 0, "source": C}, [scattered(A, B[:, :1] > 0, C)]),
        ("repeat_interleave", {"self": A, "repeats": np.array([2, 0, 1, 1]), "dim": 1}, [A.repeat([2, 0, 1, 1], 1)]),
        ("pixel_shuffle", {"self": CUBE[:4], "upscale_factor": 2}, [CUBE[:4].reshape(2, 2, 4, 4).transpose(2, 0, 3, 1).reshape(1, 8, 8)]),
        ("hsplit", {"self": A[0], "indices": [1]}, [A[0, :1], A[0, 1:]]),
        ("vsplit", {"self": A, "sections": 3}, list(A[:, None])),
        ("addmv", {"self": A[:, 0], "mat": A, "vec": C[0], "alpha": 2.0}, [A[:, 0] + 2 * (A @ C[0])]),
        ("addbmm", {"self": CUBE[0], "batch1": CUBE, "batch2": CUBE, "beta": 0.5}, [CUBE[0] / 2 + (CUBE @ CUBE).sum(0)]),
        ("linalg_multi_dot", {"tensors": [A, CUBE[0], C[0]]}, [A @ CUBE[0] @ C[0]]),
        ("linalg_vecdot", {"x": A, "y": B}, [(A * B).sum(1)]),
        ("linalg_matrix_norm", {"self": CUBE, "ord": "fro"}, [np.linalg.norm(CUBE, axis=(1, 2))]),
        ("linalg_norm", {"self": A, "ord": 1.0, "dim": [0]}, [np.abs(A).sum(0)]),
        ("linalg_inv", {"A": CUBE[:, :3, :3]}, [np.linalg.inv(CUBE[:, :3, :3])]),
        ("linalg_inv", {"A": CUBE[:, :2, :2]}, [np.linalg.inv(CUBE[:, :2, :2])]),
        ("inverse", {"self": CUBE[:, :1, :1]}, [1 / CUBE[:, :1, :1]]),
        ("kthvalue", {"self": A, "k": 3, "dim": 0}, [np.sort(A, 0)[2], np.argsort(A, 0)[2]]),
        ("bucketize", {"self": np.round(A), "boundaries": np.arange(-1, 2), "right": True}, [np.digitize(np.round(A), [-1, 0, 1])]),
        ("searchsorted", {"sorted_sequence": EDGES, "self": A}, [np.searchsorted(EDGES, A)]),
        ("vdot", {"self": A[0], "other": B[0]}, [A[0] @ B[0]]),
        ("fft_fftshift", {"self": A}, [np.fft.fftshift(A)]),
        ("fft_ifftshift", {"self": A, "dim": [0]}, [np.fft.ifftshift(A, 0)]),
        ("instance_norm", {"input": A, "running_mean": MEAN, "running_var": MEAN + 1, "use_input_stats": False, "eps": 0.0}, [(A - MEAN) / np.sqrt(MEAN + 1)]),
        ("hypot", {"self": A, "other": B}, [np.hypot(A, B)]),
        ("copysign", {"self": A, "other": B}, [np.copysign(A, B)]),
        ("nanmean", {"self": GAPS, "dim": [1]}, [np.nanmean(GAPS, 1)]),
        ("nansum", {"self": GAPS}, [np.nansum(GAPS)]),
        ("linalg_vector_norm", {"self": A, "ord": 3.0, "dim": [1]}, [np.linalg.norm(A, 3, 1)]),
        ("linalg_vector_norm", {"self": A, "ord": 0.0}, [np.count_nonzero(A)]),
        ("cdist", {"x1": A, "x2": B, "p": 1.0}, [np.abs(A[:, None] - B).sum(-1)]),
        ("dist", {"self": A, "other": B, "p": 1.0}, [np.abs(A - B).sum()]),
        ("round", {"self": A, "decimals": 1}, [np.round(A, 1)]),
        ("rrelu", {"self": A}, [np.where(A > 0, A, A * np.float32(11 / 48))]),
        ("special_erfc", {"self": A}, [np.vectorize(math.erfc)(A)]),
        ("arcsin", {"self": A / 4}, [np.arcsin(A / 4)]),
        ("softplus", {"self": A, "beta": 2.0, "threshold": 1.0}, [np.where(A > 0.5, A, np.log1p(np.exp(2 * A)) / 2)]),
        ("avg_pool1d", {"self": A, "kernel_size": [2]}, [A.reshape(3, 2, 2).mean(2)]),
        ("avg_pool2d", {"self": A[None], "kernel_size": [1, 2], "divisor_override": 3}, [A.reshape(1, 3, 2, 2).sum(3) / 3]),
        ("bilinear", {"input1": A, "input2": B, "weight": CUBE}, [np.einsum("ni,kij,nj->nk", A, CUBE, B)]),
        ("diag", {"self": A[0], "diagonal": -1}, [np.diag(A[0], -1)]),
        ("diag", {"self": A, "diagonal": 1}, [np.diag(A, 1)]),
        ("take", {"self": A, "index": np.array([-1, 3])}, [A.ravel()[[-1, 3]]]),
        ("signbit", {"self": ZEROS}, [np.signbit(ZEROS)]),
        ("copysign", {"self": ZEROS, "other": ZEROS}, [np.copysign(ZEROS, ZEROS)]),
        ("lgamma", {"self": SPREAD}, [np.vectorize(math.lgamma)(SPREAD)]),
        ("digamma", {"self": SPREAD}, [slope(math.lgamma, SPREAD)]),
        ("ldexp", {"self": A, "other": np.arange(4)}, [np.ldexp(A, np.arange(4))]),
        ("special_expm1", {"self": A}, [np.expm1(A)]),
        ("ger", {"self": A[0], "vec2": B[0]}, [np.outer(A[0], B[0])]),
        ("linalg_det", {"A": CUBE}, [np.linalg.det(CUBE)]),
        ("linalg_slogdet", {"A": CUBE}, list(np.linalg.slogdet(CUBE))),
        ("linalg_inv", {"A": CUBE}, [np.linalg.inv(CUBE)]),
        ("linalg_inv_ex", {"A": CUBE[:, :1, :1]}, [1 / CUBE[:, :1, :1]]),
        ("linalg_solve", {"A": CUBE, "B": CUBE[:, :, :2]}, [np.linalg.solve(CUBE, CUBE[:, :, :2])]),
        ("linalg_solve", {"A": CUBE, "B": CUBE[:, 0]}, [np.linalg.solve(CUBE, CUBE[:, 0, :, None])[..., 0]]),
        ("linalg_norm", {"self": A}, [np.linalg.norm(A)]),
        ("linalg_norm", {"self": A, "ord": 1, "keepdim": True}, [np.linalg.norm(A, 1, keepdims=True)]),
        ("linalg_norm", {"self": A, "ord": 3, "dim": [1]}, [np.linalg.norm(A, 3, 1)]),
        ("linalg_matrix_norm", {"self": CUBE, "ord": -math.inf}, [np.linalg.norm(CUBE, -math.inf, (1, 2))]),
        ("linalg_matrix_norm", {"self": CUBE}, [np.linalg.norm(CUBE, axis=(1, 2))]),
    ],
)  # fmt: skip
def test_composed_operators(name, given, wanted):
    x = next(iter(given.values()))
    found = computed(name, x[0] if isinstance(x, list) else x, **given)
    assert [part.shape for part in found] == [np.shape(part) for part in wanted]
    for part, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("values", [C, C[0], C[:1, :1]], ids=["rows", "one row", "one number"])
def test_rows_where_a_computed_mask_is_true(values):
    x = np.where(np.arange(4) == 0, B[:, :1], A).astype("float32")
    x[1, 0] = -1

    def _is_positive(var: relax.Var) -> relax.Expr:
        first = relax.op.strided_slice(var, [1], [0], [1])
        return relax.op.greater(relax.op.reshape(first, (3,)), relax.const(0.0))

    wanted, mask = x.copy(), x[:, 0] > 0
    wanted[mask] = values[: mask.sum()] if len(values) == 3 else values
    found = computed("index_put", x, self=x, indices=[_is_positive], values=values)
    np.testing.assert_array_equal(found[0], wanted)


@pytest.mark.parametrize("quarters", [-1, 0, 1, 2])
def test_images_are_turned(quarters):
    found = computed("rot90", IMAGE, self=IMAGE, k=quarters, dims=[1, 2])
    assert_close(found, [np.rot90(IMAGE, quarters, (1, 2))])


@pytest.mark.parametrize(("offset", "axes"), [(0, (1, 2)), (1, (0, 2)), (-2, (2, 0))])
def test_rows_on_diagonals(offset, axes):
    wanted = np.stack([np.diag(row, offset) for row in A])
    wanted = np.moveaxis(wanted, (1, 2), axes)
    assert_close(
        computed("diag_embed", A, self=A, offset=offset, dim1=axes[0], dim2=axes[1]), [wanted]
    )


@pytest.mark.parametrize("aligned", [False, True])
def test_places_of_moved_pixels(aligned):
    theta = IMAGE[:, :2, :3].copy()
    (found,) = computed(
        "affine_grid_generator", theta, theta=theta, size=[2, 1, 3, 5], align_corners=aligned
    )
    ends = np.array([1, 1]) if aligned else np.array([2 / 3, 4 / 5])
    y, x = (np.linspace(-end, end, n) for end, n in zip(ends, (3, 5), strict=True))
    base = np.stack([*np.meshgrid(x, y), np.ones((3, 5))], -1)
    wanted = np.einsum("hwk,nck->nhwc", base, theta).astype("float32")
    assert_close([found], [wanted])


@pytest.mark.parametrize("offsets", [[0, 3], [0, 2]])
def test_rows_of_a_bag_that_do_not_count(offsets):
    indices = np.array([1, 2, 0, 0, 2, 1])
    given = {"weight": A, "indices": indices, "offsets": np.array(offsets), "padding_idx": 0}
    bags = [bag[bag > 0] for bag in np.split(indices, offsets[1:])]
    (total,) = computed("embedding_bag", A, **given)
    np.testing.assert_allclose(total, [A[bag].sum(0) for bag in bags], rtol=1e-5, atol=1e-6)
    (mean,) = computed("embedding_bag", A, **given, mode=1)
    np.testing.assert_allclose(mean, [A[bag].mean(0) for bag in bags], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("mode", [0, 1], ids=["sum", "mean"])
@pytest.mark.parametrize("last", [False, True])
def test_bags_that_begin_where_is_computed(mode, last):
    indices, offsets = np.array([1, 2, 0, 0, 2, 1]), np.array([0, 2, 2, 5], "float32")
    bounds = (offsets if last else np.append(offsets, 6)).astype(int)
    given = {"weight": A, "indices": indices, "offsets": offsets, "include_last_offset": last}
    (found,) = computed("embedding_bag", offsets, **given, mode=mode)
    bags = [A[indices[begin:end]] for begin, end in itertools.pairwise(bounds)]
    sums = [bag.sum(0) / (max(len(bag), 1) if mode else 1) for bag in bags]
    np.testing.assert_allclose(found, sums, rtol=1e-5, atol=1e-6)


def test_maxima_of_bags_that_begin_where_is_computed_are_refused():
    offsets = np.array([0, 2], "float32")
    given = {"weight": A, "indices": np.array([1, 2, 0]), "offsets": offsets}
    with pytest.raises(NotImplementedError, match="where bags begin is computed"):
        computed("embedding_bag", offsets, **given, mode=2)


def test_rows_of_bounded_length():
    lengths = np.linalg.norm(A, axis=1, keepdims=True)
    found = computed("embedding_renorm", A, self=A, indices=np.array([0]), max_norm=1.5)
    assert_close(found, [A * np.minimum(1, 1.5 / lengths)])


def test_images_without_a_batch():
    pooled = IMAGE.reshape(2, 3, 2, 2, 2).mean((2, 4))
    assert_close(computed("avg_pool2d", IMAGE, self=IMAGE, kernel_size=[2, 2]), [pooled])
    weight = W[:2, :2].reshape(2, 2, 1, 1).copy()
    convolved = np.einsum("chw,oc->ohw", IMAGE, weight[:, :, 0, 0])
    assert_close(computed("conv2d", IMAGE, input=IMAGE, weight=weight), [convolved])
    top = IMAGE.reshape(2, 3, 2, 4).max(2)
    found = computed("max_pool2d_with_indices", IMAGE, self=IMAGE, kernel_size=[2, 1])
    assert_close(found[:1], [top])
    assert found[1].shape == top.shape


def test_nothing_is_written_behind_the_last_element():
    """As SigLIP 2 pads positions of images that fill their sequence."""
    (rest,) = computed("expand", A[:1], self=A[:1], size=[0, 4])
    assert rest.shape == (0, 4)
    x = relax.Var("x", relax.TensorType(A.shape, "float32"))
    nothing = np.zeros((0, 4), "int64")
    assert overwritten(lambda _, value: value, x, nothing, relax.const(rest)).same_as(x)


def test_complex_constants():
    zeros = [np.zeros((2, 3), "float32")] * 2
    assert_close(computed("zeros", A, size=[2, 3], dtype=10), zeros)
    ones = [np.ones_like(A), np.zeros_like(A)]
    assert_close(computed("ones_like", A, self=Z), ones)
    assert_close(computed("zeros_like", A, self=Z, dtype=7), [np.zeros_like(A)])


def test_complex_numbers_overwrite_others():
    source = Z[:1]
    whole = np.broadcast_to(source, Z.shape)
    assert_close(computed("copy", A, self=Z, src=source), [whole.real, whole.imag])
    real = [A, np.zeros_like(A)]
    assert_close(computed("copy", A, self=Z, src=A), real)
    shifted = np.fft.fftshift(Z, 1)
    assert_close(computed("fft_fftshift", A, self=Z, dim=[1]), [shifted.real, shifted.imag])
    wanted = np.tanh(Z)
    assert_close(computed("tanh", A, self=Z), [wanted.real, wanted.imag])


@pytest.mark.parametrize("name", ["__rshift__", "bitwise_left_shift"])
def test_bits_are_shifted(name):
    x, by = np.array([-5, 9, 64], "int32"), np.array([1, 0, 3], "int32")
    (found,) = computed(name, A, self=x, other=by)
    np.testing.assert_array_equal(found, x >> by if name == "__rshift__" else x << by)


PLACES = np.array([[0, 3, 3, 0], [1, 0, 3, 2], [0, 3, 0, 2]])


@pytest.mark.parametrize("with_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "amax", "amin", "mean"])
def test_numbers_that_are_combined_at_indices(reduce, with_self):
    start = np.full((5, 4), 0.5, "float32")
    combine = {"sum": sum, "prod": math.prod, "amax": max, "amin": min, "mean": np.mean}[reduce]
    wanted = start.copy()
    for row, column in np.ndindex(5, 4):
        written = [A[i, column] for i in range(3) if PLACES[i, column] == row]
        if written:
            wanted[row, column] = combine([*([start[0, 0]] if with_self else []), *written])
    given = {"self": start, "dim": 0, "index": PLACES, "src": A, "reduce": reduce}
    (found,) = computed("scatter_reduce", A, **given, include_self=with_self)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shift", [0, -4])
def test_an_index_that_is_computed(shift: int):
    """``boxes[:, scores.argmax()]``, as trackers keep the best box, is an item and a selection."""

    def number(value: int) -> relax.Expr:
        return relax.const(value, "int64")

    def best(x: relax.Expr) -> relax.Expr:
        place = relax.op.argmax(relax.op.reshape(x, (-1,)), 0)
        return relax.op.add(relax.op.floor_mod(place, number(4)), number(shift))

    (found,) = computed("item", A, self=best)
    assert found == A.argmax() % 4 + shift
    (found,) = computed("select", A, self=A, dim=1, index=best)
    np.testing.assert_array_equal(found, A[:, A.argmax() % 4])
    with pytest.raises(NotImplementedError, match="its start is a number that depends on values"):
        computed("slice", A, self=A, dim=1, start=best)
    with pytest.raises(NotImplementedError, match="one of its size is a number that depends on"):
        computed("view", A, self=A, size=[best, 3])


def test_constant_matrices_have_any_size():
    """Normalizing flows mix channels by a matrix of weights, and add its log determinant."""
    w = np.random.default_rng(3).normal(size=(2, 6, 6)).astype("float32")
    sign, log = np.linalg.slogdet(w.astype("float64") * 1e-9)  # determinants of 1e-54
    found = computed("_linalg_slogdet", A, A=w * np.float32(1e-9))
    assert_close(found, [sign, log])
    assert_close(computed("linalg_inv_ex", A, A=w), [np.linalg.inv(w.astype("float64"))])
    assert_close(computed("linalg_det", A, A=w), [np.linalg.det(w.astype("float64"))])


def test_matrices_that_cannot_be_inverted_here_are_refused():
    x = np.eye(5, dtype="float32")
    with pytest.raises(NotImplementedError, match="matrices of 5 rows; 4 are the most"):
        computed("linalg_inv", x, A=x)
    with pytest.raises(ValueError, match="which are not square"):
        computed("linalg_det", A, A=A)
    with pytest.raises(NotImplementedError, match="a norm of matrices of order nuc"):
        computed("linalg_matrix_norm", A, self=A, ord="nuc")


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("tril_indices", {"row": 3, "col": 4, "offset": -1}, np.tril_indices(3, -1, 4)),
        ("triu_indices", {"row": 3, "col": 4, "offset": 1}, np.triu_indices(3, 1, 4)),
        ("bartlett_window", {"window_length": 6, "periodic": False}, np.bartlett(6)),
        ("blackman_window", {"window_length": 6}, np.blackman(7)[:-1]),
        ("kaiser_window", {"window_length": 6, "beta": 5.0}, np.kaiser(7, 5)[:-1]),
    ],
)
def test_constants(name, given, wanted):
    (found,) = computed(name, A, **given)
    np.testing.assert_allclose(found, np.stack(wanted), rtol=1e-5, atol=1e-6)
