"""Small ONNX models, and how to run them: by ONNX Runtime and, imported, by TVM."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx
import tvm
from onnx import TensorProto, helper, numpy_helper

from tests.compiled import run_with_kernels_of_tvm

if TYPE_CHECKING:
    import onnxruntime

Dims = Sequence[int | str]


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Dims],
    outputs: Mapping[str, Dims | None],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """Build a float32 model; ``outputs`` maps names to shapes, None where it is left open."""
    constants = [numpy_helper.from_array(a, name) for name, a in (weights or {}).items()]
    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in outputs.items()],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def exact_session(
    proto: onnx.ModelProto, *, fused: bool = True, optimized: Path | None = None
) -> onnxruntime.InferenceSession:
    """Return a session of ONNX Runtime whose integers are exact on every CPU.

    Parameters
    ----------
    proto
        The model.
    fused
        Whether operators between Q/DQ pairs become operators on integers.
    optimized
        Where to write the model that ONNX Runtime makes of it.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.disable_quant_qdq", "0" if fused else "1")
    # Without VNNI, ONNX Runtime's u8 x s8 kernels saturate int16; this takes the exact ones.
    options.add_session_config_entry("session.x64quantprecision", "1")
    if optimized:
        options.optimized_model_filepath = str(optimized)
    return onnxruntime.InferenceSession(
        proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def run_onnx(proto: onnx.ModelProto, *arrays: np.ndarray) -> list[np.ndarray]:
    """Run a model with ONNX Runtime."""
    session = exact_session(proto)
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))


def run_relax(mod: tvm.IRModule, *arrays: np.ndarray) -> list[np.ndarray]:
    """Compile a module with TVM's own kernels, unoptimized and without checks, and run it."""
    return run_with_kernels_of_tvm(mod, arrays)


def assert_close(actual: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Compare outputs within 1e-4 of the largest value."""
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert a.shape == e.shape
        np.testing.assert_allclose(a, e, rtol=0, atol=1e-4 * max(np.abs(e).max(), 1e-6))


BOXES_CHOSEN = [
    helper.make_node("Greater", ["scores", "half"], ["is_high"]),
    helper.make_node("NonZero", ["is_high"], ["place"]),
    helper.make_node("Squeeze", ["place", "first"], ["row"]),
    helper.make_node("Gather", ["scores", "row"], ["high"], axis=0),
    helper.make_node("Gather", ["x", "row"], ["found"], axis=0),
    helper.make_node("Shape", ["high"], ["size"]),
    helper.make_node("Concat", ["size", "twelve"], ["sizes"], axis=0),
    helper.make_node("ReduceMin", ["sizes"], ["k"], keepdims=1),
    helper.make_node("TopK", ["high", "k"], ["best", "index"], axis=0),
    helper.make_node("Gather", ["found", "index"], ["rivals"], axis=0),
    helper.make_node("Unsqueeze", ["rivals", "first"], ["rivals_of_image"]),
    helper.make_node("Unsqueeze", ["best", "both"], ["best_of_image"]),
    helper.make_node(
        "NonMaxSuppression", ["rivals_of_image", "best_of_image", "many", "half"], ["kept"]
    ),
    helper.make_node("Gather", ["kept", "box"], ["column"], axis=1),
    helper.make_node("Squeeze", ["column", "one"], ["order"]),
]
"""ONNX: of boxes ``x`` and their ``scores``, ``best`` and ``rivals`` are the twelve highest above one
half, and ``order`` which of them do not overlap, as torchvision chooses."""
BOXES_CHOSEN_BY = {
    "first": np.array([0]), "one": np.array([1]), "both": np.array([0, 1]), "box": np.array([2]),
    "many": np.array([1000]), "twelve": np.array([12]), "half": np.float32([0.5]),
}  # fmt: skip
"""Its constants."""
