"""Runs under PyTorch: a small network over sequences, with every layer of one dimension."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn


class Spoken(nn.Module):  # type: ignore[misc]
    """Convolutions along time, pooled, halved, doubled again and joined."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(3, 16, 5, padding="same")
        self.norm = nn.BatchNorm1d(16)
        self.deep = nn.Conv1d(16, 16, 3, padding=2, dilation=2, groups=16)
        self.mix = nn.Conv1d(16, 24, 1)
        self.up = nn.ConvTranspose1d(24, 16, 4, 2, 1)
        self.last = nn.Conv1d(32, 24, 3, padding=1)
        self.classes = nn.Linear(24, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Classify sequences."""
        top = F.relu(self.norm(self.stem(x)))
        x = F.max_pool1d(top, 3, 2, 1)
        x = F.hardswish(self.mix(self.deep(x)))
        x = torch.cat([self.up(x), top], 1)
        x = F.avg_pool1d(F.relu(self.last(x)), 4, ceil_mode=True)
        return self.classes(F.adaptive_avg_pool1d(x, 1).flatten(1))
