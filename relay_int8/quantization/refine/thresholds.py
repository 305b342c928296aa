"""The range of each tensor whose rounding and saturation disturb the layers that read it least.

Calibration methods look at a tensor alone. Here every candidate range, those of the methods among
them, is tried on calibration images: the tensor is quantized with it, and what counts is the error
in the outputs of the layers that read it, ``|W (q(x) - x)|^2 / |W x|^2``; where no layer with
weights reads it, its own. All else is float. TensorRT's authors named this fine-tuning as open
(S. Migacz, "8-bit Inference with TensorRT", GTC 2017, "challenges").
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from relay_int8.calibration.choose import choose
from relay_int8.calibration.entry import Entry
from relay_int8.calibration.methods import METHODS
from relay_int8.calibration.observe import Progress
from relay_int8.calibration.table import CalibrationTable
from relay_int8.data.dataset import Image
from relay_int8.graph.group import Group
from relay_int8.graph.plan import Plan
from relay_int8.numerics.qparams import QParams
from relay_int8.operators.registry import linear_of
from relay_int8.quantization.refine.network import NumpyNetwork
from relay_int8.quantization.refine.simulation import fake_quantize

Array = npt.NDArray[Any]
IMAGES = 32  # at most, that candidates are tried on
METHODS_TRIED = ("max", "percentile", "mse", "aciq-laplace", "aciq-gauss")
SHARES = (0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5)
"""Of what was observed: candidates beside the methods' ranges."""
ALIKE = 0.01  # relative; a candidate that near to another one is left out
METHOD = "output error"
HISTOGRAMS = METHODS["mse"]
"""The method whose histograms the candidates are made from."""


def tuned_thresholds(
    network: NumpyNetwork,
    plan: Plan,
    table: CalibrationTable,
    data: Iterable[Image],
    *,
    progress: Progress | None = None,
) -> CalibrationTable:
    """Return ``table`` with the best range of every tensor; its method says whose range that is.

    Parameters
    ----------
    network
        The float network.
    plan
        Says which tensors share a range, and which layers are integers.
    table
        Calibrated with histograms (``keep_histograms``).
    data
        Calibration images; the first :data:`IMAGES` of them.
    progress
        Called after every few images.
    """
    tried = {name: candidates(entry) for name, entry in table.entries.items()}
    errors = {name: np.zeros(len(tried[name])) for name in tried}
    readers = _readers(network, plan)
    done = 0
    for chunk in network.images(islice(data, IMAGES)):
        tensors = {**chunk, **network.run(chunk, keep=readers.__contains__)}
        for name, groups in readers.items():
            root = plan.tensors[name].like
            params = [entry.qparams() for entry in tried[root]]
            for group in groups:
                errors[root] += _errors(group, name, tensors, params)
        done += len(chunk[network.inputs[0]])
        if progress:
            progress("thresholds", done, IMAGES)
    entries = {
        name: tried[name][int(np.argmin(errors[name]))] if errors[name].any() else entry
        for name, entry in table.entries.items()
    }
    return dataclasses.replace(table, entries=entries)


def candidates(entry: Entry) -> list[Entry]:
    """Return the entry with the ranges to try: the methods' first, then shares of the observed."""
    assert entry.histogram is not None
    entries: list[Entry] = []
    for method in METHODS_TRIED:
        chosen = choose(entry.scheme, entry.observed, entry.histogram, METHODS[method])
        entries.append(dataclasses.replace(chosen, method=f"{METHOD}: {method}"))
    whole = entries[0]
    entries += [
        dataclasses.replace(
            whole,
            low=np.float32(whole.low * share),
            high=np.float32(whole.high * share),
            method=f"{METHOD}: {share:g} of max",
        )
        for share in SHARES
    ]
    kept: list[Entry] = []
    for one in entries:
        if all(not np.isclose(one.high, other.high, rtol=ALIKE, atol=0) for other in kept):
            kept.append(one)
    return kept


def _readers(network: NumpyNetwork, plan: Plan) -> dict[str, list[Group]]:
    """Return, for each tensor of the plan, the integer groups that read it."""
    integer = plan.integer_layers
    readers: dict[str, list[Group]] = {}
    for group in network.groups:
        for var in group.inputs:
            if group.name in integer and str(var.name) in plan.tensors:
                readers.setdefault(str(var.name), []).append(group)
    return readers


def _errors(group: Group, name: str, tensors: Mapping[str, Array], params: list[QParams]) -> Array:
    """Return for each candidate the relative error of what ``group`` gives, by ``name`` alone."""
    x = tensors[name]
    linear_input = group.weight is not None and str(group.inputs[0].name) == name
    signal = _power(_product(group, x) if linear_input else x)
    if not signal:
        return np.zeros(len(params))
    noise = []
    for one in params:
        lost = fake_quantize(x, one) - x
        noise.append(_power(_product(group, lost) if linear_input else lost))
    return np.array(noise) / signal


def _product(group: Group, x: Array) -> Array:
    record = linear_of(group)
    assert group.weight is not None
    alone = dataclasses.replace(group, addition=None, activation=None, activated=None)
    return record.evaluate_with(alone, [x], group.weight.values, None)


def _power(x: Array) -> float:
    return float(np.vdot(x, x))
