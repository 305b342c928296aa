"""The report of a quantized network, as report.json holds it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from relay_int8 import finite_json
from relay_int8.errors import RecordError
from relay_int8.field_types import filled, require_types
from relay_int8.files import write_atomic
from relay_int8.graph.declined import Declined
from relay_int8.messages import unreadable
from relay_int8.report.accuracy import Evaluation
from relay_int8.report.html_table import html_table
from relay_int8.report.reasons import kind_of
from relay_int8.report.wording import decibels

REPORT_VERSION = 1


@dataclass(frozen=True, kw_only=True)
class LayerReport:
    """One layer of the network.

    Parameters
    ----------
    name
        Its result, as the model file calls it.
    kind
        conv2d, dense, pool2d, ...
    macs
        Multiply-accumulates of one image, those of two activations too; 0 where there are none.
    integer
        Whether it is computed in integers.
    reason
        Why it stayed in float; empty where it did not.
    kernel
        The template that computes it; empty before a build.
    snr_db
        Power of its FP32 result over that of the error, with every layer before it quantized too.
        None where it was not measured; infinite where nothing differs.
    saturation
        Fraction of its FP32 result that lies half a step beyond the range, or farther.
    time_us
        Median microseconds of one run on the machine that the report names.
    alone_db, without_db
        Signal-to-noise ratio of the network's outputs with this layer alone in integers, and with
        it alone left in float; None where that was not measured.
    """

    name: str
    kind: str
    macs: int = 0
    integer: bool
    reason: str = ""
    kernel: str = ""
    snr_db: float | None = None
    saturation: float | None = None
    time_us: float | None = None
    alone_db: float | None = None
    without_db: float | None = None


@dataclass(frozen=True, kw_only=True)
class OutputReport:
    """How far one output of the network is from FP32, over the images of ``Report.samples``.

    Where ``reader`` is not empty, it is no output but what a suppression of boxes of that name
    reads: outputs behind it are not comparable row by row.
    """

    name: str
    snr_db: float | None
    max_error: float
    reader: str = ""

    @property
    def title(self) -> str:
        """What it is, for reading."""
        if self.reader:
            return f"before suppression, {self.name}"
        return f"output {self.name}"


INT16_SATURATION = "int16-saturation"
"""The hazard that no kernel of this project has: it matters to who exports a network."""


@dataclass(frozen=True, kw_only=True)
class Hazard:
    """A finding to look at before the network is trusted (``relay_int8.report.hazards``).

    Parameters
    ----------
    kind
        "int32-overflow", "int16-saturation", "dead-channels", "few-images", "constant",
        "not-finite", "saturation" or "unused-range".
    name
        The layer or the tensor; empty where it is the whole.
    message
        What was found, and what may be done.
    """

    kind: str
    name: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """One quantized network.

    Parameters
    ----------
    model, digest
        Name of the source file; sha256 of the quantized model.
    model_hash, table_hash
        sha256 of the float model, and as the calibration table has it, which differs where a tool
        equalized the model first; "" in older reports.
    settings
        Preset, calibration method, exclusions, target, number of calibration samples.
    layers
        In the order of execution.
    outputs
        The network's outputs against FP32.
    hazards
        What may go wrong.
    declined
        Tensors that a rewrite of the compiler nearly fitted, and why it left them alone.
    repacks
        Tensors that a kernel of its own moves to another layout, changing nothing else.
    tuning
        With tuning logs: how many kernels are "tuned", how many run by "default", and why records
        were "refused", by folder.
    gpu
        For GPUs: what the library needs, which kernels a CUDA graph launches, and of each kernel
        the registers and memory by architecture.
    other_us
        Median microseconds of the kernels that belong to no layer: quantize, dequantize, repacks.
    evaluation
        Accuracy, where it was measured.
    demand
        With an accuracy demanded: the demand, what was measured on how many images, the values of
        FP32, of the network all in integers and of this one, and what is in float for it.
    samples
        Images that the signal-to-noise ratios were measured with: of those that calibrated the
        network, if any did.
    model_bytes, artifact_bytes
        Sizes of the source file and of the artifact.
    latency_ms
        Median milliseconds of the whole network, by "int8" and "float32", which the same compiler
        makes with its default schedules; batch and threads stand in ``machine``.
    machine
        What times were measured on: CPU, threads, batch.
    seconds
        Wall time of each stage that made the artifact; those of calibration's passes ("ranges",
        "histograms") from their first image on, which are part of "quantize".
    """

    model: str
    digest: str
    model_hash: str = ""
    table_hash: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    layers: tuple[LayerReport, ...] = ()
    outputs: tuple[OutputReport, ...] = ()
    hazards: tuple[Hazard, ...] = ()
    declined: tuple[Declined, ...] = ()
    repacks: tuple[str, ...] = ()
    tuning: Mapping[str, Any] = field(default_factory=dict)
    gpu: Mapping[str, Any] = field(default_factory=dict)
    other_us: Mapping[str, float] = field(default_factory=dict)
    evaluation: Evaluation | None = None
    demand: Mapping[str, Any] = field(default_factory=dict)
    samples: int = 0
    model_bytes: int = 0
    artifact_bytes: int = 0
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    report_version: int = REPORT_VERSION

    def __repr__(self) -> str:
        """Return the essence in one line; the fields have everything."""
        parts = [f"{self.coverage['int8_layers']} of {len(self.layers)} layers in integers"]
        parts += [f"{each.name} {decibels(each.snr_db)} dB" for each in self.outputs]
        parts += [f"{name} {latency_ms:.3f} ms" for name, latency_ms in self.latency_ms.items()]
        return f"<Report of {self.model}: {', '.join(parts)}>"

    def _repr_html_(self) -> str:
        """Return the essence and a table of the layers, for notebooks."""
        rows = [
            (
                layer.name,
                layer.kind,
                "int8" if layer.integer else f"float: {layer.reason}",
                layer.kernel or "-",
                decibels(layer.snr_db),
                "-" if layer.time_us is None else f"{layer.time_us:.0f}",
            )
            for layer in self.layers
        ]
        return html_table(repr(self), ("layer", "operator", "type", "kernel", "SNR dB", "us"), rows)

    @property
    def coverage(self) -> dict[str, Any]:
        """Integer and float layers counted, with their MACs; float ones by kind of reason."""
        floats = [layer for layer in self.layers if not layer.integer]
        total_macs = sum(layer.macs for layer in self.layers)
        float_macs = sum(layer.macs for layer in floats)
        return {
            "int8_layers": len(self.layers) - len(floats),
            "float_layers": len(floats),
            "int8_macs": total_macs - float_macs,
            "float_macs": float_macs,
            "reasons": {kind: len(names) for kind, names in self.floats.items()},
        }

    @property
    def compared_images(self) -> str:
        """The number and kind of the images behind the ratios: calibration flatters them."""
        kind = "calibration images" if self.settings.get("calibration images") else "images"
        return f"{self.samples} {kind}"

    @property
    def floats(self) -> dict[str, tuple[str, ...]]:
        """Names of the float layers by kind of reason, the most frequent kind first."""
        layers_by_kind: dict[str, list[str]] = {}
        for layer in self.layers:
            if not layer.integer:
                layers_by_kind.setdefault(kind_of(layer.reason), []).append(layer.name)
        kinds = sorted(layers_by_kind.items(), key=lambda item: -len(item[1]))
        return {kind: tuple(names) for kind, names in kinds}

    def to_json(self) -> str:
        """Return the report as JSON text; a ratio that is infinite is written as "inf"."""
        values = dataclasses.asdict(self) | {"coverage": self.coverage}
        return finite_json.dumps(values)

    @classmethod
    def from_json(cls, text: str) -> Report:
        """Return the report that :meth:`to_json` wrote.

        Raises
        ------
        RecordError
            If the text is no report, or one of another version.
        """
        try:
            values = finite_json.loads(text)
            if not isinstance(values, dict) or "report_version" not in values:
                raise ValueError("it has no report_version")
            values.pop("coverage", None)
            version = values["report_version"]
            if version != REPORT_VERSION:
                raise RecordError(
                    f"report version {version}, {REPORT_VERSION} expected; quantize the model again"
                )
            for name, kind in _RECORDS.items():
                items = values.get(name, [])
                if not isinstance(items, list):
                    raise ValueError(f"{name} is no list")
                titles = (f"{name}[{index}]" for index in range(len(items)))
                values[name] = tuple(map(partial(filled, kind), map(_ratio, items), titles))
            if values.get("evaluation"):
                evaluation = _ratio(values["evaluation"])
                values["evaluation"] = filled(Evaluation, evaluation, "evaluation")
            report = filled(cls, values | {"repacks": tuple(values.get("repacks", ()))})
            require_types(report)
            return report
        except finite_json.MISREAD as error:
            raise RecordError(
                f"not a report of relay-int8: {error}; relay-int8 quantize --report writes one"
            ) from error

    def save(self, path: Path | str) -> None:
        """Write the report to ``path``, whole or not at all.

        Raises
        ------
        RecordError
            If the file cannot be written.
        """
        try:
            write_atomic(Path(path), self.to_json().encode())
        except OSError as error:
            raise RecordError(
                f"{path}: cannot be written: {unreadable(error)}; name another file"
            ) from error


def read_report(path: Path | str) -> Report:
    """Return the report in a file; a RecordError if it cannot be read or is none."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: cannot be read as a report: {unreadable(error)}") from error
    try:
        return Report.from_json(text)
    except RecordError as error:
        raise RecordError(f"{path}: {error}") from error


_RECORDS = {
    "layers": LayerReport,
    "outputs": OutputReport,
    "hazards": Hazard,
    "declined": Declined,
}
"""What the lists of a report are of."""


def _ratio(item: Any) -> Any:
    """Read back the ratios that were written, infinite ones among them."""
    if not isinstance(item, dict):
        return item
    return {
        key: float(value) if key.endswith("_db") and value is not None else value
        for key, value in item.items()
    }
