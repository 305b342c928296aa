"""Runs under PyTorch: a small detector in the manner of YOLOv5 and v8, without its decoding."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

WIDTHS = (16, 32, 64, 128)
OUTPUTS = 24  # of a place: offsets, a score and classes


def unit(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Sequential:
    """Return convolution, batch norm and swish."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), nn.SiLU())


class Partial(nn.Module):  # type: ignore[misc]
    """A stage of which half of the channels pass residual blocks, all parts joined."""

    def __init__(self, inputs: int, outputs: int, blocks: int, residual: bool) -> None:
        super().__init__()
        half = outputs // 2
        self.first = unit(inputs, outputs)
        self.blocks = nn.ModuleList(
            nn.Sequential(unit(half, half, 3), unit(half, half, 3)) for _ in range(blocks)
        )
        self.last = unit(half * (2 + blocks), outputs)
        self.residual = residual

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Split, run the blocks one after the other, join."""
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]) + (parts[-1] if self.residual else 0))
        joined: torch.Tensor = self.last(torch.cat(parts, 1))
        return joined


class Pyramid(nn.Module):  # type: ignore[misc]
    """Maxima of three sizes joined with what they are of."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.last = unit(channels, channels // 2), unit(channels * 2, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Pool three times by 5x5."""
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(F.max_pool2d(parts[-1], 5, 1, 2))
        joined: torch.Tensor = self.last(torch.cat(parts, 1))
        return joined


class Detector(nn.Module):  # type: ignore[misc]
    """Four stages, a path up and one down again, three maps of results."""

    def __init__(self) -> None:
        super().__init__()
        a, b, c, d = WIDTHS
        self.stem = nn.Sequential(unit(3, a, 3, 2), unit(a, b, 3, 2), Partial(b, b, 1, True))
        self.down = nn.ModuleList(
            [
                nn.Sequential(unit(b, c, 3, 2), Partial(c, c, 2, True)),
                nn.Sequential(unit(c, d, 3, 2), Partial(d, d, 1, True), Pyramid(d)),
            ]
        )
        self.up = nn.ModuleList([Partial(c + d, c, 1, False), Partial(b + c, b, 1, False)])
        self.again = nn.ModuleList([unit(b, b, 3, 2), unit(c, c, 3, 2)])
        self.joined = nn.ModuleList([Partial(b + c, c, 1, False), Partial(c + d, d, 1, False)])
        self.heads = nn.ModuleList(nn.Conv2d(width, OUTPUTS, 1) for width in (b, c, d))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return a map for each of three strides."""
        b = self.stem(x)
        c = self.down[0](b)
        d = self.down[1](c)
        c = self.up[0](torch.cat([F.interpolate(d, scale_factor=2.0), c], 1))
        b = self.up[1](torch.cat([F.interpolate(c, scale_factor=2.0), b], 1))
        c = self.joined[0](torch.cat([self.again[0](b), c], 1))
        d = self.joined[1](torch.cat([self.again[1](c), d], 1))
        return tuple(head(y) for head, y in zip(self.heads, (b, c, d), strict=True))
