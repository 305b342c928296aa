"""Hazards of a quantized network, found before anything runs.

From the float weights and the plan alone: sums that could leave int32, pairs of products that
saturate int16 where another runtime adds them there, channels without weights. From the calibration
table: too few images, images that hold one value alone, values that were not finite, tensors whose
values are mostly cut off, or that leave most of their integers unused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm import IRModule

from relay_int8.calibration.calibrate import FEW_IMAGES
from relay_int8.calibration.entry import Entry
from relay_int8.calibration.formats.fit import unseen
from relay_int8.calibration.table import CalibrationTable
from relay_int8.errors import CalibrationError
from relay_int8.graph.group import Group
from relay_int8.graph.layers import linear_layers
from relay_int8.graph.plan import Plan
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams
from relay_int8.report.contents import INT16_SATURATION, Hazard
from schedules.x86 import saturating

Array = npt.NDArray[Any]
INT32_MAX = 2**31 - 1
U8_MAX = 255
CUT = 0.5  # share of the largest value; a lower threshold is a hazard
NOT_SEEN = "and no image says so"
USED_STEPS = 32  # integer steps (of 256); a tensor whose 99.9 % take fewer has lost three bits
CENTRAL_SHARE = 0.999
UNCALIBRATED = ("constant", "not-finite", "no-range")
"""Kinds that say that the calibration images, or the table, cannot have been meant."""


def find_hazards(
    mod: IRModule, plan: Plan, table: CalibrationTable | None = None
) -> tuple[Hazard, ...]:
    """Return the hazards of a normalized float module, those of the table's ranges if it is given.

    Without a table the bias of a layer counts as zero in its overflow bound.
    """
    hazards: list[Hazard] = []
    shares: dict[str, float] = {}
    for layer in linear_layers(mod["main"], plan):
        rows, integers, bias = _integers(layer, _input_params(layer, plan, table))
        hazards.extend(_of_layer(layer.name, rows, integers, bias))
        if _input_scheme(layer, plan, table) != "s8":
            shares[layer.name] = saturating.saturating_share(integers)
    hazards.extend(_of_pairs(shares))
    if table is not None:
        hazards.extend(_of_images(table))
        hazards.extend(_of_constants([str(param.name) for param in mod["main"].params], table))
        for name, entry in table.entries.items():
            hazards.extend(_of_tensor(name, entry))
    refused = [layer for layer in plan.layers if layer.reason and "accumulator" in layer.reason]
    for refusal in refused:
        message = f"{refusal.reason}; the layer stays in float"
        hazards.append(Hazard(kind="int32-overflow", name=refusal.name, message=message))
    return tuple(hazards)


def hazards_here(hazards: Iterable[Hazard]) -> tuple[Hazard, ...]:
    """Return those of networks that no other runtime gets."""
    return tuple(item for item in hazards if item.kind != INT16_SATURATION)


def require_calibrated(hazards: Iterable[Hazard]) -> None:
    """Raise a CalibrationError that names the hazards which say that ranges mean nothing."""
    messages = [f"{item.name}: {item.message}" for item in hazards if item.kind in UNCALIBRATED]
    if messages:
        raise CalibrationError(
            f"strict was asked for, and calibration found: {'; '.join(messages)}; give other "
            "images or ranges, or leave strict out"
        )


def _input_params(layer: Group, plan: Plan, table: CalibrationTable | None) -> QParams | None:
    tensor = plan.tensors.get(str(layer.inputs[0].name))
    entry = table.entries.get(tensor.like) if table and tensor else None
    return entry.qparams() if entry else None


def _input_scheme(layer: Group, plan: Plan, table: CalibrationTable | None) -> str | None:
    tensor = plan.tensors.get(str(layer.inputs[0].name))
    if tensor is None:
        return None
    entry = table.entries.get(tensor.like) if table else None
    return entry.scheme if entry else tensor.scheme


def _integers(layer: Group, x: QParams | None) -> tuple[Array, Array, Array]:
    """Return float and integer weights by output channel, and the integer bias."""
    rows = layer.weight_rows
    bias = np.zeros(len(rows), np.float32)
    if layer.bias is not None and x is not None:
        bias = layer.bias
    s_x = np.float32(1) if x is None else x.scale
    scales = qparams.weight_scales(rows, bias, s_x)
    integers = qparams.quantize_weight(rows, scales)
    return rows, integers, qparams.quantize_bias(bias, s_x, scales)


def _of_layer(name: str, rows: Array, integers: Array, bias: Array) -> Iterator[Hazard]:
    dead = int((~rows.reshape(len(rows), -1).any(axis=1)).sum())
    if dead:
        yield Hazard(
            kind="dead-channels",
            name=name,
            message=f"{dead} of {len(rows)} channels have no weight but zero: their result is a "
            "constant, and could be pruned",
        )
    sums = np.abs(integers.reshape(len(rows), -1).astype(np.int64)).sum(axis=1) * U8_MAX
    sums += np.abs(bias.astype(np.int64))
    if sums.max() > INT32_MAX:
        yield Hazard(
            kind="int32-overflow",
            name=name,
            message=f"channel {int(sums.argmax())} may reach {int(sums.max())}, int32 ends at "
            f"{INT32_MAX}; the layer will stay in float",
        )


def _of_pairs(shares: dict[str, float]) -> Iterator[Hazard]:
    worst = max(shares, key=lambda name: shares[name], default="")
    if not worst or not shares[worst]:
        return
    count = sum(share > 0 for share in shares.values())
    yield Hazard(
        kind=INT16_SATURATION,
        name="",
        message=f"in {count} of {len(shares)} layers ({worst}: {shares[worst]:.1%} of the pairs of "
        f"weights) u8 times s8 can saturate int16 in {saturating.NAME}; kernels of this project do "
        "not use it, other runtimes may where there is no better instruction: mind it after "
        "export-qdq",
    )


def _of_images(table: CalibrationTable) -> Iterator[Hazard]:
    if 0 < table.images < FEW_IMAGES:
        yield Hazard(
            kind="few-images",
            name="",
            message=f"ranges come from {table.images} images; {FEW_IMAGES} or more, better a few "
            "hundred, make them reliable",
        )


def _of_constants(inputs: list[str], table: CalibrationTable) -> Iterator[Hazard]:
    """Yield the inputs that have one value on all images; else the inner tensors that do."""
    constants = [name for name, entry in table.entries.items() if _is_constant(entry)]
    blank = [name for name in inputs if name in constants]
    for name in blank or constants:
        value = float(table.entries[name].observed.low)
        message = (
            f"it is {value:.6g} everywhere on all calibration images: its range, those behind it "
            "and what the report says of accuracy hold for such images alone"
        )
        if blank:
            message += "; calibrate with images that the network will see"
        yield Hazard(kind="constant", name=name, message=message)


def _is_constant(entry: Entry) -> bool:
    observed = entry.observed
    return not observed.empty and not unseen(entry) and observed.low == observed.high


def _of_tensor(name: str, entry: Entry) -> Iterator[Hazard]:
    observed = entry.observed
    if observed.nonfinite:
        yield Hazard(
            kind="not-finite",
            name=name,
            message=f"{observed.nonfinite} values were NaN or infinite on calibration images",
        )
    if not entry.high > entry.low and (unseen(entry) or observed.largest > 0):
        seen = f"but values reach {observed.largest:.6g}" if observed.largest > 0 else NOT_SEEN
        message = f"its range is [0, 0], {seen}: what it holds becomes whole numbers"
        yield Hazard(kind="no-range", name=name, message=f"{message}; exclude it or give a range")
    if observed.empty or not entry.high > entry.low:
        return
    largest = observed.largest
    threshold = max(-float(entry.low), float(entry.high))
    if 0 < threshold < CUT * largest:
        yield Hazard(
            kind="saturation",
            name=name,
            message=f"values reach {largest:.6g} and are cut at {threshold:.6g}"
            f"{_cut_share(entry, threshold)}; compare other methods",
        )
    unused = _unused(entry)
    if unused:
        yield Hazard(kind="unused-range", name=name, message=unused)


def _cut_share(entry: Entry, threshold: float) -> str:
    histogram = entry.histogram
    if histogram is None or not histogram.grid.absolute or not histogram.total:
        return ""
    first = int(np.ceil(threshold / float(histogram.grid.width)))
    return f" ({histogram.counts[first:].sum() / histogram.total:.3%} of them)"


def _unused(entry: Entry) -> str | None:
    """Say what a tensor's integers are wasted on, or None."""
    low, high = float(entry.observed.low), float(entry.observed.high)
    if entry.scheme == "s8" and min(-low, high) * 16 < max(-low, high):
        side = "above" if high > -low else "below"
        return (
            f"it is signed, but reaches from {low:.6g} to {high:.6g}: the integers {side} zero "
            "are all it uses; preset int8-asymmetric has a zero point"
        )
    histogram = entry.histogram
    if histogram is None or not histogram.grid.absolute or not histogram.total:
        return None
    kept = int(np.searchsorted(np.cumsum(histogram.counts), CENTRAL_SHARE * histogram.total)) + 1
    steps = kept * float(histogram.grid.width) / float(entry.qparams().scale)
    if steps >= USED_STEPS:
        return None
    return (
        f"{CENTRAL_SHARE:.1%} of its values lie within {steps:.0f} integers of zero; a method that "
        "cuts outliers off (kl, percentile, mse) would spread them"
    )
