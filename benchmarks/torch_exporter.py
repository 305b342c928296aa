"""Runs under PyTorch: write exported programs with seeded weights, an input, and their results.

::

    python torch_exporter.py FOLDER --operators          a program of one operator for each case
    python torch_exporter.py FOLDER --networks           small networks, float and PT2E-quantized
    python torch_exporter.py FOLDER --torchvision        whole networks, where torchvision is there

Each is ``NAME.pt2`` and ``NAME.npz``: the inputs under their names, the results as ``output0`` and
so on.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

IMAGES = (2, 6, 8, 10)
ROWS = (4, 12)
TORCHVISION = (
    "alexnet",
    "densenet121",
    "efficientnet_b0",
    "googlenet",
    "inception_v3",
    "mnasnet1_0",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
    "regnet_y_400mf",
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "shufflenet_v2_x1_0",
    "squeezenet1_1",
    "vgg11_bn",
)

Case = tuple[str, Callable[..., Any], list[tuple[int, ...]]]

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
    (nn.MaxPool2d((2, 3), dilation=2), IMAGES),
    (nn.AvgPool2d(2), IMAGES),
    (nn.AvgPool2d(3, 2, 1), IMAGES),
    (nn.AvgPool2d(3, 2, 1, count_include_pad=False), IMAGES),
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
]

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
]


def written_later(x: torch.Tensor) -> torch.Tensor:
    """Read a tensor under its first name after a change in place."""
    y = x * 2
    y.relu_()
    return y + 1


FUNCTIONS.append(("written_later", written_later, [IMAGES]))


class Wrapped(nn.Module):  # type: ignore[misc]
    """A function as a module."""

    def __init__(self, compute: Callable[..., Any]) -> None:
        super().__init__()
        self.compute = compute

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Compute it."""
        return self.compute(*inputs)


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


def trained(module: nn.Module, images: torch.Tensor) -> nn.Module:
    """Return a network whose batch norms know the images, ready to be exported."""
    module.train()
    with torch.no_grad():
        for _ in range(20):
            module(images)
    return module.eval()


def save(
    folder: Path, name: str, module: nn.Module, inputs: tuple[torch.Tensor, ...], **options: Any
) -> None:
    """Export a module, and write it with its inputs and results."""
    with torch.no_grad():
        program = torch.export.export(module, inputs, **options)
        write(folder, name, program, inputs)


def write(folder: Path, name: str, program: Any, inputs: tuple[torch.Tensor, ...]) -> None:
    """Write a program with its inputs and results, without where its source lay."""
    for node in program.graph.nodes:
        node.meta.pop("stack_trace", None)
    torch.export.save(program, folder / f"{name}.pt2")
    given = {
        node.name: value.numpy().copy()
        for node, value in zip(
            [n for n in program.graph.nodes if n.name in program.graph_signature.user_inputs],
            inputs,
            strict=True,
        )
    }
    results, _ = torch.utils._pytree.tree_flatten(program.module()(*inputs))
    outputs = {f"output{place}": value.detach().numpy() for place, value in enumerate(results)}
    np.savez(folder / f"{name}.npz", **given, **outputs)


def operators(folder: Path) -> None:
    """Write every case of one operator."""
    for place, (layer, dims) in enumerate(LAYERS):
        layer.eval()
        for key, value in layer.state_dict().items():
            if key.endswith(("weight", "running_var", "bias", "running_mean")):
                value.uniform_(0.5 if key == "running_var" else -1.0, 1.5)
        save(folder, f"{type(layer).__name__}_{place}", layer, (torch.randn(dims),))
    for name, compute, shapes in FUNCTIONS:
        save(folder, name, Wrapped(compute), tuple(torch.randn(dims) for dims in shapes))


def networks(folder: Path, size: int) -> None:
    """Write every small network: float, in core operators, and quantized in two ways."""
    batch = torch.export.Dim("batch", min=1, max=64)
    x = torch.randn(2, 3, size, size)
    for name, build in NETWORKS.items():
        module = trained(build(), torch.randn(8, 3, size, size))
        save(folder, name, module, (x,), dynamic_shapes=({0: batch},))
        with torch.no_grad():
            plain = torch.export.export(module, (x,)).run_decompositions()
            write(folder, f"{name}_core", plain, (x,))
            for kind, quantizer in quantizers().items():
                exported = torch.export.export(module, (x,), dynamic_shapes=({0: batch},))
                quantized = quantize(exported.module(), quantizer, size)
                save(folder, f"{name}_{kind}", quantized, (x,), dynamic_shapes=({0: batch},))


def quantizers() -> dict[str, Any]:
    """Return PT2E's quantizers: int8 activations with zero points, and uint8 ones."""
    from torchao.quantization.pt2e.quantizer import (  # type: ignore[import-not-found]
        x86_inductor_quantizer as x86,
    )
    from torchao.testing.pt2e import (  # type: ignore[import-not-found]
        _xnnpack_quantizer as xnnpack,
    )

    signed = xnnpack.get_symmetric_quantization_config(is_per_channel=True)
    whole = xnnpack.get_symmetric_quantization_config(is_per_channel=False)
    unsigned = x86.get_default_x86_inductor_quantization_config()
    return {
        "s8": xnnpack.XNNPACKQuantizer().set_global(signed),
        "tensor": xnnpack.XNNPACKQuantizer().set_global(whole),
        "u8": x86.X86InductorQuantizer().set_global(unsigned),
    }


def quantize(module: nn.Module, quantizer: Any, size: int) -> nn.Module:
    """Return the module quantized by PT2E, calibrated on seeded images."""
    from torchao.quantization.pt2e.quantize_pt2e import (  # type: ignore[import-not-found]
        convert_pt2e,
        prepare_pt2e,
    )

    prepared = prepare_pt2e(module, quantizer)
    for _ in range(4):
        prepared(torch.randn(2, 3, size, size))
    found: nn.Module = convert_pt2e(prepared)
    return found


def vision(folder: Path, names: list[str]) -> None:
    """Write networks of torchvision with seeded weights."""
    import torchvision  # type: ignore[import-not-found]

    for name in names or TORCHVISION:
        size = 299 if name == "inception_v3" else 224
        module = torchvision.models.get_model(name, weights=None)
        module = trained(module, torch.randn(4, 3, size, size))
        save(folder, name, module, (torch.randn(1, 3, size, size),))


def main() -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--networks", action="store_true")
    parser.add_argument("--size", type=int, default=32, help="of the small networks' images")
    parser.add_argument("--torchvision", nargs="*", help="these networks, or all known ones")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    if args.operators:
        operators(args.folder)
    if args.networks:
        networks(args.folder, args.size)
    if args.torchvision is not None:
        vision(args.folder, args.torchvision)


if __name__ == "__main__":
    main()
