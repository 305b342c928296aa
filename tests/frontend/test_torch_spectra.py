"""PyTorch's Fourier transforms and complex numbers: equal to NumPy's."""

import numpy as np
import pytest
from tvm import relax

from relay_int8.errors import FrontendError
from relay_int8.frontend.torch.complex_numbers import convert
from relay_int8.frontend.torch.graph import TorchImporter
from relay_int8.frontend.torch.program import Program, ProgramNode, Ref
from relay_int8.frontend.torch.step import ComplexTensor, TorchStep
from tests.onnx_models import assert_close, run_relax

X, Y = np.random.default_rng(0).normal(size=(2, 2, 3, 6, 8)).astype("float32")
Z = X + 1j * Y


def computed(name: str, given: dict[str, object]) -> list[np.ndarray]:
    """Return the parts of what ``aten.<name>`` computes, with Z for "z" and X for "x"."""
    bb = relax.BlockBuilder()
    x, y = (relax.Var(key, relax.TensorType(X.shape, "float32")) for key in "xy")
    operands = {"x": x, "z": ComplexTensor(x, y)}
    with bb.function("main", [x, y]):
        with bb.dataflow():
            step = TorchStep(
                arguments={
                    key: [operands[v] for v in value]
                    if key == "tensors"
                    else operands.get(value, value)
                    if isinstance(value, str)
                    else value
                    for key, value in given.items()
                },
                emit=lambda _, value: bb.emit(value),
                operator=f"aten.{name}",
            )
            result = convert(step)
            is_complex = isinstance(result, ComplexTensor)
            parts = [result.real, result.imaginary] if is_complex else [result]
            outputs = [bb.emit_output(part) for part in parts]
        bb.emit_func_output(relax.Tuple(outputs) if is_complex else outputs[0])
    return run_relax(bb.get(), X, Y)


def parts(values: np.ndarray) -> list[np.ndarray]:
    split = [values.real, values.imag] if np.iscomplexobj(values) else [values]
    return [part.astype("float32") for part in split]


@pytest.mark.parametrize(
    ("name", "given", "wanted"),
    [
        ("fft_fft", {"self": "x", "dim": 1}, np.fft.fft(X, axis=1)),
        ("fft_fft", {"self": "z", "n": 5}, np.fft.fft(Z, 5)),
        ("fft_ifft", {"self": "z", "n": 12, "norm": "ortho"}, np.fft.ifft(Z, 12, norm="ortho")),
        ("fft_rfft", {"self": "x"}, np.fft.rfft(X)),
        ("fft_irfft", {"self": "z"}, np.fft.irfft(Z)),
        ("fft_irfft", {"self": "z", "n": 9}, np.fft.irfft(Z, 9)),
        ("fft_irfft", {"self": "x", "n": 6}, np.fft.irfft(X, 6)),
        ("fft_rfft2", {"self": "x", "norm": "forward"}, np.fft.rfft2(X, norm="forward")),
        ("fft_irfft2", {"self": "z", "s": [6, 14]}, np.fft.irfft2(Z, (6, 14))),
        ("fft_fftn", {"self": "x", "dim": [1, 2]}, np.fft.fftn(X, axes=(1, 2))),
        ("fft_ifftn", {"self": "z", "s": [4, 10]}, np.fft.ifftn(Z, (4, 10), axes=(-2, -1))),
        (
            "_fft_r2c",
            {"self": "x", "dim": [2, 3], "normalization": 0, "onesided": True},
            np.fft.rfft2(X),
        ),
        (
            "_fft_c2c",
            {"self": "z", "dim": [3], "normalization": 2, "forward": False},
            np.fft.ifft(Z),
        ),
        (
            "_fft_c2r",
            {"self": "z", "dim": [2, 3], "normalization": 1, "last_dim_size": 15},
            np.fft.irfft2(Z, (6, 15), norm="ortho"),
        ),
        ("abs", {"self": "z"}, np.abs(Z)),
        ("add", {"self": "z", "other": "x"}, Z + X),
        ("add", {"self": "x", "other": "z"}, X + Z),
        ("add", {"self": "x", "other": 2 - 1j}, X + (2 - 1j)),
        ("angle", {"self": "z"}, np.angle(Z)),
        ("cat", {"tensors": ["z", "z"], "dim": 1}, np.concatenate([Z, Z], 1)),
        ("conj", {"self": "z"}, Z.conj()),
        ("div", {"self": "x", "other": "z"}, X / Z),
        ("div", {"self": "z", "other": "x"}, Z / X),
        ("exp", {"self": "z"}, np.exp(Z)),
        ("mul", {"self": "z", "other": "z"}, Z * Z),
        ("mul", {"self": "z", "other": 2.0}, Z * 2),
        ("mul", {"self": "x", "other": 2 - 1j}, X * (2 - 1j)),
        ("mul", {"self": "z", "other": 1j}, Z * 1j),
        ("pow", {"self": "z", "exponent": 2}, Z**2),
        ("polar", {"abs": "x", "angle": "x"}, X * np.exp(1j * X)),
        ("reciprocal", {"self": "z"}, 1 / Z),
        ("square", {"self": "z"}, Z**2),
        ("sub", {"self": "z", "other": "x"}, Z - X),
        ("sub", {"self": "x", "other": 1j}, X - 1j),
        ("triu", {"self": "z"}, np.triu(Z)),
        ("transpose", {"self": "z", "dim0": 1, "dim1": 2}, Z.swapaxes(1, 2)),
        ("view_as_real", {"self": "z"}, np.stack([X, Y], -1)),
    ],
)
def test_complex_numbers(name, given, wanted):
    assert_close(computed(name, given), parts(wanted))


