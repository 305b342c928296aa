"""Small networks as artifacts for a GPU, with what the CPU's kernels compute."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx

import relay_int8
from benchmarks.gpu.network_cases import INPUT, KERNEL, OUTPUT
from benchmarks.subject import Inputs, Subject
from relay_int8.errors import FrontendError
from relay_int8.remote.kernel_check import expected_results
from relay_int8.remote.kernel_run import run_kernels
from relay_int8.runtime.artifact import extracted
from tests import modern_networks, recurrent_networks

CALIBRATED = 4
SIZES = {
    "efficientnet_b0": 64,
    "densenet121": 64,
    "unet": 32,
    "vit_s_16": 64,
    "swin_t": 56,
    "convnext_t": 64,
    "segformer_b0": 64,
    "mobilevit_s": 64,
    "distilbert_3": 16,
}
"""Networks of the zoo, cut, and heights and widths of their images, or numbers of tokens.

They are small; what others have, networks of the benchmark and single kernels have, too.
"""
WRITTEN: dict[str, Callable[[], onnx.ModelProto]] = {
    "lstm": lambda: recurrent_networks.recurrent_model("LSTM", direction="bidirectional"),
    "gru": lambda: recurrent_networks.recurrent_model("GRU", dense=7),
    "unmerged": modern_networks.unmerged,
    "mobilenet_v3": modern_networks.mobilenet_v3,
    "shufflenet_v2": modern_networks.shufflenet_v2,
}
"""Networks of the tests that have what the zoo's have not."""


def prepare_networks(
    folder: Path, architecture: str, say: Callable[[str], None], names: Sequence[str] = ()
) -> None:
    """Write artifacts with machine code for ``architecture``, of all networks if none are named.

    One that cannot be quantized or built is an error, as everywhere.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name in names or (*SIZES, *WRITTEN):
        say(f"network {name}")
        model, calibration = _network(name)
        _prepare(folder / name, model, calibration, architecture)


def _network(name: str) -> tuple[onnx.ModelProto, list[Inputs]]:
    """Return a network of batch 1 and inputs of it."""
    if name in SIZES:
        subject = Subject(
            network=name, image_size=SIZES[name], calibration_images=CALIBRATED, depth="cut"
        )
        return subject.model(batch=1), subject.calibration()
    if name not in WRITTEN:
        known = ", ".join((*SIZES, *WRITTEN))
        raise FrontendError(f"no network {name!r} is prepared for a GPU; there are {known}")
    model, rng = WRITTEN[name](), np.random.default_rng(1)
    shapes = {
        value.name: [extent.dim_value or 1 for extent in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    return model, [
        {key: rng.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
        for _ in range(CALIBRATED)
    ]


def _prepare(
    stem: Path, model: onnx.ModelProto, calibration: list[Inputs], architecture: str
) -> None:
    """Write ``stem``.ri8 and .npz."""
    with tempfile.TemporaryDirectory() as scratch:
        file, here = Path(scratch) / "model.onnx", Path(scratch) / "here.ri8"
        onnx.save(model, file)
        quantized = relay_int8.quantize(relay_int8.load_model(file), calibration)
        options = relay_int8.BuildOptions(target="cuda", arch=architecture)
        relay_int8.build(quantized, options).save(stem.with_suffix(".ri8"))
        relay_int8.build(quantized).save(here)
        inputs = calibration[0]
        outputs = relay_int8.load(here).run(inputs)
        with extracted(here) as contents, extracted(stem.with_suffix(".ri8")) as device:
            reference = contents.manifest
            results = run_kernels(
                contents.library,
                "cpu",
                [inputs[info.name] for info in reference.inputs],
                [kernel.function for kernel in reference.kernels],
                {},
                weights=contents.weights,
                all_results=True,
            )
            expected = expected_results(reference, results, device.manifest)
    arrays = {f"{INPUT}{name}": array for name, array in inputs.items()}
    arrays |= {f"{OUTPUT}{name}": array for name, array in outputs.items()}
    arrays |= {f"{KERNEL}{index}": array for index, array in expected.items()}
    np.savez_compressed(stem.with_suffix(".npz"), allow_pickle=False, **arrays)
