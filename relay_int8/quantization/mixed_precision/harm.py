"""The order in which the integers of layers harm a network's outputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from relay_int8.calibration.observe import Progress
from relay_int8.data.dataset import Image
from relay_int8.errors import CalibrationError
from relay_int8.graph.batch import with_batch
from relay_int8.graph.compared import compared_tensors
from relay_int8.numerics.snr import least_snr_db
from relay_int8.quantization.mixed_precision.sensitivity import simulation_of
from relay_int8.quantization.quantize import planned_with_floats
from relay_int8.quantization.quantized_model import QuantizedModel
from relay_int8.quantization.refine.network import NumpyNetwork

IMAGES = 4  # greatest number of calibration images that layers are compared on
MACS = 2 * 10**11  # multiplications of all runs together, where there is more than one image


def by_harm(
    quantized: QuantizedModel, images: Iterable[Image], progress: Progress | None = None
) -> tuple[str, ...]:
    """Return the integer layers, the one first whose integers alone disturb the outputs most.

    Convolutions and dense layers are measured, in NumPy; the others come after them, in the order
    of execution: they matter only where nothing is to stay in integers.

    Parameters
    ----------
    quantized
        The network.
    images
        Calibration images, of which the first few are looked at: one where the network is large.
    progress
        Called after every layer.
    """
    layers = [layer for layer in quantized.plan.layers if layer.integer]
    linear = [layer.name for layer in layers if layer.macs]
    rest = [layer.name for layer in layers if not layer.macs]
    mod = with_batch(quantized.reference, 1)
    outputs_compared = compared_tensors(mod["main"])
    network = NumpyNetwork(mod, quantized.plan.additions, outputs=outputs_compared)
    work = len(linear) * sum(layer.macs for layer in quantized.plan.layers)
    chosen = list(islice(images, max(1, min(IMAGES, MACS // max(work, 1)))))
    if not chosen:
        raise CalibrationError("no image found; the harm of layers is measured on images")
    inputs = network.stacked(chosen)
    known = network.run(inputs, keep=lambda name: True)
    wanted = {name: known[name] for name in network.outputs}
    simulation = simulation_of(quantized)
    ratios_db: dict[str, float] = {}
    for done, name in enumerate(linear, 1):
        _, plan = planned_with_floats(quantized, set(linear) - {name})
        outputs = network.run(inputs, replace(simulation, plan=plan), known=known)
        ratios_db[name] = least_snr_db([(wanted, outputs)])
        if progress:
            progress("harm of layers", done, len(linear))
    return (*sorted(linear, key=lambda name: ratios_db[name]), *rest)
