"""Training on scikit-learn's digits in NumPy: what is the same for every network.

Images are shifted by up to one pixel, the rate falls as a cosine, and the loss is the cross entropy
against smoothed labels. A network brings its layers, each of which returns its output and what
turns the gradient of that into the gradient of its input, and its rule of a step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

CLASSES = 10
Array = np.ndarray
Backward = Callable[[Array], Array]
Step = tuple[Array, Backward]


class Trainable(Protocol):
    """A network that learns."""

    def forward(self, images: Array, *, training: bool = False) -> Step:
        """Return logits, and what turns their gradient into those of the parameters."""

    def step(self, rate: float) -> None:
        """Move the parameters along their gradients."""


@dataclass(frozen=True, kw_only=True)
class Course:
    """How long and how fast a network learns.

    Attributes
    ----------
    rate
        Of the first step.
    smoothing
        What of a label is shared by all classes, so that logits stay small.
    report_every
        How many epochs there are from one line of the log to the next.
    """

    epochs: int
    batch: int
    rate: float
    smoothing: float = 0.0
    report_every: int = 1


def train(
    model: Trainable, images: Array, labels: Array, rng: np.random.Generator, course: Course
) -> None:
    """Train ``model`` on images of (n, rows, columns, ...)."""
    steps = course.epochs * (len(images) // course.batch)
    step = 0
    for epoch in range(course.epochs):
        order = rng.permutation(len(images))
        losses = []
        for start in range(0, len(images) - course.batch + 1, course.batch):
            chosen = order[start : start + course.batch]
            shifted = np.stack([_shifted(images[i], rng) for i in chosen])
            logits, backward = model.forward(shifted, training=True)
            p, target = softmax(logits), _targets(labels[chosen], course.smoothing)
            losses.append(-(np.log(p + 1e-9) * target).sum(1).mean())
            backward((p - target) / course.batch)
            model.step(course.rate * 0.5 * (1 + np.cos(np.pi * step / steps)))
            step += 1
        if (epoch + 1) % course.report_every == 0:
            print(f"epoch {epoch + 1}: loss {np.mean(losses):.4f}")


def softmax(x: Array) -> Array:
    """Return the softmax over the last axis."""
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def report_accuracy(logits: Array, labels: Array) -> None:
    """Print which share of held-out images is classified right."""
    accuracy = (logits.argmax(1) == labels).mean()
    print(f"accuracy on {len(logits)} held-out images: {accuracy:.4f}")


def _targets(labels: Array, smoothing: float) -> Array:
    certain = np.eye(CLASSES, dtype="float32")[labels]
    return (1 - smoothing) * certain + smoothing / CLASSES


def _shifted(image: Array, rng: np.random.Generator) -> Array:
    rows, columns = image.shape[:2]
    top, left = rng.integers(0, 3, 2)
    border = [(1, 1), (1, 1), *[(0, 0)] * (image.ndim - 2)]
    return np.pad(image, border)[top : top + rows, left : left + columns]
