"""Operators of ai.onnx.ml that converters of scikit-learn write around a network, as plain ones.

Scaling in front of it, a linear model in its place, and behind it the label of the largest score.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from relay_int8.frontend.onnx.operators.converter import Converter
from relay_int8.frontend.onnx.operators.indices import gather
from relay_int8.graph.dataflow import dtype, shape

Attributes = dict[str, Any]


def _scaler(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """``(x - offset) * scale`` of each feature, or of all features by one number."""
    x = _real(bb, inputs[0])
    offset, scale = (
        relax.const(np.array(attributes.get(name, default), np.float32))
        for name, default in (("offset", (0.0,)), ("scale", (1.0,)))
    )
    return relax.op.multiply(bb.emit(relax.op.subtract(x, offset)), scale)


def _imputer(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Put the value of a feature, or of all, where an element is the one that stands for none."""
    x = inputs[0]
    kind = "float" if dtype(x) == "float32" else "int64"
    filled, absent = attributes.get(f"imputed_value_{kind}s"), f"replaced_value_{kind}"
    if not filled:
        raise NotImplementedError(f"it has no imputed_value_{kind}s")
    value = attributes.get(absent, 0)
    is_nan = isinstance(value, float) and np.isnan(value)
    missing = relax.op.isnan(x) if is_nan else relax.op.equal(x, relax.const(value, dtype(x)))
    values = relax.const(np.array(filled), dtype(x))
    return relax.op.where(bb.emit(missing), values, x)


def _normalizer(bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes) -> relax.Expr:
    """Divide each row by its largest element, its sum of sizes or its length."""
    x = _real(bb, inputs[0])
    norm = attributes.get("norm", b"MAX").decode()
    sizes = x if norm == "MAX" else bb.emit(_SIZES[norm](x))
    reduce = relax.op.max if norm == "MAX" else relax.op.sum
    total = bb.emit(reduce(sizes, [-1], keepdims=True))
    total = bb.emit(relax.op.sqrt(total)) if norm == "L2" else total
    # A row of zeros stays as it is.
    is_zero = bb.emit(relax.op.equal(total, relax.const(0.0, "float32")))
    return relax.op.divide(x, bb.emit(relax.op.where(is_zero, relax.const(1.0, "float32"), total)))


_SIZES = {"L1": relax.op.abs, "L2": relax.op.square}


def _linear_regressor(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes
) -> relax.Expr:
    """``x @ coefficients' + intercepts``, a row of coefficients for each target."""
    transform = attributes.get("post_transform", b"NONE").decode()
    if transform != "NONE":
        raise NotImplementedError(f"its post_transform is {transform}; only NONE is read")
    x, targets = _real(bb, inputs[0]), int(attributes.get("targets", 1))
    coefficients = np.array(attributes["coefficients"], np.float32).reshape(targets, -1)
    y = relax.op.matmul(x, relax.const(np.ascontiguousarray(coefficients.T)))
    if "intercepts" not in attributes:
        return y
    return relax.op.add(bb.emit(y), relax.const(np.array(attributes["intercepts"], np.float32)))


def _linear_classifier(
    bb: relax.BlockBuilder, inputs: list[Any], attributes: Attributes
) -> relax.Expr:
    """Return the label of the largest score, and the scores: a row of coefficients for each."""
    labels = np.array(attributes.get("classlabels_ints", ()), np.int64)
    count = len(labels) or len(attributes.get("classlabels_strings", ()))
    transform = attributes.get("post_transform", b"NONE").decode()
    intercepts = np.array(attributes.get("intercepts") or [0.0] * count, np.float32)
    if transform not in _TRANSFORMS:
        raise NotImplementedError(
            f"its post_transform is {transform}, none of {', '.join(_TRANSFORMS)}"
        )
    if not len(labels):
        raise NotImplementedError("its labels are texts; convert the model with numbers")
    if len(intercepts) != count:
        raise NotImplementedError(f"{count} classes have {len(intercepts)} scores")
    coefficients = np.array(attributes["coefficients"], np.float32).reshape(count, -1)
    x = _real(bb, inputs[0])
    y = bb.emit(relax.op.matmul(x, relax.const(np.ascontiguousarray(coefficients.T))))
    scores = bb.emit(relax.op.add(y, relax.const(intercepts)))
    largest = bb.emit(relax.op.argmax(scores, -1))
    label = bb.emit(relax.op.take(relax.const(labels, "int64"), largest, axis=0))
    return relax.Tuple([label, bb.emit(_TRANSFORMS[transform](scores))])


_TRANSFORMS: dict[str, Callable[[relax.Expr], relax.Expr]] = {
    "NONE": lambda scores: scores,
    "LOGISTIC": relax.op.sigmoid,
    "SOFTMAX": lambda scores: relax.op.nn.softmax(scores, -1),
}


def _features(bb: relax.BlockBuilder, inputs: list[Any], _: Attributes) -> relax.Expr:
    """Gather along the last axis, at all of the indices; of one axis become two."""
    x, indices = inputs
    flat = indices
    if len(shape(indices)) != 1:
        flat = bb.emit(relax.op.reshape(indices, (-1,)))
    picked = gather(bb, [x, flat], {"axis": -1})
    return relax.op.expand_dims(bb.emit(picked), 0) if len(shape(x)) == 1 else picked


def _real(bb: relax.BlockBuilder, x: relax.Expr) -> relax.Expr:
    return x if dtype(x) == "float32" else bb.emit(relax.op.astype(x, "float32"))


CLASSICAL: dict[str, Converter] = {
    "ArrayFeatureExtractor": _features,
    "Imputer": _imputer,
    "LinearClassifier": _linear_classifier,
    "LinearRegressor": _linear_regressor,
    "Normalizer": _normalizer,
    "Scaler": _scaler,
}
