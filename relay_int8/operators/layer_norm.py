"""LayerNorm: the last axes get mean zero and variance one."""

from __future__ import annotations

from relay_int8.operators.normalization import TrailingAxes


class LayerNorm(TrailingAxes):
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta`` over the last axes."""

    def __init__(self) -> None:
        super().__init__("nn.layer_norm")
