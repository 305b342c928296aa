"""The excerpts of docs/cuda.md: one convolution from ONNX node to machine code, as made today.

    python -m benchmarks.gpu.cuda_page             print them
    python -m benchmarks.gpu.cuda_page --write     put them into docs/cuda.md

The convolution is ResNet-18's first 3x3, ``layer1.0.conv1``, in a network of its own.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import tvm
from onnx import helper
from tvm import relax, tirx
from tvm.target import Target

from benchmarks.zoo.network import Network
from relay_int8.calibration import open_data
from relay_int8.compiler.pipeline import kernel_passes
from relay_int8.data.tensor_info import TensorInfo
from relay_int8.frontend.onnx import import_onnx
from relay_int8.graph import dataflow
from relay_int8.graph.spec_calls import operands, spec_of
from relay_int8.quantization.config import QuantConfig
from relay_int8.quantization.quantize import quantize
from relay_int8.quantization.quantized_model import QuantizedModel
from schedules.catalog import TEMPLATES
from schedules.cuda.dp4a.default_tiles import default_tiles
from schedules.cuda.dp4a.tiles import Tiles
from schedules.cuda.toolchain.compiler import compiled_by
from schedules.cuda.toolchain.fat_binary import bundle
from schedules.cuda.toolchain.nvrtc import Nvrtc
from schedules.cuda.toolchain.sass import KernelCode, disassemble
from schedules.layout import NCHW4C
from schedules.space import Kernel
from schedules.spec import Conv2d, to_json
from schedules.targets import named_target
from schedules.template import Layouts

PAGE = Path(__file__).parents[2] / "docs" / "cuda.md"
ARCHITECTURE, NAME = "sm_80", "conv2d_dp4a"
LAYER, CHANNELS, SIZE = "layer1.0", 64, 56
SASS_LINES = 12
_SECTION = re.compile(r"(<!-- begin (\w+) -->\n)(.*?)(<!-- end \2 -->\n)", re.S)


@dataclass(frozen=True)
class ConvolutionForms:
    """Every form that the convolution takes."""

    model: onnx.ModelProto
    quantized: QuantizedModel
    target: Target

    @cached_property
    def integers(self) -> tuple[Conv2d, dict[str, np.ndarray]]:
        """Return the specification and its constants."""
        with self.target:
            mod = tvm.transform.Sequential(kernel_passes(self.target))(self.quantized.mod)
        for _, value in dataflow.calls(mod["main"]):
            spec = spec_of(value)
            if isinstance(spec, Conv2d):
                _, params = operands(value, spec)
                return spec, {name: np.asarray(array) for name, array in params.items()}
        raise AssertionError("the network has a convolution")

    @cached_property
    def kernel(self) -> Kernel:
        """Return the kernel, not scheduled."""
        template, spec = TEMPLATES[NAME], self.integers[0]
        layouts = template.layouts(spec, Layouts(inputs=(NCHW4C,), output=NCHW4C))
        return Kernel(template=template, spec=spec, layouts=layouts, target=self.target)

    @cached_property
    def function(self) -> tirx.PrimFunc:
        """Return the kernel with the default loops."""
        return self.kernel.function(self.kernel.default()).with_attr("global_symbol", NAME)

    @cached_property
    def tiles(self) -> Tiles:
        """Return what the rule of the default loops chooses."""
        return default_tiles(self.kernel.schedule(), self.integers[0], self.target)

    @cached_property
    def source(self) -> str:
        """Return the CUDA C."""
        asked: list[str] = []

        def _keep(source: str) -> bytes:
            asked.append(source)
            return b""

        mod = tvm.IRModule({NAME: self.function})
        with compiled_by(_keep), self.target:
            built = tvm.compile(mod, target=self.target)
        return asked[0] if asked else str(built.mod.imports[0].inspect_source())

    @cached_property
    def ptx(self) -> str:
        """Return the PTX."""
        return Nvrtc().compile(self.source, ARCHITECTURE, "ptx").binary.decode()

    @cached_property
    def code(self) -> KernelCode:
        """Return the machine code."""
        (kernel,) = disassemble(bundle([Nvrtc().compile(self.source, ARCHITECTURE)])).kernels
        return kernel


def convolution_forms() -> ConvolutionForms:
    """Return the convolution, quantized with the same numbers everywhere."""
    net = Network(batch=1, seed=0)
    x = net.input(CHANNELS, SIZE)
    y = net.conv(x, f"{LAYER}.conv1", CHANNELS, 3, padding=1)
    y = net.relu(net.batch_norm(y, f"{LAYER}.bn1"), f"{LAYER}.relu1")
    logits = net.dense(net.flatten(net.global_pool(y, "pool"), "flatten"), "fc", 8)
    model = net.finish("walk", logits)
    count = CHANNELS * SIZE * SIZE
    image = (np.arange(count, dtype=np.int64) * 7919 % 256 / 64).astype(np.float32)
    inputs = (TensorInfo(name="input", shape=(-1, CHANNELS, SIZE, SIZE), dtype="float32"),)
    data = open_data([image.reshape(1, CHANNELS, SIZE, SIZE)], inputs)
    with tempfile.NamedTemporaryFile(suffix=".onnx") as file:
        Path(file.name).write_bytes(model.SerializeToString())
        mod = import_onnx(file.name)
    quantized = quantize(mod, data, QuantConfig(method="max"))
    return ConvolutionForms(model, quantized, named_target(ARCHITECTURE))


def stable(forms: ConvolutionForms) -> dict[str, str]:
    """Return the excerpts that say the same until the compiler's form or the contract changes."""
    return {
        "node": _node(forms.model),
        "qdq": "\n".join(_qdq(forms.quantized)),
        "integers": "\n".join(_integers(forms)),
        "spec": to_json(forms.integers[0]).replace(', "', ',\n "'),
        "layouts": "\n".join(_layouts(forms)),
    }


