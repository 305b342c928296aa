"""Convolutions that templates for GPUs are tried on: shapes that tiles do not divide, and so on."""

from typing import Any

WINDOWS: dict[str, dict[str, Any]] = {
    "same": {"x": "int8", "y": "int8"},
    "several_fetches": {"in_channels": 320, "height": 4, "width": 6},
    "pointwise": {"kernel": (1, 1), "padding": (0, 0, 0, 0), "width": 17, "height": 3, "batch": 2},
    "pointwise_strided": {"kernel": (1, 1), "padding": (0, 0, 0, 0), "strides": (2, 2)},
    "prime_asymmetric": {"width": 23, "height": 11, "kernel": (3, 5), "padding": (1, 2, 0, 3)},
    "padded_past_the_kernel": {"kernel": (1, 1), "padding": (2, 1, 1, 2)},
    "strided_dilated": {"strides": (2, 2), "dilation": (2, 1), "padding": (1, 2, 0, 1)},
    "ragged_channels": {"in_channels": 21, "out_channels": 43, "x": "int8"},
    "few_channels": {"in_channels": 3, "out_channels": 2},
    "one_pixel": {"height": 1, "width": 1},
    "tall": {"kernel": (7, 1), "padding": (3, 0, 3, 0), "batch": 2},
    "residual_u8": {"residual": "uint8", "out_channels": 44, "width": 11},
    "residual_s8_leaky": {"x": "int8", "residual": "int8", "leaky": True, "y": "int8"},
    "leaky_float": {"y": "float32", "leaky": True, "out_channels": 21},
}
"""What differs from a 3x3 convolution of 7x7 pixels with a border of one."""
