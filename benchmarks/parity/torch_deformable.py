"""Runs under PyTorch, with torchvision: a small network with deformable convolutions."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn
from torchvision.ops import DeformConv2d  # type: ignore[import-not-found]


class Deformed(nn.Module):  # type: ignore[misc]
    """Both versions of deformable convolution: with a mask and a bias, and without."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.places = nn.Conv2d(8, 54, 3, padding=1)
        self.modulated = DeformConv2d(8, 12, 3, padding=1, groups=2)
        self.pool = nn.AvgPool2d(3, 2, 1, ceil_mode=True)
        self.offset = nn.Conv2d(12, 18, 3, padding=2, dilation=2, stride=(2, 1))
        self.plain = DeformConv2d(12, 6, 3, padding=2, dilation=2, stride=(2, 1), bias=False)
        self.last = nn.Conv2d(6, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Look where convolutions say."""
        x = F.relu(self.stem(x))
        places = self.places(x)
        x = self.modulated(x, places[:, :36], torch.sigmoid(places[:, 36:]))
        x = self.pool(F.relu(x))
        x = F.relu(self.plain(x, self.offset(x)))
        found: torch.Tensor = self.last(x)
        return found
