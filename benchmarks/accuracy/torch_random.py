"""Runs under PyTorch: write networks of random weights as ONNX, with inputs.

::

    python -m benchmarks.accuracy.torch_random FOLDER [NAME ...]

Each network is ``NAME.onnx``, ``NAME.calib.npz`` and ``NAME.test.npz``, as
``scripts/bench_random --folder`` reads them. ``timm:lcnet_050`` is a network of timm. That Python
has torch, torchvision, onnx, onnxscript and perhaps timm, and not this project: start it in the
root of the repository.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torchvision  # type: ignore[import-not-found]
from torch import nn

from benchmarks.accuracy.torch_detector import Detector

models = torchvision.models
CALIBRATION_IMAGES, TEST_IMAGES, SETTLING_IMAGES = 8, 4, 16
GAMMA_SPREAD, BETA, BETA_SPREAD = 0.3, 0.7, 0.3
OPSET = 18
OCTAVES = (3, 7, 15, 40, 90)  # coarse noise first, as photographs have most of their power there


class Segmentation(nn.Module):  # type: ignore[misc]
    """A segmentation network of torchvision with its map alone as result."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the scores of each class and pixel."""
        scores: torch.Tensor = self.module(x)["out"]
        return scores


class Boxes(nn.Module):  # type: ignore[misc]
    """A detector of torchvision without the choice among its boxes."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.backbone, self.head = module.backbone, module.head

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return offsets and scores of all boxes."""
        return tuple(self.head(list(self.backbone(x).values())).values())


def classifier(name: str) -> Callable[[], nn.Module]:
    """Return what builds a classifier of torchvision."""
    more = {"aux_logits": False, "init_weights": True} if name == "googlenet" else {}
    return lambda: models.get_model(name, weights=None, **more)


def segmentation(name: str) -> Callable[[], nn.Module]:
    """Return what builds a segmentation network of torchvision."""
    return lambda: Segmentation(models.get_model(name, weights=None, weights_backbone=None))


def ssdlite() -> nn.Module:
    """Return SSDLite over MobileNetV3-Large."""
    name = "ssdlite320_mobilenet_v3_large"
    return Boxes(models.get_model(name, weights=None, weights_backbone=None, num_classes=21))


NETWORKS: dict[str, tuple[Callable[[], nn.Module], int]] = {
    "regnet_y_400mf": (classifier("regnet_y_400mf"), 96),
    "shufflenet_v2": (classifier("shufflenet_v2_x1_0"), 96),
    "mobilenet_v3_small": (classifier("mobilenet_v3_small"), 96),
    "efficientnet_v2_s": (classifier("efficientnet_v2_s"), 96),
    "squeezenet1_1": (classifier("squeezenet1_1"), 96),
    "googlenet": (classifier("googlenet"), 96),
    "lraspp": (segmentation("lraspp_mobilenet_v3_large"), 96),
    "deeplabv3": (segmentation("deeplabv3_mobilenet_v3_large"), 96),
    "ssdlite": (ssdlite, 160),
    "yolo": (Detector, 96),
}
"""Name -> what builds it, and height and width of its images."""
TIMM = "timm:"
TIMM_SIZE = 96  # of images of networks that take any


def images(count: int, size: int, seed: int) -> torch.Tensor:
    """Return float32 (count, 3, size, size): smooth noise in octaves, as bright as ImageNet's."""
    rng = np.random.default_rng(seed)
    total = torch.zeros(count, 3, size, size)
    for octave in OCTAVES:
        cells = min(octave, size)
        grid = torch.from_numpy(rng.standard_normal((count, 3, cells, cells), "float32"))
        smooth = nn.functional.interpolate(grid, (size, size), mode="bilinear", align_corners=False)
        total += smooth / octave**0.35
    contrast = torch.from_numpy(rng.uniform(0.5, 1.3, (count, 1, 1, 1)).astype("float32"))
    total = total / total.std(dim=(1, 2, 3), keepdim=True) * contrast
    noise = torch.from_numpy(rng.standard_normal(total.shape, "float32"))
    return (total + 0.1 * noise).clamp(-2.6, 2.6)


def enliven(module: nn.Module) -> None:
    """Give batch norms gammas that differ and betas above zero on average, and biases values.

    With betas of zero each norm and ReLU makes a difference between two images larger by a fifth:
    after fifty random layers nothing but noise would be left of any quantized network.
    """
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for layer in module.modules():
            if isinstance(layer, nn.BatchNorm2d):
                draws = torch.randn((2, layer.num_features), generator=generator)
                layer.weight.copy_(torch.exp(GAMMA_SPREAD * draws[0]))
                layer.bias.copy_(BETA + BETA_SPREAD * draws[1])
            elif isinstance(layer, nn.Conv2d | nn.Linear) and layer.bias is not None:
                layer.bias.add_(0.1 * torch.randn(layer.bias.shape, generator=generator))


def settle(module: nn.Module, pictures: torch.Tensor) -> None:
    """Give batch norms the statistics of some images."""
    norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]
    module.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    with torch.no_grad():
        module(pictures)
    module.eval()


def write(folder: Path, name: str) -> None:
    """Write one network and its images."""
    torch.manual_seed(0)
    name = name.removeprefix(TIMM)
    module, size = _built(name) if name in NETWORKS else _of_timm(name)
    module.eval()
    enliven(module)
    calibration, test = images(CALIBRATION_IMAGES, size, 1), images(TEST_IMAGES, size, 2)
    settle(module, images(SETTLING_IMAGES, size, 3))
    torch.onnx.export(
        module,
        (test[:1],),
        folder / f"{name}.onnx",
        dynamo=True,
        opset_version=OPSET,
        external_data=False,
        input_names=["image"],
        verbose=False,
    )
    np.savez(folder / f"{name}.calib.npz", image=calibration.numpy())
    np.savez(folder / f"{name}.test.npz", image=test.numpy())


def _built(name: str) -> tuple[nn.Module, int]:
    build, size = NETWORKS[name]
    return build(), size


def _of_timm(name: str) -> tuple[nn.Module, int]:
    import timm  # type: ignore[import-not-found]

    module = timm.create_model(name, pretrained=False, exportable=True)
    given = module.default_cfg
    return module, given["input_size"][-1] if given.get("fixed_input_size") else TIMM_SIZE


def main() -> None:
    """Write the networks that the command line names, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="all if none is given")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    args.folder.mkdir(parents=True, exist_ok=True)
    for name in args.names or NETWORKS:
        write(args.folder, name)
        print(name, flush=True)


if __name__ == "__main__":
    main()
