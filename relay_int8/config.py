"""What the user asks of the quantizer: one small frozen object, presets in one table."""

from __future__ import annotations

from dataclasses import dataclass

from relay_int8.errors import ConfigError
from relay_int8.qparams import Scheme


@dataclass(frozen=True, kw_only=True)
class Preset:
    """Integer type of activations, by whether they can be negative; weights are s8 per channel."""

    non_negative: Scheme
    signed: Scheme


PRESETS = {
    "int8": Preset(non_negative="u8", signed="s8"),
    "int8-symmetric": Preset(non_negative="s8", signed="s8"),
    "int8-asymmetric": Preset(non_negative="u8", signed="asymmetric"),
}
"""int8-symmetric is TensorRT's scheme; int8-asymmetric gives signed tensors a zero point."""


@dataclass(frozen=True, kw_only=True)
class QuantConfig:
    """How to quantize a network.

    Parameters
    ----------
    preset
        A key of ``PRESETS``.
    method
        Name of the calibration method (``relay_int8.calibration.METHODS``).
    exclude
        What stays in float: names of tensors, or operator types such as ``conv2d``.
    bias_correction
        Take the mean error of quantized weights out of each layer's bias
        (``relay_int8.bias_correction``).
    require_int8
        Make a layer that stays in float for any reason but ``exclude`` an error.

    Raises
    ------
    ConfigError
        If the preset is unknown.
    """

    preset: str = "int8"
    method: str = "max"
    exclude: tuple[str, ...] = ()
    bias_correction: bool = True
    require_int8: bool = False

    def __post_init__(self) -> None:
        if self.preset not in PRESETS:
            known = ", ".join(PRESETS)
            raise ConfigError(f"preset {self.preset!r} is unknown; choose one of {known}")

    @property
    def scheme(self) -> Preset:
        """The preset's integer types."""
        return PRESETS[self.preset]
