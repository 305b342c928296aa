"""Runs under PyTorch: small networks of the kinds that vision has, as modules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class Squeeze(nn.Module):  # type: ignore[misc]
    """Squeeze-and-excite."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(channels, channels // 4, 1)
        self.fc2 = nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scale channels by what their means tell."""
        return x * F.hardsigmoid(self.fc2(F.relu(self.fc1(self.pool(x)))))


def unit(inputs: int, outputs: int, kernel: int, act: type[nn.Module], **more: Any) -> list[Any]:
    """Return convolution, batch norm and activation."""
    conv = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=False, **more)
    return [conv, nn.BatchNorm2d(outputs), act()]


class Residual(nn.Module):  # type: ignore[misc]
    """Two convolutions beside a shortcut, which is a convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        last = unit(outputs, outputs, 3, nn.Identity)[:2]
        self.body = nn.Sequential(*unit(inputs, outputs, 3, nn.ReLU, stride=stride), *last)
        short = unit(inputs, outputs, 1, nn.Identity, stride=stride)[:2]
        self.shortcut = nn.Identity() if inputs == outputs else nn.Sequential(*short)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add both."""
        return F.relu(self.body(x) + self.shortcut(x))


class Inverted(nn.Module):  # type: ignore[misc]
    """An inverted residual of MobileNet V2 and V3."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, act: type[nn.Module], gate: bool
    ) -> None:
        super().__init__()
        wide = 3 * inputs
        self.block = nn.Sequential(
            *unit(inputs, wide, 1, act),
            *unit(wide, wide, kernel, act, stride=stride, groups=wide),
            *([Squeeze(wide)] if gate else []),
            *unit(wide, outputs, 1, act)[:2],
        )
        self.short = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Widen, filter, narrow; add where the shape stays."""
        return x + self.block(x) if self.short else self.block(x)


def tail(channels: int, classes: int) -> list[nn.Module]:
    """Return pooling and classifier."""
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]


def residual() -> nn.Module:
    """Return a small ResNet."""
    return nn.Sequential(
        *unit(3, 16, 3, nn.ReLU, stride=2),
        nn.MaxPool2d(3, 2, 1),
        Residual(16, 16, 1),
        Residual(16, 32, 2),
        *tail(32, 10),
    )


def mobile_v2() -> nn.Module:
    """Return a small MobileNet V2."""
    return nn.Sequential(
        *unit(3, 8, 3, nn.ReLU6, stride=2),
        Inverted(8, 16, 3, 2, nn.ReLU6, False),
        Inverted(16, 16, 3, 1, nn.ReLU6, False),
        *unit(16, 32, 1, nn.ReLU6),
        *tail(32, 10),
    )


def mobile_v3() -> nn.Module:
    """Return a small MobileNet V3."""
    return nn.Sequential(
        *unit(3, 8, 3, nn.Hardswish, stride=2),
        Inverted(8, 16, 5, 2, nn.ReLU, True),
        Inverted(16, 16, 3, 1, nn.Hardswish, True),
        *unit(16, 32, 1, nn.Hardswish),
        *tail(32, 10),
    )


class Mixed(nn.Module):  # type: ignore[misc]
    """Operators of many kinds on few channels."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(*unit(3, 8, 3, nn.Hardswish, stride=2))
        self.side = nn.Conv2d(4, 4, 3, padding=1, groups=2)
        self.fc = nn.Linear(48, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Split, convolve one part, join, pad, pool, multiply."""
        a, b = self.stem(x).chunk(2, 1)
        y = torch.cat([a, self.side(b).clamp(-1, 2), b], 1).relu_()
        y = F.max_pool2d(F.pad(y, (1, 0, 1, 0)), 2)
        y = y.permute(0, 1, 3, 2)[:, :, :2, :2].reshape(-1, 48)
        return F.softmax(self.fc(y), -1)


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "mixed": Mixed,
    "mobile_v2": mobile_v2,
    "mobile_v3": mobile_v3,
    "residual": residual,
}