def generated(forms: ConvolutionForms) -> dict[str, str]:
    """Return the excerpts that change when loops are improved."""
    return {
        "tiles": "\n".join(_tiles(forms.tiles)),
        "loops": "\n".join(_nest(forms.function.body, 0)),
        "cuda": _cuda(forms.source),
        "ptx": "\n".join(_lines(forms.ptx, "dp4a.", 4)),
        "sass": "\n".join(_sass(forms.code)),
        "resources": _resources(forms.code),
    }


def written(page: str, excerpts: Mapping[str, str]) -> str:
    """Return ``page`` with ``excerpts`` between its marks."""

    def _replaced(match: re.Match[str]) -> str:
        if match[2] not in excerpts:
            return match[0]
        return f"{match[1]}```\n{excerpts[match[2]]}\n```\n{match[4]}"

    return _SECTION.sub(_replaced, page)


def excerpts_of(page: str) -> dict[str, str]:
    """Return what stands between the marks of ``page``."""
    return {
        match[2]: match[3].removeprefix("```\n").removesuffix("\n```\n")
        for match in _SECTION.finditer(page)
    }


def _node(model: onnx.ModelProto) -> str:
    (node,) = (node for node in model.graph.node if node.op_type == "Conv")
    attributes = sorted((a.name, helper.get_attribute_value(a)) for a in node.attribute)
    shown = ", ".join(f"{name}={value}" for name, value in attributes)
    return f"{node.output[0]} = Conv({', '.join(node.input)},\n    {shown})"


def _qdq(quantized: QuantizedModel) -> Iterator[str]:
    for var, value in dataflow.calls(quantized.mod["main"]):
        if LAYER in var.name or var.name.startswith("input"):
            names = [_short(argument) for argument in dataflow.arguments(value)]
            operator = f"{dataflow.operator(value)}({', '.join(names)})"
            yield f"{var.name} = {operator}  # {dataflow.dtype(var)} {dataflow.shape(var)}"


