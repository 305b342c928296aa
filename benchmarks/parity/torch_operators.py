"""Runs under PyTorch: single operators as programs, each with the shapes of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

IMAGES = (2, 6, 8, 10)
ROWS = (4, 12)
SEQUENCES = (2, 6, 17)

# Name, what it computes, shapes of its inputs.
Case = tuple[str, Callable[..., Any], list[tuple[int, ...]]]


def _filtered(a: torch.Tensor) -> Any:
    """Multiply the spectra of images, as GFNet and FNO do, and look at those of rows."""
    z = torch.fft.rfft2(a, norm="ortho")
    filters = torch.complex(torch.full((6, 8, 6), 0.3), torch.arange(6.0) / 6)
    mixed = torch.fft.fft(torch.fft.fft(a), dim=-2).real
    back = torch.fft.ifft(torch.fft.fft(a, n=12, dim=1), dim=1)[:, :6].real
    row = torch.fft.rfft(a, n=8)
    return (
        torch.fft.irfft2(z * filters, s=(8, 10), norm="ortho"),
        mixed + back,
        row.angle() + row.abs(),
    )


def _frames(a: torch.Tensor) -> Any:
    """Analyse frames of a signal, and join them again."""
    window = torch.hann_window(12)
    z = torch.stft(a, 16, 4, 12, window, return_complex=True)
    return z.abs(), torch.istft(z * 2, 16, 4, 12, window, length=64), torch.view_as_real(z)


def _rotated(a: torch.Tensor) -> torch.Tensor:
    """Turn pairs by their position, as complex numbers."""
    turns = torch.polar(torch.ones(6, 4), torch.outer(torch.arange(6.0), torch.arange(4.0) / 4))
    return torch.view_as_real(torch.view_as_complex(a.reshape(2, 6, 4, 2)) * turns).flatten(2)


LAYERS: list[tuple[nn.Module, tuple[int, ...]]] = [
    (nn.Conv2d(6, 4, (3, 2)), IMAGES),
    (nn.Conv2d(6, 4, 3, (2, 1), (1, 2), (2, 1), bias=False), IMAGES),
    (nn.Conv2d(6, 6, 3, padding="same", groups=3), IMAGES),
    (nn.Conv2d(6, 4, (4, 3), padding="same", dilation=2), IMAGES),
    (nn.Conv2d(6, 4, 3, padding="valid"), IMAGES),
    (nn.Conv1d(6, 4, 3, padding=1), (2, 6, 9)),
    (nn.ConvTranspose2d(6, 4, 4, 2, 1), IMAGES),
    (nn.ConvTranspose2d(6, 4, 3, 2, 1, output_padding=1, groups=2, dilation=2), IMAGES),
    (nn.Linear(12, 5), ROWS),
    (nn.Linear(10, 5, bias=False), IMAGES),
    (nn.BatchNorm2d(6), IMAGES),
    (nn.BatchNorm2d(6, affine=False, eps=1e-3), IMAGES),
    (nn.BatchNorm1d(12), ROWS),
    (nn.LayerNorm(10), IMAGES),
    (nn.LayerNorm([8, 10], elementwise_affine=False), IMAGES),
    (nn.GroupNorm(3, 6), IMAGES),
    (nn.PReLU(), IMAGES),
    (nn.PReLU(6), IMAGES),
    (nn.MaxPool2d(3, 2), IMAGES),
    (nn.MaxPool2d(3, 2, 1), IMAGES),
    (nn.MaxPool2d(3, 2, ceil_mode=True), IMAGES),
    (nn.MaxPool2d(2, 3, 1, ceil_mode=True), IMAGES),
    (nn.MaxPool2d((2, 3), dilation=2), IMAGES),
    (nn.AvgPool2d(2), IMAGES),
    (nn.AvgPool2d(3, 2, 1), IMAGES),
    (nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGES),
    (nn.AvgPool2d(3, 2, ceil_mode=True), IMAGES),
    (nn.AvgPool2d((2, 3), (3, 2), 1, ceil_mode=True), IMAGES),
    (nn.AvgPool2d(3, 2, 1, ceil_mode=True, count_include_pad=False), IMAGES),
    (nn.AdaptiveAvgPool2d(1), IMAGES),
    (nn.AdaptiveAvgPool2d((4, 5)), IMAGES),
    (nn.AdaptiveAvgPool2d((3, 4)), IMAGES),
    (nn.AdaptiveMaxPool2d(1), IMAGES),
    *[
        (layer, IMAGES)
        for layer in (
            nn.ReLU(),
            nn.ReLU(inplace=True),
            nn.ReLU6(),
            nn.Hardtanh(-0.4, 0.7),
            nn.Hardswish(),
            nn.Hardsigmoid(),
            nn.Sigmoid(),
            nn.SiLU(),
            nn.GELU(),
            nn.GELU("tanh"),
            nn.ELU(),
            nn.ELU(0.7),
            nn.SELU(),
            nn.LeakyReLU(0.2),
            nn.Softplus(),
            nn.Mish(),
            nn.Tanh(),
            nn.Softmax(1),
            nn.LogSoftmax(-1),
            nn.Sequential(nn.Dropout(0.5), nn.Dropout2d(0.5), nn.Identity(), nn.ReLU()),
            nn.Flatten(),
            nn.Flatten(1, 2),
            nn.Unflatten(1, (2, 3)),
            nn.ZeroPad2d((1, 2, 3, 0)),
            nn.ReflectionPad2d(2),
            nn.ReplicationPad2d((1, 0, 2, 1)),
            nn.PixelUnshuffle(2),
            nn.ChannelShuffle(3),
            nn.Upsample(scale_factor=2),
            nn.Upsample(size=(11, 7)),
            nn.Upsample(scale_factor=2, mode="bilinear"),
            nn.Upsample(size=(11, 7), mode="bilinear"),
            nn.Upsample(scale_factor=3, mode="bilinear", align_corners=True),
        )
    ],
    (nn.PixelShuffle(2), (1, 8, 3, 4)),
    *[
        (layer, SEQUENCES)
        for layer in (
            nn.Conv1d(6, 4, 4, 2, padding=3, dilation=2, groups=2),
            nn.ConvTranspose1d(6, 4, 5, 3, 1, output_padding=2),
            nn.BatchNorm1d(6),
            nn.MaxPool1d(3, 2, 1, ceil_mode=True),
            nn.AvgPool1d(4, 3, 1, ceil_mode=True),
            nn.AvgPool1d(3, 2, 1, count_include_pad=False),
            nn.AdaptiveAvgPool1d(1),
            nn.AdaptiveAvgPool1d(5),
            nn.AdaptiveMaxPool1d(1),
            nn.Upsample(scale_factor=3),
            nn.Upsample(size=29, mode="linear"),
        )
    ],
]


def _written_later(x: torch.Tensor) -> torch.Tensor:
    """Read a tensor under its first name after a change in place."""
    y = x * 2
    y.relu_()
    return y + 1


FUNCTIONS: list[Case] = [
    ("add", lambda a, b: a + b, [IMAGES, (6, 1, 10)]),
    ("add_alpha", lambda a, b: torch.add(a, b, alpha=0.7), [IMAGES, IMAGES]),
    ("add_number", lambda a: a + 1.5, [IMAGES]),
    ("sub", lambda a, b: a - b, [IMAGES, (6, 1, 10)]),
    ("rsub", lambda a: 1.5 - a, [IMAGES]),
    ("mul", lambda a, b: a * b, [IMAGES, (2, 6, 1, 1)]),
    ("div", lambda a, b: a / (b.abs() + 1), [IMAGES, IMAGES]),
    ("div_number", lambda a: a / 3, [IMAGES]),
    ("pow", lambda a: a**2 + a.abs() ** 0.7, [IMAGES]),
    ("maximum", lambda a, b: torch.maximum(a, b) - torch.minimum(a, 0.5 * b), [IMAGES, IMAGES]),
    ("clamp", lambda a: a.clamp(-0.3, 0.6) + a.clamp(min=0.1) + a.clamp_max(0.2), [IMAGES]),
    ("unary", lambda a: a.exp() + a.sin() - a.cos() + a.floor() + a.ceil() + a.neg(), [IMAGES]),
    ("roots", lambda a: (a.abs() + 1).sqrt() + (a.abs() + 1).rsqrt() + (a.abs() + 1).log(), [ROWS]),
    ("reciprocal", lambda a: (a.abs() + 1).reciprocal() + a.erf() + a.square(), [ROWS]),
    ("mean", lambda a: a.mean((2, 3)) + a.mean((2, 3), keepdim=True).flatten(1), [IMAGES]),
    ("mean_all", lambda a: a - a.mean(), [IMAGES]),
    ("sum", lambda a: a.sum(1, keepdim=True) + a.amax(1, keepdim=True), [IMAGES]),
    ("matmul", lambda a, b: a @ b, [(2, 3, 4), (2, 4, 5)]),
    ("reshape", lambda a: a.reshape(2, -1, 5).view(2, 6, 16, 5).squeeze().unsqueeze(1), [IMAGES]),
    ("permute", lambda a: a.permute(0, 2, 3, 1).transpose(1, -1).contiguous(), [IMAGES]),
    ("concat", lambda a, b: torch.cat([a, b, a], 1), [IMAGES, (2, 3, 8, 10)]),
    ("stack", lambda a, b: torch.stack([a, b], -1), [ROWS, ROWS]),
    ("slices", lambda a: a[:, 1:5:2] + a[:, -2:, :, :], [IMAGES]),
    ("select", lambda a: a[:, 2] + a.narrow(1, 3, 2)[:, -1], [IMAGES]),
    ("split", lambda a: torch.split(a, 4, 1)[1] + torch.split(a, [2, 2, 2], 1)[0], [IMAGES]),
    ("chunk", lambda a: torch.cat(torch.chunk(a, 4, 3)[::-1], 3), [IMAGES]),
    ("unbind", lambda a: a.unbind(1)[3], [IMAGES]),
    ("expand", lambda a, b: a + b.expand(-1, 6, 8, -1), [IMAGES, (2, 1, 1, 10)]),
    ("pad", lambda a: F.pad(a, (1, 2, 3, 0), value=0.5), [IMAGES]),
    ("repeat", lambda a: a.repeat(1, 2, 1, 3).flip(1, -1), [IMAGES]),
    ("in_place", lambda a: (a * 2).add_(a).relu_(), [IMAGES]),
    ("several", lambda a: (a + 1, {"b": a.relu()}), [IMAGES]),
    ("cast", lambda a: a.double().float() + a.to(torch.float32), [ROWS]),
    ("written_later", _written_later, [IMAGES]),
    ("spectra_of_images", _filtered, [IMAGES]),
    ("spectra_of_frames", _frames, [(2, 64)]),
    ("rotated", _rotated, [(2, 6, 8)]),
]


class Wrapped(nn.Module):  # type: ignore[misc]
    """A function as a module: only modules are exported."""

    def __init__(self, compute: Callable[..., Any]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Compute it."""
        return self.compute(*inputs)
