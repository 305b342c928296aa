"""A metric that the user names or brings along, checked and put together with its labels."""

from __future__ import annotations

from typing import Any

import numpy as np

from relay_int8.api.metrics import AGREEMENT, MEAN_IOU, METRICS, TOP1
from relay_int8.errors import ConfigError
from relay_int8.quantization.metric import BoundMetric, ImageLabels, Metric


def require_metric(metric: str | Metric, labels: ImageLabels | None) -> None:
    """Refuse what is no metric, and labels that it lacks or does not take.

    Raises
    ------
    ConfigError
        Saying what is expected.
    """
    if not isinstance(metric, str):
        if not callable(metric):
            raise ConfigError(
                f"metric is a {type(metric).__name__}; give a function of outputs and labels, or "
                f"one of {', '.join(METRICS)}"
            )
    elif metric not in METRICS:
        raise ConfigError(
            f"metric {metric!r} is unknown; choose one of {', '.join(METRICS)}, or give a function"
        )
    elif (labels is None) != (metric == AGREEMENT):
        raise ConfigError(
            f"{metric} compares with FP32 and takes no labels; leave them out"
            if labels is not None
            else f"{metric} needs labels, one for each image; {AGREEMENT} needs none"
        )
    if labels is not None and not (hasattr(labels, "__len__") and hasattr(labels, "__getitem__")):
        raise ConfigError(
            f"labels are a {type(labels).__name__}; give a list or an array, one item an image"
        )


def bound_metric(metric: str | Metric, labels: ImageLabels | None) -> BoundMetric:
    """Return a metric, checked, with the labels of the images.

    Raises
    ------
    ConfigError
        If it is none, or does not go with the labels.
    """
    require_metric(metric, labels)
    if not isinstance(metric, str):
        return BoundMetric(function=metric, name=name_of(metric), labels=labels)
    if metric == TOP1:
        labels = _classes(labels)
    return BoundMetric(function=METRICS[metric](), name=metric, labels=labels)


def name_of(metric: str | Metric) -> str:
    """Return a metric's name, as reports have it."""
    if isinstance(metric, str):
        return metric
    return str(getattr(metric, "__name__", type(metric).__name__))


def _classes(labels: Any) -> Any:
    """Return labels of images as integers (images,)."""
    try:
        classes = np.asarray(labels)
    except ValueError as error:  # rows of several lengths
        raise ConfigError(f"labels are no array: {error}; give one integer an image") from error
    if classes.dtype.kind not in "iu":
        raise ConfigError(f"labels are {classes.dtype}, integers expected: a class for each image")
    if classes.ndim != 1:
        raise ConfigError(
            f"labels of shape {classes.shape}; give one integer for each image, or take "
            f"{MEAN_IOU} for masks"
        )
    return classes
