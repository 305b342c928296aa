"""What becomes of a quantized network when it ships: its inputs, and its manifest."""

from __future__ import annotations

import dataclasses

from tvm import IRModule

from relay_int8.compiler.build import Built
from relay_int8.data.preprocessing import Preprocessing
from relay_int8.errors import ConfigError
from relay_int8.graph.batch import with_open_batch
from relay_int8.graph.interface import inputs_of, of_any_batch, of_pixels, outputs_of
from relay_int8.graph.pixels import PixelLayout, Pixels, with_pixels
from relay_int8.quantization.quantize import QuantizedModel
from relay_int8.report.contents import Report
from relay_int8.runtime.manifest import Manifest
from schedules.targets import machine, needed_flags, target_config


def shipped_model(
    quantized: QuantizedModel,
    preprocessing: Preprocessing | None,
    pixels: PixelLayout | None,
    max_batch: int | None,
) -> QuantizedModel:
    """Return the model with the inputs that the artifact has: of any batch, of raw pixels."""
    mod = quantized.mod
    if pixels is not None:
        if preprocessing is None:
            raise ConfigError(
                "raw pixels are asked for, but no preprocessing: the artifact must know it"
            )
        mod = with_pixels(mod, Pixels(preprocessing=preprocessing, layout=pixels))
    if max_batch is not None:
        mod = with_open_batch(mod, max_batch)
    return dataclasses.replace(quantized, mod=mod)


def manifest_of(
    mod: IRModule,
    quantized: QuantizedModel,
    built: Built,
    report: Report,
    preprocessing: Preprocessing | None,
    pixels: PixelLayout | None,
    max_batch: int | None,
) -> Manifest:
    """Return the manifest of a network that was built; ``mod`` is what was imported."""
    inputs, outputs = inputs_of(mod), outputs_of(mod)
    if pixels is not None and preprocessing is not None:
        inputs = tuple(of_pixels(info, pixels) for info in inputs)
        preprocessing = preprocessing.without_arithmetic(pixels)
    return Manifest(
        inputs=inputs if max_batch is None else of_any_batch(inputs),
        outputs=outputs if max_batch is None else of_any_batch(outputs),
        max_batch=max_batch,
        machine=machine(built.target),
        cpu_flags=needed_flags(built.target),
        target=target_config(built.target),
        model_digest=quantized.digest,
        preprocessing=preprocessing.to_dict() if preprocessing else {},
        settings={"model": report.model, **report.settings},
        coverage=report.coverage,
        gpu=built.gpu.needs if built.gpu else None,
        gpu_code=report.gpu,
    )
