"""From a picture to a network input."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image as Picture

from relay_int8.errors import ConfigError

Pair = tuple[int, int]
WIDE_MODES = ("I", "F")
"""Of Pillow: gray of 32 bits, integers or floats."""
LARGEST = np.finfo(np.float32).max.item()
MAX_SIDE = 1 << 14  # of a resized picture, in pixels


@dataclass(frozen=True, kw_only=True)
class Preprocessing:
    """Resize, crop, then ``(pixel * scale - mean) / deviation`` in float32.

    Parameters
    ----------
    resize
        None; an int: the shorter side, the other follows (rounded); or exact (height, width).
        Bilinear as Pillow does it, averaging where it shrinks.
    crop
        None, or (height, width) cut from the middle.
    scale
        Factor on pixels of 0..255, before mean and deviation.
    mean, deviation
        One number per channel, in the order of ``channels``; a single one is for all.
    channels
        "RGB", "BGR" or "L" (one channel, luminance).
    layout
        "NCHW" or "NHWC".
    dtype
        "float32", or "uint8" for pixels as they are: neither scaled nor normalized.

    Examples
    --------
    >>> prepare = Preprocessing(resize=256, crop=(224, 224), scale=1 / 255)
    >>> prepare(Picture.new("RGB", (640, 480))).shape
    (1, 3, 224, 224)
    """

    resize: int | Pair | None = None
    crop: Pair | None = None
    scale: float = 1.0
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)
    channels: Literal["RGB", "BGR", "L"] = "RGB"
    layout: Literal["NCHW", "NHWC"] = "NCHW"
    dtype: Literal["float32", "uint8"] = "float32"

    def __post_init__(self) -> None:
        faults = []
        if self.channels not in ("RGB", "BGR", "L"):
            faults.append(f"channels {self.channels!r} is none of RGB, BGR, L (grey)")
        if self.layout not in ("NCHW", "NHWC"):
            faults.append(f"layout {self.layout!r} is neither NCHW nor NHWC")
        if self.dtype not in ("float32", "uint8"):
            faults.append(f"dtype {self.dtype!r} is neither float32 nor uint8")
        for name in ("mean", "deviation"):
            numbers = getattr(self, name)
            if not _is_list(numbers):
                faults.append(f"{name} is {numbers!r}, a list of numbers expected, as [0.5]")
            elif isinstance(self.channels, str) and len(numbers) not in (1, len(self.channels)):
                faults.append(f"{name} has {len(numbers)} numbers for {self.channels}")
        if not _is_number(self.scale):
            faults.append(f"scale is {self.scale!r}, a number expected")
        if not faults and not self._is_finite():
            faults.append("scale, mean and deviation must be finite, and no deviation zero")
        resize = 1 if self.resize is None else self.resize
        resize = resize if isinstance(resize, tuple) else (resize, resize)
        for name, size in (("resize", resize), ("crop", self.crop or (1, 1))):
            if not isinstance(size, tuple) or len(size) != 2 or not all(map(_is_side, size)):
                faults.append(f"{name} {size} is not a height and width from 1 to {MAX_SIDE}")
        if faults:
            raise ConfigError(f"preprocessing: {'; '.join(faults)}")

    def _is_finite(self) -> bool:
        numbers = (self.scale, *self.mean, *self.deviation)
        return all(abs(n) <= LARGEST for n in numbers) and 0 not in self.deviation

    def __call__(self, picture: Picture.Image) -> npt.NDArray[Any]:
        """Return the input of batch 1, of type ``dtype``, that ``picture`` becomes."""
        picture = _of_bytes(picture).convert("L" if self.channels == "L" else "RGB")
        picture = self._cut(self._resized(picture))
        pixels = np.asarray(picture, np.uint8).reshape(picture.height, picture.width, -1)
        if self.channels == "BGR":
            pixels = pixels[:, :, ::-1]
        x = pixels if self.dtype == "uint8" else self.normalized(pixels.astype(np.float32))
        if self.layout == "NCHW":
            x = x.transpose(2, 0, 1)
        return np.ascontiguousarray(x[None])

    def normalized(self, pixels: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return float32 pixels (..., channels) of 0..255, normalized; channels as in ``mean``."""
        mean, deviation = (np.array(v, np.float32) for v in (self.mean, self.deviation))
        x: npt.NDArray[np.float32] = (pixels * np.float32(self.scale) - mean) / deviation
        return x

    def without_arithmetic(self, layout: Literal["NCHW", "NHWC"]) -> Preprocessing:
        """Return what is left to do where the network itself scales and normalizes."""
        return dataclasses.replace(
            self, scale=1.0, mean=(0.0,), deviation=(1.0,), layout=layout, dtype="uint8"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as plain values, for JSON or TOML."""
        values = dataclasses.asdict(self)
        return {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Preprocessing:
        """Return the settings that :meth:`to_dict` gave; what is absent keeps its default."""
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = [name for name in values if name not in known]
        if unknown:
            raise ConfigError(
                f"preprocessing has no {', '.join(unknown)}; it has {', '.join(known)}"
            )
        settings: dict[str, Any] = {
            k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
        }
        return cls(**settings)

    def _resized(self, picture: Picture.Image) -> Picture.Image:
        if self.resize is None:
            return picture
        if isinstance(self.resize, tuple):
            height, width = self.resize
        else:
            ratio = self.resize / min(picture.size)
            height, width = round(picture.height * ratio), round(picture.width * ratio)
        if max(height, width) > MAX_SIDE:
            raise ConfigError(
                f"a picture of {picture.height} x {picture.width}, resized, has {height} x {width} "
                f"pixels; a side has {MAX_SIDE} at most: remove it"
            )
        return picture.resize((width, height), Picture.Resampling.BILINEAR)

    def _cut(self, picture: Picture.Image) -> Picture.Image:
        if self.crop is None:
            return picture
        height, width = self.crop
        if height > picture.height or width > picture.width:
            raise ConfigError(
                f"crop of {height} x {width} from a picture of {picture.height} x {picture.width}; "
                "resize to at least the crop"
            )
        left, top = (picture.width - width) // 2, (picture.height - height) // 2
        return picture.crop((left, top, left + width, top + height))


def _of_bytes(picture: Picture.Image) -> Picture.Image:
    """Return a picture whose channels have 8 bits, the upper ones of 16; Pillow would clip these.

    Raises
    ------
    ConfigError
        Its pixels have 32 bits: nothing says which of them is white.
    """
    if picture.mode in WIDE_MODES:
        kind = "integers" if picture.mode == "I" else "floats"
        raise ConfigError(f"its pixels are {kind} of 32 bits, not of 8 or 16; save it with 8")
    if picture.mode.startswith("I;16"):
        return Picture.fromarray((np.asarray(picture) >> 8).astype(np.uint8))
    return picture


def _is_list(values: object) -> bool:
    return isinstance(values, tuple | list | np.ndarray) and all(map(_is_number, values))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)


def _is_side(value: object) -> bool:
    is_integer = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return is_integer and 1 <= int(value) <= MAX_SIDE  # type: ignore[call-overload]
