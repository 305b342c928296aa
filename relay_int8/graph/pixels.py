"""Raw pixels as the input of a network: its preprocessing becomes part of the first quantize.

A module says so by an attribute of ``main``; Realize then reads uint8 where the network quantizes
its float input, by a table of 256 entries a channel. An entry is what a pixel of that value becomes
in the float32 of :class:`relay_int8.data.preprocessing.Preprocessing`, quantized: the same
bits as images that were prepared outside.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

import numpy as np
from tvm import IRModule, relax

from relay_int8.data.preprocessing import Preprocessing
from relay_int8.errors import ConfigError
from relay_int8.graph import dataflow
from relay_int8.graph.attributes import PIXELS
from relay_int8.numerics import qparams
from relay_int8.numerics.qparams import QParams

PixelLayout = Literal["NCHW", "NHWC"]
VALUES = 256


@dataclass(frozen=True, kw_only=True)
class Pixels:
    """Pictures as uint8, in the network's order of channels.

    Parameters
    ----------
    preprocessing
        Scale, mean and deviation; pictures are resized and cropped outside.
    layout
        Of the pixels: "NCHW" or "NHWC".
    """

    preprocessing: Preprocessing
    layout: PixelLayout = "NCHW"

    def table(self, channels: int, y: QParams) -> np.ndarray:
        """Return (channels * 256,) of y's type: channel by channel, what each pixel becomes."""
        values = np.arange(VALUES, dtype=np.float32)[:, None, None]
        pixels = np.broadcast_to(values, (VALUES, 1, channels))
        table: np.ndarray = qparams.quantize(self.preprocessing.normalized(pixels), y)
        return np.ascontiguousarray(table[:, 0].T).reshape(-1)


def with_pixels(mod: IRModule, pixels: Pixels) -> IRModule:
    """Return a QDQ module that takes raw pixels; ``mod`` itself is left alone.

    Raises
    ------
    ConfigError
        If it has not one input, of images in NCHW with the channels of ``pixels``.
    """
    params = mod["main"].params
    if len(params) != 1:
        raise ConfigError(f"raw pixels need a network of one input; this one has {len(params)}")
    if dataflow.dtype(params[0]) != "float32":
        raise ConfigError(
            f"raw pixels replace a float32 input; {params[0].name} is {dataflow.dtype(params[0])}"
        )
    channels = len(pixels.preprocessing.channels)
    dims = dataflow.shape(params[0])
    if len(dims) != 4 or dims[1] != channels or pixels.preprocessing.layout != "NCHW":
        raise ConfigError(
            f"raw pixels need an input of (n, {channels}, height, width) for "
            f"{pixels.preprocessing.channels} pictures; input {params[0].name} is {dims}"
        )
    values = {"preprocessing": pixels.preprocessing.to_dict(), "layout": pixels.layout}
    mod = mod.clone()
    mod["main"] = mod["main"].with_attr(PIXELS, json.dumps(values))
    return mod


def pixels_of(func: relax.Function) -> Pixels | None:
    """Return what :func:`with_pixels` said of ``main``, or None."""
    text = dataflow.attributes(func).get(PIXELS)
    if text is None:
        return None
    values = json.loads(str(text))
    recipe = Preprocessing.from_dict(values["preprocessing"])
    return Pixels(preprocessing=recipe, layout=values["layout"])
