"""Runs under PyTorch: write exported programs with seeded weights, an input, and their results.

::

    python -m benchmarks.parity.torch_exporter FOLDER --operators

``--operators``: a program of one operator each; ``--transformers``: their operators, and recurrent
layers; ``--networks``: small ones, float and PT2E-quantized; ``--torchvision``: whole ones, where
torchvision is.

Each program is ``NAME.pt2`` and ``NAME.npz``: the inputs under their names, the results as
``output0`` and so on. That Python has PyTorch, torchao and NumPy, and not this project: start it in
the root of the repository, and import nothing here but the modules that hold the programs.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.parity.torch_deformable import Deformed
from benchmarks.parity.torch_networks import NETWORKS
from benchmarks.parity.torch_operators import FUNCTIONS, LAYERS, Wrapped
from benchmarks.parity.torch_sequence import Spoken
from benchmarks.parity.torch_transformers import programs

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


def transformers(folder: Path) -> None:
    """Write every program of transformers and recurrent networks, as it is and decomposed."""
    for name, (module, inputs) in programs().items():
        with torch.no_grad():
            exported = torch.export.export(module.eval(), inputs)
            write(folder, name, exported, inputs)
            write(folder, f"{name}_core", exported.run_decompositions(), inputs)
    module, inputs = programs()["rotary"]
    length = torch.export.Dim("length", min=2, max=64)
    save(folder, "rotary_open", module, inputs, dynamic_shapes=({1: length},))


def networks(folder: Path, size: int) -> None:
    """Write every small network: float; most also in core operators, and quantized."""
    batch = torch.export.Dim("batch", min=1, max=64)
    x = torch.randn(2, 3, size, size)
    save(folder, "deformed", trained(Deformed(), x), (x,), dynamic_shapes=({0: batch},))
    spoken = torch.randn(2, 3, 4 * size)
    module = trained(Spoken(), torch.randn(8, 3, 4 * size))
    save(folder, "spoken", module, (spoken,), dynamic_shapes=({0: batch},))
    with torch.no_grad():
        plain = torch.export.export(module, (spoken,)).run_decompositions()
        write(folder, "spoken_core", plain, (spoken,))
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
    parser.add_argument("--transformers", action="store_true")
    parser.add_argument("--networks", action="store_true")
    parser.add_argument("--size", type=int, default=32, help="of the small networks' images")
    parser.add_argument("--torchvision", nargs="*", help="these networks, or all known ones")
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    if args.operators:
        operators(args.folder)
    if args.transformers:
        transformers(args.folder)
    if args.networks:
        networks(args.folder, args.size)
    if args.torchvision is not None:
        vision(args.folder, args.torchvision)


if __name__ == "__main__":
    main()
