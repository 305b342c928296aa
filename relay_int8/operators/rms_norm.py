"""RMSNorm: the last axes get root mean square one; no mean is taken off."""

from __future__ import annotations

from relay_int8.operators.normalization import TrailingAxes


class RmsNorm(TrailingAxes):
    """``x / sqrt(mean(x * x) + epsilon) * gamma`` over the last axes."""

    centred = False

    def __init__(self) -> None:
        super().__init__("nn.rms_norm")
