"""Small MXNet models, written as the formats are documented, independent of what reads them."""

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import tvm

from relay_int8.compiler.build import compile_module
from relay_int8.compiler.pipeline import normalize
from relay_int8.frontend.mxnet import import_mxnet
from tests.compiled import UNOPTIMIZED, run_executable, run_with_kernels_of_tvm

TYPES = {"float32": 0, "float64": 1, "float16": 2, "uint8": 3, "int32": 4, "int8": 5, "int64": 6}


def params_bytes(arrays: Mapping[str, np.ndarray], version: int | None = 2) -> bytes:
    """Write an NDArray list; version None is the format before V1."""
    body = struct.pack("<QQQ", 0x112, 0, len(arrays))
    for array in arrays.values():
        body += _array_bytes(array, version)
    body += struct.pack("<Q", len(arrays))
    for name in arrays:
        body += struct.pack("<Q", len(name.encode())) + name.encode()
    return body


def _array_bytes(array: np.ndarray, version: int | None) -> bytes:
    if version is None:
        head = struct.pack(f"<I{array.ndim}I", array.ndim, *array.shape)
    else:
        head = struct.pack("<I", 0xF993FAC7 + version)
        head += struct.pack("<i", 0) if version > 1 else b""
        head += struct.pack(f"<I{array.ndim}q", array.ndim, *array.shape)
    return head + struct.pack("<iii", 1, 0, TYPES[array.dtype.name]) + array.tobytes()


class MxnetModel:
    """A symbol in the making; every method returns a node to hand to the next.

    Parameters
    ----------
    spelling
        The key under which nodes keep their attributes.
    version
        Written into the file: 10900 is 1.9.0.
    """

    def __init__(self, spelling: str = "attrs", version: int = 10900, seed: int = 0) -> None:
        self.nodes: list[dict] = []
        self.params: dict[str, np.ndarray] = {}
        self.heads: list[list[int]] = []
        self.rng = np.random.default_rng(seed)
        self._spelling, self._version = spelling, version

    def variable(self, name: str, value: np.ndarray | None = None, kind: str = "arg", **attrs: str):
        if value is not None:
            self.params[f"{kind}:{name}"] = np.asarray(value)
        return self._add("null", name, (), attrs)

    def op(self, op: str, name: str, *inputs: Sequence[int], **attrs: object):
        """Add an operator; a value that is no text is written as Python prints it."""
        return self._add(op, name, inputs, {key: str(value) for key, value in attrs.items()})

    def _add(self, op: str, name: str, inputs: Sequence[Sequence[int]], attrs: dict[str, str]):
        node = {"op": op, "name": name, "inputs": [[*entry, 0][:3] for entry in inputs]}
        if attrs:
            node[self._spelling] = attrs
        self.nodes.append(node)
        return (len(self.nodes) - 1, 0)

    def conv(self, x, name: str, shape: Sequence[int], *, bias: bool = False, **attrs: object):
        """Add a convolution with weights of ``shape`` (out, in / groups, kernel...)."""
        fan_in = int(np.prod(shape[1:]))
        w = self.rng.normal(0, (2 / fan_in) ** 0.5, shape).astype("float32")
        operands = [x, self.variable(f"{name}_weight", w)]
        if bias:
            operands.append(
                self.variable(f"{name}_bias", self.rng.normal(0, 0.1, shape[0]).astype("f4"))
            )
        return self.op(
            "Convolution", name, *operands, kernel=tuple(shape[2:]), num_filter=shape[0],
            no_bias=not bias, **attrs,
        )  # fmt: skip

    def batch_norm(self, x, name: str, channels: int, **attrs: object):
        rng = self.rng
        arrays = {
            "gamma": rng.uniform(0.5, 1.5, channels),
            "beta": rng.normal(0, 0.2, channels),
            "moving_mean": rng.normal(0, 0.2, channels),
            "moving_var": rng.uniform(0.5, 1.5, channels),
        }
        operands = [
            self.variable(f"{name}_{key}", value.astype("f4"), "aux" if "moving" in key else "arg")
            for key, value in arrays.items()
        ]
        return self.op("BatchNorm", name, x, *operands, **{"fix_gamma": False, **attrs})

    def relu(self, x, name: str):
        return self.op("Activation", name, x, act_type="relu")

    def pool(
        self, x, name: str, kernel: int, stride: int, pad: int = 0, kind: str = "max", **attrs
    ):
        sizes = {"kernel": (kernel,) * 2, "stride": (stride,) * 2, "pad": (pad,) * 2}
        return self.op("Pooling", name, x, **{**sizes, "pool_type": kind, **attrs})

    def dense(self, x, name: str, shape: Sequence[int], **attrs: object):
        w = self.rng.normal(0, shape[1] ** -0.5, shape).astype("float32")
        b = self.rng.normal(0, 0.1, shape[0]).astype("float32")
        operands = (self.variable(f"{name}_weight", w), self.variable(f"{name}_bias", b))
        return self.op("FullyConnected", name, x, *operands, num_hidden=shape[0], **attrs)

    def json(self, *heads: Sequence[int]) -> dict:
        return {
            "nodes": self.nodes,
            "arg_nodes": [i for i, node in enumerate(self.nodes) if node["op"] == "null"],
            "node_row_ptr": list(range(len(self.nodes) + 1)),
            "heads": [[*head, 0][:3] for head in heads],
            "attrs": {"mxnet_version": ["int", self._version]},
        }

    def save(self, folder: Path, *heads: Sequence[int], version: int | None = 2) -> Path:
        """Write both files and return the symbol's."""
        path = folder / "net-symbol.json"
        path.write_text(json.dumps(self.json(*heads), indent=2))
        (folder / "net-0000.params").write_bytes(params_bytes(self.params, version))
        return path

    def imported(self, folder: Path, *heads: Sequence[int], **shapes: Sequence[int]):
        return import_mxnet(self.save(folder, *heads), inputs=shapes)


def run_fast(mod: tvm.IRModule, *arrays: np.ndarray) -> list[np.ndarray]:
    """Compile with TVM's own kernels, without optimization, and run."""
    return run_with_kernels_of_tvm(mod, arrays)


def run_lowered(mod: tvm.IRModule, *arrays: np.ndarray) -> list[np.ndarray]:
    """Compile with the kernels of this project, without optimization, and run."""
    return run_executable(compile_module(normalize()(mod), UNOPTIMIZED).executable, arrays)
