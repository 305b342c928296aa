"""How far each layer of a quantized network is from FP32, on real images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import tvm
from tvm import IRModule
from tvm.target import Target

from relay_int8.calibration.observe import Progress
from relay_int8.compiler.build import compile_module, virtual_machine
from relay_int8.data.dataset import Image
from relay_int8.graph.batch import of_one_image
from relay_int8.graph.compared import chosen_tensors, compared_tensors, returning
from relay_int8.numerics.qparams import QParams
from relay_int8.numerics.snr import power_ratio_db
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.report.contents import OutputReport


@dataclass
class Difference:
    """Sums over images of the power of one tensor and of its quantization error.

    ``saturated`` counts FP32's finite values that lie half a step beyond the range, or farther.
    """

    signal: float = 0.0
    noise: float = 0.0
    max_error: float = 0.0
    saturated: int = 0
    count: int = 0

    def add(self, reference: np.ndarray, approximate: np.ndarray, params: QParams | None) -> None:
        """Add one image's FP32 tensor and its quantized form, dequantized."""
        wanted = reference.astype(np.float64).ravel()
        signal = float(np.einsum("i,i->", wanted, wanted))
        if np.isfinite(signal):
            error = wanted - approximate.ravel()
        else:  # what a mask has made infinite is no signal, and no error where both have it
            equal = reference.ravel() == approximate.ravel()
            error = np.subtract(
                wanted, approximate.ravel(), where=~equal, out=np.zeros_like(wanted)
            )
            signal = float(np.sum(wanted[np.isfinite(wanted)] ** 2))
        self.signal += signal
        self.noise += float(np.einsum("i,i->", error, error))
        self.max_error = max(self.max_error, error.max(initial=0), -error.min(initial=0))
        self.count += approximate.size
        if params is not None:
            self.saturated += _saturated(reference, params)

    @property
    def snr_db(self) -> float | None:
        """Power of the signal over that of the noise; infinite where the two are equal."""
        return power_ratio_db(self.signal, self.noise)

    @property
    def saturation(self) -> float:
        """Fraction of the values that are saturated."""
        return self.saturated / max(self.count, 1)


def _saturated(values: np.ndarray, params: QParams) -> int:
    """Return how many finite values lie half a step beyond the range, or farther."""
    step = float(params.scale)
    low = np.float32((params.qmin - params.zero_point - 0.5) * step)
    high = np.float32((params.qmax - params.zero_point + 0.5) * step)
    outside = (values < low) | (values > high)
    return int(np.count_nonzero(outside & np.isfinite(values)))


@dataclass(frozen=True, kw_only=True)
class Fidelity:
    """Differences by layer, the network's outputs as the report has them, number of images."""

    layers: Mapping[str, Difference]
    outputs: tuple[OutputReport, ...]
    samples: int


def measure_fidelity(
    quantized: QuantizedModel,
    images: Iterable[Image],
    target: Target,
    *,
    samples: int = 8,
    progress: Progress | None = None,
) -> Fidelity:
    """Run the FP32 and the integer network side by side and compare layer by layer.

    Layers behind a suppression of boxes are left out: their rows may be others.

    Parameters
    ----------
    quantized
        The quantized model and its FP32 reference.
    images
        Calibration images, of batch 1; the first ``samples`` are used.
    target
        This computer.
    progress
        Called after every image.
    """
    chosen = {str(var.name) for var in chosen_tensors(quantized.reference["main"])}
    names = [layer.name for layer in quantized.plan.layers if layer.name not in chosen]
    compared = compared_tensors(quantized.reference["main"])
    results = list(compared)
    params = quantized.params
    reference = _Exposed(quantized.reference, [*names, *results], target)
    integer = _Exposed(quantized.mod, [*names, *results], target)
    differences = {name: Difference() for name in [*names, *results]}
    done = 0
    for image in islice(images, samples):
        for name, wanted, approximate in zip(
            differences, reference.run(image), integer.run(image), strict=True
        ):
            differences[name].add(wanted, approximate, params.get(name))
        done += 1
        if progress:
            progress("compare", done, samples)
    outputs = tuple(
        OutputReport(
            name=name,
            snr_db=differences[name].snr_db,
            max_error=differences[name].max_error,
            reader=reader,
        )
        for name, reader in compared.items()
    )
    return Fidelity(
        layers={name: differences[name] for name in names}, outputs=outputs, samples=done
    )


class _Exposed:
    """A network that returns inner tensors, each as its readers see it: through its Q/DQ pair."""

    def __init__(self, mod: IRModule, names: Sequence[str], target: Target) -> None:
        self._names = list(dict.fromkeys(names))
        mod = returning(of_one_image(mod), self._names)
        self._inputs = [str(param.name) for param in mod["main"].params]
        self._main = virtual_machine(compile_module(mod, target, transient=True))["main"]

    def run(self, image: Image) -> list[np.ndarray]:
        """Return the tensors of one image, in the order of the names."""
        inputs = [tvm.runtime.tensor(np.asarray(image[name], order="C")) for name in self._inputs]
        outputs = self._main(*inputs)
        tensors = [outputs] if len(self._names) == 1 else list(outputs)
        return [tensor.numpy() for tensor in tensors]
