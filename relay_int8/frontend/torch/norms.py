"""PyTorch operators that normalize, tensors or weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from tvm import relax

from relay_int8.frontend.batch_statistics import normalized_by_batch
from relay_int8.frontend.torch.step import Converter, Result, TorchStep
from relay_int8.graph.dataflow import dtype, shape


def _batch_norm(step: TorchStep) -> Result:
    """Normalize with the moving statistics, or those of the batch where a norm keeps none.

    A factor or a shift that is left out does nothing.
    """
    if step.arguments.get("training"):
        if step.optional_tensor("running_mean") is not None:
            raise ValueError("it is in training mode: call model.eval() before the export")
        gamma, beta = step.optional_tensor("weight"), step.optional_tensor("bias")
        return normalized_by_batch(step.emit, step.x, gamma, beta, step.real("eps", 1e-5))
    channels = shape(step.x)[1]
    neutral = {"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}
    values = []
    for name, value in neutral.items():
        given = step.optional_tensor(name)
        if given is None:
            if name.startswith("running"):
                raise NotImplementedError("it has no moving statistics")
            given = relax.const(np.full(channels, value, dtype(step.x)))
        if shape(given) != (channels,):
            raise ValueError(f"its {name} is {shape(given)}, not {channels}")
        values.append(given)
    norm = relax.op.nn.batch_norm(step.x, *values, 1, step.real("eps", 1e-5), training=False)
    return relax.TupleGetItem(step.emit("batch_norm", norm), 0)


def _batch_norm_with_statistics(step: TorchStep) -> Result:
    """Return the first result of three: statistics are for training and are not computed."""
    return [_batch_norm(step)]


def _layer_norm(step: TorchStep) -> Result:
    axes = list(range(step.rank - len(step.integers("normalized_shape")), step.rank))
    dims = [shape(step.x)[axis] for axis in axes]
    gamma, beta = step.optional_tensor("weight"), step.optional_tensor("bias")
    return relax.op.nn.layer_norm(
        step.x,
        relax.const(np.ones(dims, dtype(step.x))) if gamma is None else gamma,
        relax.const(np.zeros(dims, dtype(step.x))) if beta is None else beta,
        axes,
        step.real("eps", 1e-5),
    )


def _rms_norm(step: TorchStep) -> Result:
    """Divide by the root of the mean square over the last axes."""
    axes = list(range(step.rank - len(step.integers("normalized_shape")), step.rank))
    dims = [shape(step.x)[axis] for axis in axes]
    gamma = step.optional_tensor("weight")
    epsilon = step.arguments.get("eps")
    return relax.op.nn.rms_norm(
        step.x,
        relax.const(np.ones(dims, dtype(step.x))) if gamma is None else gamma,
        axes,
        float(np.finfo(np.float32).eps) if epsilon is None else step.real("eps"),
    )


def _instance_norm(step: TorchStep) -> Result:
    """Normalize each channel of each image by its own statistics, or by moving ones."""
    if not step.flag("use_input_stats", True):
        return _batch_norm(step)
    channels, kind = shape(step.x)[1], dtype(step.x)
    gamma, beta = step.optional_tensor("weight"), step.optional_tensor("bias")
    return relax.op.nn.group_norm(
        step.x,
        relax.const(np.ones(channels, kind)) if gamma is None else gamma,
        relax.const(np.zeros(channels, kind)) if beta is None else beta,
        channels,
        1,
        list(range(2, step.rank)),
        step.real("eps", 1e-5),
    )


def _weight_norm(step: TorchStep) -> Result:
    """Scale directions ``v`` to the lengths ``g``, each along all axes but one."""
    v, g = step.tensor("v"), step.tensor("g")
    kept = step.axis("dim", 0, rank=len(shape(v)))
    axes = [axis for axis in range(len(shape(v))) if axis != kept]
    squares = step.emit("squares", relax.op.multiply(v, v))
    total = step.emit("total", relax.op.sum(squares, axes, keepdims=True))
    length = step.emit("length", relax.op.sqrt(total))
    factor = step.emit("factor", relax.op.divide(g, length))
    return relax.op.multiply(v, factor)


def _renorm(step: TorchStep) -> Result:
    """Shorten parts along an axis to a length, as constraints of weights do; 1e-7 is PyTorch's."""
    if step.real("p") != 2.0:
        raise NotImplementedError(f"lengths of norm {step.real('p')}; only 2 is read")
    axis, longest = step.axis("dim"), step.real("maxnorm")
    rest = [other for other in range(step.rank) if other != axis]
    squares = step.emit("squares", relax.op.square(step.x))
    power = step.emit("power", relax.op.sum(squares, axis=rest, keepdims=True))
    length = step.emit("length", relax.op.sqrt(power))
    padded = step.emit("padded", relax.op.add(length, step.number(1e-7)))
    factor = step.emit("factor", relax.op.divide(step.number(longest), padded))
    shrunk = step.emit("shrunk", relax.op.minimum(factor, step.number(1.0)))
    return relax.op.multiply(step.x, shrunk)


def _rows_shortened(step: TorchStep) -> Result:
    """Shorten the rows of a table of embeddings; those that are not read may be shortened too."""
    given = {"self": step.x, "p": step.real("norm_type", 2.0), "dim": 0}
    return _renorm(replace(step, arguments={**given, "maxnorm": step.real("max_norm")}))


def _layer_norm_with_statistics(step: TorchStep) -> Result:
    """Return the first result of three: statistics are for training and are not computed."""
    return [_layer_norm(step)]


def _group_norm(step: TorchStep) -> Result:
    channels = shape(step.x)[1]
    gamma, beta = step.optional_tensor("weight"), step.optional_tensor("bias")
    return relax.op.nn.group_norm(
        step.x,
        relax.const(np.ones(channels, dtype(step.x))) if gamma is None else gamma,
        relax.const(np.zeros(channels, dtype(step.x))) if beta is None else beta,
        step.integer("group" if "group" in step.arguments else "num_groups"),
        1,
        list(range(2, step.rank)),
        step.real("eps", 1e-5),
    )


def _group_norm_with_statistics(step: TorchStep) -> Result:
    """Return the first result of three, as of layer norm."""
    return [_group_norm(step)]


NORMS: dict[str, Converter] = {
    "_native_batch_norm_legit_no_training": _batch_norm_with_statistics,
    "_weight_norm": _weight_norm,
    "batch_norm": _batch_norm,
    "group_norm": _group_norm,
    "instance_norm": _instance_norm,
    "layer_norm": _layer_norm,
    "native_group_norm": _group_norm_with_statistics,
    "native_layer_norm": _layer_norm_with_statistics,
    "embedding_renorm": _rows_shortened,
    "renorm": _renorm,
    "rms_norm": _rms_norm,
}