def test_frames_are_transformed_and_joined_again():
    signal = np.random.default_rng(1).normal(size=(2, 40)).astype("float32")
    window = np.hanning(13)[:-1].astype("float32")
    frames = np.stack([signal[:, i : i + 12] for i in range(0, 29, 4)], -2) * window
    options = {"n_fft": 12, "hop_length": 4, "window": Ref("w"), "center": False}
    nodes = (
        node("stft", "z", self=Ref("x"), return_complex=True, **options),
        node("istft", "back", self=Ref("z"), **{**options, "center": True}),
        node("abs", "size", self=Ref("z")),
    )
    mod = TorchImporter(spectra(nodes, ("size", "back"), w=window), None, {}).run()
    wanted = [np.abs(np.fft.rfft(frames)).swapaxes(1, 2), signal[:, 6:-6]]
    assert_close(run_relax(mod, signal), wanted)


def node(operator: str, name: str, **arguments: object) -> ProgramNode:
    return ProgramNode(
        name=name,
        operator=f"aten.{operator}",
        arguments=arguments,
        outputs=(name,),
        changes=False,
        path="",
        leaf=False,
    )


def spectra(
    nodes: tuple[ProgramNode, ...], outputs: tuple[str, ...], **tensors: np.ndarray
) -> Program:
    """Return a program of an input x (2, 40)."""
    return Program(
        inputs={"x": ("float32", (2, 40))},
        tensors=tensors,
        weights=frozenset(),
        buffers={},
        changed=(),
        nodes=nodes,
        outputs=outputs,
        sizes={},
    )


def test_constants_of_complex_numbers_are_read():
    turns = np.exp(1j * np.arange(20)).astype("complex64")
    nodes = (
        node("view", "pairs", self=Ref("x"), size=[2, 20, 2]),
        node("view_as_complex", "z", self=Ref("pairs")),
        node("mul", "turned", self=Ref("z"), other=Ref("w")),
        node("view_as_real", "y", self=Ref("turned")),
    )
    x = np.random.default_rng(2).normal(size=(2, 40)).astype("float32")
    mod = TorchImporter(spectra(nodes, ("y",), w=turns), None, {}).run()
    wanted = (x[:, ::2] + 1j * x[:, 1::2]) * turns
    assert_close(run_relax(mod, x), [np.stack(parts(wanted), -1)])


def test_results_of_complex_numbers_are_refused():
    program = spectra((node("fft_rfft", "z", self=Ref("x")),), ("z",))
    with pytest.raises(FrontendError, match="view_as_real"):
        TorchImporter(program, None, {}).run()


def test_other_powers_of_complex_numbers_are_refused():
    with pytest.raises(NotImplementedError, match="other than squares"):
        computed("pow", {"self": "z", "exponent": 3})


def test_functions_without_a_rule_for_complex_numbers_are_refused():
    with pytest.raises(NotImplementedError, match="complex numbers"):
        computed("sigmoid", {"self": "z"})