def _short(argument: relax.Expr) -> str:
    if isinstance(argument, relax.Var):
        return str(argument.name)
    array = dataflow.constant(argument)
    if array is None:
        return "..."
    return f"{array.reshape(-1)[0]:.4g}" if array.size == 1 else f"constant {array.shape}"


def _integers(forms: ConvolutionForms) -> Iterator[str]:
    _, params = forms.integers
    for name, array in params.items():
        first = ", ".join(f"{value:.4g}" for value in array.reshape(-1)[:3])
        more = ", ..." if array.size > 3 else ""
        yield f"{name:<6} {array.dtype!s:<8} {array.shape!s:<16} {first}{more}"


def _layouts(forms: ConvolutionForms) -> Iterator[str]:
    spec, params = forms.integers
    packed = TEMPLATES[NAME].pack(spec, params)
    for name in ("x", "y"):
        shape = spec.shape(name)
        yield f"{name:<6} {shape!s:<16} -> NCHW4c    {NCHW4C.physical_shape(shape)}"
    for name in ("w", "bias", "m"):
        yield f"{name:<6} {params[name].shape!s:<16} -> packed    {packed[name].shape}"


def _tiles(tiles: Tiles) -> Iterator[str]:
    for field in fields(tiles):
        yield f"{field.name:<10} {getattr(tiles, field.name)}"


def _nest(node: Any, depth: int) -> Iterator[str]:
    if isinstance(node, tirx.SeqStmt):
        for part in node.seq:
            yield from _nest(part, depth)
        return
    if isinstance(node, tirx.For):
        if int(node.extent) > 1 or node.thread_binding is not None:
            yield "  " * depth + _loop(node)
            depth += 1
        yield from _nest(node.body, depth)
        return
    block = getattr(node, "block", None)
    if block is not None and block.name_hint == "root":
        yield from _nest(block.body, depth)
    elif block is not None:
        yield "  " * depth + str(block.name_hint)


def _loop(node: Any) -> str:
    kind = tirx.ForKind(node.kind).name.lower()
    binding = node.thread_binding
    what = str(binding.thread_tag) if binding is not None else kind
    pipelined = "software_pipeline_stage" in node.annotations
    return f"{what} {int(node.extent)}" + (", pipelined" if pipelined else "")


def _cuda(source: str) -> str:
    """Return the innermost sums and their surroundings."""
    lines = source.splitlines()
    dp4a = next(i for i, line in enumerate(lines) if "__dp4a(" in line and "=" in line)
    return "\n".join(line[:180] for line in lines[max(dp4a - 6, 0) : dp4a + 6])


def _lines(text: str, word: str, count: int) -> list[str]:
    return [line.strip() for line in text.splitlines() if word in line][:count]


def _sass(code: KernelCode) -> Iterator[str]:
    """Yield the first dp4a and what stands beside them, encodings left out."""
    lines = [line.partition(";")[0].strip() for line in code.text.splitlines() if ";" in line]
    first = next(i for i, line in enumerate(lines) if "IDP" in line)
    yield from (re.sub(r"\s{2,}", "  ", line) for line in lines[max(first - 2, 0) :][:SASS_LINES])


def _resources(code: KernelCode) -> str:
    return (
        f"{code.registers} registers, {code.shared_bytes} bytes of shared memory, "
        f"{code.dp4a} IDP.4A, {code.spills} loads and stores of spilled registers, "
        f"{sum(code.opcodes.values())} instructions"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the excerpts, or write them; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"into {PAGE}")
    options = parser.parse_args(arguments)
    forms = convolution_forms()
    excerpts = stable(forms) | generated(forms)
    if options.write:
        PAGE.write_text(written(PAGE.read_text(), excerpts))
    else:
        for name, text in excerpts.items():
            print(f"== {name}\n{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
